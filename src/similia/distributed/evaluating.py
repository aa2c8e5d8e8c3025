"""Evaluation on many workers, equal to that on one to the last bit."""

from collections.abc import Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from similia.distributed.engines import Engine, engine_named
from similia.distributed.shares import VectorPath, absolute, file_mark
from similia.distributed.tasks import PATIENCE, Record, Report, open_job, run_all
from similia.durable import replacing
from similia.files import kind_of
from similia.persistence import load
from similia.progress import live_progress
from similia.retrieval import Evaluation
from similia.stream import evaluate_file
from similia.stream.judged import joined_order
from similia.validation import check_parameters, positive, positive_integer

_RULES = {"parts": positive_integer, "patience": positive}


@dataclass(frozen=True)
class EvaluatePart:
    """One part of the queries, for all scorers."""

    number: int
    n_parts: int
    scorers: tuple[tuple[str, str], ...]
    vectors: VectorPath
    items: VectorPath | None
    path: str
    k: tuple[int, ...]

    @property
    def name(self) -> str:
        """Name of the part."""
        return f"evaluation-{self.number:04}"

    def run(self, folder: Path, report: Report) -> tuple[Record, list[str]]:
        """Measure the part, and write the values per query."""
        scorers = {n: load(s) if Path(s).is_file() else s for n, s in self.scorers}
        vectors, items = self.vectors.read(), None if self.items is None else self.items.read()
        part = (self.number, self.n_parts)
        found = evaluate_file(scorers, vectors, self.path, items=items, k=self.k, part=part)
        file = f"{self.name}.npz"
        arrays: dict[str, Any] = {}
        for place, evaluation in enumerate(found.values()):
            arrays[f"{place}|n"] = evaluation.n_relevant
            arrays |= {f"{place}|{name}": v for name, v in evaluation.per_query.items()}
        with replacing(folder / file) as temporary, open(temporary, "wb") as opened:
            np.savez(opened, **arrays)
        return {"n": 1, "n_items": next(iter(found.values())).n_items}, [file]


def evaluate_parts(
    scorers: Mapping[str, Path | str],
    vectors: VectorPath | Path | str,
    path: Path | str,
    *,
    work: Path | str,
    items: VectorPath | Path | str | None = None,
    executor: str | Executor | Engine = "processes",
    parts: int = 8,
    k: Sequence[int] = (1, 5, 10),
    patience: float = PATIENCE,
    verbose: bool = False,
) -> dict[str, Evaluation]:
    """`evaluate_file` in parts of the queries, on many workers: the same values, to the last bit.

    Parameters
    ----------
    scorers : dict of paths or names
        Files of models, or names of plain similarities, by any name.
    vectors, items, executor, patience, verbose
        As for `learn_shares`.
    path : path
        Judgements, as for `evaluate_file`; every worker reads them.
    work : path
        New folder for what is under way, shared by all workers; it is kept, and the same call goes
        on from what is finished.
    parts : int
        Number of tasks; results do not depend on it.
    k : sequence of int
        Cut-offs of retrieval measures.
    """
    check_parameters("evaluate_parts", _RULES, {"parts": parts, "patience": patience})
    engine, folder = engine_named(executor), Path(work).absolute()
    where = absolute(vectors), None if items is None else absolute(items)
    named = tuple(
        (n, str(Path(s).absolute()) if Path(s).is_file() else str(s)) for n, s in scorers.items()
    )
    judged = str(Path(path).absolute())
    job = {
        "evaluate": [[name, *file_mark(scorer)] for name, scorer in named],
        "vectors": where[0].mark(),
        "items": where[1] and where[1].mark(),
        "judgements": file_mark(judged),
        "settings": [parts, *k],
    }
    open_job(folder, job)
    tasks = [
        EvaluatePart(number, parts, named, *where, judged, tuple(k)) for number in range(parts)
    ]
    with live_progress("evaluate", parts, enabled=verbose) as show:

        def watch(done: int) -> None:
            if show is not None:
                show(done, f"{done} of {parts} parts")

        records = run_all(tasks, folder, engine, patience=patience, watch=watch)
    ordered = kind_of(path) in ("triplets", "pairs")
    join = joined_order if ordered else Evaluation.joined
    files = [np.load(folder / f"{task.name}.npz") for task in tasks]
    n_items = records[0]["n_items"]
    return {
        name: join([_part(f, place, n_items) for f in files]) for place, name in enumerate(scorers)
    }


def _part(file: Mapping[str, np.ndarray], place: int, n_items: int) -> Evaluation:
    own = {key.partition("|")[2]: file[key] for key in file if key.startswith(f"{place}|")}
    n = own.pop("n")
    return Evaluation(own, n, n_items)
