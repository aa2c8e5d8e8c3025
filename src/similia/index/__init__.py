"""Learnt vectors in nearest-neighbor indexes: exact search, faiss, usearch and hnswlib."""

from similia.exceptions import StaleIndexError
from similia.index.backends import BACKENDS
from similia.index.build import build_index
from similia.index.index import Index, Search
from similia.index.opening import open_index
from similia.index.queries import fingerprint
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
