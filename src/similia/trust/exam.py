"""Held-out queries, and exams on their judgements."""

import hashlib
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from similia.contract import Array, Matrix, Searchable, Side
from similia.retrieval import Evaluation, evaluate
from similia.retrieval.names import measure_named, with_cut_offs
from similia.safety.bounds import check_entries
from similia.stored import rows_at
from similia.trust.agreement import (
    ACCURACY,
    RankingLearner,
    checked_side,
    pairs_as_triplets,
    triplet_evaluation,
)
from similia.trust.interleaving import Interleaving
from similia.trust.outcome import Beside, standard_error
from similia.validation import between, check_parameters, check_tuples, non_negative_integer


def held_out(queries: ArrayLike, share: float = 0.3, seed: int = 0) -> NDArray[np.bool_]:
    """Mask of the judgements whose query is held out.

    A query is held out if a hash of its name and the seed, read as a number between 0 and 1, falls
    below `share`. So all judgements of a query lie on one side, now and when more arrive, and a
    larger share holds out the same queries and more.

    Parameters
    ----------
    queries : array of shape (n_judgements,)
        Name of the query of each judgement: integers or strings.
    share : float between 0 and 1
        Approximate share of the queries to hold out.
    seed : int
        A different seed holds out different queries.

    Examples
    --------
    >>> held_out(["a", "b", "a", "d"], share=0.5).tolist()
    [False, False, False, True]
    """
    rules = {"share": between(0, 1), "seed": non_negative_integer}
    check_parameters("held_out", rules, {"share": share, "seed": seed})
    given = np.asarray(queries)
    if given.ndim != 1 or given.dtype.kind not in "iuUO":
        raise ValueError(
            "held_out: queries must be a list of integers or strings, "
            f"got shape {given.shape} and dtype {given.dtype}."
        )
    if given.dtype.kind == "O" and not all(isinstance(name, str | int) for name in given):
        raise ValueError("held_out: queries must be integers or strings, got something else.")
    # Integers and the strings that show them are the same name, as in a file.
    names, place = np.unique(given.astype(np.str_), return_inverse=True)
    below = np.array([_place(name, seed) < share for name in names.tolist()], dtype=bool)
    return below[place]


def _place(name: str, seed: int) -> float:
    """Hash of a name and a seed, between 0 and 1."""
    digest = hashlib.blake2b(f"{seed}\n{name}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") / 2**64


class Split(NamedTuple):
    """A split recorded before learning, and the judgements it holds out.

    The digest recognizes the held-out judgements, of which there are `n_held_out`.
    """

    share: float
    seed: int
    n_queries: int
    n_held_out: int
    sha256: str

    def check_same(self, share: float, seed: int, folder: Path) -> None:
        """Raise unless share and seed are those of this recorded split."""
        if (share, seed) != (self.share, self.seed):
            raise ValueError(
                f"Promotion: share and seed must be {self.share:g} and {self.seed}, as recorded in "
                f"{folder}, got {share:g} and {seed}; "
                "its models may have learnt from queries that another split holds out."
            )

    def __str__(self) -> str:
        return (
            f"Held out {self.n_held_out} judgements of {self.n_queries} queries "
            f"(share {self.share:g}, seed {self.seed})."
        )


Mark: TypeAlias = Callable[[Searchable], Evaluation]

#: decides where all items and their relevance are known
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
    #: unit of what is marked: singular, plural
    unit: tuple[str, str] = ("held-out query", "held-out queries")
    #: whether single differences are capped
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
    check_entries("Promotion", "relevance", relevance)
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
    order = np.concatenate([queries, np.delete(np.arange(X.shape[0]), queries)])
    return rows_at(X, order), grades[:, order]


def _ranking(Q: Side, Z: Side, relevance: Matrix, measure: str, *, exclude_self: bool) -> Mark:
    chosen = [measure]
    return partial(
        evaluate, Q=Q, Z=Z, relevance=relevance, measures=chosen, exclude_self=exclude_self
    )


def digests(names: Array) -> list[str]:
    """Short digests of names, by which a history recognizes queries without naming them."""
    texts = np.asarray(names).astype(np.str_).tolist()
    return [hashlib.blake2b(text.encode(), digest_size=8).hexdigest() for text in texts]
