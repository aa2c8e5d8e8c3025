from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from similia.retrieval.relevance import Relevance
from similia.retrieval.vectors import Floats, Integers

MEASURES: tuple[str, ...]
AT_K: tuple[str, ...]

class Wanted(NamedTuple):
    relevant: Relevance
    own: Integers
    codes: Integers
    values: NDArray[np.float64]
    n_relevant: NDArray[np.int64]

def precision_at_k(ranks: Integers, k: int) -> float: ...
def recall_at_k(ranks: Integers, k: int) -> float: ...
def ndcg_at_k(ranks: Integers, gains: Floats, k: int) -> float: ...
def average_precision(ranks: Integers, k: int = 0) -> float: ...
def reciprocal_rank(ranks: Integers, k: int = 0) -> float: ...
def r_precision(ranks: Integers) -> float: ...
def most_relevant(wanted: Wanted, queries: Integers) -> int: ...
def fill_values(wanted: Wanted, scores: Floats, queries: Integers) -> int: ...
def inner_products(
    exact: Floats, size: Floats, q: Floats, rows: Integers, z: Floats, items: Integers
) -> None: ...
def count_tile(
    beyond: Integers,
    n_aside: Integers,
    aside: Integers,
    aside_scores: Floats,
    sure: NDArray[np.uint8],
    tile: Floats,
    start: int,
    starts: Integers,
    items: Integers,
    low: Floats,
    high: Floats,
) -> None: ...
def fill_measured(
    wanted: Wanted, sure: NDArray[np.uint8], queries: Integers, watched: Any, counts: Any
) -> None: ...
