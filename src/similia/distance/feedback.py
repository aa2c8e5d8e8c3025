"""Checks of feedback: on pairs, or on instance matrices X with tr(AX) = y."""

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse
from scipy.stats import kendalltau

from similia.contract import Array, Matrix
from similia.safety.bounds import check_entries

#: largest entry and distance: its fourth power stays finite in double precision
LARGEST_NUMBER = 1e70
#: forms in which instances may be given
INSTANCE_FORMS = (
    "vectors of shape (n, d), matrices of shape (n, d, d), or a sequence of d × d matrices"
)

GivenInstances: TypeAlias = ArrayLike | Matrix | Sequence[Matrix]
#: rows x with X = xxᴴ, or square matrices; their number; their size
Instances: TypeAlias = tuple[Matrix | list[Matrix], int, int]


def checked_feedback(where: str, kind: str, y: ArrayLike) -> Array:
    """Feedback as signs ("labels") or as "distances"; ValueError otherwise."""
    check_entries(where, "y", y)
    y = np.asarray(y)
    if kind == "labels":
        if y.ndim != 1 or not np.isin(y, (-1, 1)).all():
            raise ValueError(f"{where}: y must be an array of +1 (similar) and -1 (dissimilar).")
        return y.astype(np.int8)
    if y.ndim != 1 or y.dtype.kind not in "fiu" or not ((y >= 0) & (y <= LARGEST_NUMBER)).all():
        raise ValueError(
            f"{where}: y must be an array of distances between 0 and {LARGEST_NUMBER:.0e}."
        )
    return y.astype(np.float64)


def concordance(closeness: Array, scores: Array) -> float:
    """P(scores order two judgements as `closeness` does), over all pairs that differ in it.

    A tie of scores counts half; for two values of `closeness` this is the area under the ROC curve.
    Kendall's tau holds the same count in O(n log n): τ_b √(comparable · untied) = right - wrong.
    """

    def distinct(values: Array) -> int:
        counts = np.unique(values, return_counts=True)[1]
        return (len(values) ** 2 - int((counts**2).sum())) // 2

    comparable, untied = distinct(closeness), distinct(scores)
    if untied == 0:
        return 0.5
    tau = kendalltau(closeness, scores).statistic
    gain = round(tau * np.sqrt(comparable) * np.sqrt(untied))
    return 0.5 + 0.5 * gain / comparable


# -- instance matrices ----------------------------------------------------------------------------


def checked_instances(
    where: str, given: GivenInstances, d: int | None, complex_allowed: bool
) -> Instances:
    """Instances of size d, or of any one size if it is None; ValueError otherwise."""
    values, n, size = _as_instances(where, given)
    size = size if d is None else d
    square = isinstance(values, list)
    for part in values if isinstance(values, list) else [values]:
        entries = np.asarray(part.data if sparse.issparse(part) else part)
        if entries.dtype.kind not in ("fiubc" if complex_allowed else "fiub"):
            words = "real or complex" if complex_allowed else "real (unless field is 'complex')"
            raise ValueError(f"{where}: instances must be {words}, got dtype {entries.dtype}.")
        if (
            entries.size and not np.abs(entries).max() <= LARGEST_NUMBER
        ):  # so that NaN is refused, too
            raise ValueError(f"{where}: instances must be finite and at most {LARGEST_NUMBER:.0e}.")
        if part.shape != (size if square else n, size) or size == 0:
            words = "one size" if d is None else f"size {d}"
            raise ValueError(
                f"{where}: instances must be {INSTANCE_FORMS}, all of {words}, "
                f"got shape {part.shape}."
            )
    return values, n, size


def _as_instances(where: str, given: GivenInstances) -> Instances:
    for part in given if isinstance(given, list | tuple) else [given]:
        check_entries(where, "instances", part)
    if sparse.issparse(given):
        rows = sparse.csr_array(given)
        return rows, *rows.shape
    if isinstance(given, list | tuple) and given and all(np.ndim(x) == 2 for x in given):
        matrices = [x if sparse.issparse(x) else np.asarray(x) for x in given]
        return matrices, len(matrices), matrices[0].shape[1]
    rows = np.asarray(given)
    if rows.ndim not in (2, 3):
        raise ValueError(f"{where}: instances must be {INSTANCE_FORMS}, got shape {rows.shape}.")
    return rows if rows.ndim == 2 else list(rows), rows.shape[0], rows.shape[-1]


def checked_labels(where: str, y: ArrayLike, n: int) -> Array:
    """Labels of n instances in double precision; ValueError otherwise."""
    check_entries(where, "y", y)
    y = np.asarray(y)
    if y.shape != (n,) or (n and y.dtype.kind not in "fiu"):
        raise ValueError(
            f"{where}: y must be {n} real numbers, got shape {y.shape} and dtype {y.dtype}."
        )
    if not (np.abs(y) <= LARGEST_NUMBER).all():
        raise ValueError(f"{where}: y must be finite and at most {LARGEST_NUMBER:.0e}.")
    return y.astype(np.float64)
