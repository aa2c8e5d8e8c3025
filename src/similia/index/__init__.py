"""Learnt vectors in nearest-neighbor indexes: exact search, faiss, usearch and hnswlib."""

from similia.exceptions import StaleIndexError
from similia.index.backends import BACKENDS
from similia.index.index import Index, Search, build_index, open_index
from similia.index.like import index_like
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
    "index_like",
    "open_index",
]
