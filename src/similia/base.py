"""What all learners share: parameters, state, averaging, merging.

A learner declares its parameters (`similia.parameters`) and names what it learns (`_state`);
validation, persistence and merging follow without further code. Public estimators follow
scikit-learn.
"""

import copy
from abc import ABC
from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any, ClassVar, Concatenate, ParamSpec, Self, dataclass_transform

import numpy as np
from numpy.typing import ArrayLike, DTypeLike
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted, validate_data

from similia.contract import FLOATS, Array, Matrix, Revision, State
from similia.linalg.threads import single_blas_thread
from similia.parameters import parameter, parameterized
from similia.retrieval.evaluation import gain_over_best
from similia.safety.bounds import check_entries, check_numeric
from similia.safety.turns import Shared
from similia.validation import (
    Rule,
    boolean,
    check_magnitude,
    check_parameters,
    is_small,
    positive_integer,
    seed,
)

#: below this share of judgements that need a step, parts differ too little for a merge to matter
RARE_STEPS = 0.01


P = ParamSpec("P")


def accepts_one_query(
    method: Callable[Concatenate[Any, Matrix, P], Any],
) -> Callable[Concatenate[Any, Matrix, P], Any]:
    """Let a method accept a single query as a vector; its results then lose that axis."""

    @wraps(method)
    def taking_one(self: Any, Q: Matrix, *others: P.args, **options: P.kwargs) -> Any:
        if np.ndim(Q) != 1:
            return method(self, Q, *others, **options)
        found = method(self, np.asanyarray(Q)[None], *others, **options)
        return tuple(map(_first_row, found)) if isinstance(found, tuple) else _first_row(found)

    return taking_one  # type: ignore[return-value]  # `wraps` names the arguments


def _first_row(found: Any) -> Any:
    """First row of an array, a sparse matrix or a table, which becomes an array."""
    return found[0] if sparse.issparse(found) else np.asarray(found)[0]


def validated(
    estimator: BaseEstimator, X: Matrix, *y: ArrayLike, reset: bool, **options: Any
) -> Any:
    """X, and y if given, as `sklearn.utils.validation.validate_data` returns them.

    An X to score with must be of a size at which scores are finite, as one to learn from.
    """
    if not (y or reset or options) and _is_plain(estimator, X):
        return X
    owner = type(estimator).__name__
    check_numeric(owner, "X", X)
    for labels in y:
        check_entries(owner, "y", labels)
    options = {"accept_sparse": "csr", "dtype": FLOATS, **options}
    with np.errstate(invalid="ignore"):  # scikit-learn first sums all numbers
        found = validate_data(estimator, X, *y, reset=reset, **options)
    if not y and options.get("ensure_all_finite", True):
        check_magnitude(owner, "X", found)
    return found


def _is_plain(estimator: Any, X: Any) -> bool:
    """Whether X is an array that all checks would return unchanged; takes a few microseconds."""
    return (
        is_small(X)
        and X.shape[1] == vars(estimator).get("n_features_in_")
        and not hasattr(estimator, "feature_names_in_")
    )


def generator(
    random_state: int | np.random.RandomState | None, n_seen: int = 0
) -> np.random.Generator:
    """Generator that depends on the seed and on how much was learnt already.

    So successive calls draw differently, and a learner continues after saving and loading as if
    nothing had happened.
    """
    if random_state is None:
        return np.random.default_rng()
    if isinstance(random_state, np.random.RandomState):
        return np.random.default_rng(random_state.randint(2**32, dtype=np.uint64))
    return np.random.default_rng([int(random_state), n_seen])


def writable(value: Any) -> Any:
    """Copy read-only arrays; return other values unchanged.

    joblib hands large arrays to its workers as read-only maps of a file, and compiled code would
    crash writing to them.
    """
    read_only = isinstance(value, np.ndarray) and not value.flags.writeable
    return np.array(value) if read_only else value


@parameterized
@dataclass_transform(kw_only_default=True, eq_default=False, field_specifiers=(parameter,))
class Learner(Shared, BaseEstimator, ABC):
    """A model that moves by one judgement at a time, so that its states average and merge.

    Every fitted learner has `n_seen_`, the judgements so far; `n_updates_`, those that changed the
    state; `n_features_in_`.
    """

    average: bool = parameter(
        default=True,
        rule=boolean,
        doc="Score with the mean of the states over the stream instead of the last one.",
    )
    random_state: int | np.random.RandomState | None = parameter(
        default=None, rule=seed, doc="Seed of everything random."
    )
    verbose: bool = parameter(default=False, rule=boolean, doc="Show a progress bar.")

    #: the kind of judgement: "triplets", "pairs" or "labels"
    learns_from: ClassVar[str]
    #: whether a learner of triplets takes lists that were shown (`Impressions`), too
    learns_lists: ClassVar[bool] = False
    #: learnt attributes, arrays or plain numbers: all that persistence and merging need to know
    _state: ClassVar[tuple[str, ...]] = ("n_features_in_", "n_seen_", "n_updates_")
    #: optional state
    _optional_state: ClassVar[tuple[str, ...]] = ("feature_names_in_", "moment_")
    #: the attribute whose states are averaged
    _averaged: ClassVar[str]
    #: whether learners that continued from a common start can be merged
    merges: ClassVar[bool] = True
    #: the reason, if not
    _why_not_merged: ClassVar[str] = ""
    #: how tables and texts become its views, if it learnt from any
    layout_ = None
    #: what was assumed of the feedback, in words
    assumed_ = ""
    #: rules of the parameters, by name
    _rules: ClassVar[dict[str, Rule]]

    #: name in messages
    _owner: ClassVar[str]

    def __init_subclass__(cls, **keywords: Any) -> None:
        super().__init_subclass__(**keywords)
        cls._owner = cls.__name__
        parameterized(cls)

    def _check_parameters(self) -> None:
        check_parameters(self._owner, self._rules, vars(self))

    def _precision(self) -> Any:
        """Real dtype of the state, to which rows are converted; None before the first call."""
        return self.moment_.real.dtype if self.__sklearn_is_fitted__() else None

    def _rng(self) -> np.random.Generator:
        return generator(self.random_state, vars(self).get("n_seen_", 0))

    # -- state ---------------------------------------------------------------------------------

    def __sklearn_is_fitted__(self) -> bool:
        return "n_seen_" in vars(self)

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__({name: writable(value) for name, value in state.items()})

    def get_state(self) -> State:
        """Return the learnt attributes by name; arrays are not copied."""
        check_is_fitted(self)
        learnt = vars(self)
        return {n: learnt[n] for n in (*self._state, *self._optional_state) if n in learnt}

    def set_state(self, state: State) -> Self:
        """Replace the learnt attributes by those of a learner with the same parameters."""
        self._check_parameters()
        missing = sorted(set(self._state) - set(state))
        unknown = sorted(set(state) - {*self._state, *self._optional_state})
        if missing or unknown:
            raise ValueError(
                f"{self._owner}.set_state: state must have the names {sorted(self._state)}, "
                f"but {missing or unknown} {'is missing' if missing else 'is unknown'}."
            )
        for name, value in state.items():
            setattr(self, name, writable(value))
        if "moment_" not in vars(self):
            self._init_moment()
        return self

    def revision(self) -> Revision:
        """Token that changes whenever the learner changes.

        So an index or a cached query matrix notices cheaply that it is out of date. Tokens compare
        states of one learner within one process.
        """
        if not self.__sklearn_is_fitted__():
            check_is_fitted(self)
        return Revision((self.n_seen_, self.n_updates_, bool(self.average)), self.moment_)

    def _shapes(self) -> dict[str, tuple[int, ...]]:
        """Shapes of the learnt arrays that grow with what was learnt, by name."""
        return {}

    def _check_values(self) -> None:
        """Raise ValueError for numbers that learning cannot produce and cannot continue from."""

    def _example(self, m: int, n: int, dtype: DTypeLike) -> tuple[Any, Any]:
        """Vectors of m and n features to start a learner with."""
        square = np.zeros((m, m), dtype)  # in case it is a kernel matrix
        return square, np.zeros((1, n), dtype)

    # -- averaging -----------------------------------------------------------------------------

    @property
    def _last_state(self) -> Array:
        state: Array = getattr(self, self._averaged)
        return state

    def _init_moment(self) -> None:
        """Start accumulating Σ_t t·ΔA_t, which yields the mean of the states A_0 … A_T:

        Σ_{t=0}^{T} A_t = (T+1)·A_T - Σ_t t·ΔA_t.
        """
        state = self._last_state
        self.moment_ = np.zeros_like(state) if self.average else np.zeros((0, 0), state.dtype)

    def _check_average(self) -> None:
        check_is_fitted(self)
        if not self.average:
            raise AttributeError(
                f"{self._owner}: the average is kept with average=True; set it before learning."
            )

    def _average_state(self) -> Array:
        self._check_average()
        return self._scoring_state()

    def _scoring_state(self) -> Array:
        """State to score with: the mean over the stream if `average`, else the last one."""
        check_is_fitted(self)
        last = self._last_state
        return last - self.moment_ / (self.n_seen_ + 1) if self.average else last

    # -- merging -------------------------------------------------------------------------------

    def split(self, n: int) -> list[Self]:
        """Copies, each to be taught one of n shares of the judgements, for `merge`.

        A part sees one judgement in n, so it counts each of them n times: it is an estimate of
        what one learner of everything would become, and parts are averaged, never added up.
        """
        check_is_fitted(self)
        self._check_merges("split")
        check_parameters(f"{self._owner}.split", {"n": positive_integer}, {"n": n})
        parts = [copy.deepcopy(self) for _ in range(n)]
        for part in parts:
            part.set_params(**self._bolder(n))
        return parts

    def _bolder(self, n: int) -> dict[str, Any]:
        """Parameters under which a judgement counts n times; none if no parameter scales steps."""
        return {}

    def merge(
        self, parts: Sequence[Self], marks: Callable[[Self], ArrayLike] | None = None
    ) -> Self:
        """Merge learners that each continued from this one, on different judgements.

        The merged state is the mean of theirs, weighted by judgements: on any convex loss, such as
        the hinge loss of held-out judgements, it is at most the mean of theirs.

        Parameters
        ----------
        parts : sequence of learners
            Copies of this learner, from `split`, each of which learnt its own share.
        marks : callable, optional
            Marks of a learner on judgements that no part has learnt from, at least four, larger is
            better: such as the average precision of queries, or whether rows get the right label.

        Returns
        -------
        A new learner of the same class; this one and the parts are left alone.

        Raises
        ------
        ValueError
            If the parts did not continue from this learner, or have learnt too little: their mean
            would fall short of one learner of everything. With marks, also if a part is better than
            all of them together, beyond two standard errors.
        """
        check_is_fitted(self)
        self._check_merges("merge")
        self._check_parts(parts)
        self._check_learnt(parts)
        merged = copy.deepcopy(self)
        merged.n_seen_ = self.n_seen_ + sum(part.n_seen_ - self.n_seen_ for part in parts)
        merged.n_updates_ = self.n_updates_ + sum(p.n_updates_ - self.n_updates_ for p in parts)
        with single_blas_thread():
            state = self._merged_state(parts)
        for name, value in state.items():
            setattr(merged, name, value)
        if self.average:
            # Last states of k parts already average out the noise that a mean over the stream
            # would, so the way back to that mean, with its early states, shrinks to a k-th.
            gaps = [part.moment_ / (part.n_seen_ + 1) for part in parts]
            gap = self._mean_over(parts, gaps) / len(parts)
            merged.moment_ = ((merged.n_seen_ + 1) * gap).astype(self.moment_.dtype, copy=False)
        if marks is not None:
            self._check_gain(*(np.asarray(marks(own), float) for own in (merged, *parts)))
        return merged

    def _check_gain(self, merged: Array, *parts: Array) -> None:
        """Refuse a merge that one of its parts beats, judging by the marks of each."""
        shapes = {own.shape for own in (merged, *parts)}
        if merged.ndim != 1 or len(merged) < 4 or len(shapes) > 1:
            raise ValueError(
                f"{self._owner}.merge: marks must be at least 4 numbers, as many for each learner, "
                f"got {', '.join(map(str, shapes))}."
            )
        gain = gain_over_best(merged, parts)
        if gain.mean < -2 * gain.error:
            means = [own.mean() for own in parts]
            raise ValueError(
                f"{self._owner}.merge: what is merged must be as good as its best part, got "
                f"{gain.mean:+.4f} ± {gain.error:.4f} on {len(merged)} marks. Part "
                f"{int(np.argmax(means))} has {max(means):.4f}, the worst {min(means):.4f}, all "
                f"together {merged.mean():.4f}: use that part, or leave out the shares of bad ones."
            )

    def _steps_to_merge(self) -> int:
        """Steps that a part must have taken before it can be averaged with others."""
        return 0

    def _check_learnt(self, parts: Sequence[Self]) -> None:
        needed = self._steps_to_merge()
        for part in parts if len(parts) > 1 else []:
            steps, seen = part.n_updates_ - self.n_updates_, part.n_seen_ - self.n_seen_
            if part.n_updates_ < needed and steps >= RARE_STEPS * seen > 0:
                raise ValueError(
                    f"{self._owner}.merge: parts must have taken at least {needed} steps each, got "
                    f"{part.n_updates_}; the mean of parts that have learnt so little falls short "
                    "of one learner of everything. Use fewer parts, or teach the start more first."
                )

    def _check_merges(self, method: str) -> None:
        if not self.merges:
            raise ValueError(
                f"{self._owner}.{method}: its parts cannot be merged, as {self._why_not_merged}; "
                "learn from one stream of all judgements instead."
            )

    def _check_parts(self, parts: Sequence[Self]) -> None:
        if not parts:
            raise ValueError(f"{self._owner}.merge: parts must not be empty.")
        for part in parts:
            if type(part) is not type(self):
                raise ValueError(
                    f"{self._owner}.merge: parts must be {self._owner} learners, "
                    f"got {type(part).__name__}."
                )
            check_is_fitted(part)
            ours, theirs = self._last_state, part._last_state
            if ours.shape != theirs.shape or ours.dtype != theirs.dtype:
                raise ValueError(
                    f"{self._owner}.merge: parts must have {self._averaged} of shape {ours.shape} "
                    f"and dtype {ours.dtype}, got {theirs.shape} and {theirs.dtype}."
                )
            if part.n_seen_ < self.n_seen_ or part.average != self.average:
                raise ValueError(
                    f"{self._owner}.merge: parts must have continued from this learner; "
                    "take them from its split."
                )

    def _mean_over(self, parts: Sequence[Self], values: Sequence[Any]) -> Any:
        """Mean of one value per part, weighted by the judgements since the common start."""
        learnt = np.array([part.n_seen_ - self.n_seen_ for part in parts], dtype=float)
        shares = learnt / learnt.sum() if learnt.any() else np.full(len(parts), 1 / len(parts))
        return sum(share * value for share, value in zip(shares, values, strict=True))

    def _merged_state(self, parts: Sequence[Self]) -> State:
        """Merged arrays: the mean of the states, weighted by judgements."""
        mean = self._mean_over(parts, [part._last_state for part in parts])
        return {self._averaged: np.asarray(mean, dtype=self._last_state.dtype)}
