"""Checks of input that NumPy would silently turn into numbers: text, dates, masked entries."""

import datetime as dt
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

#: kinds of dtypes that hold numbers
NUMERIC_KINDS = "biufc"
#: entries that NumPy would convert, and what they are called
NOT_NUMBERS: Sequence[tuple[Any, str]] = (
    ((str, bytes), "text"),
    ((dt.date, dt.time, np.datetime64), "dates"),
    ((dt.timedelta, np.timedelta64), "durations"),
)


def check_numeric(owner: str, name: str, X: Any) -> None:
    """Refuse text (even if it spells numbers), dates, durations and masked entries."""
    check_unmasked(owner, name, X)
    if sparse.issparse(X) or _has_numeric_dtypes(X):
        return
    values = np.asarray(X)
    if values.dtype.kind in NUMERIC_KINDS:
        return
    for kinds, found in NOT_NUMBERS:
        example = _first_of(kinds, values)
        if example is not None:
            raise ValueError(f"{owner}: {name} must be numbers, got {found}: {str(example)!r:.40}.")


def check_unmasked(owner: str, name: str, X: Any) -> None:
    """Refuse a masked array with masked entries, whose values NumPy would use."""
    if isinstance(X, np.ma.MaskedArray) and (n := int(np.ma.count_masked(X))):
        raise ValueError(
            f"{owner}: {name} must have no masked entries, got {n}; fill them or leave them out."
        )


def _has_numeric_dtypes(X: Any) -> bool:
    """Whether all dtypes of an array or of the columns of a table are known to hold numbers."""
    dtypes = [X.dtype] if hasattr(X, "dtype") else list(getattr(X, "dtypes", []))
    return bool(dtypes) and all(getattr(one, "kind", "O") in NUMERIC_KINDS for one in dtypes)


def _first_of(kinds: Any, values: NDArray[Any]) -> Any:
    """First entry of one of these kinds, or None."""
    if values.dtype.kind == "O":
        return next((one for one in values.ravel() if isinstance(one, kinds)), None)
    return values.ravel()[0] if values.size and issubclass(values.dtype.type, kinds) else None
