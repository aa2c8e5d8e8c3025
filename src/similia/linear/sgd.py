"""SGD: the loop of SLND with plain gradient steps."""

from typing import ClassVar

import numpy as np

from similia.contract import Array, Matrix
from similia.linalg.blocks import squared
from similia.linear.examples import TrainingSplit
from similia.linear.frames import Scaling
from similia.linear.passes import Passes
from similia.linear.stochastic import StochasticOneVsRest
from similia.losses import LOSSES

#: most examples that the step size is estimated from
ENERGY_ROWS = 5000


class SGDOneVsRest(StochasticOneVsRest):
    """Linear classifier learnt by stochastic gradient steps, each class against the rest.

        w -= η y F'(y wᵀx) x

    Attributes
    ----------
    w_ : array of shape (1 or n_classes, n_features + fit_intercept)
        State after the last example, intercept last.
    coef_, intercept_ : arrays
        The weights in use: averaged or last.
    classes_ : array of shape (n_classes,)
        With several labels, the column numbers of y.
    energy_ : float
        Mean of |x|², the intercept's 1 included.
    multilabel_ : bool
    class_counts_ : array of shape (1 or n_classes, 2)
        Positive and negative examples of each weight vector.
    n_iter_, n_seen_, n_updates_ : int
        Passes made, examples learnt from, and steps taken (over all weight vectors).

    Notes
    -----
    An example costs four operations per non-zero entry and class, in matrix products over blocks.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from similia import SGDOneVsRest
    >>> X, y = load_digits(return_X_y=True)
    >>> learner = SGDOneVsRest(random_state=0).fit(X[:1200] / 16, y[:1200])
    >>> bool(learner.score(X[1200:] / 16, y[1200:]) > 0.85)
    True
    """

    _state: ClassVar = (*StochasticOneVsRest._state, "energy_")

    def _init_state(self) -> None:
        super()._init_state()
        self.energy_ = 0.0

    def _scaling(self, energy: float | Array) -> Scaling:
        """Plain steps, of a size that suits rows of this mean squared length."""
        d, eta = self.w_.shape[1], 1.0 / np.maximum(LOSSES[self.loss].steepest * energy, 1e-30)
        eta = eta if isinstance(self.eta, str) else float(self.eta)
        return Scaling(np.ones(d, self.w_.dtype), eta, float(d))

    def _scale(self, passes: Passes, rng: np.random.Generator) -> None:
        if not passes.number:
            self.energy_ = mean_energy(passes.split, rng)
            passes.rescale(self._scaling(self.energy_))

    def _learn_weighted(self, rows: Matrix, signs: Array, weights: Array) -> None:
        norms2 = np.asarray(squared(rows).sum(axis=1)).ravel()
        n = self.n_seen_ + np.arange(1, len(norms2) + 1)
        energies = (self.n_seen_ * self.energy_ + np.cumsum(norms2, dtype=np.float64)) / n
        self._take_steps(rows, signs, weights, self._scaling(energies))
        self.energy_ = float(energies[-1])


def mean_energy(split: TrainingSplit, rng: np.random.Generator) -> float:
    """Mean of |x|² over at most `ENERGY_ROWS` rows of a split."""
    some = split.rows
    if len(some) > ENERGY_ROWS:
        some = rng.choice(some, size=ENERGY_ROWS, replace=False)
    return float(squared(split.examples.at(np.sort(some))).sum(dtype=np.float64)) / len(some)
