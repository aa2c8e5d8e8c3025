from typing import Any, NamedTuple

from similia.contract import Array

SHARED: int
COMPRESSED: int

class EigenWorkspace(NamedTuple):
    places: Array
    poles: Array
    weights: Array
    exact: Array
    roots: Array
    turn: Array
    before: Array
    after: Array

def eigen_workspace(rows: Array) -> EigenWorkspace: ...
def real_components(rows: Array, x: Array) -> Array: ...
def update_eigenpairs(
    values: Array, rows: Array, z: Array, rho: float, work: EigenWorkspace
) -> int: ...
def eigen_step(values: Array, rows: Array, z: Array, rho: float, work: EigenWorkspace) -> int: ...
def orthogonality_defect(rows: Any) -> float: ...
def orthogonalize(rows: Any) -> float: ...
