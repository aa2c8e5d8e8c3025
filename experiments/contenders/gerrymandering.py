"""Neighborhood gerrymandering, symmetric and asymmetric."""

from typing import Any

import numpy as np

from experiments.contenders.batch import Batch
from experiments.problems import Problem
from similia import NeighborhoodGerrymandering
from similia.neighbors.maps import Map, class_map, column_means


class Gerrymander(Batch):
    """Maps of queries and items, learnt from all training points.

    Where the problem has a database of its own, queries are learnt against its items. A named form
    holds points out to stop by unless it is told not to; without one the defaults pick both.
    """

    def __init__(self, problem: Problem, seed: int, **parameters: Any) -> None:
        super().__init__(problem, seed, **parameters)
        self.n_queries = problem.context.n_queries

    def learn_to(self, step: int) -> None:
        named = {"early_stopping": True} if "asymmetric" in self.parameters else {}
        parameters = {**named, **self.parameters}
        learner = NeighborhoodGerrymandering(random_state=self.seed, **parameters)
        n = self.n_queries
        if n:
            learner.fit(self.X[:n], self.y[:n], items=self.X[n:], item_labels=self.y[n:])
        else:
            learner.fit(self.X, self.y)
        self.learner = learner
        self.note = f"{learner.best_iter_} of {learner.n_iter_} epochs"

    def scorers(self) -> dict[str, Any]:
        return {"l2": self.learner}


class ClassRegression(Batch):
    """Ridge regression on the classes: one map for all points, or one for queries, one for items.

    It is where "from class regression" starts.
    """

    geometry = "l2"

    def __init__(self, problem: Problem, seed: int, *, tied: bool) -> None:
        super().__init__(problem, seed)
        self.n_queries, self.tied = problem.context.n_queries, tied

    def learn_to(self, step: int) -> None:
        n, n_classes = self.n_queries, int(self.y.max()) + 1
        sides = (slice(None),) * 2 if self.tied else (slice(0, n), slice(n, None))
        self.query_vectors, self.item_vectors = (
            Map(
                class_map(self.X[side], self.y[side], n_classes).astype(np.float32),
                column_means(self.X[side]),
            )
            for side in sides
        )

    def scorers(self) -> dict[str, Any]:
        return {"l2": self}
