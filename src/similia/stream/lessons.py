"""A stream of judgements: each chunk is scored, then learnt."""

import copy
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeVar, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone

from similia.contract import (
    Array,
    LabelLearner,
    Matrix,
    PairLearner,
    Side,
    StreamLearner,
    TripletLearner,
)
from similia.feedback import Judgements, in_chunks
from similia.feedback.clicks import click_preferences
from similia.files import BadRows, RowError
from similia.linalg.threads import single_blas_thread
from similia.validation import check_magnitude
from similia.views import Views

if TYPE_CHECKING:
    from similia.stream.checkpoint import Checkpoint

#: judgements per chunk, at most and at first
CHUNK = 2048
FIRST_CHUNK = 128
#: judgements at the start of a stream that are all scored
ALL_SCORED = 512
#: afterwards one in this many, the first of each chunk: the model has learnt all before them
SCORED_ONE_IN = 8
#: judgements between two checkpoints
CHECKPOINT_EVERY = 100_000
#: maximum number of points of a curve
MAX_POINTS = 128

M = TypeVar("M", bound=StreamLearner)


# -- kinds of judgement ------------------------------------------------------------------------


class Lessons(Protocol):
    """Judgements about fixed vectors, for one kind of learner."""

    @property
    def scored(self) -> bool:
        """Whether judgements can be scored before they are learnt."""

    def start(self, model: Any) -> None:
        """Bring a new learner to its initial state; comes before everything else."""

    def teach(self, model: Any, part: Judgements) -> None:
        """Learn a batch, or raise ValueError and learn nothing of it."""

    def right(self, model: Any, part: Judgements) -> Array:
        """Whether the model agrees with each judgement of a batch: 1, 0, or ½ for a tie.

        Raise ValueError if the model would refuse to learn one of them.
        """


@dataclass
class _Rows:
    """Vectors whose rows are checked on first use.

    So a stream over a large file pays for what it uses. The rest was checked at the start.
    """

    name: str
    vectors: Side
    checked: NDArray[np.bool_]

    def check(self, model: object, rows: Array) -> None:
        new = rows[~self.checked[rows]]
        if len(new):
            check_magnitude(f"{type(model).__name__}.learn", self.name, self.vectors, new)
            self.checked[new] = True


@dataclass
class _TripletLessons:
    """Triplets are right if the margin is positive; a tie counts half.

    A list is right as far as the pairs are that its gains put in order.
    """

    X: Side
    items: Side | None
    scored: ClassVar = True

    def start(self, model: TripletLearner) -> None:
        X, Z = self.sides = model.begin(self.X, self.items)
        self._queries = _Rows("X", X, np.zeros(X.shape[0], bool))
        self._items = self._queries
        if Z is not X:
            self._items = _Rows("items", Z, np.zeros(Z.shape[0], bool))

    def teach(self, model: TripletLearner, part: Judgements) -> None:
        self._check(model, part)
        model.learn_checked(*self.sides, part.tuples if part.lists is None else part.lists)

    def right(self, model: TripletLearner, part: Judgements) -> Array:
        self._check(model, part)
        if part.lists is None:
            return (1 + np.sign(model.margins(*self.sides, part.tuples))) / 2
        found = click_preferences(part.lists)
        right = (1 + np.sign(model.margins(*self.sides, found.triplets))) / 2
        owner = np.searchsorted(part.lists.starts, found.better, side="right") - 1
        sums, counts = (np.bincount(owner, w, minlength=len(part)) for w in (right, None))
        return np.where(counts > 0, sums / np.maximum(counts, 1), 0.5)

    def _check(self, model: TripletLearner, part: Judgements) -> None:
        lists, tuples = part.lists, part.tuples
        self._queries.check(model, tuples[:, 0])
        self._items.check(model, tuples[:, 1:].ravel() if lists is None else lists.items)


@runtime_checkable
class _PairClassifier(Protocol):
    """A learner of pairs with a threshold."""

    def predict(self, X: Matrix, pairs: ArrayLike) -> Array: ...


@dataclass
class _PairLessons:
    """Pairs are right if on the right side of the threshold, for learners that have one."""

    X: Matrix
    scored: bool

    def start(self, model: PairLearner) -> None:
        self.X = model.begin(self.X)
        self._rows = _Rows("X", self.X, np.zeros(self.X.shape[0], bool))

    def teach(self, model: PairLearner, part: Judgements) -> None:
        self._rows.check(model, part.tuples.ravel())
        model.learn_checked(self.X, part.tuples, np.asarray(part.values))

    def right(self, model: _PairClassifier, part: Judgements) -> Array:
        return np.asarray(model.predict(self.X, part.tuples) == part.values, dtype=float)


@dataclass
class _LabelLessons:
    """Labels are right if predicted; an unfitted classifier scores as chance."""

    X: Matrix
    classes: Array
    scored: ClassVar = True

    def start(self, model: LabelLearner) -> None:
        pass  # a classifier is initialized by its first rows

    def teach(self, model: LabelLearner, part: Judgements) -> None:
        labels = self.classes[part.values]
        model.partial_fit(self.X[part.tuples[:, 0]], labels, classes=self.classes)

    def right(self, model: LabelLearner, part: Judgements) -> Array:
        if not model.__sklearn_is_fitted__():
            return np.full(len(part), 1 / len(self.classes))
        found = model.predict(self.X[part.tuples[:, 0]])
        return np.asarray(found == self.classes[part.values], dtype=float)


def lessons_for(
    model: StreamLearner, X: Side, items: Side | None = None, classes: Array | None = None
) -> Lessons:
    """Lessons that suit a learner; `classes` are the labels to expect, for classifiers."""
    if model.learns_from == "triplets":
        return _TripletLessons(X, items)
    name = type(model).__name__
    if items is not None:
        raise ValueError(
            f"items must be left out for {name}, which learns from {model.learns_from}."
        )
    if isinstance(X, Views):
        raise ValueError(f"views must be left out for {name}; only Blend learns from several.")
    if model.learns_from == "pairs":
        return _PairLessons(X, scored=isinstance(model, _PairClassifier))
    if classes is None or len(classes) < 2:
        found = "none" if classes is None or not len(classes) else f"only {classes[0]!r}"
        raise ValueError(f"{name}: labels must be of at least two classes, got {found}.")
    return _LabelLessons(X, classes)


def base_of(model: M, X: Side, items: Side | None = None) -> M:
    """Unlearnt counterpart of a similarity or distance: same parameters, initial state."""
    if model.learns_from == "labels":
        raise ValueError(
            f"{type(model).__name__} is a classifier and has no similarity to begin with; "
            "give learners of triplets or of pairs."
        )
    start = getattr(model, "start", None)
    if callable(start) and model.__sklearn_is_fitted__():
        started: M = start()  # with the views as measured when it began to learn
        return started
    base: M = clone(model)
    lessons_for(base, X, items).start(base)
    return base


# -- the stream --------------------------------------------------------------------------------


@dataclass
class Tally:
    """Test-then-train accuracy, as totals and as a curve of bounded length."""

    #: judgements learnt
    n: int = 0
    #: judgements scored before they were learnt
    n_scored: int = 0
    #: how many of these the initial and the current model had right
    at_start: float = 0.0
    progressive: float = 0.0
    #: the same three for judgements of queries that were not met in an earlier chunk
    n_new: int = 0
    at_start_new: float = 0.0
    progressive_new: float = 0.0
    #: judgements that changed the model
    n_updates: int = 0
    #: chunks per point of the curve
    width: int = 1
    #: chunks so far
    chunks: int = 0
    #: points [n, n_scored, at_start, progressive], each for its own stretch of the stream
    curve: list[list[Any]] = field(default_factory=list)

    def add(self, n: int, n_scored: int, at_start: float, progressive: float) -> None:
        """Count one chunk."""
        self.n += n
        self.n_scored += n_scored
        self.at_start += at_start
        self.progressive += progressive
        if self.chunks % self.width == 0:
            if len(self.curve) == MAX_POINTS:  # join neighboring points, so that it stays short
                pairs = zip(self.curve[::2], self.curve[1::2], strict=True)
                self.curve = [[a + b for a, b in zip(*pair, strict=True)] for pair in pairs]
                self.width *= 2
            self.curve.append([0, 0, 0.0, 0.0])
        self.chunks += 1
        for place, value in enumerate((n, n_scored, at_start, progressive)):
            self.curve[-1][place] += value

    def accuracies(self) -> dict[str, float]:
        """Accuracies by name; empty if nothing was scored, the last three if no query was new."""
        if not self.n_scored:
            return {}
        found = {
            "accuracy_at_start": self.at_start / self.n_scored,
            "progressive_accuracy": self.progressive / self.n_scored,
            "n_scored": self.n_scored,
        }
        if self.n_new:
            found["accuracy_at_start_new_queries"] = self.at_start_new / self.n_new
            found["progressive_accuracy_new_queries"] = self.progressive_new / self.n_new
            found["n_new_queries"] = self.n_new
        return found

    def points(self) -> list[dict[str, float]]:
        """Curve as judgements learnt so far and both accuracies since the previous point."""
        found, n = [], 0
        for size, n_scored, at_start, progressive in self.curve:
            n += size
            if n_scored:
                shares = {"at_start": at_start / n_scored, "progressive": progressive / n_scored}
                found.append({"n": n, **shares})
        return found


def learn_stream(
    model: StreamLearner,
    lessons: Lessons,
    batches: Iterable[Judgements],
    *,
    chunk: int = CHUNK,
    score_all: bool = False,
    bad_rows: BadRows | None = None,
    source: str = "feedback",
    checkpoint: "Checkpoint | None" = None,
    every: int = CHECKPOINT_EVERY,
    witness: Callable[[Judgements], None] | None = None,
    watch: Callable[[Tally], None] | None = None,
) -> tuple[StreamLearner, Tally]:
    """Learn from judgements as they arrive, and count those that were right before.

    Each is scored by the current model and by the model as it was at the start. A judgement that
    the learner refuses (an unknown label, a vector that is not finite) is a bad row, found by
    halving its chunk; the rest of the chunk is learnt.

    If `checkpoint` already holds a state, learning resumes from there and ends with the same bits;
    pass the model and the stream as they were at the very start. `witness` is called with every
    chunk, even one that was learnt before, `watch` after each. The rest is as in `learn_file`.
    """
    bad_rows = bad_rows or BadRows()
    lessons.start(model)
    first = copy.deepcopy(model) if lessons.scored else None
    tally = Tally()
    if checkpoint is not None and checkpoint.exists:
        model, tally = checkpoint.read()
    trail = None if checkpoint is None else checkpoint.trail()
    n, resumed, kept, met = 0, tally.n, tally.n, np.zeros(0, bool)
    started = (model.n_updates_ if model.__sklearn_is_fitted__() else 0) - tally.n_updates
    for part in in_chunks(iter(batches), chunk, FIRST_CHUNK):
        if witness is not None:
            witness(part)
        n += len(part)
        if checkpoint is not None and trail is not None:
            trail.add(part)
            if n - len(part) < resumed <= n and (n != resumed or str(trail) != checkpoint.learnt):
                raise ValueError(
                    f"{source}: feedback must be what the checkpoint has learnt, at least in its "
                    f"first {resumed} judgements; delete {checkpoint.folder} to start over."
                )
        query = part.tuples[:, 0]
        met = np.pad(met, (0, max(0, query.max(initial=-1) + 1 - len(met))))
        new = ~met[query]
        new[np.setdiff1d(np.arange(len(query)), np.unique(query, return_index=True)[1])] = False
        met[query] = True
        if n - len(part) < resumed:
            continue
        n_scored, right = 0, [0.0, 0.0]
        if first is not None:
            everything = score_all or tally.n < ALL_SCORED
            chosen = part if everything else part.part(slice(0, -(-len(part) // SCORED_ONE_IN)))
            # As in learning: products run in our own threads, and those of the BLAS would only
            # spin. If some judgement is bad, teaching will find out which.
            with single_blas_thread(), suppress(ValueError):
                marks = np.array([lessons.right(scorer, chosen) for scorer in (first, model)])
                right, n_scored, new = marks.sum(axis=1).tolist(), len(chosen), new[: len(chosen)]
                if model.learns_from != "labels":  # each row is a question of its own
                    tally.n_new += int(np.count_nonzero(new))
                    tally.at_start_new += float(marks[0, new].sum())
                    tally.progressive_new += float(marks[1, new].sum())
        _teach(model, lessons, part, source, bad_rows)
        tally.add(len(part), n_scored, *right)
        if model.__sklearn_is_fitted__():
            tally.n_updates = model.n_updates_ - started
        if checkpoint is not None and tally.n - kept >= every:
            checkpoint.write(model, tally, str(trail))
            kept = tally.n
        if watch is not None:
            watch(tally)
    if n < resumed:
        raise ValueError(
            f"the checkpoint has learnt {resumed} judgements, but the feedback has only {n}; "
            "it must be the same, or more at its end."
        )
    return model, tally


def _teach(
    model: StreamLearner, lessons: Lessons, part: Judgements, source: str, bad_rows: BadRows
) -> None:
    """Teach a chunk; if the learner refuses, halve it: a refusal changes nothing."""
    try:
        lessons.teach(model, part)
    except ValueError as error:
        if len(part) == 1:
            words = " ".join(str(error).split()).rstrip(".")
            reason = RowError("refused by the learner", f": {words}")
            bad_rows.add(source, int(part.numbers[0]), reason)
            return
        half = len(part) // 2
        _teach(model, lessons, part.part(slice(0, half)), source, bad_rows)
        _teach(model, lessons, part.part(slice(half, None)), source, bad_rows)
