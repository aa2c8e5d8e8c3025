"""Sets of linear constraints tr(W C_j) ≤ 0 on matrices of trace one, and solvers for them."""

from similia.constraints.base import Constraints, RankOne
from similia.constraints.oracle import ConstraintOracle
from similia.constraints.pairs import DistanceConstraints
from similia.constraints.sets import (
    MatrixConstraints,
    RankOneConstraints,
    UnionConstraints,
    as_constraints,
)

__all__ = [
    "ConstraintOracle",
    "Constraints",
    "DistanceConstraints",
    "MatrixConstraints",
    "RankOne",
    "RankOneConstraints",
    "UnionConstraints",
    "as_constraints",
]
