"""The loop of stochastic one-vs-rest learners: passes in `fit`, a stream in `partial_fit`."""

from abc import abstractmethod
from contextlib import nullcontext
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.utils.validation import validate_data

from similia.contract import FLOATS, Array
from similia.linalg.blocks import row_blocks, rows_of
from similia.linalg.threads import side_by_side, single_blas_thread
from similia.linear.calibrated import CalibratedOneVsRest
from similia.linear.hessian import augmented
from similia.linear.labels import Groups, Labels
from similia.linear.schedules import balanced_kept
from similia.progress import progress
from similia.updates.balanced import balanced_visits
from similia.validation import between, boolean, check_magnitude, positive_integer


@dataclass(frozen=True)
class Task:
    """What is learnt from: rows of X, their labels and weights; what decides when to stop."""

    X: Any
    labels: Labels
    weights: Array
    rows: Array
    held_out: Array

    @cached_property
    def groups(self) -> Groups:
        """Places in `rows` by class."""
        return self.labels.groups(self.rows)


def checked_weights(owner: str, weights: Any, n: int) -> Array:
    """Give the weights of n rows, all 1 for None; one of them must be positive."""
    if weights is None:
        return np.ones(n)
    given = np.asarray(weights, dtype=np.float64)
    if given.shape != (n,) or not np.isfinite(given).all() or (given < 0).any() or not given.any():
        raise ValueError(
            f"{owner}: sample_weight must be {n} numbers of at least 0, not all of them zero, "
            f"got shape {given.shape}."
        )
    return given


class StochasticOneVsRest(CalibratedOneVsRest):
    """Passes over all examples, or over balanced ones for each class; early stopping; a stream.

    A subclass says how one block or one class is learnt (`_fit_pass`, `_stream_block`).
    """

    _rules: ClassVar = {
        **CalibratedOneVsRest._rules,
        "warm_start": boolean,
        "early_stopping": boolean,
        "validation_fraction": between(0, 1),
        "n_iter_no_change": positive_integer,
    }
    _state: ClassVar = (*CalibratedOneVsRest._state, "seed_")

    warm_start: bool
    early_stopping: bool
    validation_fraction: float
    n_iter_no_change: int
    class_counts_: Array

    # -- learning from all at once ---------------------------------------------------------------

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Forget (unless `warm_start`), then learn in at most `max_iter` passes.

        Parameters
        ----------
        X : array or CSR matrix of shape (n_samples, n_features)
            A memory-mapped array of float32 or float64 is read in blocks and never copied.
        y : array of shape (n_samples,), or of zeros and ones of shape (n_samples, n_labels)
        sample_weight : array of shape (n_samples,) or None
            Factors of the steps; rows of weight 0 are left out.
        """
        self._check_parameters()
        goes_on = self.warm_start and self.__sklearn_is_fitted__()
        with self._all_or_nothing():
            X, labels, weights = self._checked(X, y, sample_weight, "fit", reset=not goes_on)
            if labels.n_rows < 1 or (not labels.multilabel and len(labels.classes) < 2):
                raise ValueError(
                    f"{self._owner}: y must have at least two classes, but it has only one class: "
                    f"{labels.classes[0]!r}."
                )
            if not goes_on:
                self._start(X, labels)
            elif not np.array_equal(labels.classes, self.classes_):
                raise ValueError(
                    f"{self._owner}.fit: y must have the classes {self.classes_}, as before; "
                    "set warm_start=False to forget them."
                )
            self.w_, self.moment_ = self.w_.copy(), self.moment_.copy()
            rng = self._rng()
            rows = np.flatnonzero(weights)
            if self.sampling == "balanced":  # neighbours are visited together: see `paired_visits`
                rows = rng.permutation(rows)
            held_out = rows[:0]
            if self._needs_held_out():
                rows, held_out = self._split(rng, rows)
            task = Task(X, labels, weights.astype(self.w_.dtype), rows, held_out)
            self.class_counts_ = self.class_counts_ + self._counts(task)
            with single_blas_thread():
                self._passes(task, rng)
            return self

    def _needs_held_out(self) -> bool:
        return self.early_stopping

    def _split(self, rng: np.random.Generator, rows: Array) -> tuple[Array, Array]:
        """Give the rows to learn from, in their order, and those held out, in order of memory."""
        n = min(max(1, round(self.validation_fraction * len(rows))), len(rows) - 1)
        held_out = np.zeros(len(rows), dtype=bool)
        held_out[rng.permutation(len(rows))[:n]] = True
        return rows[~held_out], np.sort(rows[held_out])

    def _passes(self, task: Task, rng: np.random.Generator) -> None:
        run = self._start_passes(task, rng)
        best, since = (-1.0, self.w_, self.moment_), 0
        total = self.max_iter * len(task.rows)
        with progress(self._owner, total, enabled=self.verbose) as advance:
            for number in range(self.max_iter):
                self._fit_pass(run, number, rng)
                self.n_iter_ += 1
                advance(len(task.rows))
                if not self.early_stopping:
                    continue
                self._finish_passes(run)
                accuracy = self._held_out_accuracy(task)
                since = 0 if accuracy > best[0] else since + 1
                if since == 0:
                    best = (accuracy, self.w_, self.moment_)
                if since >= self.n_iter_no_change:
                    break
        self._finish_passes(run)
        if self.early_stopping:
            _, self.w_, self.moment_ = best

    def _held_out_accuracy(self, task: Task) -> float:
        w = self._scoring_state()
        right = [
            task.labels.accuracy(
                self._scores(task.X, task.held_out[block], w), task.held_out[block]
            )
            * (block.stop - block.start)
            for block in row_blocks(len(task.held_out), 1024)
        ]
        return sum(right) / len(task.held_out)

    def _scores(self, X: Any, rows: Array, w: Array) -> Array:
        """Give the scores (weight vectors, rows) of named rows of X."""
        return np.asarray(augmented(rows_of(X, rows, w.dtype), self.fit_intercept) @ w.T).T

    @abstractmethod
    def _start_passes(self, task: Task, rng: np.random.Generator) -> Any:
        """Give what the passes over the task share, and change."""

    @abstractmethod
    def _fit_pass(self, run: Any, number: int, rng: np.random.Generator) -> None:
        """Make pass `number` (from 0) and add to `n_seen_` and `n_updates_`."""

    @abstractmethod
    def _finish_passes(self, run: Any) -> None:
        """Put what was learnt into new arrays `w_` and `moment_`."""

    def _each_class(
        self, task: Task, some: range, rng: np.random.Generator, learn: Any, cost: int
    ) -> None:
        """Run learn(j, visits) for the weight vectors j in `some`, side by side.

        Visits i >= 0 are positive examples, places in `task.rows`, others negative ones at ~i: all
        of them in random order, or as many negative as positive ones.
        """
        order = rng.permutation(len(task.rows))
        seeds = rng.integers(2**63, size=len(some), dtype=np.uint64)
        visited = []

        def run(j: int, seed: Any) -> None:
            ours, codes, code = task.groups.of(j)
            if self.sampling == "balanced":
                visits = balanced_visits(order, codes, code, ours, seed)
            else:
                visits = np.where(codes[order] == code, order, ~order)
            visited.append(len(visits))
            learn(j, visits)

        tasks = [partial(run, j, seed) for j, seed in zip(some, seeds, strict=True)]
        side_by_side(tasks, 2 * len(task.rows) * cost)
        self.n_updates_ += sum(visited)

    # -- learning from a stream ------------------------------------------------------------------

    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Self:
        """Learn from the rows in order, once, without forgetting.

        Parameters
        ----------
        X : array or CSR matrix of shape (n_samples, n_features)
        y : array of shape (n_samples,), or of zeros and ones of shape (n_samples, n_labels)
        classes : array of shape (n_classes,), needed in the first call only
            All labels that will ever come; not needed where y has a column for each.
        sample_weight : array of shape (n_samples,) or None
            Factors of the steps.
        """
        self._check_parameters()
        self._check_stream()
        first = not self.__sklearn_is_fitted__()
        many = np.ndim(y) == 2 or hasattr(y, "tocsr")
        known = np.unique(classes) if classes is not None else getattr(self, "classes_", None)
        if not many and (known is None or len(known) < 2):
            raise ValueError(
                f"{self._owner}.partial_fit: classes must be given in the first call, and be at "
                "least two."
            )
        with self._all_or_nothing() if first else nullcontext():
            X, labels, weights = self._checked(X, y, sample_weight, "partial_fit", first, known)
            if first:
                self._start(X, labels)
            elif labels.multilabel != self.multilabel_ or not np.array_equal(
                labels.classes, self.classes_
            ):
                raise ValueError(
                    f"{self._owner}.partial_fit: classes must be {self.classes_}, as before."
                )
        with single_blas_thread():
            self._stream(X, labels, weights.astype(self.w_.dtype))
        self.n_iter_ += 1
        return self

    def _check_stream(self) -> None:
        """Refuse parameters that only `fit` can follow."""

    def _stream(self, X: Any, labels: Labels, weights: Array) -> None:
        start, n = 0, X.shape[0]
        while start < n:
            stop = min(n, start + self._block, start + self._rows_until_change())
            places = np.arange(start, stop)
            rows = augmented(rows_of(X, places, self.w_.dtype), self.fit_intercept)
            signs = labels.signs(places, self.w_.dtype)
            kept = np.broadcast_to(weights[places], signs.shape)
            if self.sampling == "balanced":
                kept = kept * balanced_kept(self.class_counts_, signs, self.seed_, self.n_seen_)
            self._stream_block(rows, signs, kept.astype(self.w_.dtype))
            self.n_updates_ += int(np.count_nonzero(kept))
            self.class_counts_ += np.stack([(signs > 0).sum(1), (signs < 0).sum(1)], axis=1)
            self.n_seen_ += stop - start
            start = stop

    def _rows_until_change(self) -> int:
        """Say how many rows may be learnt from before something else than w changes."""
        return self._block

    @abstractmethod
    def _stream_block(self, rows: Any, signs: Array, weights: Array) -> None:
        """Learn rows (with their last entry 1) in order; factors of steps are (vectors, rows)."""

    # -- what both share -------------------------------------------------------------------------

    def _checked(
        self, X: Any, y: Any, weights: Any, method: str, reset: bool, classes: Array | None = None
    ) -> tuple[Any, Labels, Array]:
        owner = f"{self._owner}.{method}"
        X, y = validate_data(
            self, X, y, reset=reset, accept_sparse="csr", dtype=FLOATS, multi_output=True
        )
        check_magnitude(owner, "X", X)
        labels = Labels(owner if method == "partial_fit" else self._owner, y, classes)
        return X, labels, checked_weights(owner, weights, X.shape[0])

    def _counts(self, task: Task) -> Array:
        ours = [len(task.groups.of(j)[0]) for j in range(task.labels.n_rows)]
        return np.array([[n, len(task.rows) - n] for n in ours], dtype=np.float64)

    def _start(self, X: Any, labels: Labels) -> None:
        self.classes_ = labels.classes
        self.multilabel_ = bool(labels.multilabel)
        self.n_iter_ = self.n_seen_ = self.n_updates_ = 0
        self.seed_ = int(self._rng().integers(2**31))
        shape = (labels.n_rows, X.shape[1] + self.fit_intercept)
        self.w_ = np.zeros(shape, dtype=X.dtype)
        self.class_counts_ = np.zeros((labels.n_rows, 2))
        self._init_moment()
        self._init_state()

    def _merged_counts(self, parts: Any) -> Array:
        return self.class_counts_ + sum(part.class_counts_ - self.class_counts_ for part in parts)
