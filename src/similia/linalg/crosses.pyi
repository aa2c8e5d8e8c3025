from similia.contract import Array

ACCURACY: float

def crosses(A: Array, row: int, U: Array, V: Array) -> int: ...
