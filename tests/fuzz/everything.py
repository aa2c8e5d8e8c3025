"""All targets by name."""

from tests.fuzz import targets
from tests.fuzz.served import requests, stores
from tests.fuzz.tables import tables

TARGETS = {**targets.TARGETS, "tables": tables, "stores": stores, "requests": requests}
