from typing import NamedTuple

from similia.contract import Array

class Pull(NamedTuple):
    losses: Array
    solvable: Array
    rows: Array
    weights: Array

def infer(A, B, starts, own, y, cost, k, ties) -> Pull: ...
def pulls(A, B, pull): ...
def adam_step(M, G, first, second, t, rate) -> None: ...
