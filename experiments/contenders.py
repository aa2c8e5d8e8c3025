"""Contenders: name -> factory(problem, seed, **parameters).

A contender learns up to a step (or at once, if it knows no steps) and hands over scorers; it never
measures itself. All learners of triplets meet the same triplets for a seed, in the same order.
"""

from functools import partial
from typing import Any

import numpy as np
from scipy import sparse

from experiments.peers.call import fit_peer
from experiments.problems import Problem
from similia.registry import learner_class
from similia.sampling import PAIR_SAMPLERS, TRIPLET_SAMPLERS

CHUNK = 10_000


class Vectors:
    """A linear map and a geometry, as `similia.evaluate` takes them; no map is the identity."""

    def __init__(self, geometry: str, components: Any = None) -> None:
        self.geometry = geometry
        self.components = components

    def query_vectors(self, X: Any) -> Any:
        if self.components is None:
            return X
        return np.asarray(X @ self.components.T)

    item_vectors = query_vectors


def both_scores(components: Any = None) -> dict[str, Vectors]:
    """Score a metric by squared distance, and by the inner product xᵀAz that the paper ranks by."""
    return {geometry: Vectors(geometry, components) for geometry in ("l2", "inner_product")}


class Identity:
    """W = I, which the paper calls Euclidean; nothing is learnt."""

    stepwise = False
    note = ""

    def __init__(self, problem: Problem, seed: int) -> None:
        pass

    def learn_to(self, step: int) -> None:
        pass

    def scorers(self) -> dict[str, Any]:
        return both_scores()


class FromTriplets:
    """A learner of qᵀWp, fed with triplets drawn uniformly from labels."""

    stepwise = True
    note = ""
    sampler = staticmethod(TRIPLET_SAMPLERS["uniform"])

    def __init__(self, name: str, problem: Problem, seed: int, **parameters: Any) -> None:
        self.learner = learner_class(name)(**parameters)
        self.X = problem.X_train
        self.source = self.sampler(problem.y_train)
        self.seed = seed
        self.step = 0

    def learn_to(self, step: int) -> None:
        while self.step < step:
            chunk, start = divmod(self.step, CHUNK)
            stop = min(CHUNK, start + step - self.step)
            self._learn(self._drawn(chunk), slice(start, stop))
            self.step += stop - start

    def _drawn(self, chunk: int) -> Any:
        """Draw a chunk by its number: a stream that does not depend on how far it is followed."""
        return self.source.draw(CHUNK, np.random.default_rng([self.seed, chunk]))

    def _learn(self, triplets: Any, rows: slice) -> None:
        self.learner.learn(self.X, triplets[rows])

    def scorers(self) -> dict[str, Any]:
        return {"inner_product": self.learner}


class FromPairs(FromTriplets):
    """A learner of distances, fed with as many similar as dissimilar pairs."""

    sampler = staticmethod(PAIR_SAMPLERS["balanced"])

    def _learn(self, drawn: Any, rows: slice) -> None:
        pairs, signs = drawn
        self.learner.learn(self.X, pairs[rows], signs[rows])

    def scorers(self) -> dict[str, Any]:
        return both_scores(self.learner.components_)


class Peer:
    """A metric learner of another library, in an environment of its own, within a budget.

    Dense algorithms get `n_components` directions of largest variance around the origin (truncated
    SVD of the training part) and about `n_points` training points, as many of each class.
    """

    stepwise = False

    def __init__(
        self,
        name: str,
        problem: Problem,
        seed: int,
        *,
        n_components: int = 100,
        n_points: int = 1000,
        seconds: float = 120,
        **parameters: Any,
    ) -> None:
        self.name, self.seed = name, seed
        self.X, self.y = problem.X_train, problem.y_train
        self.budget = {"n_points": min(n_points, len(self.y)), "seconds": seconds}
        self.n_components = min(n_components, *np.array(self.X.shape) - 1)
        self.parameters = parameters
        self.note = f"{self.n_components} directions, {self.budget['n_points']} points"

    def learn_to(self, step: int) -> None:
        V = leading_directions(self.X, self.n_components, self.seed)
        rows = balanced_rows(self.y, self.budget["n_points"], self.seed)
        Z = np.asarray(self.X[rows] @ V.T, dtype=np.float64)
        limit = self.budget["seconds"]
        L = fit_peer(self.name, Z, self.y[rows], self.parameters, self.seed, limit)
        self.components = (L @ V).astype(self.X.dtype)

    def scorers(self) -> dict[str, Any]:
        return both_scores(self.components)


def balanced_rows(y: Any, n: int, seed: int) -> Any:
    """Draw about n points, as many of each class as there are, at random."""
    order = np.random.default_rng(seed).permutation(len(y))
    size = -(-n // len(np.unique(y)))
    return np.concatenate([order[y[order] == label][:size] for label in np.unique(y)])


def leading_directions(X: Any, n_components: int, seed: int) -> Any:
    """Give the first right singular vectors of X as rows."""
    rng = np.random.default_rng(seed)
    start = rng.standard_normal(min(X.shape)).astype(np.float64)
    _, _, V = sparse.linalg.svds(sparse.csr_array(X, dtype=np.float64), k=n_components, v0=start)
    return V[::-1]


CONTENDERS = {
    "identity": Identity,
    **{name: partial(FromTriplets, name) for name in ("DiagonalAROMA", "FactoredAROMA", "OASIS")},
    "LEGO": partial(FromPairs, "LEGO"),
    **{name: partial(Peer, name) for name in ("LMNN", "ITML_Supervised", "SCML_Supervised")},
}
