"""One-vs-rest classifiers by stochastic steps on a calibrated loss."""

from abc import abstractmethod
from collections.abc import Sequence
from typing import ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike

from similia.base import all_or_nothing
from similia.contract import Array, Matrix, State
from similia.linalg.threads import single_blas_thread
from similia.linear.base import LinearOneVsRest
from similia.linear.frames import Frame, Scaling
from similia.linear.labels import Examples, Labels, balanced_kept, n_weight_vectors
from similia.linear.passes import SCHEDULES, Clock, Descent, Part, Passes, Scalings, Task
from similia.losses import LOSSES
from similia.parameters import parameter
from similia.progress import progress
from similia.validation import (
    between,
    boolean,
    check_parameters,
    one_of,
    positive,
    positive_integer,
)


class StochasticOneVsRest(LinearOneVsRest):
    """Passes over all examples or over balanced ones, early stopping, streams, probabilities.

    A subclass scales the steps, in `fit` (`_scalings`) and in a stream (`_learn_weighted`).
    """

    loss: str = parameter(
        default="logistic",
        rule=one_of(*LOSSES),
        doc="F: ln(1 + e⁻ˣ), max(0, -x) - ln(2 + |x|), or ¼(1 - x)².",
    )
    sampling: str = parameter(
        default="full",
        rule=one_of("full", "balanced"),
        doc="Learn from every example, or from all of a class and as many others, drawn again for "
        "each pass. Balanced passes cost the same for any number of classes.",
    )
    eta: str | float = parameter(
        default="auto",
        rule=one_of("auto") | positive,
        doc="Step size at the start. \"auto\" makes η F''(0)|x|² equal 1 on average, and at most 1 "
        "for every example.",
    )
    schedule: str = parameter(
        default="auto",
        rule=one_of(*SCHEDULES),
        doc="How steps shrink: not at all; linearly to 0 at the end of the last pass; with the "
        '(square root of the) number of examples, beyond about one per dimension. "auto" is linear '
        'in `fit`, "sqrt" in a stream. "theorem" takes the step of SLND\'s Theorem 2, under which '
        "the risk falls at each visit; it reads all examples for every step: for small data.",
    )
    epsilon: float = parameter(
        default=0.5,
        rule=between(0, 1),
        doc='ε of Theorem 2, for the schedule "theorem"; ½ promises the largest decrease.',
    )
    early_stopping: bool = parameter(
        default=False,
        rule=boolean,
        doc="Hold examples out, stop when accuracy on them no longer rises, and keep the best "
        "weights.",
    )
    validation_fraction: float = parameter(
        default=0.1, rule=between(0, 1), doc="Share of the examples held out."
    )
    n_iter_no_change: int = parameter(
        default=2,
        rule=positive_integer,
        doc="Passes without a better accuracy after which to stop.",
    )
    warm_start: bool = parameter(
        default=False, rule=boolean, doc="Let `fit` continue from the weights learnt before."
    )

    _state: ClassVar = (*LinearOneVsRest._state, "multilabel_", "class_counts_", "seed_")
    _accepts_several_labels: ClassVar = True

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if self.schedule == "theorem" and self.average:
            raise ValueError(
                f"{self._owner}: average must be False with schedule='theorem', got True."
            )

    def _init_state(self, labels: Labels) -> None:
        self.multilabel_ = bool(labels.multilabel)
        self.class_counts_ = np.zeros((labels.n_vectors, 2))
        self.seed_ = int(self._rng().integers(2**31))

    @property
    def _descent(self) -> Descent:
        return Descent(
            loss=LOSSES[self.loss],
            schedule=SCHEDULES[self.schedule],
            bounded=isinstance(self.eta, str),
            balanced=self.sampling == "balanced",
            by_theorem=self.schedule == "theorem",
            epsilon=self.epsilon,
        )

    # -- learning from everything at once ------------------------------------------------------

    def fit(self, X: Matrix, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
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
        continues = self.warm_start and self.__sklearn_is_fitted__()
        with all_or_nothing(self), single_blas_thread():
            examples = self._checked("fit", X, y, sample_weight, reset=not continues)
            if not continues:
                self._start(examples)
            elif not self._knows(examples.labels):
                raise ValueError(
                    f"{self._owner}.fit: y must have the classes {self.classes_}, as before; "
                    "set warm_start=False to forget them."
                )
            rng = self._rng()
            self._run(self._passes(self._task(examples, rng), rng), rng)
        return self

    def _task(self, examples: Examples, rng: np.random.Generator) -> Task:
        rows, held_out = np.flatnonzero(examples.weights), np.arange(0)
        if self.sampling == "balanced":  # neighbours are visited together: see `paired_visits`
            rows = rng.permutation(rows)
        if self._needs_held_out():
            n = min(max(1, round(self.validation_fraction * len(rows))), len(rows) - 1)
            chosen = np.zeros(len(rows), dtype=bool)
            chosen[rng.permutation(len(rows))[:n]] = True
            rows, held_out = rows[~chosen], np.sort(rows[chosen])
        weighted = examples._replace(weights=examples.weights.astype(self.w_.dtype))
        return Task(weighted, rows, held_out, self.fit_intercept)

    def _needs_held_out(self) -> bool:
        return self.early_stopping

    def _passes(self, task: Task, rng: np.random.Generator) -> Passes:
        """Passes from the present weights; they may learn from the rows held out as well."""
        state = (self.w_, self.moment_, self.n_seen_)
        return Passes(task, self._descent, self._scalings, self.max_iter, *state)

    @abstractmethod
    def _scalings(self, passes: Passes, rng: np.random.Generator) -> Scalings:
        """Scalings of the next pass; None keeps the present ones."""

    def _run(self, passes: Passes, rng: np.random.Generator) -> None:
        task = passes.task
        self.class_counts_ = self.class_counts_ + task.class_counts
        best, kept, since = -1.0, passes.state(), 0
        with progress(self._owner, self.max_iter * len(task.rows), enabled=self.verbose) as advance:
            for _ in range(self.max_iter):
                self.n_updates_ += passes.make(rng)
                self.n_seen_ += len(task.rows)
                self.n_iter_ += 1
                advance(len(task.rows))
                if not self.early_stopping:
                    continue
                self.w_, self.moment_ = passes.state()
                accuracy = task.accuracy(self._scoring_state())
                since = 0 if accuracy > best else since + 1
                if since == 0:
                    # In units of the time it was judged at, so the average stays what it was.
                    best, kept = accuracy, (self.w_, self.moment_ / (self.n_seen_ + 1))
                if since >= self.n_iter_no_change:
                    break
        self.w_, self.moment_ = passes.state()
        if self.early_stopping:
            w, gap = kept
            self.w_, self.moment_ = w, (gap * (self.n_seen_ + 1)).astype(w.dtype, copy=False)

    # -- learning from a stream ----------------------------------------------------------------

    def partial_fit(
        self,
        X: Matrix,
        y: ArrayLike,
        classes: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> Self:
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
        return self._continue(X, y, classes, sample_weight)

    def _check_stream(self) -> None:
        """Refuse parameters that only `fit` can follow."""
        if self.schedule == "theorem":
            raise ValueError(
                f"{self._owner}.partial_fit: schedule must be other than 'theorem', which speaks "
                "of the risk on all examples; use fit."
            )

    def _learn_block(self, rows: Matrix, signs: Array, weights: Array) -> int:
        factors = np.broadcast_to(weights, signs.shape)
        if self.sampling == "balanced":
            factors = factors * balanced_kept(self.class_counts_, signs, self.seed_, self.n_seen_)
        factors = factors.astype(self.w_.dtype)
        self._learn_weighted(rows, signs, factors)
        self.class_counts_ += np.stack([(signs > 0).sum(1), (signs < 0).sum(1)], axis=1)
        return int(np.count_nonzero(factors))

    @abstractmethod
    def _learn_weighted(self, rows: Matrix, signs: Array, weights: Array) -> None:
        """Learn rows in order; signs and factors of the steps are (weight vectors, rows)."""

    def _take_steps(self, rows: Matrix, signs: Array, weights: Array, scaling: Scaling) -> None:
        """Learn rows of a stream in order, all with one scaling."""
        places, n_seen = np.arange(rows.shape[0]), self.n_seen_
        frame = Frame(rows, places, self.w_, scaling.scale, intercept=False, store=False)
        if not frame.size:
            return
        part, clock = Part(slice(None), scaling, frame, self.average), Clock(n_seen, None, n_seen)
        part.learn(self._descent, clock, places, places, lambda block: signs[:, block], weights)
        self.w_ += frame.back(part.Z)
        if self.average:
            self.moment_ += frame.back(part.M)

    # -- deciding ------------------------------------------------------------------------------

    def predict_top_k(self, X: Matrix, k: int = 5) -> Array:
        """The k classes or labels with the highest scores for every row, best first."""
        check_parameters(f"{self._owner}.predict_top_k", {"k": positive_integer}, {"k": k})
        scores = self.decision_function(X)
        if scores.ndim == 1:
            scores = np.column_stack([-scores, scores])
        if k > scores.shape[1]:
            raise ValueError(
                f"{self._owner}.predict_top_k: k must be at most the number of classes, "
                f"{scores.shape[1]}, got {k}."
            )
        best = np.argpartition(-scores, k - 1, axis=1)[:, :k]
        order = np.argsort(-np.take_along_axis(scores, best, axis=1), axis=1, kind="stable")
        return self.classes_[np.take_along_axis(best, order, axis=1)]

    def predict_proba(self, X: Matrix) -> Array:
        """Probability of each class (they sum to 1) or of each label, for every row.

        A score h stands for the probability f(h) = 1 + F'(h). Balanced sampling learns it as if
        half of all examples were of the class, so the odds are multiplied by the true ones.
        """
        scores = self.decision_function(X)
        p = LOSSES[self.loss].link(scores[:, None] if scores.ndim == 1 else scores)
        if self.sampling == "balanced":
            p = self._with_prior(p)
        if self.multilabel_:
            return p
        if scores.ndim == 1:
            return np.column_stack([1.0 - p, p])
        total = p.sum(axis=1, keepdims=True)
        even = p.dtype.type(1.0 / p.shape[1])
        return np.where(total > 0, p / np.where(total > 0, total, 1), even)

    def _with_prior(self, p: Array) -> Array:
        ours, others = self.class_counts_.T
        # Where negatives are the minority, all examples of both sides were used.
        odds = np.clip(ours / np.maximum(others, 1e-12), 1e-12, 1.0).astype(p.dtype)
        return p * odds / (p * odds + (1 - p))

    # -- state ---------------------------------------------------------------------------------

    def _merged_state(self, parts: Sequence[Self]) -> State:
        counts = sum(part.class_counts_ - self.class_counts_ for part in parts)
        return {**super()._merged_state(parts), "class_counts_": self.class_counts_ + counts}

    def _shapes(self) -> dict[str, tuple[int, ...]]:
        n = n_weight_vectors(len(self.classes_), self.multilabel_)
        w = (n, self.n_features_in_ + self.fit_intercept)
        return {"w_": w, "moment_": w if self.average else (0, 0), "class_counts_": (n, 2)}
