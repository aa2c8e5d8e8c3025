"""Contenders that embed objects, given triplets (a, b, c): a is more like b than like c.

Each hands over squared distances between all objects.
"""

import warnings
from abc import abstractmethod
from typing import Any

import numpy as np
import sklearn
from scipy.optimize import minimize
from scipy.special import expit
from sklearn.exceptions import ConvergenceWarning
from sklearn.manifold import MDS

from experiments.contenders.kernels import squared_distances
from experiments.contenders.triplet_constraints import TripletConstraints, weighted_sum
from experiments.problems import Problem
from similia import MEG, DefiniteBoost


class Embedding:
    """What they share: all triplets at once."""

    stepwise = False
    note = ""

    def __init__(self, problem: Problem, seed: int, **parameters: Any) -> None:
        self.triplets, self.features, self.seed = problem.X_train, problem.context, seed
        self.n_objects = len(self.features)
        self.parameters = parameters

    def learn_to(self, step: int) -> None:
        self.distances = self._distances(**self.parameters)

    @abstractmethod
    def _distances(self, **parameters: Any) -> Any:
        """Squared distances between all objects."""


class ByFeatures(Embedding):
    """Cosine of the features; nothing is learnt."""

    def _distances(self) -> Any:
        return squared_distances(cosines(self.features))


class ByMEG(Embedding):
    """MEG, a kernel of trace one with d(a, c)² - d(a, b)² ≥ margin/n: a squared hinge loss.

    An instance is the mean over those triplets of a block that do not have the margin yet.
    """

    def _distances(self, *, eta: float, margin: float, passes: int = 4, blocks: int = 25) -> Any:
        n, rng = self.n_objects, np.random.default_rng(self.seed)
        wanted = margin / n
        learner, squares = MEG(eta=eta, trace=1.0), np.zeros((n, n))
        for _ in range(passes):
            for block in np.array_split(rng.permutation(self.triplets), blocks):
                a, b, c = block.T
                short = block[squares[a, c] - squares[a, b] < wanted]
                if len(short):
                    mean = weighted_sum(short, np.full(len(short), 1.0 / len(short)), n)
                    learner.learn_matrices(-mean[None], [wanted])
                    squares = squared_distances(learner.K_)
        return squares


class ByDefiniteBoost(Embedding):
    """The kernel nearest to a start for which all groups of triplets have a margin on average.

    Single judgements are noisy, and thousands of them cannot all have a margin; means over groups
    more often can. The start is I/n, with a share of the centered cosines of the features.
    """

    def _distances(
        self, *, group: int, margin: float, features: float = 0.0, max_iter: int = 60
    ) -> Any:
        n = self.n_objects
        start = np.eye(n) / n
        if features:
            center = np.eye(n) - 1.0 / n
            kernel = center @ cosines(self.features) @ center
            start = (1.0 - features) * start + features * kernel / np.trace(kernel)
            start = 0.5 * (start + start.T)
        boost = DefiniteBoost(choice="all", nearest=False, max_iter=max_iter)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            boost.fit(TripletConstraints(self.triplets, n, margin / n, group), start=start)
        self.note = boost.status_
        return squared_distances(boost.W_)


class ByTSTE(Embedding):
    """t-STE: maximum likelihood under a heavy-tailed similarity of points, by L-BFGS.

    L. van der Maaten, K. Weinberger, "Stochastic triplet embedding", MLSP 2012, with
    α = dimensions - 1 as there.
    """

    def _distances(self, *, n_components: int, max_iter: int = 60) -> Any:
        rng, shape = np.random.default_rng(self.seed), (self.n_objects, n_components)

        def loss(flat: Any) -> tuple[float, Any]:
            value, slope = tste_loss(flat.reshape(shape), self.triplets)
            return value, slope.ravel()

        start = 0.1 * rng.normal(size=shape)
        found = minimize(
            loss, start.ravel(), jac=True, method="L-BFGS-B", options={"maxiter": max_iter}
        )
        Y = found.x.reshape(shape)
        return squared_distances(Y @ Y.T)


class ByMDS(Embedding):
    """Non-metric MDS of scikit-learn, on how often a pair was the less alike one.

    The share is drawn towards one half by `prior` imagined answers, for pairs seldom asked about.
    Needs scikit-learn 1.8 or later, where its start can be that of classical scaling.
    """

    note = f"scikit-learn {sklearn.__version__}"

    def _distances(self, *, n_components: int, prior: float) -> Any:
        given = shares_of_unlike(self.triplets, self.n_objects, prior)
        scaling = MDS(
            n_components,
            metric_mds=False,
            metric="precomputed",
            init="classical_mds",
            n_init=1,
            max_iter=100,
            random_state=self.seed,
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            Y = scaling.fit_transform(given)
        return squared_distances(Y @ Y.T)


def cosines(X: Any) -> Any:
    units = X / np.linalg.norm(X, axis=1)[:, None]
    return units @ units.T


def shares_of_unlike(triplets: Any, n: int, prior: float) -> Any:
    a, b, c = triplets.T
    unlike = np.bincount(a * n + c, minlength=n * n).reshape(n, n)
    alike = np.bincount(a * n + b, minlength=n * n).reshape(n, n)
    unlike, alike = unlike + unlike.T, alike + alike.T
    shares = (unlike + 0.5 * prior) / (unlike + alike + prior)
    np.fill_diagonal(shares, 0.0)
    return shares


def tste_loss(Y: Any, triplets: Any) -> tuple[float, Any]:
    """Mean of -log p(a, b, c) over triplets and its slope in the points Y."""
    a, b, c = triplets.T
    alpha = max(Y.shape[1] - 1.0, 1.0)
    power = 0.5 * (alpha + 1.0)
    to_b, to_c = Y[a] - Y[b], Y[a] - Y[c]
    near, far = (1.0 + (to**2).sum(axis=1) / alpha for to in (to_b, to_c))
    odds = power * (np.log(near) - np.log(far))  # log of (1 - p)/p
    weight = expit(odds) * power * 2.0 / alpha / len(triplets)
    by_b, by_c = (weight / near)[:, None] * to_b, (-weight / far)[:, None] * to_c
    slope = np.zeros_like(Y)
    for rows, change in ((a, by_b + by_c), (b, -by_b), (c, -by_c)):
        np.add.at(slope, rows, change)
    return float(np.logaddexp(0.0, odds).mean()), slope
