"""Several learners on the same feedback, compared on queries that none has learnt from."""

import time
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from similia.contract import AnyLearner
from similia.feedback import FeedbackFile
from similia.files import BadRows, FeedbackLike, VectorFile
from similia.retrieval import Evaluation
from similia.stream.judged import evaluate_file
from similia.stream.lessons import Tally, base_of, feedback_kind, learn_stream, lessons_for
from similia.trust import held_out


class Entry(NamedTuple):
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
) -> list[Entry]:
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
            path, feedback_kind(model), *ids, bad_rows=bad_rows, unjudged=unjudged, keep=learning
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
    return [Entry(name, models[name], found[name], *notes[name]) for name in models]
