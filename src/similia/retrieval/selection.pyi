from similia.contract import Array
from similia.retrieval.vectors import Floats, Integers

def best_first(values: Floats) -> Integers: ...
def fill_best(
    indices: Integers, best: Floats, own: Integers, scores: Floats, queries: Integers
) -> int: ...
def fill_products(
    out: Floats,
    q_starts: Integers,
    q_features: Integers,
    q_values: Floats,
    starts: Array,
    items: Array,
    values: Floats,
) -> None: ...
