"""Parameter rules as data, and checks of user input.

Every message has the form ``<owner>: <name> must be <rule>, got <value>.``
"""

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import check_array

from similia.safety.bounds import check_entries, check_numeric
from similia.views import FLOATS, Matrix, Views


@dataclass(frozen=True)
class Rule:
    """What a parameter must be, in words and as data.

    A value must be of the `kind` and pass the `test`; numbers must be finite and lie within the
    bounds, integers fit in 64 bits. With `choices` it must be one of these strings.
    """

    words: str
    test: Callable[[Any], bool] | None = None
    kind: type | tuple[type, ...] = object
    choices: tuple[str, ...] | None = None
    above: float = -math.inf
    least: float = -math.inf
    below: float = math.inf
    alternatives: tuple["Rule", ...] = ()

    def __or__(self, other: "Rule") -> "Rule":
        alternatives = (*self.alternatives, other)
        return replace(self, words=f"{self.words} or {other.words}", alternatives=alternatives)

    def holds(self, value: Any) -> bool:
        """Whether the value is right, by this rule or by an alternative."""
        if self.choices is not None:
            right = isinstance(value, str) and value in self.choices
        elif not isinstance(value, self.kind) or (self.test and not self.test(value)):
            right = False
        elif self.kind in (Integral, Real):
            number: Any = value
            whole = isinstance(number, Integral)
            finite = -(2**63) <= int(number) < 2**63 if whole else math.isfinite(number)
            right = finite and self.above < number < self.below and number >= self.least
            right = right and type(number) is not bool
        else:
            right = True
        return bool(right) or any(other.holds(value) for other in self.alternatives)


positive = Rule("a positive number", kind=Real, above=0)
non_negative = Rule("a number of at least 0", kind=Real, least=0)
positive_integer = Rule("a positive integer", kind=Integral, above=0)
non_negative_integer = Rule("an integer of at least 0", kind=Integral, least=0)
#: number of draws or passes; bounded, as a file may set it
repetitions = Rule("an integer between 1 and 1000000000", kind=Integral, above=0, below=10**9 + 1)
boolean = Rule("True or False", kind=(bool, np.bool_))
none = Rule("None", kind=type(None))
array = Rule("an array", kind=np.ndarray)
pair_of_numbers = Rule(
    "a pair of increasing positive numbers",
    lambda v: len(v) == 2 and all(map(positive.holds, v)) and v[0] < v[1],
    kind=(tuple, list),
)
function = Rule("a function", callable)
mapping = Rule(
    "a dictionary with strings as keys", lambda v: all(isinstance(key, str) for key in v), kind=dict
)
seed = replace(
    Rule("an integer of at least 0, a RandomState or None", kind=Integral, least=0),
    alternatives=(Rule("", kind=(np.random.RandomState, type(None))),),
)


def one_of(*names: str) -> Rule:
    """Rule that a parameter is one of these strings."""
    words = ", ".join(map(repr, names))
    return Rule(words if len(names) == 1 else f"one of {words}", choices=names)


def between(low: float, high: float) -> Rule:
    """Rule that low < value < high."""
    return Rule(f"a number between {low:g} and {high:g}", kind=Real, above=low, below=high)


#: a scale of steps or rows whose square is a number in single precision, too
moderate = between(0, 1e15)


def check_parameters(owner: str, rules: Mapping[str, Rule], values: Mapping[str, Any]) -> None:
    """Raise ValueError for the first parameter that breaks its rule."""
    for name, rule in rules.items():
        value = values[name]
        if rule.holds(value):
            continue
        shown = repr(value)
        if isinstance(value, np.ndarray):
            shown = f"an array of shape {value.shape} and dtype {value.dtype}"
        elif len(shown) > 80:
            shown = f"{shown[:77]}..."
        raise ValueError(f"{owner}: {name} must be {rule.words}, got {shown}.")


#: columns of tuples in a table
TRIPLET_COLUMNS = ("query", "better", "worse")
TUPLE_COLUMNS = {"triplets": TRIPLET_COLUMNS, "feedback": TRIPLET_COLUMNS, "pairs": ("a", "b")}


def column_names(given: Any) -> list[str] | None:
    """Names of the columns of a table (pandas, polars, Arrow); None for anything else."""
    names = getattr(given, "column_names", getattr(given, "columns", None))
    if names is None or not all(isinstance(name, str) for name in names):
        return None
    return list(names)


def tuple_array(owner: str, name: str, tuples: Any) -> NDArray[Any]:
    """Tuples as an array; columns of a table are taken by their names."""
    check_entries(owner, name, tuples)
    names = column_names(tuples)
    if names is None:
        return np.asarray(tuples)
    wanted = TUPLE_COLUMNS.get(name, ())
    if not wanted or not set(names).issuperset(wanted):
        raise ValueError(
            f"{owner}: {name} must be an array, or a table with the columns "
            f"{','.join(wanted)}, got a table with {','.join(names)!r:.120}."
        )
    return np.column_stack([np.asarray(tuples[column]) for column in wanted])


def check_tuples(owner: str, name: str, tuples: Any, sizes: tuple[int, ...]) -> NDArray[np.intp]:
    """Return `tuples` as an integer array whose column j indexes `sizes[j]` rows."""
    given = tuple_array(owner, name, tuples)
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


#: square of the largest entry that `check_magnitude` takes, times the number of features
_SQUARE_LIMITS = {kind: float(np.finfo(kind).max) ** 0.5 for kind in "fd"}


def check_magnitude(
    owner: str, name: str, X: Any, rows: NDArray[np.intp] | None = None, dtype: Any = None
) -> None:
    """Refuse NaN, infinities, and values whose fourth powers could overflow.

    Learners multiply squared norms of two rows, so anything beyond would turn their state into NaN
    half-way. Only the given rows are read, in blocks: a stream over a large X pays for what it
    uses. `dtype` is what X will be converted to, if that is another. Views are checked one by one,
    and named if there are several.
    """
    if isinstance(X, Views):
        for view in X:
            check_magnitude(owner, name if X.n == 1 else view, X[view], rows, dtype)
        return
    if rows is None and dtype is None and is_small(X):
        return
    blocks: Iterable[Any] = [X]
    if rows is not None and len(chosen := np.unique(rows)) < X.shape[0]:
        blocks = (X[chosen[i : i + 1024]] for i in range(0, len(chosen), 1024))
    largest = 0.0
    for block in blocks:
        values = block.data if hasattr(block, "indptr") else block
        if values.size:  # np.maximum keeps NaN, which max() may lose
            largest = np.maximum(largest, max(-float(values.min()), float(values.max())))
    if not np.isfinite(largest):
        raise ValueError(f"{owner}: {name} must be finite, but it contains NaN or infinity.")
    dtype = np.dtype(X.dtype if dtype is None else dtype)
    limit = float(np.finfo(dtype).max) ** 0.25 / max(1, X.shape[1]) ** 0.5
    if largest > limit:
        raise ValueError(
            f"{owner}: {name} must have entries of magnitude at most {limit:.1e} for {dtype}, "
            f"got {largest:.1e}; scale it down."
        )


def is_small(X: Any) -> bool:
    """Whether X is an array of floats that `check_magnitude` takes; takes a few microseconds.

    The length of all rows together bounds every entry, and is no number if one entry is none. What
    is not small in this sense may still be right.
    """
    if type(X) is not np.ndarray or X.ndim != 2 or not X.size:
        return False
    if X.dtype.char not in _SQUARE_LIMITS or not X.dtype.isnative:
        return False
    return bool(np.vdot(X, X) <= _SQUARE_LIMITS[X.dtype.char] / X.shape[1])  # False for NaN


def checked_matrix(owner: str, name: str, X: ArrayLike | Matrix, **options: Any) -> Matrix:
    """X as `sklearn.utils.check_array` returns it: dense or CSR, in single or double precision.

    Where it must be finite, so must be what is computed from it.
    """
    check_numeric(owner, name, X)
    with np.errstate(invalid="ignore"):  # scikit-learn first sums all numbers
        X = check_array(X, **{"accept_sparse": "csr", "dtype": FLOATS, **options})
    if options.get("ensure_all_finite", True):
        check_magnitude(owner, name, X)
    return X


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
