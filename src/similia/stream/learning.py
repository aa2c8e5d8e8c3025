"""Learning from a stream or a file of judgements: each chunk is scored, then learnt."""

import copy
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from similia.contract import Array, LabelLearner
from similia.files import (
    BadRows,
    FeedbackFile,
    Judgements,
    VectorFile,
    classes_in,
    in_chunks,
    spooled,
)
from similia.files.bad_rows import RowError
from similia.linalg.threads import single_blas_thread
from similia.persistence import save
from similia.progress import live_progress
from similia.stream.checkpoint import Checkpoint
from similia.stream.lessons import Lessons, StreamLearner, lessons_for
from similia.stream.tally import Tally, Witness

#: judgements per chunk, at most and at first
CHUNK = 2048
SMALLEST = 128
#: judgements at the start of a stream that are all scored
ALL_SCORED = 512
#: thereafter one in so many: the first of each chunk, which the model has just come up to
SHARE = 8
#: judgements between two checkpoints
EVERY = 100_000


@dataclass(frozen=True)
class Learning:
    """Outcome of learning from a file.

    Attributes
    ----------
    model : learner
        Saved to `output`, if that was given.
    feedback : dict
        Counts of judgements, duplicates and contradictions, or of classes.
    tally : Tally
        Accuracy before learning, updates, and the learning curve.
    bad_rows : BadRows
        Rows skipped.
    """

    model: StreamLearner
    feedback: dict[str, int]
    tally: Tally
    bad_rows: BadRows

    def to_dict(self) -> dict[str, Any]:
        """Everything but the model as plain values, ready for JSON."""
        return {
            "learner": type(self.model).__name__,
            "feedback": self.feedback,
            **self.tally.accuracies(),
            "n_updates": self.tally.n_updates,
            "n_seen": self.model.n_seen_,
            "curve": self.tally.points(),
            "bad_rows": self.bad_rows.to_dict(),
        }


def learn_file(
    learner: StreamLearner,
    vectors: VectorFile,
    path: Path | str,
    *,
    items: VectorFile | None = None,
    output: Path | str | None = None,
    unjudged: str = "ignore",
    bad_rows: BadRows | None = None,
    chunk: int = CHUNK,
    score_all: bool = False,
    checkpoint: Path | str | None = None,
    every: int = EVERY,
    resume: bool = False,
    verbose: bool = False,
) -> Learning:
    r"""Learn from a file of judgements, scoring each before it is learnt.

    Parameters
    ----------
    learner : learner
        New or fitted; it is changed.
    vectors : VectorFile
        Queries, and items too unless those are given.
    path : path
        Judgements of the kind that the learner learns from; ``-`` is standard input.
    items : VectorFile, optional
        Items, if they are separate vectors.
    output : path, optional
        Where to save the model.
    unjudged : {"ignore", "worse"}
        For learning from grades: see `triplets_of_grades`.
    bad_rows : BadRows, optional
        What to do with unusable rows; by default they raise BadRowError.
    chunk : int
        Judgements that are scored, then learnt, at a time. Early chunks are smaller, a quarter of
        everything before them, because a young model changes faster.
    score_all : bool
        Score every judgement. By default, after the first 512, only an eighth of each chunk is
        scored, since a score costs a good part of a step.
    checkpoint : path, optional
        Folder that holds the state of the unfinished run; removed once the model is saved.
    every : int
        Judgements between two checkpoints, rounded up to whole chunks.
    resume : bool
        Continue from the checkpoint, if there is one; otherwise an existing one is an error.
    verbose : bool
        Show progress on a terminal.

    Returns
    -------
    Learning

    Examples
    --------
    >>> import pathlib, tempfile
    >>> import numpy as np
    >>> from similia import OASIS, learn_file
    >>> from similia.files import Ids, VectorFile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "clicks.csv")
    ...     _ = path.write_text("query,better,worse\n0,1,2\n")
    ...     vectors = VectorFile(np.eye(3), Ids(None, 3))
    ...     found = learn_file(OASIS(), vectors, path)
    >>> found.feedback["n"], found.tally.n_updates
    (1, 1)
    """
    bad_rows = bad_rows or BadRows()
    if output is not None:
        _check_output(Path(output))
    labels = learner.learns_from == "labels"
    # Classifiers read their feedback twice: all labels must be known before the first is learnt.
    with spooled(path) if labels else nullcontext(path) as source:
        classes = _classes(learner, source, vectors) if labels else None
        file = FeedbackFile(
            source,
            learner.learns_from,
            vectors.ids,
            items and items.ids,
            classes=classes,
            bad_rows=bad_rows,
            unjudged=unjudged,
        )
        lessons = lessons_for(learner, vectors.X, items and items.X, classes)
        kept = None
        if checkpoint is not None:
            task = {
                **_task(learner, vectors, items),
                "feedback": str(path),
                "unjudged": unjudged,
                "chunk": chunk,
                "score_all": score_all,
            }
            kept = Checkpoint(checkpoint, task)
            if kept.exists and not resume:
                raise ValueError(
                    f"{checkpoint} holds a checkpoint; add --resume to continue from it, or "
                    "delete it."
                )
        witness = Witness(file)
        with live_progress(type(learner).__name__, file.size, enabled=verbose) as show:
            try:
                model, tally = learn_stream(
                    learner,
                    lessons,
                    witness,
                    chunk=chunk,
                    score_all=score_all,
                    bad_rows=bad_rows,
                    source=str(source),
                    checkpoint=kept,
                    every=every,
                    watch=show and (lambda tally: show(file.position, _so_far(tally, bad_rows))),
                )
            except KeyboardInterrupt:
                if kept is None or not kept.exists:
                    raise
                message = f"{checkpoint} is kept, add --resume to continue"
                raise KeyboardInterrupt(message) from None
    if not witness.n:
        graded = file.layout is not None and "relevance" in file.layout
        advice = "; no item is graded above another of its query, try --unjudged worse" * graded
        raise ValueError(f"{path}: feedback must be at least one judgement, got none{advice}.")
    if output is not None:
        save(model, output)
    if kept is not None:
        kept.remove()
    return Learning(model, witness.report(), tally, bad_rows)


def _check_output(path: Path) -> None:
    """Raise before the work what `save` would raise after it."""
    if path.is_dir():
        raise ValueError(f"save: path must be a file, got the folder {path}.")
    if path.exists() and not path.is_file():
        raise ValueError(f"save: path must be a file, got the device or pipe {path}.")
    if not path.absolute().parent.is_dir():
        raise FileNotFoundError(f"save: the folder {path.parent} does not exist; make it first.")
    if not os.access(path.absolute().parent, os.W_OK):
        raise PermissionError(f"save: the folder {path.parent} must be writable.")


def _classes(learner: StreamLearner, path: Path | str, vectors: VectorFile) -> Array:
    if learner.__sklearn_is_fitted__():
        return cast(LabelLearner, learner).classes_
    return classes_in(path, vectors.ids)


def _task(learner: StreamLearner, vectors: VectorFile, items: VectorFile | None) -> dict[str, Any]:
    """Settings that must match to resume."""
    fitted = learner.__sklearn_is_fitted__()
    return {
        "learner": type(learner).__name__,
        "parameters": {name: str(value) for name, value in learner.get_params().items()},
        "from": [learner.n_seen_, learner.n_updates_] if fitted else None,
        "vectors": [*vectors.X.shape, str(vectors.X.dtype)],
        "items": items and [*items.X.shape, str(items.X.dtype)],
    }


def _so_far(tally: Tally, bad_rows: BadRows) -> str:
    """Text beside the progress bar."""
    found = tally.accuracies()
    words = [f"{tally.n:,} judgements"]
    if found:
        words.append(
            f"right before learning {found['progressive_accuracy']:.3f} "
            f"(at the start {found['accuracy_at_start']:.3f})"
        )
    if bad_rows.n:
        words.append(f"{bad_rows.n:,} bad rows")
    return ", ".join(words)


def learn_stream(
    model: StreamLearner,
    lessons: Lessons[Any],
    batches: Iterable[Judgements],
    *,
    chunk: int = CHUNK,
    score_all: bool = False,
    bad_rows: BadRows | None = None,
    source: str = "feedback",
    checkpoint: Checkpoint | None = None,
    every: int = EVERY,
    watch: Callable[[Tally], None] | None = None,
) -> tuple[StreamLearner, Tally]:
    """Learn from judgements as they arrive, and count those that were right beforehand.

    Each is scored by the current model and by the model as it was at the start. A judgement that
    the learner refuses (an unknown label, a vector that is not finite) is a bad row, found by
    halving its chunk; the rest of the chunk is learnt.

    Parameters not listed are those of `learn_file`.

    Parameters
    ----------
    model : learner
        Is changed. To resume from a checkpoint, pass it as it was at the very start.
    lessons : Lessons
        How it is taught.
    batches : iterable of Judgements
        The whole stream from its beginning, even when resuming: what was learnt is skipped.
    source : str
        Where the judgements come from, for messages.
    checkpoint : Checkpoint, optional
        Where to keep the state. If it already holds one, learning resumes from there, and the
        result is the same bit for bit.
    watch : function of a Tally, optional
        Called after each chunk.
    """
    bad_rows = bad_rows or BadRows()
    lessons.start(model)
    first = copy.deepcopy(model) if lessons.scored else None
    tally = Tally()
    chunks = in_chunks(iter(batches), chunk, SMALLEST)
    if checkpoint is not None and checkpoint.exists:
        model, tally = checkpoint.read()
        _skip(chunks, tally.n)
    kept = tally.n
    started = (model.n_updates_ if model.__sklearn_is_fitted__() else 0) - tally.n_updates
    for part in chunks:
        n_scored, right = 0, [0.0, 0.0]
        if first is not None:
            everything = score_all or tally.n < ALL_SCORED
            chosen = part if everything else part.part(slice(0, -(-len(part) // SHARE)))
            n_scored, right = _scored([first, model], lessons, chosen)
        _teach(model, lessons, part, source, bad_rows)
        tally.add(len(part), n_scored, *right)
        if model.__sklearn_is_fitted__():
            tally.n_updates = model.n_updates_ - started
        if checkpoint is not None and tally.n - kept >= every:
            checkpoint.write(model, tally)
            kept = tally.n
        if watch is not None:
            watch(tally)
    return model, tally


def _skip(chunks: Iterator[Judgements], n: int) -> None:
    skipped = 0
    while skipped < n:
        part = next(chunks, None)
        if part is None:
            raise ValueError(
                f"the checkpoint has learnt {n} judgements, but the feedback has only {skipped}; "
                "it must be the same, or more at its end."
            )
        skipped += len(part)


def _scored(
    models: Sequence[StreamLearner], lessons: Lessons[Any], part: Judgements
) -> tuple[int, list[float]]:
    try:
        # As in learning: products run in our own threads, and those of the BLAS would only spin.
        with single_blas_thread():
            return len(part), [lessons.n_right(model, part) for model in models]
    except ValueError:  # some judgement is bad: learning will find out which
        return 0, [0.0, 0.0]


def _teach(
    model: StreamLearner, lessons: Lessons[Any], part: Judgements, source: str, bad_rows: BadRows
) -> None:
    """Teach a chunk; halve it if the learner refuses, as a refusal changes nothing."""
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
