"""Learnt vectors in nearest-neighbor indexes: exact search, faiss, usearch and hnswlib."""

from similia.exceptions import StaleIndexError
from similia.index.backends import BACKENDS
from similia.index.index import Index, Search, build_index, open_index
from similia.index.models import fingerprint
from similia.index.recall import BuildReport

__all__ = [
    "BACKENDS",
    "BuildReport",
    "Index",
    "Search",
    "StaleIndexError",
    "build_index",
    "fingerprint",
    "open_index",
]
