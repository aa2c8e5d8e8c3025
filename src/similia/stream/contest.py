"""Several learners on the same feedback, judged on queries that none of them has learnt from."""

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from similia.files import BadRows, FeedbackFile, VectorFile
from similia.retrieval import Evaluation
from similia.stream.judged import evaluate_file
from similia.stream.learning import CHUNK, learn_stream
from similia.stream.lessons import base_of, lessons_for
from similia.stream.tally import Tally
from similia.trust import held_out


class Entry(NamedTuple):
    """A learner, how it did on held-out queries, and what learning was like."""

    name: str
    model: Any
    evaluation: Evaluation
    tally: Tally
    seconds: float


def contest(
    learners: dict[str, Any],
    vectors: VectorFile,
    path: Path | str,
    *,
    items: VectorFile | None = None,
    share: float = 0.25,
    seed: int = 0,
    k: Sequence[int] = (1, 5, 10),
    unjudged: str = "ignore",
    action: str = "stop",
) -> list[Entry]:
    """Teach each learner the same part of the feedback, and evaluate it on the other.

    The base comes first: what the first learner is before it learns.

    Parameters
    ----------
    learners : dict from name to learner
        New ones, which are taught, all of one kind.
    vectors, items : VectorFile
    path : path
        Judgements, split by query (pairs by their first point), as `similia.trust.held_out` does.
    share : float between 0 and 1
        Share of the queries that is held out.
    seed : int
        Another seed holds out other queries.
    k : sequence of int
        Cut-offs of retrieval measures.
    unjudged : {"ignore", "worse"}
        For learning from grades: see `triplets_of_grades`.
    action : {"stop", "skip"}
        What to do with bad rows.

    Returns
    -------
    list of Entry
    """
    X, Z = vectors.X, None if items is None else items.X
    out = held_out(vectors.ids.names(np.arange(X.shape[0])), share, seed)
    kinds = {model.learns_from for model in learners.values()}
    if len(kinds) != 1:
        raise ValueError(f"learners must learn from one kind of feedback, got {sorted(kinds)}.")
    first = next(iter(learners.values()))
    models: dict[str, Any] = {"base": base_of(first, X, Z)}
    notes: dict[str, tuple[Tally, float]] = {"base": (Tally(), 0.0)}
    for name, model in learners.items():
        bad_rows = BadRows(action)
        file = FeedbackFile(
            path,
            model.learns_from,
            vectors.ids,
            items and items.ids,
            bad_rows=bad_rows,
            unjudged=unjudged,
            keep=lambda rows: ~out[rows],
        )
        started = time.perf_counter()
        lessons = lessons_for(model, X, Z)
        models[name], tally = learn_stream(
            model, lessons, file, chunk=CHUNK, bad_rows=bad_rows, source=str(path)
        )
        notes[name] = (tally, time.perf_counter() - started)
        if not tally.n:
            raise ValueError(f"{path}: nothing is left to learn from; hold out a smaller share.")
    found = evaluate_file(
        models,
        vectors,
        path,
        items=items,
        k=k,
        bad_rows=BadRows("skip"),
        keep=lambda rows: out[rows],
    )
    return [Entry(name, models[name], found[name], *notes[name]) for name in models]
