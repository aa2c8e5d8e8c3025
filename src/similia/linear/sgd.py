"""SGD: the loop of SLND without a Hessian, to be compared with."""

from collections.abc import Sequence
from typing import Any, ClassVar, Self

import numpy as np

from similia.contract import Array
from similia.linalg.blocks import squared
from similia.linear.framed import FramedOneVsRest
from similia.linear.hessian import sampled_rows
from similia.linear.stochastic import Task
from similia.losses import LOSSES

#: most examples that the length of a step is taken from
SAMPLES = 5000


class SGDOneVsRest(FramedOneVsRest):
    """Linear classifier learnt by stochastic gradient steps, each class against the rest.

        w -= η y F'(y wᵀx) x

    Parameters
    ----------
    loss : {"logistic", "hinge", "squared"}
        F: ln(1 + e⁻ˣ), max(0, -x) - ln(2 + |x|), or ¼(1 - x)².
    sampling : {"full", "balanced"}
        Learn from every example, or from all of a class and as many others, drawn anew for each
        pass.
    eta : "auto" or positive number
        Step size at the start. "auto" is the one at which η F''(0)|x|² is 1 in the mean, and for no
        example is it larger.
    schedule : {"auto", "constant", "linear", "sqrt", "inverse", "theorem"}
        As of `SLNDClassifier`, with the number of features for k.
    epsilon : number between 0 and 1
        ε of the schedule "theorem".
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
        Let `fit` go on from the weights learnt before.
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
    coef_, intercept_ : arrays
        The weights in use: averaged or last.
    classes_ : array of shape (n_classes,)
    energy_ : float
        Mean of |x|², the intercept's 1 included.
    multilabel_ : bool
    class_counts_ : array of shape (1 or n_classes, 2)
        Positive and negative examples of each weight vector.
    n_iter_, n_seen_, n_updates_ : int
        Passes made, examples learnt from, and steps taken (over all weight vectors).

    Notes
    -----
    An example costs four operations for each non-zero entry and class, in matrix products over
    blocks.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from similia import SGDOneVsRest
    >>> X, y = load_digits(return_X_y=True)
    >>> learner = SGDOneVsRest(random_state=0).fit(X[:1200] / 16, y[:1200])
    >>> bool(learner.score(X[1200:] / 16, y[1200:]) > 0.85)
    True
    """

    _state: ClassVar = (*FramedOneVsRest._state, "energy_")

    def __init__(
        self,
        *,
        loss: str = "logistic",
        sampling: str = "full",
        eta: Any = "auto",
        schedule: str = "auto",
        epsilon: float = 0.5,
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
        self.sampling = sampling
        self.eta = eta
        self.schedule = schedule
        self.epsilon = epsilon
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
        self.energy_ = 0.0

    def _step(self, energy: Any) -> Any:
        if not isinstance(self.eta, str):
            return float(self.eta)
        return 1.0 / np.maximum(LOSSES[self.loss].steepest * energy, 1e-30)

    def _scales(
        self, task: Task, number: int, rng: np.random.Generator
    ) -> list[tuple[range, Array, float, float]] | None:
        if number:
            return None
        some = task.rows
        if len(some) > SAMPLES:
            some = rng.choice(some, size=SAMPLES, replace=False)
        rows = sampled_rows(task.X, some, self.fit_intercept)
        self.energy_ = float(squared(rows).sum(dtype=np.float64)) / len(some)
        d = self.w_.shape[1]
        every = range(task.labels.n_rows)
        return [(every, np.ones(d, self.w_.dtype), float(self._step(self.energy_)), float(d))]

    def _stream_block(self, rows: Any, signs: Array, weights: Array) -> None:
        norms2 = np.asarray(squared(rows).sum(axis=1)).ravel()
        n, d = self.n_seen_ + np.arange(1, len(norms2) + 1), self.w_.shape[1]
        energies = (self.n_seen_ * self.energy_ + np.cumsum(norms2, dtype=np.float64)) / n
        scale = np.ones(d, self.w_.dtype)
        self._stream_steps(rows, signs, weights, scale, self._step(energies), float(d))
        self.energy_ = float(energies[-1])

    def _merged_state(self, parts: Sequence[Self]) -> dict[str, Any]:
        shares = self._shares(parts)
        energy = sum(s * part.energy_ for s, part in zip(shares, parts, strict=True))
        return {
            **super()._merged_state(parts),
            "energy_": float(energy),
            "class_counts_": self._merged_counts(parts),
        }
