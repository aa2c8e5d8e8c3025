"""Learning from a stream: each chunk is scored, then learnt."""

import copy
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from similia.files import BadRows, Judgements, in_chunks
from similia.files.bad_rows import RowError
from similia.linalg.threads import single_blas_thread
from similia.stream.checkpoint import Checkpoint
from similia.stream.lessons import Lessons
from similia.stream.tally import Tally

#: judgements that are learnt at a time, in the end and at first
CHUNK = 2048
SMALLEST = 128
#: judgements at the start of a stream that are all scored
ALL_SCORED = 512
#: after that, one of so many is: the first ones of each chunk, which the model is nearest to
SHARE = 8

Watch = Callable[[Tally], None]


def learn_stream(
    model: Any,
    lessons: Lessons,
    batches: Iterable[Judgements],
    *,
    chunk: int = CHUNK,
    score_all: bool = False,
    bad_rows: BadRows | None = None,
    source: str = "feedback",
    checkpoint: Checkpoint | None = None,
    every: int = 100_000,
    watch: Watch | None = None,
) -> tuple[Any, Tally]:
    """Learn from judgements as they come; count those that were right before they were learnt.

    Beside it, those that were right under the model as it was at the start. A judgement that the
    learner refuses (a label it does not know, a vector that is not finite) is a bad row, found by
    halving its chunk; the others of the chunk are learnt.

    Parameters
    ----------
    model : learner
        Is changed. Before a checkpoint is resumed it must be as it was at the very start.
    lessons : Lessons
        How it is taught.
    batches : iterable of Judgements
        The whole stream from its beginning, also when resuming: what was learnt is passed over.
    chunk : int
        Judgements that are scored, then learnt, at a time. The first chunks are smaller, a quarter
        of all before them: a young model changes more.
    score_all : bool
        Score every judgement. Otherwise, after the first 512, only an eighth of each chunk: a
        score costs as much as a good part of a step.
    bad_rows : BadRows, optional
        What to do with judgements that are refused; by default they raise BadRowError.
    source : str
        Where they come from, for messages.
    checkpoint : Checkpoint, optional
        Where the state is kept, from `every` to `every` judgements (rounded up to whole chunks). If
        there is one already, it is gone on from, and the result is the same bit for bit.
    every : int
    watch : function of a Tally, optional
        Called after each chunk.

    Returns
    -------
    model, tally
    """
    bad_rows = bad_rows or BadRows()
    lessons.start(model)
    first = copy.deepcopy(model) if lessons.scored else None
    tally = Tally()
    chunks = in_chunks(iter(batches), chunk, SMALLEST)
    if checkpoint is not None and checkpoint.exists:
        model, tally = checkpoint.read()
        _pass_over(chunks, tally.n)
    kept, started = tally.n, getattr(model, "n_updates_", 0) - tally.n_updates
    for part in chunks:
        n_scored, right = 0, [0.0, 0.0]
        if first is not None:
            everything = score_all or tally.n < ALL_SCORED
            chosen = part if everything else part.part(slice(0, -(-len(part) // SHARE)))
            n_scored, right = _scored([first, model], lessons, chosen)
        _teach(model, lessons, part, source, bad_rows)
        tally.add(len(part), n_scored, *right)
        tally.n_updates = getattr(model, "n_updates_", 0) - started
        if checkpoint is not None and tally.n - kept >= every:
            checkpoint.write(model, tally)
            kept = tally.n
        if watch is not None:
            watch(tally)
    return model, tally


def _pass_over(chunks: Iterator[Judgements], n: int) -> None:
    passed = 0
    while passed < n:
        part = next(chunks, None)
        if part is None:
            raise ValueError(
                f"the checkpoint has learnt {n} judgements, but the feedback has only {passed}; "
                "it must be the same, or more at its end."
            )
        passed += len(part)


def _scored(models: list[Any], lessons: Lessons, part: Judgements) -> tuple[int, list[float]]:
    try:
        # As in learning: products run in threads of our own, and the BLAS's would only spin.
        with single_blas_thread():
            return len(part), [lessons.n_right(model, part) for model in models]
    except ValueError:  # some judgement is bad: learning will find out which
        return 0, [0.0, 0.0]


def _teach(model: Any, lessons: Lessons, part: Judgements, source: str, bad_rows: BadRows) -> None:
    """Teach a chunk; what the learner refuses is narrowed down, as a refusal changes nothing."""
    try:
        lessons.teach(model, part)
    except ValueError as error:
        if len(part) == 1:
            words = " ".join(str(error).split()).rstrip(".")
            bad_rows.add(
                source, int(part.numbers[0]), RowError("refused by the learner", f": {words}")
            )
            return
        half = len(part) // 2
        _teach(model, lessons, part.part(slice(0, half)), source, bad_rows)
        _teach(model, lessons, part.part(slice(half, None)), source, bad_rows)
