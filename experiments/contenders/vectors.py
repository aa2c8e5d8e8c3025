"""Vectors: what is learnt as a linear map, and nothing learnt."""

from typing import Any

import numpy as np

from experiments.problems import Problem


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
    """Score a metric by squared distance, and by the inner product xᵀAz that AROMA ranks by."""
    return {geometry: Vectors(geometry, components) for geometry in ("l2", "inner_product")}


class Identity:
    """W = I, which the papers call Euclidean; nothing is learnt."""

    stepwise = False
    note = ""

    def __init__(self, problem: Problem, seed: int) -> None:
        pass

    def learn_to(self, step: int) -> None:
        pass

    def scorers(self) -> dict[str, Any]:
        return both_scores()
