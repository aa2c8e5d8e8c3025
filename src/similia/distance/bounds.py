"""Distances learnt from target distances, or from bounds for similar and dissimilar pairs."""

from typing import ClassVar

import numpy as np

from similia.contract import Array, Matrix
from similia.distance.base import MahalanobisDistance
from similia.parameters import parameter
from similia.validation import one_of, pair_of_numbers

FEEDBACK_KINDS = one_of("labels", "distances")


class BoundedDistance(MahalanobisDistance):
    """Base class of LEGO and MEG: distances of a pair between two bounds need no step."""

    feedback: str = parameter(
        default="labels",
        rule=FEEDBACK_KINDS,
        doc="What `learn` takes for a pair: +1 (similar) or -1 (dissimilar), or the distance (not "
        "squared) that it should have.",
    )
    bounds: str | tuple[float, float] = parameter(
        default="auto",
        rule=one_of("auto") | pair_of_numbers,
        doc="For labels, and for `fit`: similar pairs should be no farther apart than the first "
        "distance, dissimilar ones no closer than the second; pairs within their bound need no "
        'step. "auto" takes the 5th and 95th percentile of the distances of random pairs at the '
        "start, as ITML does.",
    )

    _state: ClassVar = (*MahalanobisDistance._state, "bounds_")

    def _init_state(self, X: Matrix) -> None:
        super()._init_state(X)
        if not isinstance(self.bounds, str):
            self.bounds_ = np.asarray(self.bounds, dtype=np.float64)
            return
        squares = self._random_squares(X)
        self.bounds_ = np.percentile(np.sqrt(squares), [5, 95]) if len(squares) else np.ones(2)

    def _targets(self, y: Array) -> Array:
        """Two columns: the lowest and the highest squared distance that needs no step."""
        exact = self.feedback == "distances"
        return np.column_stack([y, y]) ** 2 if exact else self._targets_of_signs(y)

    def _targets_of_signs(self, signs: Array) -> Array:
        similar, (near, far) = signs > 0, self.bounds_**2
        return np.column_stack([np.where(similar, 0.0, far), np.where(similar, near, np.inf)])
