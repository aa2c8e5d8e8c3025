"""Learning from a file of judgements in shares, on many workers."""

import math
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, cast

from similia.base import Learner
from similia.contract import Array, Searchable, StreamLearner
from similia.distributed.engines import engine_named
from similia.distributed.folders import (
    Record,
    WorkFolder,
    finish,
    finished,
    open_job,
    remote_file,
    save_at,
)
from similia.distributed.inputs import located, located_source
from similia.distributed.memory import check_fits
from similia.distributed.shares import (
    ROWS_AT_ONCE,
    VectorPath,
    file_of,
    judgements_of,
    sort_into_shares,
)
from similia.distributed.tasks import DEFAULT_PATIENCE, Report, number_of_parts, run_shown
from similia.feedback import FeedbackFile, Judgements, in_chunks
from similia.files import BadRow, BadRows, RowError, Source, VectorFile
from similia.persistence import load, save
from similia.progress import live_progress
from similia.stored import StoredRows, at_hand
from similia.stream import Learning, Tally, learn_stream, lessons_for
from similia.stream.feedback import Witness
from similia.stream.lessons import CHUNK, Lessons
from similia.trust import ACCURACY, evaluate_file
from similia.validation import check_parameters, positive, positive_integer

SHARE_FORMAT = 2
START, SORTED = "start.safetensors", "shares"
#: reason for bad rows found only while learning
REFUSED = "refused by the learner"
#: default shares; what is learnt depends on their number, not on the number of workers
DEFAULT_SHARES = 8
#: states of a learner in memory: the one that learns, the one that scored first, and while saving
STATES = 4
TUPLE_WIDTHS = {"triplets": 3, "pairs": 2}

_RULES = {"shares": number_of_parts, "patience": positive, "chunk": positive_integer}


@dataclass
class GatheredLessons:
    """Lessons about vectors in a file: each batch brings the rows that it names into memory.

    For learners that have begun, which ask nothing of the other rows.
    """

    model: StreamLearner
    X: Any
    items: Any = None

    @property
    def scored(self) -> bool:
        """Whether judgements can be scored before they are learnt."""
        return lessons_for(self.model, *self._sides(slice(1))).scored

    def start(self, model: Any) -> None:
        """Check that the learner fits the vectors."""
        lessons_for(model, *self._sides(slice(1))).start(model)

    def teach(self, model: Any, part: Judgements) -> None:
        """Learn a batch, or raise ValueError and learn nothing of it."""
        lessons, own = self._at_hand(model, part)
        lessons.teach(model, own)

    def right(self, model: Any, part: Judgements) -> Array:
        """Whether the model agrees with each judgement of a batch."""
        lessons, own = self._at_hand(model, part)
        return lessons.right(model, own)

    def _sides(self, rows: slice) -> tuple[Any, Any]:
        return self.X[rows], None if self.items is None else self.items[rows]

    def _at_hand(self, model: Any, part: Judgements) -> tuple[Lessons, Judgements]:
        X, items, tuples = at_hand(self.X, self.items, part.tuples)
        lessons = lessons_for(model, X, items)
        lessons.start(model)
        return lessons, replace(part, tuples=tuples)


@dataclass(frozen=True)
class LearnShare:
    """One part of a split learner and the share that it learns from."""

    number: int
    n_shares: int
    vectors: VectorPath
    items: VectorPath | None
    source: str
    bad_rows: str
    chunk: int
    score_all: bool
    #: bytes of memory that a task may take
    memory: float = math.inf

    @property
    def name(self) -> str:
        """Name of the part."""
        return f"part-{self.number:04}"

    @property
    def needs(self) -> tuple[str, ...]:
        """The common start and the share."""
        return START, file_of(self.number)

    def run(self, folder: Path, report: Report) -> tuple[Record, list[str]]:
        """Learn the share from the common start, and save the part."""
        (part,) = cast(Learner, load(folder / START)).split(self.n_shares)[:1]
        model, X = cast(StreamLearner, part), self.vectors.read(self.memory).X
        items = None if self.items is None else self.items.read(self.memory).X
        stored = isinstance(X, StoredRows) or isinstance(items, StoredRows)
        lessons = (GatheredLessons if stored else lessons_for)(model, X, items)
        kind = model.learns_from
        bad: list[BadRow] = []
        batches = judgements_of(
            folder / file_of(self.number), TUPLE_WIDTHS[kind], valued=kind == "pairs"
        )
        model, tally = learn_stream(
            model,
            lessons,
            batches,
            chunk=self.chunk,
            score_all=self.score_all,
            bad_rows=BadRows(self.bad_rows, bad.append),
            source=self.source,
            watch=lambda tally: report(tally.n),
        )
        file = f"{self.name}.safetensors"
        save(model, folder / file)
        return {"n": tally.n, "tally": asdict(tally), "bad": bad}, [file]


def learn_shares(
    learner: StreamLearner,
    vectors: VectorPath | Path | str,
    path: Source | Path | str,
    *,
    items: VectorPath | Path | str | None = None,
    executor: Any = "processes",
    shares: int = DEFAULT_SHARES,
    output: Path | str | None = None,
    work: Path | str | None = None,
    unjudged: str = "ignore",
    clicks: str = "clicked",
    bad_rows: BadRows | None = None,
    chunk: int = CHUNK,
    score_all: bool = False,
    held_out: Source | Path | str | None = None,
    patience: float = DEFAULT_PATIENCE,
    verbose: bool = False,
) -> Learning:
    """Learn from a file of judgements in shares, one part of a split learner for each, and merge.

    What is learnt depends on the number of shares, not on the engine, the number of workers, their
    order, or how often one was lost: bit for bit. If the driver is killed, the same call goes on
    from what is finished.

    Parameters
    ----------
    learner : learner of triplets or pairs
        New or fitted; it is left alone.
    vectors : VectorPath, path, array, table or collection
        Queries, and items too unless those are given. All workers must find the path; rows of .npy
        files are read as they are needed. A folder, glob or list of Parquet files, an array of
        NumPy or Dask, a table of pandas, polars, Arrow or Dask, and a dataset of Ray are written
        to such a file in the work folder, once and block by block; what a URL such as ``s3://…``
        names (extra ``remote``) is copied there, or, if that is a URL, by each process.
    path : path, table, collection or Source
        Judgements, as for `learn_file`, or in one of these forms. The driver reads them once and
        sorts them into shares by a hash of the query.
    items : as vectors, optional
        Items, if they are separate vectors.
    executor : str, concurrent.futures.Executor, or Dask's Client or cluster
        ``"processes:4"`` on this machine, ``"dask://host:8786"``, ``"ray://host:10001"``, or any
        executor that pickles. A client or cluster of Dask is left open.
    shares : int
        More of them use more workers, but each learns from fewer judgements; see `Learner.merge`.
    output : path or URL, optional
        Where to save the model.
    work : path or URL, optional
        Folder for what is under way, shared by all workers, or one such as ``s3://…``; by default
        `output` plus ``.work``, removed at the end. It takes about 40 bytes a judgement and a model
        for each share.
    held_out : path or Source, optional
        Judgements of any kind about other queries, which no part has learnt from. If a part proves
        better on them than what is merged, the merge is refused (see `Learner.merge`), and the
        parts are kept in the work folder.
    patience : float
        Seconds without progress after which a worker is taken to hang, and its share given to
        another; and after which a run in which nothing moves ends, with the reason.
    unjudged, clicks, bad_rows, chunk, score_all, verbose
        As for `learn_file`.

    Returns
    -------
    Learning
        Counts of accuracy before learning are sums over shares; there is no learning curve.

    Examples
    --------
    >>> import tempfile
    >>> from concurrent.futures import ThreadPoolExecutor
    >>> import numpy as np
    >>> from similia import OASIS
    >>> from similia.distributed import learn_shares
    >>> rng = np.random.default_rng(0)
    >>> X, triplets = rng.normal(size=(100, 4)), rng.integers(100, size=(500, 3))
    >>> with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(2) as pool:
    ...     found = learn_shares(
    ...         OASIS(), X, triplets, shares=2, work=f"{folder}/work", executor=pool
    ...     )
    >>> found.model.n_seen_
    500
    """
    given = {"shares": shares, "patience": patience, "chunk": chunk}
    check_parameters("learn_shares", _RULES, given)
    engine, bad_rows = engine_named(executor), bad_rows or BadRows()
    memory = engine.memory() or math.inf
    _check_learner(learner)
    if work is None and output is None:
        raise ValueError("learn_shares: work or output must be given, got neither.")
    if output is not None:
        remote_file(output)
    folder = WorkFolder(f"{output}.work" if work is None else work)
    where = located(vectors, folder), None if items is None else located(items, folder)
    source = located_source(path, folder)
    tested = None if held_out is None else located_source(held_out, folder)
    task = {
        "format": SHARE_FORMAT,
        "learner": type(learner).__name__,
        "parameters": {name: str(value) for name, value in learner.get_params().items()},
        "from": [learner.n_seen_, learner.n_updates_] if _fitted(learner) else None,
        "vectors": where[0].mark(),
        "items": where[1] and where[1].mark(),
        "feedback": [*_version(source, folder), source.columns],
        "settings": [shares, unjudged, clicks, chunk, score_all, bad_rows.action],
    }
    open_job(folder, task)
    sorted_ = _sorted(
        learner, source, where, folder, shares, unjudged, clicks, bad_rows, memory, verbose
    )
    tasks = [
        LearnShare(n, shares, *where, str(source), bad_rows.action, chunk, score_all, memory)
        for n in range(shares)
    ]
    title, n = type(learner).__name__, sum(sorted_["counts"])
    words = f"judgements in {shares} shares"
    records = run_shown(tasks, folder, engine, title, n, words, patience=patience, verbose=verbose)
    for record in records:
        for _, number, reason in record["bad"]:
            bad_rows.add(str(source), number, RowError(REFUSED, reason.removeprefix(REFUSED)))
    start = load(folder.get(START))
    parts = [load(folder.get(f"{task.name}.safetensors")) for task in tasks]
    model = start.merge(parts, None if tested is None else partial(_marks, where, tested))
    found = Learning(model, sorted_["feedback"], _total(records), bad_rows)
    if output is not None:
        save_at(model, output)
    if work is None:
        folder.remove()
    return found


def _sorted(
    learner: StreamLearner,
    source: Source,
    where: tuple[VectorPath, VectorPath | None],
    folder: WorkFolder,
    n_shares: int,
    unjudged: str,
    clicks: str,
    bad_rows: BadRows,
    memory: float,
    verbose: bool,
) -> Record:
    """Save the common start, and sort the judgements into shares, unless that is done."""
    found = finished(folder, SORTED)
    if found is None:
        model = learner if _fitted(learner) else type(learner)(**learner.get_params())
        _begin(model, *where)
        save(model, folder.path / START)
        state = STATES * (folder.path / START).stat().st_size
        check_fits("learn_shares", state, memory, "use larger workers")
        vectors, items = _stored(where)
        skipped: list[BadRow] = []
        bad = BadRows(bad_rows.action, skipped.append)
        file = FeedbackFile(
            source,
            learner.learns_from,
            vectors.ids,
            items and items.ids,
            bad_rows=bad,
            unjudged=unjudged,
            clicks=clicks,
        )
        witness = Witness()

        def read() -> Iterator[Any]:
            with live_progress("sort", file.size, enabled=verbose) as show:
                for part in in_chunks(iter(file), ROWS_AT_ONCE):
                    witness.add(part)
                    yield part
                    if show is not None:
                        show(file.position, f"{witness.n:,} judgements")

        counts = sort_into_shares(read(), folder.path, n_shares)
        if not witness.n:
            raise ValueError(f"{source}: feedback must be at least one judgement, got none.")
        found = {"counts": counts, "feedback": witness.report(), "skipped": skipped}
        found["by_reason"] = dict(bad.counts)
        finish(folder, SORTED, found, [START, *map(file_of, range(n_shares))])
    bad_rows.take((BadRow(*row) for row in found["skipped"]), found["by_reason"])
    return found


def _marks(
    where: tuple[VectorPath, VectorPath | None], held_out: Source, model: Searchable
) -> Array:
    """Share of right orders, or average precision, of each query that was held out."""
    vectors, items = _stored(where)
    (found,) = evaluate_file({"": model}, vectors, held_out, items=items).values()
    values = found.per_query[ACCURACY if ACCURACY in found.per_query else "map"]
    return values[found.n_relevant > 0]


def _begin(model: StreamLearner, vectors: VectorPath, items: VectorPath | None) -> None:
    """Bring a learner to its start, from mapped vectors, of which it looks at a sample."""
    with ExitStack() as stack:
        X, Z = (side and stack.enter_context(side.looked_at()) for side in (vectors, items))
        lessons_for(model, X, Z).start(model)


def _stored(where: tuple[VectorPath, VectorPath | None]) -> tuple[VectorFile, VectorFile | None]:
    """Vectors that stay in their files, and their ids."""
    return where[0].read(memory=0), None if where[1] is None else where[1].read(memory=0)


def _total(records: Sequence[Record]) -> Tally:
    """Sum of the tallies of all shares, without a curve."""
    total = Tally()
    for record in records:
        tally = Tally(**record["tally"])
        for name, value in asdict(tally).items():
            if name not in ("curve", "width"):
                setattr(total, name, getattr(total, name) + value)
    return total


def _check_learner(learner: StreamLearner) -> None:
    name = type(learner).__name__
    if not getattr(learner, "merges", False):
        raise ValueError(
            f"learn_shares: learner must be one that merges, got {name}; learn on one machine."
        )
    if learner.learns_from not in TUPLE_WIDTHS:
        raise ValueError(
            f"learn_shares: learner must learn from triplets or pairs, got {name}, which learns "
            f"from {learner.learns_from}; learn on one machine."
        )


def _version(source: Source, folder: WorkFolder) -> list[int | str]:
    if not isinstance(source.given, Path) or not source.given.is_file():
        raise ValueError(f"learn_shares: feedback must be in a file, got {source}.")
    is_copy = source.given.parent == folder.path
    return folder.mark(source.given.name if is_copy else str(source.given))


def _fitted(learner: StreamLearner) -> bool:
    return learner.__sklearn_is_fitted__()
