"""A model against its base on judgements in a file, and the numbers behind its plots."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from similia.contract import Array, LearntRanker, Ranker
from similia.feedback import FeedbackFile, joined
from similia.files import BadRows, FeedbackLike, VectorFile
from similia.retrieval import Comparison, Evaluation, compare_all
from similia.retrieval.names import cut_offs, names_among
from similia.stream.judged import evaluate_file
from similia.stream.lessons import base_of
from similia.trust import Calibration, calibration_of

#: judgements on which calibration is measured, at most
MOST = 200_000


@dataclass(frozen=True)
class Adaptation:
    """An adapted similarity beside its base, on the same queries."""

    #: both with the same measures
    base: Evaluation
    adapted: Evaluation
    #: level of the intervals and of the test
    level: float = 0.95
    #: measures that are compared, by default all
    measures: Sequence[str] | None = None

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
                "adapted": {"mean": pair.mean_a, "interval": list(adapted)},
                **plain(pair, "adapted", "base"),
            }
        return {
            "n_queries": self.base.n_judged,
            "n_items": self.base.n_items,
            "level": self.level,
            "n_tests": len(measures),
            "measures": measures,
        }


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
    """Compare a model with a base, by default itself before it learnt anything.

    The judgements should be new to the model. `measures` are those to compare, also by the names of
    ir-measures, by default all. Other parameters are those of `evaluate_file`.
    """
    k = cut_offs("measure", measures, k)
    if base is None:
        base = base_of(model, vectors.X, items and items.X)
    scorers = {"base": base, "adapted": model}
    found = evaluate_file(
        scorers, vectors, path, items=items, k=k, bad_rows=bad_rows, verbose=verbose
    )
    return Adaptation(found["base"], found["adapted"], level, measures)


def calibration_on(
    model: Any,
    vectors: VectorFile,
    path: FeedbackLike,
    *,
    items: VectorFile | None = None,
    unjudged: str = "ignore",
    bad_rows: BadRows | None = None,
) -> Calibration:
    """Calibration of a model with a posterior, on the first 200,000 triplets of a file.

    Parameters are those of `learn_file`; the model must not have learnt from these triplets.
    """
    file = FeedbackFile(
        path, "lists", vectors.ids, items and items.ids, bad_rows=bad_rows, unjudged=unjudged
    )
    parts, n = [], 0
    for part in file.drawn(file.raw()):
        parts.append(part)
        n += len(part)
        if n >= MOST:
            break
    if not n:
        raise ValueError(f"{file.source}: feedback must be at least one judgement, got none.")
    return calibration_of(model, vectors.X, joined(parts).tuples[:MOST], items=items and items.X)


def learning_curves(paths: Sequence[Path]) -> dict[str, list[dict[str, float]]]:
    """Learning curves in files of results (`Learning.to_dict` as JSON), by learner."""
    curves = {}
    for path in paths:
        try:
            found = json.loads(path.read_text(encoding="utf-8"))
            name = found["learner"] if len(paths) == 1 else f"{found['learner']} ({path.stem})"
            curves[name] = [
                {key: float(point[key]) for key in ("n", "at_start", "progressive")}
                for point in found["curve"]
            ]
        except (ValueError, KeyError, TypeError) as error:
            raise ValueError(
                f"{path} must be the output of `similia learn --json` ({error})."
            ) from None
    return curves


def singular_values(model: Any) -> Array:
    """Singular values of the matrix that queries are multiplied with, in descending order."""
    matrix = model.query_matrix() if isinstance(model, LearntRanker) else None
    if matrix is None:
        raise ValueError(f"{type(model).__name__} has no matrix to show.")
    return np.linalg.svd(matrix, compute_uv=False)
