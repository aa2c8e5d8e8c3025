"""Contenders that take the training part at once."""

import warnings
from abc import abstractmethod
from typing import Any

import numpy as np
from scipy import linalg, sparse
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.exceptions import ConvergenceWarning
from sklearn.neighbors import NeighborhoodComponentsAnalysis

from experiments.contenders.vectors import both_scores
from experiments.peers.call import fit_peer, metric_learner
from experiments.problems import Problem
from similia import POLA


class Batch:
    """What is learnt once, from all training points: a linear map."""

    stepwise = False
    note = ""
    components: Any

    def __init__(self, problem: Problem, seed: int, **parameters: Any) -> None:
        self.X, self.y = problem.X_train, problem.y_train
        self.seed = seed
        self.parameters = parameters

    @abstractmethod
    def learn_to(self, step: int) -> None:
        """Learn from everything; a batch has one step."""

    def scorers(self) -> dict[str, Any]:
        return both_scores(self.components)


class PCA(Batch):
    """The directions of largest variance; labels are not used."""

    def learn_to(self, step: int) -> None:
        self.components = principal_directions(self.X, **self.parameters)


class FittedPOLA(Batch):
    """POLA by `fit`, as users meet it: it draws its pairs, and chooses how far to follow them."""

    def learn_to(self, step: int) -> None:
        learner = POLA(random_state=self.seed, **self.parameters).fit(self.X, self.y)
        self.components, self.note = learner.components_, f"share {learner.share_:g}"


class FDA(Batch):
    """Fisher's discriminant directions, one fewer than there are classes."""

    def learn_to(self, step: int) -> None:
        found = LinearDiscriminantAnalysis(**self.parameters).fit(self.X, self.y)
        n = len(found.classes_) - 1
        self.components = found.scalings_[:, :n].T.astype(self.X.dtype)


class Budgeted(Batch):
    """A dense algorithm, within a budget of directions and of points.

    It gets `n_components` directions of largest variance around the origin (truncated SVD of the
    training part) and about `n_points` training points, as many of each class.
    """

    def __init__(
        self,
        problem: Problem,
        seed: int,
        *,
        n_components: int = 100,
        n_points: int = 1000,
        **parameters: Any,
    ) -> None:
        super().__init__(problem, seed, **parameters)
        self.n_points = min(n_points, len(self.y))
        self.n_components = min(n_components, *np.array(self.X.shape) - 1)
        self.note = f"{self.n_components} directions, {self.n_points} points"

    def learn_to(self, step: int) -> None:
        V = leading_directions(self.X, self.n_components, self.seed)
        rows = balanced_rows(self.y, self.n_points, self.seed)
        Z = np.asarray(self.X[rows] @ V.T, dtype=np.float64)
        self.components = (self._fit(Z, self.y[rows]) @ V).astype(self.X.dtype)

    @abstractmethod
    def _fit(self, Z: Any, y: Any) -> Any:
        """Learnt map of the reduced points."""


class Peer(Budgeted):
    """A metric learner of another library, in an environment of its own, for so many seconds."""

    def __init__(
        self, name: str, problem: Problem, seed: int, *, seconds: float = 120, **parameters: Any
    ) -> None:
        super().__init__(problem, seed, **parameters)
        self.name, self.seconds = name, seconds
        metric_learner()  # starts its process, before the clock does

    def _fit(self, Z: Any, y: Any) -> Any:
        return fit_peer(self.name, Z, y, self.parameters, self.seed, self.seconds)


class NCA(Budgeted):
    """Neighborhood components analysis of scikit-learn.

    From Fisher's directions (`init="lda"`) it learns a map to one dimension fewer than classes.
    """

    def _fit(self, Z: Any, y: Any) -> Any:
        own = dict(self.parameters)
        if own.get("init") == "lda":
            own["n_components"] = min(Z.shape[1], len(np.unique(y)) - 1)
        learner = NeighborhoodComponentsAnalysis(random_state=self.seed, **own)
        with warnings.catch_warnings():
            # A budget of iterations is meant to end before convergence.
            warnings.simplefilter("ignore", ConvergenceWarning)
            return learner.fit(Z, y).components_


def balanced_rows(y: Any, n: int, seed: int) -> Any:
    """Draw about n points, as many of each class as there are, at random."""
    order = np.random.default_rng(seed).permutation(len(y))
    size = -(-n // len(np.unique(y)))
    return np.concatenate([order[y[order] == label][:size] for label in np.unique(y)])


def leading_directions(X: Any, n_components: int, seed: int) -> Any:
    """First right singular vectors of X as rows."""
    rng = np.random.default_rng(seed)
    start = rng.standard_normal(min(X.shape)).astype(np.float64)
    _, _, V = sparse.linalg.svds(sparse.csr_array(X, dtype=np.float64), k=n_components, v0=start)
    return V[::-1]


def principal_directions(X: Any, n_components: int) -> Any:
    """Eigenvectors of the largest eigenvalues of the covariance of dense X as rows."""
    d = X.shape[1]
    covariance = np.cov(X, rowvar=False, dtype=np.float64)
    _, vectors = linalg.eigh(covariance, subset_by_index=[d - n_components, d - 1])
    return vectors[:, ::-1].T.astype(X.dtype)
