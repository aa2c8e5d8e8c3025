from similia.contract import Array

SMALL: int

def negative_eigenpair(
    A: Array, R: Array, c: Array, v: Array, alpha: float, tol: float
) -> tuple[float, Array]: ...
def shifted_eigenpair(
    A: Array, v: Array, drop: float, start: float, zero: float, accuracy: float
) -> tuple[float, Array]: ...
