from similia.contract import Array

LOGISTIC: int
HINGE: int
SQUARED: int
VALUE: int
SLOPE: int
CURVATURE: int

def fill_losses(which: int, code: int, x: Array, out: Array) -> None: ...
