"""What every search by a blend needs, computed once for each of its states."""

from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

from similia.contract import Array
from similia.similarity.weights import Ranking


class Reading(NamedTuple):
    """Weights and W to rank with."""

    ranking: Ranking
    #: None if it adds nothing
    W: Array | None


#: readings of blends, with the revisions and the parts that they belong to
_readings: WeakKeyDictionary[Any, tuple[object, Any, Any, Reading]] = WeakKeyDictionary()


def reading_of(blend: Any) -> Reading:
    """Reading of a blend's current state."""
    revision, weights, matrix = blend.revision(), blend.weights_part_, blend.matrix_part_
    kept = _readings.get(blend)
    if kept is None or kept[0] != revision or kept[1] is not weights or kept[2] is not matrix:
        W = matrix.mean()
        reading = Reading(weights.ranking(), W if W.any() else None)
        kept = _readings[blend] = (revision, weights, matrix, reading)
    return kept[3]
