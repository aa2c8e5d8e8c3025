"""Parameter rules as data, and the checks of what a user hands in.

Every message has the form ``<owner>: <name> must be <rule>, got <value>.``
"""

import math
from collections.abc import Callable, Mapping
from numbers import Integral, Real
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray


class Rule(NamedTuple):
    """A test of one parameter, and the words for what it asks."""

    words: str
    holds: Callable[[Any], bool]

    def __or__(self, other: "Rule") -> "Rule":
        return Rule(f"{self.words} or {other.words}", lambda v: self.holds(v) or other.holds(v))


def _is_number(value: Any) -> bool:
    if isinstance(value, Integral):
        return _is_integer(value)
    return isinstance(value, Real) and math.isfinite(value)


def _is_integer(value: Any) -> bool:
    """Whether it is an integer of 64 bits, as compiled code takes them."""
    if isinstance(value, bool) or not isinstance(value, Integral):
        return False
    return -(2**63) <= int(value) < 2**63


positive = Rule("a positive number", lambda v: _is_number(v) and v > 0)
non_negative = Rule("a number of at least 0", lambda v: _is_number(v) and v >= 0)
positive_integer = Rule("a positive integer", lambda v: _is_integer(v) and v > 0)
non_negative_integer = Rule("an integer of at least 0", lambda v: _is_integer(v) and v >= 0)
boolean = Rule("True or False", lambda v: isinstance(v, (bool, np.bool_)))
none = Rule("None", lambda v: v is None)
array = Rule("an array", lambda v: isinstance(v, np.ndarray))
pair_of_numbers = Rule(
    "a pair of increasing positive numbers",
    lambda v: (
        isinstance(v, tuple | list) and len(v) == 2 and all(map(_is_number, v)) and 0 < v[0] < v[1]
    ),
)
function = Rule("a function", callable)
mapping = Rule(
    "a dictionary with strings as keys",
    lambda v: isinstance(v, dict) and all(isinstance(key, str) for key in v),
)
seed = Rule(
    "an integer of at least 0, a RandomState or None",
    lambda v: v is None or (_is_integer(v) and v >= 0) or isinstance(v, np.random.RandomState),
)


def one_of(*names: str) -> Rule:
    """Rule that a parameter is one of these strings."""
    words = ", ".join(map(repr, names))
    return Rule(
        words if len(names) == 1 else f"one of {words}", lambda v: isinstance(v, str) and v in names
    )


def between(low: float, high: float) -> Rule:
    """Rule that low < value < high."""
    words = f"a number between {low:g} and {high:g}"
    return Rule(words, lambda v: _is_number(v) and low < v < high)


#: a scale of steps or rows whose square is a number in single precision, too
moderate = between(0, 1e15)


def _shown(value: Any) -> str:
    if isinstance(value, np.ndarray):
        return f"an array of shape {value.shape} and dtype {value.dtype}"
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."


def check_parameters(owner: str, rules: Mapping[str, Rule], values: Mapping[str, Any]) -> None:
    """Raise the house error for the first parameter that breaks its rule."""
    for name, rule in rules.items():
        if not rule.holds(values[name]):
            raise ValueError(f"{owner}: {name} must be {rule.words}, got {_shown(values[name])}.")


def check_tuples(owner: str, name: str, tuples: Any, sizes: tuple[int, ...]) -> NDArray[np.intp]:
    """Return `tuples` as an integer array whose column j indexes `sizes[j]` rows."""
    given = np.asarray(tuples)
    if given.size == 0:
        given = given.reshape(0, len(sizes)).astype(np.intp)
    if given.ndim != 2 or given.shape[1] != len(sizes) or given.dtype.kind not in "iu":
        raise ValueError(
            f"{owner}: {name} must be an integer array of shape (n_{name}, {len(sizes)}), "
            f"got shape {given.shape} and dtype {given.dtype}."
        )
    for column, size in enumerate(sizes):
        indices = given[:, column]
        wrong = np.flatnonzero((indices < 0) | (indices >= size))
        if len(wrong):
            raise ValueError(
                f"{owner}: column {column} of {name} must be row indices between 0 and {size - 1}, "
                f"got {indices[wrong[0]]} in row {wrong[0]}."
            )
    return given.astype(np.intp, copy=False)


def check_magnitude(
    owner: str, name: str, X: Any, rows: NDArray[np.intp] | None = None, dtype: Any = None
) -> None:
    """Refuse NaN, infinities, and values whose fourth powers could overflow.

    Learners multiply squared norms of two rows, so anything beyond would turn their state into NaN
    half-way. Only the given rows are read, in blocks: a stream over a large X pays for what it
    uses. `dtype` is what X will be converted to, if that is another.
    """
    chosen = None if rows is None else np.unique(rows)
    if chosen is None or len(chosen) == X.shape[0]:
        largest = _largest(X)
    else:
        blocks = (X[chosen[i : i + 1024]] for i in range(0, len(chosen), 1024))
        largest = max(map(_largest, blocks), default=0.0)
    if not np.isfinite(largest):
        raise ValueError(f"{owner}: {name} must be finite, but it contains NaN or infinity.")
    dtype = np.dtype(X.dtype if dtype is None else dtype)
    limit = float(np.finfo(dtype).max) ** 0.25 / max(1, X.shape[1]) ** 0.5
    if largest > limit:
        raise ValueError(
            f"{owner}: {name} must have entries of magnitude at most {limit:.1e} for {dtype}, "
            f"got {largest:.1e}; scale it down."
        )


def check_hermitian(owner: str, M: NDArray[Any], d: int, kinds: str, rounding: float) -> None:
    """Refuse a start that is not a finite symmetric or Hermitian (d, d) matrix."""
    if M.shape != (d, d) or M.dtype.kind not in kinds:
        numbers = "numbers" if "c" in kinds else "real numbers"
        raise ValueError(
            f"{owner}: start must be an array of {numbers} of shape ({d}, {d}), "
            f"got shape {M.shape} and dtype {M.dtype}."
        )
    if not np.isfinite(M).all():
        raise ValueError(f"{owner}: start must be finite, but it contains NaN or infinity.")
    if np.abs(M - M.conj().T).max() > rounding * np.abs(M).max():
        raise ValueError(f"{owner}: start must be symmetric or Hermitian.")


def _largest(rows: Any) -> float:
    values = rows.data if hasattr(rows, "indptr") else rows
    if values.size == 0:
        return 0.0
    return max(abs(float(values.min())), abs(float(values.max())))
