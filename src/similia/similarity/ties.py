"""Items that people could not tell from another, known by one bit each."""

import numpy as np
from numpy.typing import NDArray

from similia.contract import Array, Indices
from similia.feedback.impressions import TIE
from similia.linalg.row_keys import row_keys

#: marks that items may have; a query is about few, so that most have one of their own
MARKS = 64


def item_marks(rows: Array) -> NDArray[np.uint64]:
    """One bit for each row, the same for equal rows."""
    found: NDArray[np.uint64] = np.uint64(1) << row_keys(rows) % np.uint64(MARKS)
    return found


def marks_of_ties(starts: Indices, weights: Array, rows: Array) -> NDArray[np.uint64]:
    """Marks of both items of each list that is half of a tie; zero for all other lists.

    Lists of two that weigh so little are ties, or say no more than these.
    """
    found = np.zeros(len(weights), np.uint64)
    ties = np.flatnonzero((weights <= TIE) & (np.diff(starts) == 2))
    if len(ties):
        one, other = (item_marks(rows[starts[ties] + place]) for place in (0, 1))
        found[ties] = one | other
    return found
