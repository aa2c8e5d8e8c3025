"""How well any similarity agrees with judgements, query by query."""

import hashlib
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from similia.contract import (
    Array,
    Indices,
    PairLearner,
    Searchable,
    Side,
    SingleItems,
    TripletLearner,
)
from similia.linalg.blocks import dense, row_blocks
from similia.retrieval import Evaluation
from similia.retrieval.scorers import PLAIN_SCORERS
from similia.retrieval.vectors import floating, is_sparse, squared_lengths
from similia.safety.bounds import check_entries
from similia.safety.turns import of_one_state
from similia.stored import StoredRows, at_hand
from similia.validation import (
    check_parameters,
    check_tuples,
    checked_matrix,
    one_of,
    tuple_array,
)
from similia.views import Views

#: learners that rank
RankingLearner: TypeAlias = TripletLearner | PairLearner
#: the measure of triplets: share of them in the right order, ties counting half
ACCURACY = "pairwise_accuracy"
#: columns of judgements, and whether they come with y
_FORMS = {"triplets": (3, "without"), "pairs": (2, "with")}
#: judgements whose vectors are in memory at once
MARGIN_BLOCK = 1024


def ranker_of(owner: str, scorer: Searchable | str) -> Searchable:
    """Return the scorer, or the plain similarity of that name; raise unless it ranks."""
    if isinstance(scorer, str):
        check_parameters(owner, {"scorer": one_of(*PLAIN_SCORERS)}, {"scorer": scorer})
        return PLAIN_SCORERS[scorer]
    if not isinstance(scorer, Searchable):
        raise ValueError(
            f"{owner}: scorer must rank items, by query_vectors, item_vectors and geometry, "
            f"got {type(scorer).__name__}."
        )
    return scorer


def checked_side(owner: str, name: str, X: Side) -> Side:
    """Queries or items as a matrix, or views, whose rows can be taken."""
    if isinstance(X, Views):
        for view in X:
            check_entries(owner, view, X[view])
        return X
    return checked_matrix(owner, name, X, ensure_all_finite=False)


@of_one_state
def triplet_margins(
    scorer: Searchable | str, X: Side, triplets: ArrayLike, *, items: Side | None = None
) -> Array:
    """Margins score(query, better) - score(query, worse) of triplets: positive if in order.

    Parameters
    ----------
    scorer : learner or str
        Anything with ``query_vectors``, ``item_vectors`` and ``geometry``, or the name of a plain
        similarity: "cosine", "inner_product" or "euclidean".
    X : array or CSR matrix of shape (n_queries, n_features), or Views
        Queries; also the items, unless `items` is given.
    triplets : integer array of shape (n_triplets, 3)
        Rows (query, better, worse).
    items : array or CSR matrix of shape (n_items, n_item_features), or Views, optional
    """
    scorer = ranker_of("triplet_margins", scorer)
    if isinstance(X, StoredRows) or isinstance(items, StoredRows):
        X, items, triplets = at_hand(X, items, np.asarray(triplets))
    X = checked_side("triplet_margins", "X", X)
    Z = X if items is None else checked_side("triplet_margins", "items", items)
    sizes = (X.shape[0], Z.shape[0], Z.shape[0])
    rows = check_tuples("triplet_margins", "triplets", triplets, sizes)
    if len(rows) == 0:
        return np.zeros(0)
    if isinstance(scorer, SingleItems):
        return np.asarray(scorer.triplet_scores(X, rows, items=Z), float)
    # Map each row once: for a metric, a map costs a factorization.
    queries, q_place = np.unique(rows[:, 0], return_inverse=True)
    used, place = np.unique(rows[:, 1:], return_inverse=True)
    Q, V = floating(scorer.query_vectors(X[queries])), scorer.item_vectors(Z[used])
    place = place.reshape(-1, 2)
    margins = np.empty(len(rows))
    for block in row_blocks(len(rows), MARGIN_BLOCK):
        q, better, worse = Q[q_place[block]], V[place[block, 0]], V[place[block, 1]]
        if is_sparse(q) and is_sparse(better) and scorer.geometry == "inner_product":
            margins[block] = np.asarray(q.multiply(better - worse).sum(axis=1)).ravel()
            continue
        q, better, worse = dense(q), dense(better), dense(worse)
        if scorer.geometry == "inner_product":
            margins[block] = np.vecdot(q, better - worse)
        else:
            margins[block] = squared_lengths(q - worse) - squared_lengths(q - better)
    return margins


def triplet_evaluation(
    scorer: Searchable | str,
    X: Side,
    triplets: ArrayLike,
    *,
    items: Side | None = None,
    queries: ArrayLike | None = None,
) -> Evaluation:
    """Share of each query's triplets that a scorer puts in the right order; ties count half.

    The measure is called "pairwise_accuracy"; queries without triplets have none.

    Parameters
    ----------
    scorer, X, triplets, items
        As in `triplet_margins`.
    queries : array of shape (n_triplets,), optional
        Names of the queries, where several rows of X are one query; by default the rows.
    """
    margins = triplet_margins(scorer, X, triplets, items=items)
    if len(margins) == 0:
        raise ValueError("triplet_evaluation: triplets must be at least one, got none.")
    names = (
        tuple_array("triplet_evaluation", "triplets", triplets)[:, 0]
        if queries is None
        else np.asarray(queries)
    )
    _, group, counts = np.unique(names, return_inverse=True, return_counts=True)
    right = np.bincount(group, weights=np.where(margins == 0, 0.5, margins > 0))
    n_items = (X if items is None else items).shape[0]
    return Evaluation({ACCURACY: right / counts}, counts, n_items)


def pairs_as_triplets(pairs: ArrayLike, closeness: ArrayLike, most: int = 100) -> Indices:
    """Triplets (first, closer, farther) from pairs that share their first point.

    A point whose pairs are all equally close has none.

    Parameters
    ----------
    pairs : integer array of shape (n_pairs, 2)
    closeness : array of shape (n_pairs,)
        Larger is closer: signs, or negated distances.
    most : int
        Maximum number of triplets per first point, spread evenly over all possible ones.
    """
    points = tuple_array("pairs_as_triplets", "pairs", pairs)
    values = np.asarray(closeness, dtype=float)
    order = np.argsort(points[:, 0], kind="stable")
    starts = np.flatnonzero(np.diff(points[order, 0], prepend=-1))
    found = [np.empty((0, 3), np.intp)]
    for rows in np.split(order, starts[1:]):
        closer, farther = np.nonzero(values[rows][:, None] > values[rows])
        if len(closer) > most:
            kept = np.linspace(0, len(closer) - 1, most).astype(np.intp)
            closer, farther = closer[kept], farther[kept]
        first = np.repeat(points[rows[:1], 0], len(closer))
        found.append(np.column_stack([first, points[rows[closer], 1], points[rows[farther], 1]]))
    return np.concatenate(found).astype(np.intp)


class NamedJudgements(NamedTuple):
    """Triplets, or pairs with their feedback, and the name of each judgement's query."""

    tuples: Indices
    y: Array | None
    queries: Array

    def part(self, mask: NDArray[np.bool_]) -> "NamedJudgements":
        """The judgements that a mask selects."""
        y = None if self.y is None else self.y[mask]
        return NamedJudgements(self.tuples[mask], y, self.queries[mask])

    def triplets(self, learner: RankingLearner) -> tuple[Indices, Array]:
        """Triplets by which to judge a learner, and the names of their queries."""
        if self.y is None:
            return self.tuples, self.queries
        distances = learner.get_params().get("feedback") == "distances"
        triplets = pairs_as_triplets(self.tuples, -self.y if distances else self.y)
        return triplets, triplets[:, 0]

    @property
    def sha256(self) -> str:
        """Digest of the judgements in their order."""
        digest = hashlib.sha256(repr(self.tuples.shape).encode())
        digest.update(self.tuples.astype("<i8").tobytes())
        if self.y is not None:
            digest.update(self.y.astype("<f8").tobytes())
        return digest.hexdigest()


def judged(
    owner: str,
    kind: str | None,
    judgements: ArrayLike,
    y: ArrayLike | None,
    queries: ArrayLike | None,
) -> NamedJudgements:
    """Judgements as arrays; raise the house error unless they are of that kind, if it is known."""
    kind = kind or ("triplets" if y is None else "pairs")
    tuples, (width, known) = tuple_array(owner, kind, judgements), _FORMS[kind]
    if tuples.ndim != 2 or tuples.shape[1] != width or (y is None) != (width == 3):
        raise ValueError(
            f"{owner}: judgements must be {kind} of shape (n, {width}) {known} y, "
            f"got shape {tuples.shape}."
        )
    names = tuples[:, 0] if queries is None else np.asarray(queries)
    if names.shape != (len(tuples),):
        raise ValueError(
            f"{owner}: queries must be one for each of the {len(tuples)} judgements, "
            f"got shape {names.shape}."
        )
    return NamedJudgements(tuples, None if y is None else np.asarray(y), names)
