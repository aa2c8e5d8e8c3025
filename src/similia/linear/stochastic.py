"""One-vs-rest classifiers by stochastic steps on a calibrated loss."""

from abc import abstractmethod
from typing import ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike

from similia.contract import Array, Matrix
from similia.linalg.threads import single_blas_thread
from similia.linear.base import LinearOneVsRest
from similia.linear.examples import Examples, TrainingSplit, balanced_kept, n_weight_vectors
from similia.linear.frames import SCHEDULES, Descent, Scaling, StepFrame
from similia.linear.passes import Passes
from similia.losses import LOSSES
from similia.parameters import parameter
from similia.progress import progress
from similia.safety.whole import all_or_nothing
from similia.validation import between, boolean, one_of, positive, positive_integer


class StochasticOneVsRest(LinearOneVsRest):
    """Passes over all examples or over balanced ones, early stopping, streams, probabilities.

    A subclass scales the steps, in `fit` (`_scale`) and in a stream (`_learn_weighted`).
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
        "for every example. SLND uses D^{-½}Pᵀx in place of x and, if balanced, 0.3 on average.",
    )
    schedule: str = parameter(
        default="auto",
        rule=one_of(*SCHEDULES),
        doc="How steps shrink: not at all; linearly to 0 at the end of the last pass; with the "
        '(square root of the) number of examples, beyond about one per dimension. "auto" is linear '
        'in `fit`, "sqrt" in a stream. "theorem" takes the step of SLND\'s Theorem 2, under which '
        "the risk falls at each visit that satisfies its assumption, and none at others; it reads "
        "all examples for every step: for small data.",
    )
    epsilon: float = parameter(
        default=0.5,
        rule=between(0, 1),
        doc='ε of Theorem 2, for the schedule "theorem"; ½ promises the largest decrease.',
    )
    early_stopping: bool = parameter(
        default=False,
        rule=boolean,
        doc="Stop when accuracy on held-out examples no longer rises, and keep the best weights.",
    )
    validation_fraction: float = parameter(
        default=0.1, rule=between(0, 1), doc="Share of the examples held out."
    )
    n_iter_no_change: int = parameter(
        default=2, rule=positive_integer, doc="Passes without improvement after which to stop."
    )
    warm_start: bool = parameter(
        default=False, rule=boolean, doc="Let `fit` continue from the weights learnt before."
    )

    _state: ClassVar = (*LinearOneVsRest._state, "multilabel_", "class_counts_", "seed_")
    _accepts_several_labels: ClassVar = True
    merges = False
    _why_not_merged = (
        "steps of a fixed schedule are too short for shares, and the mean of parts falls behind"
    )
    #: values of parameters that a stream cannot follow
    _fit_only: ClassVar[dict[str, object]] = {"schedule": "theorem"}

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if self.schedule == "theorem" and self.average:
            raise ValueError(
                f"{self._owner}: average must be False with schedule='theorem', got True."
            )

    def _init_state(self) -> None:
        self.class_counts_ = np.zeros((len(self.w_), 2))
        self.seed_ = int(self._rng().integers(2**31))

    def _descent(self, total: int | None = None) -> Descent:
        """Steps over `total` examples, or in an endless stream."""
        ending, endless = SCHEDULES[self.schedule]
        return Descent(
            loss=LOSSES[self.loss],
            shrinking=endless if total is None else ending,
            total=total or 1,
            bounded=isinstance(self.eta, str),
            balanced=self.sampling == "balanced",
            epsilon=self.epsilon if self.schedule == "theorem" else None,
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
            How often each row counts: 2 is as two of it, ½ halves its step, 0 leaves it out.
        """
        self._check_parameters()
        continues = self.warm_start and self.__sklearn_is_fitted__()
        with all_or_nothing(self), single_blas_thread():
            examples = self._begun("fit", X, y, sample_weight, first=not continues)
            examples = examples.repeated(f"{self._owner}.fit", in_order=False)
            rng = self._rng()
            self._run(self._passes(self._split(examples, rng), rng), rng)
        return self

    def _split(self, examples: Examples, rng: np.random.Generator) -> TrainingSplit:
        rows, held_out = np.arange(len(examples)), np.arange(0)
        if self.sampling == "balanced":  # neighbours are visited together: see `paired_visits`
            rows = rng.permutation(rows)
        if self._needs_held_out():
            n = min(max(1, round(self.validation_fraction * len(rows))), len(rows) - 1)
            chosen = np.zeros(len(rows), dtype=bool)
            chosen[rng.permutation(len(rows))[:n]] = True
            rows, held_out = rows[~chosen], np.sort(rows[chosen])
        return TrainingSplit(examples, rows, held_out)

    def _needs_held_out(self) -> bool:
        return self.early_stopping

    def _passes(self, split: TrainingSplit, rng: np.random.Generator) -> Passes:
        """Passes from the present weights; they may learn from the rows held out as well."""
        descent = self._descent(self.max_iter * len(split.rows))
        return Passes(split, descent, self.w_, self.moment_, self.n_seen_)

    @abstractmethod
    def _scale(self, passes: Passes, rng: np.random.Generator) -> None:
        """Scale the steps of the first pass; rescale those of a later one if need be."""

    def _run(self, passes: Passes, rng: np.random.Generator) -> None:
        positive, n = passes.split.counts, len(passes.split.rows)
        self.class_counts_ = self.class_counts_ + np.stack([positive, n - positive], axis=1)
        best, since, kept = -1.0, 0, (self.w_, self.moment_)
        with progress(self._owner, self.max_iter * n, enabled=self.verbose) as advance:
            for _ in range(self.max_iter):
                self._scale(passes, rng)
                self.n_updates_ += passes.make(rng)
                self.n_seen_ += n
                self.n_iter_ += 1
                advance(n)
                if not self.early_stopping:
                    continue
                self.w_, self.moment_ = passes.state()
                accuracy = passes.split.accuracy(self._scoring_state())
                since = 0 if accuracy > best else since + 1
                if since == 0:
                    # In units of the time it was judged at, so the average stays what it was.
                    best, kept = accuracy, (self.w_, self.moment_ / (self.n_seen_ + 1))
                if since >= self.n_iter_no_change:
                    break
        if self.early_stopping:
            w, gap = kept
            self.w_, self.moment_ = w, (gap * (self.n_seen_ + 1)).astype(w.dtype, copy=False)
        else:
            self.w_, self.moment_ = passes.state()

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
            How often each row counts, as in `fit`.
        """
        self._check_parameters()
        for name, value in self._fit_only.items():
            if getattr(self, name) == value:
                raise ValueError(
                    f"{self._owner}.partial_fit: {name} must be other than {value!r} in a stream, "
                    "which never has all examples at hand; use fit."
                )
        return self._continue(X, y, classes, sample_weight)

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
        every, t = slice(None), self.n_seen_ + np.arange(rows.shape[0])
        frame = StepFrame(every, scaling, self._descent(), self.w_, self.average)
        if frame.size:
            frame.learn(*frame.coordinates(rows, every), signs, weights, t, t + 1, every)
            frame.add_to(self.w_, self.moment_)

    # -- deciding ------------------------------------------------------------------------------

    def predict_top_k(self, X: Matrix, k: int = 5) -> Array:
        """The k classes or labels with the highest scores for every row, best first."""
        scores, n = self.decision_function(X), len(self.classes_)
        if not positive_integer.holds(k) or k > n:
            raise ValueError(
                f"{self._owner}.predict_top_k: k must be a positive integer, at most the number of "
                f"classes, {n}, got {k!r}."
            )
        losses = -scores if scores.ndim == 2 else np.column_stack([scores, -scores])
        best = np.argpartition(losses, k - 1, axis=1)[:, :k]
        order = np.argsort(np.take_along_axis(losses, best, axis=1), axis=1, kind="stable")
        return self.classes_[np.take_along_axis(best, order, axis=1)]

    def predict_proba(self, X: Matrix) -> Array:
        """Probability of each class (they sum to 1) or of each label, for every row.

        A score h stands for the probability f(h) = 1 + F'(h). Balanced sampling learns it as if
        half of all examples were of the class, so the odds are multiplied by the true ones.
        """
        scores = self.decision_function(X)
        p = LOSSES[self.loss].link(scores[:, None] if scores.ndim == 1 else scores)
        if self.sampling == "balanced":
            ours, others = self.class_counts_.T
            # Where negatives are the minority, all examples of both sides were used.
            odds = np.clip(ours / np.maximum(others, 1e-12), 1e-12, 1.0).astype(p.dtype)
            p = p * odds / (p * odds + (1 - p))
        if self.multilabel_:
            return p
        if scores.ndim == 1:
            return np.column_stack([1.0 - p, p])
        total = p.sum(axis=1, keepdims=True)
        return np.divide(p, total, out=np.full_like(p, 1.0 / p.shape[1]), where=total > 0)

    # -- state ---------------------------------------------------------------------------------

    def _shapes(self) -> dict[str, tuple[int, ...]]:
        n = n_weight_vectors(len(self.classes_), self.multilabel_)
        w = (n, self.n_features_in_ + self.fit_intercept)
        return {"w_": w, "moment_": w if self.average else (0, 0), "class_counts_": (n, 2)}
