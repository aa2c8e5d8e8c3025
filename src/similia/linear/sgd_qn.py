"""SGD-QN: stochastic gradient with a diagonal quasi-Newton scaling, to be compared with."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np

from similia.contract import Array
from similia.linalg.blocks import dense, row_blocks, rows_of, squared
from similia.linear.hessian import augmented, sampled_rows
from similia.linear.schedules import uncoded
from similia.linear.sgd import SAMPLES
from similia.linear.stochastic import StochasticOneVsRest, Task
from similia.losses import LOSSES
from similia.updates.sgd_qn import sgd_qn_pass
from similia.validation import moderate, one_of, positive_integer


@dataclass
class Run:
    """A task of which every pass changes the weights themselves."""

    task: Task


class SGDQN(StochasticOneVsRest):
    """Linear classifier learnt by gradient steps with a gain for each feature, measured on the way.

        w -= y F'(y wᵀx) B x,   1/B_i += skip·r_i every `skip` examples              [Bordes2010]

    r_i is the change of the gradient's entry i over that of w_i, between λ and 100 λ, on an example
    after one of the steps; so steps shrink with the sum of the curvatures met.

    Parameters
    ----------
    loss : {"logistic", "hinge", "squared"}
        F: ln(1 + e⁻ˣ), max(0, -x) - ln(2 + |x|), or ¼(1 - x)².
    alpha : positive number
        λ, weight of ½|w|² beside the mean loss, and the least curvature. Larger lets steps shrink
        sooner.
    skip : int
        Examples between two changes of the gains.
    sampling : {"full", "balanced"}
        Learn from every example, or from all of a class and as many others, drawn anew for each
        pass.
    eta : "auto" or positive number
        Gain at the start. "auto" is the one at which η F''(0)|x|² is 1 in the mean.
    fit_intercept : bool
    max_iter : int
        Most passes of `fit`.
    early_stopping : bool
        Hold examples out, stop when accuracy on them does not rise, and keep the best weights.
    validation_fraction : number between 0 and 1
        Share of the examples held out.
    n_iter_no_change : int
        Passes without a better accuracy after which to stop.
    warm_start : bool
        Let `fit` go on from the weights and gains learnt before.
    average : bool
        Decide with the mean of the states over the stream instead of the last one.
    random_state : int, RandomState or None
        Seed of orders and samples.
    verbose : bool
        Show a progress bar.

    Attributes
    ----------
    w_ : array of shape (1 or n_classes, n_features + fit_intercept)
        State after the last example, intercept last.
    B_ : array of the same shape
        Gains.
    v_ : array of the same shape
        Weights that the next gains are measured against.
    clock_ : array of shape (1 or n_classes, 2)
        Examples until the next change, and whether gains are due.
    coef_, intercept_ : arrays
        The weights in use: averaged or last.
    classes_ : array of shape (n_classes,)
    multilabel_ : bool
    class_counts_ : array of shape (1 or n_classes, 2)
        Positive and negative examples of each weight vector.
    n_iter_, n_seen_, n_updates_ : int
        Passes made, examples learnt from, and steps taken (over all weight vectors).

    Notes
    -----
    An example costs four operations for each feature and class; sparse rows are made dense, block
    by block. In a stream the gain at the start is taken from the first example.

    References
    ----------
    .. [Bordes2010] A. Bordes, L. Bottou, P. Gallinari, J. Chang, S. A. Smith, "Erratum: SGDQN is
       Less Careful than Expected", JMLR 11, 2010; of "SGD-QN: Careful Quasi-Newton Stochastic
       Gradient Descent", JMLR 10, 2009.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from similia import SGDQN
    >>> X, y = load_digits(return_X_y=True)
    >>> learner = SGDQN(random_state=0).fit(X[:1200] / 16, y[:1200])
    >>> bool(learner.score(X[1200:] / 16, y[1200:]) > 0.85)
    True
    """

    _rules: ClassVar = {
        **StochasticOneVsRest._rules,
        "alpha": moderate,
        "skip": positive_integer,
        "eta": one_of("auto") | moderate,
    }
    _state: ClassVar = (*StochasticOneVsRest._state, "B_", "v_", "clock_")

    def __init__(
        self,
        *,
        loss: str = "logistic",
        alpha: float = 1e-4,
        skip: int = 16,
        sampling: str = "full",
        eta: Any = "auto",
        fit_intercept: bool = True,
        max_iter: int = 5,
        early_stopping: bool = False,
        validation_fraction: float = 0.1,
        n_iter_no_change: int = 2,
        warm_start: bool = False,
        average: bool = False,
        random_state: Any = None,
        verbose: bool = False,
    ) -> None:
        self.loss = loss
        self.alpha = alpha
        self.skip = skip
        self.sampling = sampling
        self.eta = eta
        self.fit_intercept = fit_intercept
        self.max_iter = max_iter
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.n_iter_no_change = n_iter_no_change
        self.warm_start = warm_start
        self.average = average
        self.random_state = random_state
        self.verbose = verbose

    def _init_state(self) -> None:
        self.B_, self.v_ = np.zeros_like(self.w_), np.zeros_like(self.w_)
        self.clock_ = np.tile(np.array([self.skip, 0]), (len(self.w_), 1))

    def _start_gains(self, rows: Any) -> None:
        energy = float(squared(rows).sum(dtype=np.float64)) / rows.shape[0]
        gain = 1.0 / max(LOSSES[self.loss].steepest * energy, 1e-6)
        self.B_[:] = gain if isinstance(self.eta, str) else float(self.eta)

    def _start_passes(self, task: Task, rng: np.random.Generator) -> Run:
        self.B_, self.v_, self.clock_ = self.B_.copy(), self.v_.copy(), self.clock_.copy()
        if not self.B_.any():
            some = task.rows
            if len(some) > SAMPLES:
                some = rng.choice(some, size=SAMPLES, replace=False)
            self._start_gains(sampled_rows(task.X, some, self.fit_intercept))
        return Run(task)

    def _fit_pass(self, run: Run, number: int, rng: np.random.Generator) -> None:
        task, dtype, n = run.task, self.w_.dtype, len(run.task.rows)

        def learn(j: int, visits: Array) -> None:
            progress = np.arange(1, len(visits) + 1) * (n / max(len(visits), 1))
            times = (self.n_seen_ + progress).astype(dtype)
            for block in row_blocks(len(visits), self._block):
                places, signs = uncoded(visits[block], dtype)
                rows = task.rows[places]
                X = augmented(dense(rows_of(task.X, rows, dtype)), self.fit_intercept)
                self._learn_rows(j, X, signs, task.weights[rows], times[block])

        self._each_class(task, range(len(self.w_)), rng, learn, self.w_.shape[1])
        self.n_seen_ += n

    def _finish_passes(self, run: Run) -> None:
        self.w_, self.moment_ = self.w_.copy(), self.moment_.copy()

    def _stream_block(self, rows: Any, signs: Array, weights: Array) -> None:
        if not self.B_.any():
            self._start_gains(rows[:1])
        times = (self.n_seen_ + 1.0 + np.arange(rows.shape[0])).astype(self.w_.dtype)
        for j in range(len(self.w_)):
            self._learn_rows(j, dense(rows), signs[j], weights[j], times)

    def _learn_rows(self, j: int, X: Array, signs: Array, weights: Array, times: Array) -> None:
        moment = self.moment_[j] if self.average else np.zeros(0, self.w_.dtype)
        state = (self.w_[j], self.B_[j], self.v_[j], moment, self.clock_[j])
        rows = (np.ascontiguousarray(X), signs, np.ascontiguousarray(weights), times)
        sgd_qn_pass(*state, *rows, float(self.alpha), int(self.skip), LOSSES[self.loss].code)

    def _merged_state(self, parts: Sequence[Self]) -> dict[str, Any]:
        """Average weights and gains; the clocks are those of the part that has seen most."""
        merged = super()._merged_state(parts)
        pairs = list(zip(self._shares(parts), parts, strict=True))
        for name in ("B_", "v_"):
            mean = sum(share * getattr(part, name) for share, part in pairs)
            merged[name] = np.asarray(mean, dtype=self.w_.dtype)
        merged["clock_"] = max(parts, key=lambda part: part.n_seen_).clock_.copy()
        return {**merged, "class_counts_": self._merged_counts(parts)}

    def _shapes(self) -> dict[str, tuple[int, ...]]:
        shapes = super()._shapes()
        w = shapes["w_"]
        return {**shapes, "B_": w, "v_": w, "clock_": (w[0], 2)}
