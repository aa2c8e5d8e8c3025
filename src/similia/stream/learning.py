"""Learning from a file of judgements."""

import warnings
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import numpy as np
from scipy import sparse

from similia.contract import LabelLearner, StreamLearner
from similia.feedback import FeedbackFile, classes_in
from similia.files import BadRows, FeedbackLike, Source, VectorFile, spooled
from similia.persistence import save
from similia.persistence.saving import check_target
from similia.progress import live_progress
from similia.registry import BATCH_LEARNERS
from similia.stream.checkpoint import Checkpoint, content
from similia.stream.feedback import Witness
from similia.stream.lessons import (
    CHECKPOINT_EVERY,
    CHUNK,
    Tally,
    learn_stream,
    lessons_for,
)
from similia.stream.shown import shown_by_base
from similia.views import Views

#: note in a model that learnt from clicks alone
SHOWN_ASSUMED = "clicks came without what was shown; people are taken to have seen the best"


@dataclass(frozen=True)
class Learning:
    """Outcome of learning from a file."""

    #: saved to `output`, if that was given
    model: StreamLearner
    #: counts of judgements, duplicates and contradictions, or of classes
    feedback: dict[str, int]
    #: accuracy before learning, updates, and the learning curve
    tally: Tally
    #: rows skipped
    bad_rows: BadRows
    #: columns recognized under another name
    read_as: Mapping[str, str] = field(default_factory=dict)

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

    def in_words(self) -> dict[str, str]:
        """The same in words, without the curve."""
        counts, bad, shares = self.feedback, self.bad_rows, self.tally.accuracies()
        if "n_distinct" in counts:
            examined = f"; of the first {counts['n_examined']}" if "n_examined" in counts else ""
            feedback = (
                f"{counts['n']} judgements{examined}: {counts['n_queries']} queries, "
                f"{counts['n_duplicates']} duplicates, {counts['n_contradictions']} "
                f"contradictions, {counts['n_degenerate']} degenerate"
            )
        elif "n_shown" in counts:
            feedback = (
                f"{counts['n']} lists of {counts['n_queries']} queries: {counts['n_shown']} items "
                f"shown, {counts['n_chosen']} of them chosen"
            )
        else:
            feedback = f"{counts['n']} labels of {counts['n_classes']} classes"
        fields = {"learner": type(self.model).__name__, "feedback": feedback}
        if self.read_as:
            fields["columns"] = ", ".join(f"{ours} is {n}" for ours, n in self.read_as.items())
        for name, meaning in (
            ("accuracy_at_start", "the model before this feedback"),
            ("progressive_accuracy", "each judgement before it was learnt"),
        ):
            if shares:
                scored = f"{meaning}, of {shares['n_scored']} scored"
                fields[name] = f"{shares[name]:.4f}  ({scored})"
        if "n_new_queries" in shares:
            before, after = (
                shares[f"{name}_new_queries"]
                for name in ("accuracy_at_start", "progressive_accuracy")
            )
            scored = f"both, of {shares['n_new_queries']} scored of queries not met before"
            fields["new_queries"] = f"{before:.4f} → {after:.4f}  ({scored})"
        fields["n_updates"] = f"{self.tally.n_updates} steps changed the model"
        fields["n_seen"] = f"{self.model.n_seen_} judgements in all"
        if bad.n:
            reasons = ", ".join(f"{n} × {reason}" for reason, n in bad.counts.items())
            fields["bad_rows"] = f"{bad.n} skipped: {reasons}"
        return fields


def learn_file(
    learner: StreamLearner,
    vectors: VectorFile,
    path: FeedbackLike,
    *,
    items: VectorFile | None = None,
    output: Path | str | None = None,
    unjudged: str = "ignore",
    clicks: str = "clicked",
    bad_rows: BadRows | None = None,
    chunk: int = CHUNK,
    score_all: bool = False,
    checkpoint: Path | str | None = None,
    every: int = CHECKPOINT_EVERY,
    resume: bool = False,
    shown: int | None = None,
    verbose: bool = False,
) -> Learning:
    r"""Learn from a file of judgements, scoring each before it is learnt.

    Parameters
    ----------
    learner : learner
        New or fitted; it is changed.
    vectors : VectorFile
        Queries, and items too unless those are given.
    path : path, table or Source
        Judgements of the kind that the learner learns from; see `FeedbackFile`.
    items : VectorFile, optional
        Items, if they are separate vectors.
    output : path, optional
        Where to save the model.
    unjudged : {"ignore", "worse"}
        For learning from grades: see `triplets_of_grades`.
    clicks : {"clicked", "skip-above", "last-click"}
        For learning from clicks: see `similia.feedback.clicks.click_preferences`.
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
    shown : int, optional
        For clicks without what was shown: assume that people saw so many of the best items of
        today's ranking. The model says so afterwards.
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
    if (name := type(learner).__name__) in BATCH_LEARNERS:
        raise ValueError(
            f"learn_file: learner must be one that learns judgement by judgement, got {name}, "
            "which learns a whole labelled set; call its fit."
        )
    if not isinstance(vectors, VectorFile):
        raise TypeError(
            "learn_file: vectors must be a VectorFile, as read_vectors returns it, got "
            f"{type(vectors).__name__}; arrays are for the learner's own learn."
        )
    if output is not None:
        check_target(output)
    if shown is not None:
        source = Source(path)
        path = shown_by_base(source, vectors, items, length=shown, bad_rows=bad_rows)
    labels = learner.learns_from == "labels"
    # Classifiers read their feedback twice: all labels must be known before the first is learnt.
    with spooled(path) if labels else nullcontext(Source(path)) as source:
        classes = None
        if labels:
            fitted = learner.__sklearn_is_fitted__()
            known = cast(LabelLearner, learner)
            classes = known.classes_ if fitted else classes_in(source, vectors.ids)
        file = FeedbackFile(
            source,
            learner.learns_from,
            vectors.ids,
            items and items.ids,
            lists=learner.learns_lists,
            classes=classes,
            bad_rows=bad_rows,
            unjudged=unjudged,
            clicks=clicks,
        )
        lessons = lessons_for(learner, vectors.X, items and items.X, classes)
        kept = None
        if checkpoint is not None:
            task = {
                **_task(learner, vectors, items),
                "unjudged": unjudged,
                "clicks": clicks,
                "chunk": chunk,
                "score_all": score_all,
            }
            kept = Checkpoint(checkpoint, task)
            if kept.exists and not resume:
                raise ValueError(
                    f"{checkpoint} holds a checkpoint; add --resume to continue from it, or "
                    "delete it."
                )
        witness = Witness()
        done = kept.finished(output) if kept is not None and output is not None else None
        name = type(learner).__name__
        with live_progress(name, file.size) if verbose else nullcontext() as show:
            try:
                if done is not None:
                    for part in file:
                        witness.add(part)
                model, tally = done or learn_stream(
                    learner,
                    lessons,
                    file,
                    chunk=chunk,
                    score_all=score_all,
                    bad_rows=bad_rows,
                    source=file.source,
                    checkpoint=kept,
                    every=every,
                    witness=witness.add,
                    watch=show and (lambda tally: show(file.position, _so_far(tally, bad_rows))),
                )
            except KeyboardInterrupt:
                if kept is None or not kept.exists:
                    raise
                message = f"{checkpoint} is kept, add --resume to continue"
                raise KeyboardInterrupt(message) from None
    if not witness.n:
        graded = "relevance" in file.layout
        advice = "; no item is graded above another of its query, try --unjudged worse" * graded
        raise ValueError(
            f"{file.source}: feedback must be at least one judgement, got none{advice}."
        )
    for doubt in witness.doubts():
        warnings.warn(f"{file.source}: {doubt}", UserWarning, stacklevel=2)
    taught: Any = model  # keeps how a table became its views, and what was assumed
    taught.layout_ = (items or vectors).layout or taught.layout_
    if shown is not None:
        taught.assumed_ = f"{SHOWN_ASSUMED} {shown} of today's ranking"
    found = Learning(model, witness.report(), tally, bad_rows, dict(file.rows.read_as))
    if output is not None and done is None:
        save(model, output)
    if kept is not None and output is not None:
        kept.finish(output, tally)
    elif kept is not None:
        kept.remove()
    return found


def _task(learner: StreamLearner, vectors: VectorFile, items: VectorFile | None) -> dict[str, Any]:
    """Settings that must match to resume."""
    return {
        "learner": type(learner).__name__,
        "parameters": {name: _form(value) for name, value in learner.get_params().items()},
        "from": _start(learner) if learner.__sklearn_is_fitted__() else None,
        "vectors": _form(vectors.X),
        "items": items and _form(items.X),
    }


def _start(learner: StreamLearner) -> str:
    """A fitted learner, identified by its contents."""
    state = learner.get_state()
    digest = content(*(part for name in sorted(state) for part in (name, state[name])))
    return f"{learner.n_seen_} judgements, contents {digest[:16]}"


def _form(value: Any) -> str:
    """Vectors or a parameter, identified by their contents."""
    if isinstance(value, Views):
        return f"{value!r}, contents {content(value)[:16]}"
    if isinstance(value, np.ndarray) or sparse.issparse(value):
        return f"{value.dtype} of shape {value.shape}, contents {content(value)[:16]}"
    return str(value)


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
