"""All targets by name."""

from tests.fuzz import targets
from tests.fuzz.calls import public
from tests.fuzz.served import pages, requests, stores
from tests.fuzz.shares import shares
from tests.fuzz.tables import tables
from tests.fuzz.verbs import verbs

SERVED = {"stores": stores, "requests": requests, "pages": pages}
TARGETS = {
    **targets.TARGETS,
    "public": public,
    "tables": tables,
    **SERVED,
    "shares": shares,
    "verbs": verbs,
}
