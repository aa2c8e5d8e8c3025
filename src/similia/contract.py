"""The contract of a learner, as types: what the rest of the library may ask of one.

Everything above the learners (search, promotion, streams, commands) is written against these
protocols and never against an algorithm. Whatever takes a `Side` may be handed one matrix or
several views; a learner of one matrix refuses views in words.
"""

from typing import Any, ClassVar, Literal, Protocol, Self, TypeAlias, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from similia.views import FLOATS as FLOATS
from similia.views import Array as Array
from similia.views import Matrix as Matrix
from similia.views import Side as Side

#: row numbers: judgements, or the rows that they name
Indices: TypeAlias = NDArray[np.intp]
Geometry: TypeAlias = Literal["inner_product", "l2"]
#: learnt attributes by name
State: TypeAlias = dict[str, Any]


class Revision:
    """Update counts plus the initial array; holding a reference prevents id reuse."""

    __slots__ = ("counts", "start")
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, counts: tuple[int, int, bool], start: Array) -> None:
        self.counts = counts
        self.start = start

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Revision)
            and self.counts == other.counts
            and self.start is other.start
        )


@runtime_checkable
class Scorer(Protocol):
    """Anything that scores items for queries; larger is closer."""

    def pairwise_score(self, Q: Side, Z: Side | None = None) -> Array:
        """Scores of all pairs of rows, of shape (n_queries, n_items)."""


@runtime_checkable
class Searchable(Protocol):
    """Anything that reduces ranking to vector search."""

    @property
    def geometry(self) -> Geometry:
        """Closeness of vectors: their inner product, or their Euclidean distance."""

    def query_vectors(self, Q: Side) -> Matrix:
        """Vectors to search with."""

    def item_vectors(self, Z: Side) -> Matrix:
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
    """Any learner of a stream of judgements, whose kind `learns_from` names."""

    @property
    def learns_from(self) -> str:
        """Kind of judgement: "triplets", "pairs" or "labels"."""

    @property
    def learns_lists(self) -> bool:
        """Whether a learner of triplets takes lists that were shown, too."""


class TripletLearner(Ranker, Stateful, Protocol):
    """Learns from triplets (query, better, worse)."""

    learns_from: ClassVar[Literal["triplets"]]
    learns_lists: ClassVar[bool]

    def learn(self, X: Side, triplets: ArrayLike, *, items: Side | None = None) -> Self:
        """Learn in order; pieces equal the whole."""

    def begin(self, X: Side, items: Side | None = None) -> tuple[Any, Any]:
        """Start if nothing was learnt yet; return queries and items, checked."""

    def learn_checked(self, X: Any, Z: Any, triplets: Any) -> None:
        """Learn triplets that need no further check, of vectors that `begin` returned.

        With `learns_lists`, also `Impressions`.
        """

    def margins(self, X: Any, Z: Any, triplets: Indices) -> Array:
        """Margins of such triplets."""

    def triplet_scores(self, X: Side, triplets: ArrayLike, *, items: Side | None = None) -> Array:
        """Margins by which the better item of each triplet scores above the worse one."""

    def score(self, X: Side, triplets: ArrayLike, /, *, items: Side | None = None) -> float:
        """Share of triplets in the right order."""


class PairLearner(Ranker, Stateful, Protocol):
    """Learns from pairs of points and what is known of each pair."""

    learns_from: ClassVar[Literal["pairs"]]
    learns_lists: ClassVar[bool]

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
    """A classifier with scikit-learn's interface, learnt from labelled rows."""

    learns_from: ClassVar[Literal["labels"]]
    learns_lists: ClassVar[bool]
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
        X: Side,
        triplets: ArrayLike,
        *,
        items: Side | None = None,
        return_std: Literal[True],
    ) -> tuple[Array, Array]:
        """Margins of triplets and their posterior standard deviations."""

    def suggest(
        self,
        X: Side,
        candidates: ArrayLike,
        n_suggestions: int = 1,
        *,
        items: Side | None = None,
    ) -> Indices:
        """Rows of `candidates` whose answers would teach most, best first."""


@runtime_checkable
class SingleItems(Ranker, Protocol):
    """A ranker that knows of single items what no vector of a query says exactly."""

    def boosts(self, Q: Side, Z: Side | None = None) -> list[tuple[Array, Array]]:
        """Items of each query and what is added to their scores."""

    def triplet_scores(self, X: Side, triplets: ArrayLike, *, items: Side | None = None) -> Array:
        """Margins by which the better item of each triplet scores above the worse one."""


#: any learner of a stream of judgements
AnyLearner: TypeAlias = TripletLearner | PairLearner | LabelLearner
