"""Sets of linear constraints tr(W C_j) ≤ 0 on matrices of trace one, each screened all at once."""

from similia.distance.constraints.base import Constraints, RankOne
from similia.distance.constraints.matrices import MatrixConstraints
from similia.distance.constraints.oracle import ConstraintOracle
from similia.distance.constraints.pairs import DistanceConstraints
from similia.distance.constraints.rank_one import RankOneConstraints
from similia.distance.constraints.union import UnionConstraints, as_constraints

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
