from typing import Any

import numpy as np
from numpy.typing import NDArray

from similia.retrieval.grid import Floats, Integers
from similia.retrieval.measures import Wanted

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
