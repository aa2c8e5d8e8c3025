"""Contenders that are fed with tuples drawn from labels, one after another."""

import warnings
from typing import Any

import numpy as np
from scipy import linalg, sparse
from sklearn.exceptions import ConvergenceWarning

from experiments.contenders.batch import principal_directions
from experiments.contenders.vectors import Vectors, both_scores
from experiments.problems import Problem
from similia import POLA
from similia.feedback.sampling import PAIR_SAMPLERS, TRIPLET_SAMPLERS
from similia.linalg.spectral import psd_factor
from similia.registry import learner_class

CHUNK = 10_000


class AllPairs:
    """Every pair of two points once, in random order, and again if more are asked for."""

    def __init__(self, y: Any) -> None:
        self.y = np.asarray(y)

    def draw(self, n: int, rng: np.random.Generator) -> tuple[Any, Any]:
        every = np.column_stack(np.triu_indices(len(self.y), 1))
        pairs = every[np.resize(rng.permutation(len(every)), n)]
        return pairs, np.where(self.y[pairs[:, 0]] == self.y[pairs[:, 1]], 1, -1)


PAIRS = {**PAIR_SAMPLERS, "all": AllPairs}


class Stream:
    """Tuples of training points, the same for a seed however far they are followed.

    Without a pool no tuple is drawn twice on purpose; with one, its first `pool` tuples come again
    and again, which makes `step / pool` passes.
    """

    stepwise = True
    note = ""

    def __init__(self, problem: Problem, source: Any, seed: int, pool: int = 0) -> None:
        self.X = problem.X_train
        self.source, self.seed, self.pool = source, seed, pool
        self.step = 0

    def learn_to(self, step: int) -> None:
        size = self.pool or CHUNK
        while self.step < step:
            chunk, start = divmod(self.step, size)
            stop = min(size, start + step - self.step)
            self._learn(self._drawn(0 if self.pool else chunk), slice(start, stop))
            self.step += stop - start

    def _drawn(self, chunk: int) -> Any:
        """Draw a chunk by its number: a stream that does not depend on how far it is followed."""
        return self.source.draw(max(self.pool, CHUNK), np.random.default_rng([self.seed, chunk]))


class FromTriplets(Stream):
    """A learner of qᵀWp, fed with triplets drawn uniformly from labels."""

    def __init__(self, name: str, problem: Problem, seed: int, **parameters: Any) -> None:
        super().__init__(problem, TRIPLET_SAMPLERS["uniform"](problem.y_train), seed)
        self.learner = learner_class(name)(**parameters)

    def _learn(self, triplets: Any, rows: slice) -> None:
        self.learner.learn(self.X, triplets[rows])

    def scorers(self) -> dict[str, Any]:
        return {"inner_product": self.learner}


class FromPairs(Stream):
    """A learner of distances, fed with pairs: as many similar as dissimilar ones, or uniform."""

    def __init__(
        self,
        name: str,
        problem: Problem,
        seed: int,
        *,
        pairs: str = "balanced",
        pool: int = 0,
        **parameters: Any,
    ) -> None:
        super().__init__(problem, PAIRS[pairs](problem.y_train), seed, pool)
        self.learner = learner_class(name)(**parameters)

    def _learn(self, drawn: Any, rows: slice) -> None:
        pairs, signs = drawn
        self.learner.learn(self.X, pairs[rows], signs[rows])

    def scorers(self) -> dict[str, Any]:
        return both_scores(self.learner.components_)


class PseudoMetric(FromPairs):
    """A learner whose last and whose average matrix are both measured, whole and in few directions.

    `directions` lists how many of the leading eigenvectors to keep, beside all.
    """

    def __init__(
        self,
        name: str,
        problem: Problem,
        seed: int,
        *,
        directions: tuple[int, ...] = (),
        **parameters: Any,
    ) -> None:
        super().__init__(name, problem, seed, average=True, **parameters)
        self.directions = directions

    def scorers(self) -> dict[str, Any]:
        found = {}
        states = {"last": self.learner.A_, "average": self.learner.A_average_}
        for state, A in states.items():
            L = psd_factor(A)
            found[state] = Vectors("l2", L)
            for n in self.directions:
                found[f"{state}, {n} leading"] = Vectors("l2", L[:n])
        return found


class RCA(Stream):
    """Relevant component analysis: whiten what varies among points that are known to be alike.

    Chunklets are the connected components of the similar pairs; A is the inverse of the mean
    covariance within them. In the directions in which that is singular A is zero (a
    pseudo-inverse), unless `n_components` principal directions are kept before.

    N. Shental, T. Hertz, D. Weinshall, M. Pavel, "Adjustment Learning and Relevant Component
    Analysis", ECCV 2002.
    """

    def __init__(
        self,
        problem: Problem,
        seed: int,
        *,
        n_components: int | None = None,
        pairs: str = "uniform",
    ) -> None:
        super().__init__(problem, PAIRS[pairs](problem.y_train), seed)
        self.n_components = n_components
        self.similar = np.zeros((0, 2), dtype=np.intp)

    def learn_to(self, step: int) -> None:
        super().learn_to(step)
        if self.n_components is None:
            self.components = rca_factor(self.X, self.similar)
        else:
            V = principal_directions(self.X, self.n_components)
            self.components = rca_factor(self.X @ V.T, self.similar) @ V

    def _learn(self, drawn: Any, rows: slice) -> None:
        pairs, signs = drawn
        self.similar = np.concatenate([self.similar, pairs[rows][signs[rows] > 0]])

    def scorers(self) -> dict[str, Any]:
        return both_scores(self.components)


def rca_factor(X: Any, similar: Any) -> Any:
    """L with LᵀL the pseudo-inverse of the mean covariance within chunklets."""
    n = len(X)
    graph = sparse.coo_array((np.ones(len(similar)), similar.T), shape=(n, n))
    chunklet = sparse.csgraph.connected_components(graph, directed=False)[1]
    sizes = np.bincount(chunklet)
    member = np.flatnonzero(sizes[chunklet] > 1)
    order, place = np.unique(chunklet[member], return_inverse=True)
    Z = np.asarray(X[member], dtype=np.float64)
    means = np.zeros((len(order), Z.shape[1]))
    np.add.at(means, place, Z)
    Z -= (means / sizes[order][:, None])[place]
    values, vectors = linalg.eigh(Z.T @ Z / max(len(Z), 1))
    kept = values > 1e-9 * values[-1]
    return (vectors[:, kept] / np.sqrt(values[kept])).T


class RepeatedPairs(Stream):
    """POLA over the same pairs again and again, until none loses more than `beta`."""

    stepwise = False

    def __init__(self, problem: Problem, seed: int, *, n_pairs: int, **parameters: Any) -> None:
        super().__init__(problem, PAIRS["uniform"](problem.y_train), seed)
        self.n_pairs, self.learner = n_pairs, POLA(average=True, **parameters)

    def learn_to(self, step: int) -> None:
        pairs, signs = (values[: self.n_pairs] for values in self._drawn(0))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # the note says how far it came
            self.learner.fit_pairs(self.X, pairs, signs)
        learner = self.learner
        self.note = f"{learner.n_passes_} passes, largest loss {learner.largest_loss_:.2g}"

    def scorers(self) -> dict[str, Any]:
        states = {"last": self.learner.A_, "average": self.learner.A_average_}
        return {name: Vectors("l2", psd_factor(A)) for name, A in states.items()}
