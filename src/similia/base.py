"""The contract of a learner: parameters, state, averaging, merging.

A learner names the rules of its parameters (`_rules`) and what it learns (`_state`); validation,
persistence and merging follow, with no further code. Public estimators follow scikit-learn.
"""

import copy
from abc import ABC
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from similia.contract import Array
from similia.validation import Rule, boolean, check_parameters, seed


class Revision:
    """Counts, and the array that every new start makes anew; kept, so that none takes its place."""

    __slots__ = ("counts", "start")
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, counts: tuple[int, int, bool], start: Array) -> None:
        self.counts = counts
        self.start = start

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Revision)
            and self.counts == other.counts
            and self.start is other.start
        )


class Learner(BaseEstimator, ABC):
    """A model with parameters under rules and a state that is known by name.

    Attributes that every learner has once it has learnt: `n_seen_`, the judgements so far;
    `n_updates_`, those that changed the state; `n_features_in_`.
    """

    _rules: ClassVar[dict[str, Rule]] = {"random_state": seed, "verbose": boolean}
    #: learnt attributes, arrays or plain numbers: all that persistence and merging need to know
    _state: ClassVar[tuple[str, ...]] = ("n_features_in_", "n_seen_", "n_updates_")
    #: those that are there or not
    _optional_state: ClassVar[tuple[str, ...]] = ("feature_names_in_",)
    #: the kind of judgement: "triplets", "pairs" or "labels"
    learns_from: ClassVar[str]

    random_state: int | np.random.RandomState | None

    @property
    def _owner(self) -> str:
        return type(self).__name__

    def _check_parameters(self) -> None:
        check_parameters(self._owner, self._rules, self.get_params(deep=False))

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "n_seen_")

    @contextmanager
    def _all_or_nothing(self) -> Iterator[None]:
        """Put every attribute back if what happens within fails; arrays must not be changed in it.

        For starting anew, which replaces the learnt arrays. Going on changes them in place, and so
        checks everything first.
        """
        before = dict(vars(self))
        try:
            yield
        except BaseException:
            self.__dict__.clear()
            self.__dict__.update(before)
            raise

    def _rng(self) -> np.random.Generator:
        """Give a generator that depends on the seed and on how much has been learnt already.

        So successive calls draw differently, and a learner that was saved goes on as if it had not.
        """
        state = self.random_state
        if state is None:
            return np.random.default_rng()
        if isinstance(state, np.random.RandomState):
            return np.random.default_rng(state.randint(2**32, dtype=np.uint64))
        return np.random.default_rng([int(state), getattr(self, "n_seen_", 0)])

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Take what was pickled, with arrays of its own.

        joblib hands large arrays to its workers as read-only maps of a file, and learning writes to
        the state in place: compiled code would crash.
        """
        super().__setstate__({name: _writable(value) for name, value in state.items()})

    def get_state(self) -> dict[str, Any]:
        """Give the learnt attributes by name; arrays are not copied."""
        check_is_fitted(self)
        names = (*self._state, *self._optional_state)
        return {name: getattr(self, name) for name in names if hasattr(self, name)}

    def set_state(self, state: dict[str, Any]) -> Self:
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
            setattr(self, name, _writable(value))
        return self


def _writable(value: Any) -> Any:
    """Give a copy of an array that must not be written to; anything else as it is."""
    read_only = isinstance(value, np.ndarray) and not value.flags.writeable
    return np.array(value) if read_only else value


class OnlineLearner(Learner):
    """A learner that is changed by one judgement at a time, so that states average and merge."""

    _rules: ClassVar = {"average": boolean, **Learner._rules}
    _optional_state: ClassVar = ("moment_", *Learner._optional_state)
    #: the attribute whose states are averaged
    _averaged: ClassVar[str]

    average: bool

    def _shapes(self) -> dict[str, tuple[int, ...]]:
        """Give the shapes of those learnt arrays that grow with what was learnt, by name."""
        return {}

    # -- averaging -----------------------------------------------------------------------------

    def _init_moment(self) -> None:
        """Start gathering Σ_t t·ΔA_t, from which the mean of the states A_0 … A_T follows:

        Σ_{t=0}^{T} A_t = (T+1)·A_T - Σ_t t·ΔA_t.
        """
        state = getattr(self, self._averaged)
        self.moment_ = np.zeros_like(state) if self.average else np.zeros((0, 0), state.dtype)

    def _check_average(self) -> None:
        check_is_fitted(self)
        if not self.average:
            raise AttributeError(
                f"{self._owner}: the average is kept with average=True; set it before learning."
            )

    def _average_state(self) -> Array:
        self._check_average()
        return getattr(self, self._averaged) - self.moment_ / (self.n_seen_ + 1)

    def _scoring_state(self) -> Array:
        """Give the matrix to score with: the mean of the states if `average`, else the last one."""
        check_is_fitted(self)
        return self._average_state() if self.average else getattr(self, self._averaged)

    # -- state ---------------------------------------------------------------------------------

    def revision(self) -> "Revision":
        """Give something that is another after every call that learns, forgets or sets the state.

        So whoever keeps what follows from a learner (an index, its query matrix) notices cheaply
        that it is out of date. It tells apart states of one learner in one process.
        """
        if not self.__sklearn_is_fitted__():
            check_is_fitted(self)
        return Revision((self.n_seen_, self.n_updates_, bool(self.average)), self.moment_)

    def set_state(self, state: dict[str, Any]) -> Self:
        """Replace the learnt attributes by those of a learner with the same parameters."""
        super().set_state(state)
        if not hasattr(self, "moment_"):
            self._init_moment()
        return self

    def merge(self, parts: Sequence[Self]) -> Self:
        """Join learners that each went on from this one, on different judgements, into one.

        Parameters
        ----------
        parts : sequence of learners
            Each began as a copy of this learner (``copy.deepcopy``) and learnt its own share.

        Returns
        -------
        A new learner of the same class; this one and the parts are left alone.
        """
        check_is_fitted(self)
        self._check_parts(parts)
        merged = copy.deepcopy(self)
        merged.n_seen_ = self.n_seen_ + sum(part.n_seen_ - self.n_seen_ for part in parts)
        merged.n_updates_ = self.n_updates_ + sum(p.n_updates_ - self.n_updates_ for p in parts)
        for name, value in self._merged_state(parts).items():
            setattr(merged, name, value)
        if self.average:
            # The distance from last state to average is itself averaged over the parts.
            shares = self._shares(parts)
            gaps = (part.moment_ / (part.n_seen_ + 1) for part in parts)
            gap = sum(share * gap for share, gap in zip(shares, gaps, strict=True))
            merged.moment_ = ((merged.n_seen_ + 1) * gap).astype(self.moment_.dtype, copy=False)
        return merged

    def _check_parts(self, parts: Sequence[Self]) -> None:
        if not parts:
            raise ValueError(f"{self._owner}.merge: parts must be at least one learner, got none.")
        for part in parts:
            if type(part) is not type(self):
                raise ValueError(
                    f"{self._owner}.merge: parts must be {self._owner} learners, "
                    f"got {type(part).__name__}."
                )
            check_is_fitted(part)
            ours, theirs = getattr(self, self._averaged), getattr(part, self._averaged)
            if ours.shape != theirs.shape or ours.dtype != theirs.dtype:
                raise ValueError(
                    f"{self._owner}.merge: parts must have {self._averaged} of shape {ours.shape} "
                    f"and dtype {ours.dtype}, got {theirs.shape} and {theirs.dtype}."
                )
            if part.n_seen_ < self.n_seen_ or part.average != self.average:
                raise ValueError(
                    f"{self._owner}.merge: parts must have gone on from this learner; "
                    "begin each as a copy of it, with the same parameters."
                )

    def _shares(self, parts: Sequence[Self]) -> Array:
        """Give each part's share of the judgements since the common start."""
        learnt = np.array([part.n_seen_ - self.n_seen_ for part in parts], dtype=float)
        return learnt / learnt.sum() if learnt.sum() > 0 else np.full(len(parts), 1 / len(parts))

    def _merged_state(self, parts: Sequence[Self]) -> dict[str, Any]:
        """Give the merged arrays; without second-order knowledge, the mean weighted by shares."""
        states = (getattr(part, self._averaged) for part in parts)
        mean = sum(share * state for share, state in zip(self._shares(parts), states, strict=True))
        return {self._averaged: np.asarray(mean, dtype=getattr(self, self._averaged).dtype)}
