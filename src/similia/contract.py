"""The contract of a learner, as types: what the rest of the library may ask of one.

Everything above the learners (search, promotion, streams, commands) is written against these
protocols and never against an algorithm.
"""

from typing import Any, ClassVar, Literal, Protocol, Self, TypeAlias, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

Array: TypeAlias = NDArray[Any]
#: a dense array or a CSR matrix
Matrix: TypeAlias = Array | sparse.csr_array | sparse.csr_matrix
#: row numbers: judgements, or the rows that they name
Indices: TypeAlias = NDArray[np.intp]
Geometry: TypeAlias = Literal["inner_product", "l2"]
#: learnt attributes by name
State: TypeAlias = dict[str, Any]

#: the precisions in which everything is learnt and scored
FLOATS = [np.float64, np.float32]


@runtime_checkable
class Scorer(Protocol):
    """Anything that scores items for queries; larger is closer."""

    def pairwise_score(self, Q: Matrix, Z: Matrix | None = None) -> Array:
        """Scores of all pairs of rows, of shape (n_queries, n_items)."""


@runtime_checkable
class Searchable(Protocol):
    """Anything that reduces ranking to vector search."""

    @property
    def geometry(self) -> Geometry:
        """Closeness of vectors: their inner product, or their Euclidean distance."""

    def query_vectors(self, Q: Matrix) -> Matrix:
        """Vectors to search with."""

    def item_vectors(self, Z: Matrix) -> Matrix:
        """Vectors to search among."""


@runtime_checkable
class Ranker(Scorer, Searchable, Protocol):
    """A scorer that reduces ranking to vector search."""


@runtime_checkable
class LearntRanker(Searchable, Protocol):
    """A learner with vectors, whose query matrix can be cached until it changes."""

    def query_matrix(self) -> Array | None:
        """Matrix that maps queries to their vectors; None if no matrix does."""

    def revision(self) -> object:
        """Token that changes whenever the learner changes."""

    def get_state(self) -> State:
        """Learnt attributes by name."""


class Stateful(Protocol):
    """A model whose learnt state is known by name: all that persistence needs."""

    n_seen_: int
    n_updates_: int

    def get_state(self) -> State:
        """Learnt attributes by name."""

    def __sklearn_is_fitted__(self) -> bool: ...

    def set_state(self, state: State) -> Self:
        """Replace the learnt attributes."""

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Parameters by name."""


class StreamLearner(Stateful, Protocol):
    """Any learner of a stream of judgements: `learns_from` says of what kind."""

    @property
    def learns_from(self) -> str:
        """Kind of judgement: "triplets", "pairs" or "labels"."""


class TripletLearner(Ranker, Stateful, Protocol):
    """Learns from triplets (query, better, worse)."""

    learns_from: ClassVar[Literal["triplets"]]

    def learn(self, X: Matrix, triplets: ArrayLike, *, items: Matrix | None = None) -> Self:
        """Learn in order; pieces equal the whole."""

    def begin(self, X: Matrix, items: Matrix | None = None) -> tuple[Matrix, Matrix]:
        """Start if nothing was learnt yet; return queries and items, checked."""

    def learn_checked(self, X: Matrix, Z: Matrix, triplets: Indices) -> None:
        """Learn triplets that need no further check, of vectors that `start` returned."""

    def margins(self, X: Matrix, Z: Matrix, triplets: Indices) -> Array:
        """Margins of such triplets."""

    def triplet_scores(
        self, X: Matrix, triplets: ArrayLike, *, items: Matrix | None = None
    ) -> Array:
        """Margins by which the better item of each triplet scores above the worse one."""

    def score(self, X: Matrix, triplets: ArrayLike, /, *, items: Matrix | None = None) -> float:
        """Share of triplets in the right order."""


class PairLearner(Ranker, Stateful, Protocol):
    """Learns from pairs of points and what is known of each pair."""

    learns_from: ClassVar[Literal["pairs"]]

    def learn(self, X: Matrix, pairs: ArrayLike, y: ArrayLike) -> Self:
        """Learn in order; pieces equal the whole."""

    def begin(self, X: Matrix) -> Matrix:
        """Check everything but judgements, and start if nothing was learnt yet."""

    def learn_checked(self, X: Matrix, pairs: Indices, y: ArrayLike) -> None:
        """Learn pairs of rows that a caller has checked."""

    def pairwise_distance(self, Q: Matrix, Z: Matrix | None = None) -> Array:
        """Distances of all pairs of rows."""

    def pair_scores(self, X: Matrix, pairs: ArrayLike) -> Array:
        """Scores of given pairs of rows; larger is closer."""

    def score(self, X: Matrix, pairs: ArrayLike, y: ArrayLike | None = None, /) -> float:
        """Share of judgements in the right order."""


class LabelLearner(Stateful, Protocol):
    """A classifier that learns from labelled rows, as scikit-learn has it."""

    learns_from: ClassVar[Literal["labels"]]
    classes_: Array

    def partial_fit(self, X: Matrix, y: ArrayLike, classes: ArrayLike | None = None) -> Self:
        """Learn in order; pieces equal the whole."""

    def predict(self, X: Matrix) -> Array:
        """Predicted class of each row."""


@runtime_checkable
class Posterior(Ranker, Protocol):
    """A ranker that knows how far to trust a score."""

    def triplet_scores(
        self,
        X: Matrix,
        triplets: ArrayLike,
        *,
        items: Matrix | None = None,
        return_std: Literal[True],
    ) -> tuple[Array, Array]:
        """Margins of triplets and their posterior standard deviations."""

    def sample_posterior(self, n_draws: int = 1, *, random_state: Any = None) -> Array:
        """Matrices drawn from the posterior."""

    def suggest(
        self,
        X: Matrix,
        candidates: ArrayLike,
        n_suggestions: int = 1,
        *,
        items: Matrix | None = None,
    ) -> Indices:
        """Rows of `candidates` whose answers would teach most, best first."""


#: any learner of a stream of judgements
AnyLearner: TypeAlias = TripletLearner | PairLearner | LabelLearner
