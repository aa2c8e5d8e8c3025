"""Many workers: shares learnt side by side on processes, Dask or Ray, with the same bits."""

from similia.distributed.engines import Engine, engine_named
from similia.distributed.evaluating import evaluate_parts
from similia.distributed.exporting import export_items
from similia.distributed.indexing import index_shards, search_shards
from similia.distributed.learning import learn_shares
from similia.distributed.searching import search_ranges
from similia.distributed.shares import VectorPath

__all__ = [
    "Engine",
    "VectorPath",
    "engine_named",
    "evaluate_parts",
    "export_items",
    "index_shards",
    "learn_shares",
    "search_ranges",
    "search_shards",
]
