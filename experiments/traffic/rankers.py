"""Rankers that learn from features of query and item: a linear bandit, and trees."""

import numpy as np

from experiments.peers.call import rank_lists
from experiments.traffic.clicks import Counts, log_rate
from experiments.traffic.fusion import min_max, reciprocal_ranks
from experiments.traffic.world import SHOWN, World
from similia.contract import Array, Indices

#: pseudo-clicks of the rates among the features
PRIOR = 1.0
#: searches between two trainings of LambdaMART
RETRAINED = 200
#: no score and no rate may count against an item, and no leaf is small
CAUTION = {"monotone_constraints": [1, 1, 0, 1, 1], "min_data_in_leaf": 50, "lambda_l2": 1.0}


class Features:
    """Both scores from 0 to 1, length, and click rates of the item and of it for the query."""

    n = 5

    def __init__(self, world: World) -> None:
        self.world, self.counts = world, Counts(world)
        self.views = [min_max(world, scores) for scores in (world.cosine, world.words)]

    def of_candidates(self, queries: Indices) -> Array:
        """Features of all candidates, (n_queries, 2 DEPTH, n)."""
        items = self.world.candidates[queries]
        found = [view[queries] for view in self.views]
        found.append(self.world.length[items])
        found.append(log_rate(self.counts.items, PRIOR)[items])
        found.append(log_rate(self.counts.pairs[:, queries], PRIOR))
        return np.stack(found, axis=2)

    def of_shown(self, queries: Indices, shown: Indices) -> Array:
        """Features of what was shown as they are now, (n_queries, SHOWN, n)."""
        slots = self.world.slots(queries, shown)
        return np.take_along_axis(self.of_candidates(queries), slots[:, :, None], axis=1)


class LinUCB:
    """Ridge regression of clicks on features, one and log place, with an upper bound.

    It starts from the sum of both scores, a quarter each.
    """

    def __init__(self, world: World, alpha: float, ridge: float) -> None:
        self.world, self.alpha, self.features = world, alpha, Features(world)
        self.A = ridge * np.eye(Features.n + 2)
        self.b = ridge * np.array([0.25, 0.25, *[0.0] * Features.n])

    def first(self, queries: Indices) -> Indices:
        X = self.features.of_candidates(queries)
        X = np.concatenate([X, np.ones((*X.shape[:2], 1)), np.zeros((*X.shape[:2], 1))], axis=2)
        inverse = np.linalg.inv(self.A)
        width = np.einsum("qif,qif->qi", X @ inverse, X)
        return self.world.best(queries, X @ (inverse @ self.b) + self.alpha * np.sqrt(width))

    def learn(self, queries: Indices, shown: Indices, clicks: Array) -> None:
        X = self.features.of_shown(queries, shown).reshape(-1, Features.n)
        place = np.tile(np.log(np.arange(1.0, SHOWN + 1)), len(queries))
        X = np.column_stack([X, np.ones(len(X)), place])
        self.A += X.T @ X
        self.b += X.T @ clicks.ravel()
        self.features.counts.add(queries, shown, clicks)


class LambdaMART:
    """LightGBM's lambdarank with its correction of position bias, trained anew every 200 searches.

    It runs in the environment of the peers; until the first training it ranks by RRF.
    """

    def __init__(self, world: World, **parameters: float) -> None:
        self.world, self.features = world, Features(world)
        self.parameters = {**CAUTION, **parameters}
        self.lists: list[Array] = []
        self.clicks: list[Array] = []
        self.fused, self.trained_on, self.learnt = reciprocal_ranks(world), 0, 0

    def first(self, queries: Indices) -> Indices:
        due = self.learnt - self.learnt % RETRAINED
        if not due:
            return self.world.best(queries, self.fused[queries])
        X = self.features.of_candidates(queries)
        arrays = {"others": X.reshape(-1, Features.n)}
        if self.trained_on != due:
            self.trained_on = due
            arrays |= {
                "X": np.concatenate(self.lists)[: due * SHOWN],
                "y": np.concatenate(self.clicks)[: due * SHOWN],
                "sizes": np.full(due, SHOWN),
                "places": np.tile(np.arange(SHOWN), due),
            }
        scores = rank_lists(arrays, self.parameters)
        return self.world.best(queries, scores.reshape(X.shape[:2]))

    def learn(self, queries: Indices, shown: Indices, clicks: Array) -> None:
        self.lists.append(self.features.of_shown(queries, shown).reshape(-1, Features.n))
        self.clicks.append(clicks.ravel().astype(np.int64))
        self.learnt += len(queries)
        self.features.counts.add(queries, shown, clicks)
