"""What came of a stream: predictions, and the two kinds of mistakes."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Booleans = NDArray[np.bool_]
Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class FilteringResult:
    """Predictions for a stream of documents beside the truth.

    Attributes
    ----------
    predicted, relevant : boolean arrays of shape (n_documents,)
        What was said of each document before its label was known, and the label.
    """

    predicted: Booleans
    relevant: Booleans

    @property
    def false_positive_rate(self) -> float:
        """Share of the irrelevant documents that were called relevant; NaN if there are none."""
        return _last(self.false_positive_curve)

    @property
    def false_negative_rate(self) -> float:
        """Share of the relevant documents that were called irrelevant; NaN if there are none."""
        return _last(self.false_negative_curve)

    @property
    def equalized_error(self) -> float:
        """Mean of the two rates: it does not depend on how many documents are relevant."""
        return _last(self.equalized_curve)

    @property
    def false_positive_curve(self) -> Floats:
        """`false_positive_rate` after each document; NaN before the first irrelevant one."""
        return _cumulative_share(self.predicted, ~self.relevant)

    @property
    def false_negative_curve(self) -> Floats:
        """`false_negative_rate` after each document; NaN before the first relevant one."""
        return _cumulative_share(~self.predicted, self.relevant)

    @property
    def equalized_curve(self) -> Floats:
        """`equalized_error` after each document; NaN before there was one of each kind."""
        return (self.false_positive_curve + self.false_negative_curve) / 2

    def __str__(self) -> str:
        return (
            f"{len(self.relevant)} documents, {np.count_nonzero(self.relevant)} relevant: "
            f"{100 * self.false_positive_rate:.2f} % false positives, "
            f"{100 * self.false_negative_rate:.2f} % false negatives, "
            f"{100 * self.equalized_error:.2f} % equalized error"
        )

    def to_dict(self) -> dict[str, Any]:
        """Give the rates and counts as plain numbers, ready for JSON."""
        return {
            "n_documents": len(self.relevant),
            "n_relevant": int(np.count_nonzero(self.relevant)),
            "false_positive_rate": self.false_positive_rate,
            "false_negative_rate": self.false_negative_rate,
            "equalized_error": self.equalized_error,
        }


def _last(curve: Floats) -> float:
    return float(curve[-1]) if len(curve) else float("nan")


def _cumulative_share(said: Booleans, among: Booleans) -> Floats:
    counts = np.cumsum(among)
    shares = np.full(len(among), np.nan)
    np.divide(np.cumsum(said & among), counts, out=shares, where=counts > 0)
    return shares
