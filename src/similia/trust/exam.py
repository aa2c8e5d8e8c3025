"""Held-out judgements as an exam: a measure that decides, and another beside it."""

import hashlib
from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from similia.contract import Array, Matrix, Searchable, Side
from similia.retrieval import Evaluation, evaluate
from similia.retrieval.names import measure_named, with_cut_offs
from similia.safety.bounds import check_sparse
from similia.trust.agreement import (
    ACCURACY,
    RankingLearner,
    checked_side,
    pairs_as_triplets,
    triplet_evaluation,
)
from similia.trust.interleaving import Interleaving
from similia.trust.outcome import Beside, standard_error
from similia.validation import check_tuples

Mark: TypeAlias = Callable[[Searchable], Evaluation]

#: what decides where the searched items and their relevance are known
RANKING_MEASURE = "ndcg@10"
#: share of interleaved searches won
PREFERENCE = "preference"


class Exam(NamedTuple):
    """How scorers are marked on the same queries, by a measure and by another beside it."""

    measure: str
    mark: Mark
    #: digest of the name of each query, in the order of the marks
    names: Sequence[str]
    other: str = ""
    mark_other: Mark | None = None
    #: what is marked, one and many
    unit: tuple[str, str] = ("held-out query", "held-out queries")
    #: whether the difference of one of them is cut off
    cut: bool = True

    def kind(self, challenger: RankingLearner) -> str:
        """Learner, parameters and measure: challengers of one kind share their evidence."""
        learner = digests(np.array([repr(challenger)]))[0]
        return f"{type(challenger).__name__} {learner} {self.measure}"

    def beside(self, challenger: Searchable, champion: Searchable) -> Beside | None:
        """The other measure of both, if the judgements have one."""
        if self.mark_other is None:
            return None
        ours, theirs = (self.mark_other(s).judged(self.other) for s in (challenger, champion))
        d = ours - theirs
        return Beside(self.other, float(d.mean()), standard_error(d))


def exam_of_triplets(
    X: Side, triplets: ArrayLike, items: Side | None, queries: ArrayLike | None
) -> Exam:
    """Exam by the share of triplets in the right order.

    Beside it, the items that are preferred and never the other way round should be found.
    """
    X = checked_side("Promotion", "X", X)
    items = None if items is None else checked_side("Promotion", "items", items)
    sizes = (X.shape[0], *2 * [(X if items is None else items).shape[0]])
    rows = check_tuples("Promotion", "triplets", triplets, sizes)
    check_any(len(rows))
    names = rows[:, 0] if queries is None else np.asarray(queries)
    mark = partial(triplet_evaluation, X=X, triplets=rows, items=items, queries=queries)
    better, worse = (np.unique(rows[:, [0, j]], axis=0) for j in (1, 2))
    n_items = (X if items is None else items).shape[0]
    keys = [pairs @ [n_items, 1] for pairs in (better, worse)]
    preferred = better[~np.isin(*keys)]
    if not len(preferred):
        return Exam(ACCURACY, mark, digests(np.unique(names)))
    asked, places = np.unique(preferred[:, 0], return_inverse=True)
    shape = (len(asked), n_items)
    found = sparse.csr_array((np.ones(len(preferred)), (places, preferred[:, 1])), shape=shape)
    Q, Z, relevance = X[asked], items, found
    if Z is None:
        Z, relevance = queries_first(X, asked, found)
    search = _ranking(Q, Z, relevance, RANKING_MEASURE, exclude_self=items is None)
    return Exam(ACCURACY, mark, digests(np.unique(names)), RANKING_MEASURE, search)


def exam_of_grades(
    Q: Side,
    Z: Side,
    relevance: Matrix,
    measure: str,
    queries: ArrayLike | None,
    *,
    exclude_self: bool,
) -> Exam:
    """Exam by the ranking of all items; beside it, pairs of graded items of a query in order."""
    Q, Z = checked_side("Promotion", "Q", Q), checked_side("Promotion", "Z", Z)
    check_sparse("Promotion", "relevance", relevance)
    if np.shape(relevance) != (Q.shape[0], Z.shape[0]):
        raise ValueError(
            f"Promotion: relevance must be of shape {(Q.shape[0], Z.shape[0])}, a row for each "
            f"query and a column for each item, got {np.shape(relevance)}."
        )
    check_any(Q.shape[0])
    given = np.arange(Q.shape[0]) if queries is None else np.asarray(queries)
    if given.shape != (Q.shape[0],) or len(np.unique(given)) != len(given):
        raise ValueError(
            f"Promotion: queries must be different names, one for each of the {Q.shape[0]} rows "
            f"of Q, got shape {given.shape} with {len(np.unique(given))} names."
        )
    names = digests(given)
    decides = with_cut_offs(measure_named("Promotion", measure), [10])[0].name
    mark = _ranking(Q, Z, relevance, decides, exclude_self=exclude_self)
    stored = sparse.coo_array(relevance)
    triplets = pairs_as_triplets(np.column_stack(stored.coords), stored.data)
    if not len(triplets):
        return Exam(decides, mark, names)
    ordered = partial(triplet_evaluation, X=Q, triplets=triplets, items=Z)
    return Exam(decides, mark, names, ACCURACY, ordered)


def exam_of_clicks(challenger: Searchable, interleaving: Interleaving) -> Exam:
    """Exam by whose items were clicked in each interleaved search; a tie counts half for both."""
    check_any(len(interleaving.searches), "interleaved searches with clicks")
    won = (1 + interleaving.signs()) / 2
    n = np.ones(len(won), np.int64)

    def mark(scorer: Searchable) -> Evaluation:
        share = won if scorer is challenger else 1 - won
        return Evaluation({PREFERENCE: share}, n, interleaving.length)

    names = digests(np.array(list(map(repr, interleaving.searches))))
    return Exam(PREFERENCE, mark, names, unit=("search", "searches"), cut=False)


def check_any(n: int, name: str = "held-out queries") -> None:
    """Refuse an exam without questions."""
    if n == 0:
        advice = "gather judgements of more queries, or hold out a larger share"
        raise ValueError(
            f"Promotion: {name} must be at least one, got none"
            f"{f'; {advice}' if name == 'held-out queries' else ''}."
        )


def queries_first(
    X: Side, queries: Array, grades: sparse.csr_array
) -> tuple[Side, sparse.csr_array]:
    """Rows of X as items, those that are queries first: item i is query i, to be left out."""
    order = np.concatenate([queries, np.setdiff1d(np.arange(X.shape[0]), queries)])
    return X[order], grades[:, order]


def _ranking(Q: Side, Z: Side, relevance: Matrix, measure: str, *, exclude_self: bool) -> Mark:
    chosen = [measure]
    return partial(
        evaluate, Q=Q, Z=Z, relevance=relevance, measures=chosen, exclude_self=exclude_self
    )


def digests(names: Array) -> list[str]:
    """Short digests of names, by which a history recognizes queries without naming them."""
    texts = np.asarray(names).astype(np.str_).tolist()
    return [hashlib.blake2b(text.encode(), digest_size=8).hexdigest() for text in texts]
