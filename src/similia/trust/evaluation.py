"""Models evaluated on judgements in files: alone, beside their base, or against each other."""

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from similia.contract import AnyLearner, Array, Ranker, Searchable, Side
from similia.feedback import FeedbackFile, Judgements, classes_in, in_chunks, joined, kind_of
from similia.feedback.feedback_file import Keep
from similia.files import BadRows, FeedbackLike, VectorFile
from similia.linalg.threads import single_blas_thread
from similia.retrieval import MEASURES, Comparison, Evaluation, compare_all, evaluate
from similia.retrieval.names import cut_offs, names_among
from similia.stored import rows_at
from similia.stream import Tally, base_of, learn_stream, lessons_for
from similia.trust.agreement import ACCURACY, pairs_as_triplets, triplet_margins
from similia.trust.exam import held_out, queries_first
from similia.views import Views

#: triplets whose vectors are in memory at once
TRIPLETS_AT_ONCE = 2**14


def evaluate_file(
    scorers: Mapping[str, Searchable | str],
    vectors: VectorFile,
    path: FeedbackLike,
    *,
    items: VectorFile | None = None,
    k: Sequence[int] = (1, 5, 10),
    bad_rows: BadRows | None = None,
    keep: Keep | None = None,
    verbose: bool = False,
    part: tuple[int, int] = (0, 1),
) -> dict[str, Evaluation]:
    """Evaluate scorers on the same judgements.

    The columns of the file decide what is measured:

    - query,item,relevance: every retrieval measure, over the judged queries and all items;
    - row,label: the same among the labelled rows, where items with the query's label are relevant;
    - query,better,worse: "pairwise_accuracy", the share of triplets in the right order;
    - a,b,label: the same for the triplets of `pairs_as_triplets`. Labels other than +1 and -1 are
      distances: smaller is closer.

    Scorers are learners with vectors, or names of plain similarities; `k` are the cut-offs of
    retrieval measures, and `keep` selects queries. `part` is that of `evaluate`; of triplets and
    pairs, it takes every k-th chunk, and `joined_order` puts the parts together.
    """
    kind = kind_of(path)
    X, Z = vectors.X, None if items is None else items.X
    classes = classes_in(path, vectors.ids) if kind == "labels" else None
    ids = (vectors.ids, items and items.ids)
    read = "lists" if kind == "triplets" else kind
    file = FeedbackFile(path, read, *ids, classes=classes, bad_rows=bad_rows, keep=keep)
    if kind == "triplets":
        return order_evaluations(scorers, X, Z, file.drawn(file.raw()), part)
    parts = [some for some in file if len(some)]
    if kind == "pairs":
        return order_evaluations(scorers, X, None, _triplets(parts), part)
    if not parts:
        raise ValueError(f"{file.source}: feedback must be at least one judgement, got none.")
    options: dict[str, Any] = {"k": k, "measures": MEASURES, "verbose": verbose, "part": part}
    if kind == "labels":
        rows, labels = _labels(parts)
        among = rows_at(Z if Z is not None and vectors.are_the_rows_of(items) else X, rows)
        options |= {"labels": (labels, labels), "exclude_self": True}
        return {n: evaluate(s, X[rows], among, **options) for n, s in scorers.items()}
    whole = joined(parts)
    queries, grades = highest_grades(whole.tuples, whole.values, (X if Z is None else Z).shape[0])
    same, Z = vectors.are_the_rows_of(items), X if Z is None else Z
    if same:
        Z, grades = queries_first(Z, queries, grades)
    return {
        name: evaluate(s, X[queries], Z, relevance=grades, exclude_self=same, **options)
        for name, s in scorers.items()
    }


def order_evaluations(
    scorers: Mapping[str, Searchable | str],
    X: Side,
    items: Side | None,
    batches: Iterable[Judgements],
    part: tuple[int, int] = (0, 1),
) -> dict[str, Evaluation]:
    """Share of each query's triplets in the right order; streams in flat memory.

    Equals `triplet_evaluation` of each scorer on all triplets, which are read once.
    """
    counts = np.zeros(X.shape[0])
    right = {name: np.zeros(X.shape[0]) for name in scorers}
    for number, some in enumerate(in_chunks(iter(batches), TRIPLETS_AT_ONCE)):
        if number % part[1] != part[0]:
            continue
        query = some.tuples[:, 0]
        counts += np.bincount(query, minlength=X.shape[0])
        for name, scorer in scorers.items():
            with single_blas_thread():  # parts may be measured elsewhere
                margins = triplet_margins(scorer, X, some.tuples, items=items)
            marks = np.where(margins == 0, 0.5, margins > 0)
            right[name] += np.bincount(query, weights=marks, minlength=X.shape[0])
    judged = counts > 0 if part == (0, 1) else np.ones(len(counts), bool)
    if not judged.any():
        raise ValueError("feedback must put at least one item above another, got none that does.")
    n, n_items = counts[judged].astype(np.int64), (X if items is None else items).shape[0]
    return {
        name: Evaluation({ACCURACY: marks[judged] / np.maximum(n, 1)}, n, n_items)
        for name, marks in right.items()
    }


def joined_order(parts: Sequence[Evaluation]) -> Evaluation:
    """Join evaluations of order that were counted in parts, to the last bit."""
    counts = np.array([part.n_relevant for part in parts])
    shares = np.array([part.per_query[ACCURACY] for part in parts])
    right = np.rint(2 * shares * counts).sum(axis=0) / 2  # a triplet counts 0, ½ or 1
    n = counts.sum(axis=0)
    judged = n > 0
    if not judged.any():
        raise ValueError("feedback must put at least one item above another, got none that does.")
    return Evaluation({ACCURACY: right[judged] / n[judged]}, n[judged], parts[0].n_items)


def _triplets(parts: Sequence[Judgements]) -> list[Judgements]:
    """Triplets of pairs with the same first point."""
    if not parts:
        return []
    pairs = joined(parts)
    values = np.asarray(pairs.values)
    signs = np.isin(values, (-1, 1)).all()
    triplets = pairs_as_triplets(pairs.tuples, values if signs else -values)
    return [Judgements(triplets.astype(np.int64), None, np.zeros(len(triplets), np.int64))]


def _labels(parts: Iterable[Judgements]) -> tuple[Array, Array]:
    """Labelled rows and the last label of each."""
    found: dict[int, int] = {}
    for part in parts:
        found.update(zip(part.tuples[:, 0].tolist(), np.asarray(part.values).tolist(), strict=True))
    return np.array(list(found)), np.array(list(found.values()))


def highest_grades(
    judgements: Array, grades: Array | None, n_items: int
) -> tuple[Array, sparse.csr_array]:
    """Judged queries, and the highest grade of each item for them."""
    (query, item), values = judgements[:, :2].T, np.zeros(0) if grades is None else grades
    order = np.lexsort((values, item, query))
    last = np.ones(len(order), dtype=bool)
    last[:-1] = (np.diff(query[order]) != 0) | (np.diff(item[order]) != 0)
    chosen = order[last]
    queries, places = np.unique(query[chosen], return_inverse=True)
    entries = (values[chosen], (places, item[chosen]))
    return queries, sparse.csr_array(entries, shape=(len(queries), n_items))


# -- a model and its base ----------------------------------------------------------------------


@dataclass(frozen=True)
class Adaptation:
    """An adapted similarity beside its base, on the same queries."""

    #: all with the same measures
    base: Evaluation
    adapted: Evaluation
    #: level of the intervals and of the test
    level: float = 0.95
    #: measures that are compared, by default all
    measures: Sequence[str] | None = None
    #: the model before it learnt anything, where that is not the base
    start: Evaluation | None = None
    #: what the base is
    base_name: str = "base"

    def to_dict(self) -> dict[str, Any]:
        """Measures of both with intervals and paired tests as plain values, ready for JSON.

        Intervals and p-values of the differences hold for all measures together.
        """
        names = names_among("measure", self.measures, self.base.per_query)
        found = compare_all({"adapted": self.adapted}, self.base, names, level=self.level)[
            "adapted"
        ]
        measures = {}
        for name, pair in found.items():
            base, adapted = (e.interval(name, self.level) for e in (self.base, self.adapted))
            measures[name] = {
                "base": {"mean": pair.mean_b, "interval": list(base)},
                **self._start(name),
                "adapted": {"mean": pair.mean_a, "interval": list(adapted)},
                **plain(pair, "adapted", "base"),
            }
        return {
            "n_queries": self.base.n_judged,
            "n_items": self.base.n_items,
            "level": self.level,
            "base": self.base_name,
            "n_tests": len(measures),
            "measures": measures,
        }

    def _start(self, name: str) -> dict[str, Any]:
        if self.start is None:
            return {}
        interval = list(self.start.interval(name, self.level))
        return {"start": {"mean": self.start.judged(name).mean().item(), "interval": interval}}


def plain(found: Comparison, a: str, b: str) -> dict[str, Any]:
    """A difference and its test as plain values; `a` and `b` are names for what is compared."""
    return {
        "difference": found.difference,
        "interval": list(found.interval),
        "p_value": found.p_value,
        "wins": found.wins,
        "ties": found.ties,
        "losses": found.losses,
        "better": {"a": a, "b": b, None: None}[found.better],
    }


def evaluate_model(
    model: Any,
    vectors: VectorFile,
    path: FeedbackLike,
    *,
    items: VectorFile | None = None,
    base: Ranker | str | None = None,
    k: Sequence[int] = (1, 5, 10),
    measures: Sequence[str] | None = None,
    level: float = 0.95,
    bad_rows: BadRows | None = None,
    verbose: bool = False,
) -> Adaptation:
    """Compare a model with a base, by default today's ranking: its first view as it is.

    The judgements should be new to the model. `measures` are those to compare, also by the names of
    ir-measures, by default all. Other parameters are those of `evaluate_file`.
    """
    k = cut_offs("measure", measures, k)
    scorers = contenders(model, vectors.X, items and items.X, base)
    found = evaluate_file(
        scorers, vectors, path, items=items, k=k, bad_rows=bad_rows, verbose=verbose
    )
    return adaptation(found, base_in_words(scorers["base"], vectors.X), level, measures)


def contenders(model: Any, X: Side, Z: Side | None, base: Ranker | str | None) -> dict[str, Any]:
    """What is compared: a base, the model before it learnt anything, and the model."""
    first = todays_ranking(model) if base is None else base
    return {"base": first, "start": base_of(model, X, Z), "adapted": model}


def adaptation(
    found: Mapping[str, Evaluation], base: str, level: float, measures: Sequence[str] | None
) -> Adaptation:
    """Evaluations of `contenders` side by side, without a start that is the base."""
    start = found["start"]
    same = all(
        np.array_equal(start.judged(name), found["base"].judged(name)) for name in start.per_query
    )
    return Adaptation(
        found["base"], found["adapted"], level, measures, None if same else start, base
    )


def todays_ranking(model: Any) -> str:
    """The one base of all comparisons: vectors as they are, compared as the model compares."""
    return "euclidean" if getattr(model, "geometry", "") == "l2" else "inner_product"


def base_in_words(base: Any, X: Side) -> str:
    """What a base is: of several views, a plain similarity ranks by the first."""
    if not isinstance(base, str):
        return f"a {type(base).__name__}"
    view = f" of {next(iter(X))}" if isinstance(X, Views) else ""
    return f"{base.replace('_', ' ')}{view}"


# -- several learners --------------------------------------------------------------------------


class Contestant(NamedTuple):
    """A learner, its measures on held-out queries, and how its learning went."""

    name: str
    model: AnyLearner
    evaluation: Evaluation
    tally: Tally
    seconds: float


def contest(
    learners: Mapping[str, AnyLearner],
    vectors: VectorFile,
    path: FeedbackLike,
    *,
    items: VectorFile | None = None,
    share: float = 0.25,
    seed: int = 0,
    k: Sequence[int] = (1, 5, 10),
    unjudged: str = "ignore",
    action: str = "stop",
) -> list[Contestant]:
    """Teach each of some new learners one part of the feedback, and evaluate it on the other.

    The first entry is the base: the first learner before it learns. Judgements are split by query
    (pairs by their first point) with `similia.trust.held_out`, to which `share` and `seed` belong;
    `k` are the cut-offs of retrieval measures, and `action` says what to do with bad rows.
    """
    X, Z = vectors.X, None if items is None else items.X
    out = held_out(vectors.ids.names(np.arange(X.shape[0])), share, seed)
    learning, judging = (~out).__getitem__, out.__getitem__
    kinds = {model.learns_from for model in learners.values()}
    if len(kinds) != 1:
        raise ValueError(f"learners must learn from one kind of feedback, got {sorted(kinds)}.")
    first = next(iter(learners.values()))
    models: dict[str, Any] = {"base": base_of(first, X, Z)}
    notes: dict[str, tuple[Tally, float]] = {"base": (Tally(), 0.0)}
    for name, model in learners.items():
        bad_rows, ids = BadRows(action), (vectors.ids, items and items.ids)
        file = FeedbackFile(
            path,
            model.learns_from,
            *ids,
            lists=model.learns_lists,
            bad_rows=bad_rows,
            unjudged=unjudged,
            keep=learning,
        )
        started = time.perf_counter()
        lessons = lessons_for(model, X, Z)
        models[name], tally = learn_stream(
            model, lessons, file, bad_rows=bad_rows, source=file.source
        )
        notes[name] = (tally, time.perf_counter() - started)
        if not tally.n:
            raise ValueError(
                f"{file.source}: nothing is left to learn from; hold out a smaller share."
            )
    found = evaluate_file(
        models, vectors, path, items=items, k=k, bad_rows=BadRows("skip"), keep=judging
    )
    return [Contestant(name, models[name], found[name], *notes[name]) for name in models]
