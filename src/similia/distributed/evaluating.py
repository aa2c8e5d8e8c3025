"""Evaluation on many workers, equal to that on one to the last bit."""

import math
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from similia.distributed.engines import engine_named
from similia.distributed.folders import Record, WorkFolder, open_job, write_arrays
from similia.distributed.inputs import located, located_source
from similia.distributed.memory import check_fits
from similia.distributed.searching import scorer_named
from similia.distributed.shares import VectorPath
from similia.distributed.tasks import DEFAULT_PATIENCE, Report, number_of_parts, run_shown
from similia.feedback import kind_of
from similia.files import BadRow, BadRows, Source
from similia.persistence import load, save
from similia.retrieval import Evaluation
from similia.retrieval.scorers import BLOCK_BYTES
from similia.safety.whole import file_sha256, replacing
from similia.trust import evaluate_file
from similia.trust.evaluation import joined_order
from similia.validation import check_parameters, positive

#: parts by default
DEFAULT_PARTS = 8

_RULES = {"parts": number_of_parts, "patience": positive}


@dataclass(frozen=True)
class EvaluatePart:
    """One part of the queries, for all scorers."""

    number: int
    n_parts: int
    scorers: tuple[tuple[str, str], ...]
    vectors: VectorPath
    items: VectorPath | None
    path: str
    columns: tuple[tuple[str, str], ...]
    bad_rows: str
    k: tuple[int, ...]
    #: bytes of memory that a task may take
    memory: float = math.inf
    needs: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """Name of the part."""
        return f"evaluation-{self.number:04}"

    def run(self, folder: Path, report: Report) -> tuple[Record, list[str]]:
        """Measure the part, and write the values per query."""
        files = {name: folder / scorer for name, scorer in self.scorers}
        scorers = {n: load(files[n]) if files[n].is_file() else s for n, s in self.scorers}
        vectors = self.vectors.read(self.memory)
        items = None if self.items is None else self.items.read(self.memory)
        source, skipped = Source(folder / self.path, dict(self.columns)), list[BadRow]()
        bad = BadRows(self.bad_rows, skipped.append)
        found = evaluate_file(
            scorers,
            vectors,
            source,
            items=items,
            k=self.k,
            bad_rows=bad,
            part=(self.number, self.n_parts),
        )
        file = f"{self.name}.npz"
        arrays: dict[str, Any] = {}
        for place, evaluation in enumerate(found.values()):
            arrays[f"{place}|n"] = evaluation.n_relevant
            arrays |= {f"{place}|{name}": v for name, v in evaluation.per_query.items()}
        write_arrays(folder / file, arrays)
        record: Record = {"n": 1, "n_items": next(iter(found.values())).n_items}
        if not self.number:  # every part reads all judgements, so only the first reports bad rows
            record |= {"skipped": skipped, "by_reason": dict(bad.counts)}
        return record, [file]


def evaluate_parts(
    scorers: Mapping[str, Any],
    vectors: VectorPath | Path | str,
    path: Source | Path | str,
    *,
    work: Path | str,
    items: VectorPath | Path | str | None = None,
    executor: Any = "processes",
    parts: int = DEFAULT_PARTS,
    k: Sequence[int] = (1, 5, 10),
    bad_rows: BadRows | None = None,
    patience: float = DEFAULT_PATIENCE,
    verbose: bool = False,
) -> dict[str, Evaluation]:
    """`evaluate_file` in parts of the queries, on many workers: the same values, to the last bit.

    Parameters
    ----------
    scorers : dict of paths, names or learners
        Files of models, also by URL, names of plain similarities, or learners, by any name.
    vectors, items, executor, patience, verbose
        As for `learn_shares`; a part must be measured within the patience.
    path : path, table, collection or Source
        Judgements, as for `evaluate_file`; every worker reads them.
    work : path or URL
        New folder for what is under way, shared by all workers, or one such as ``s3://…``; it is
        kept, and the same call goes on from what is finished.
    parts : int
        Number of tasks; results do not depend on it.
    k : sequence of int
        Cut-offs of retrieval measures.
    bad_rows : BadRows, optional
        As for `evaluate_file`.

    Examples
    --------
    >>> import tempfile
    >>> from concurrent.futures import ThreadPoolExecutor
    >>> import numpy as np
    >>> from similia.distributed import evaluate_parts
    >>> X = np.array([[1.0, 0.0], [0.9, 0.1], [0.0, 1.0]])
    >>> judged = {"query": [0, 2], "item": [1, 1], "relevance": [1, 1]}
    >>> with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(2) as pool:
    ...     found = evaluate_parts(
    ...         {"base": "cosine"}, X, judged, work=f"{folder}/work", parts=2, executor=pool
    ...     )
    >>> found["base"].means["mrr"]
    1.0
    """
    check_parameters("evaluate_parts", _RULES, {"parts": parts, "patience": patience})
    engine, folder = engine_named(executor), WorkFolder(work)
    bad_rows, memory = bad_rows or BadRows(), engine.memory() or math.inf
    check_fits("evaluate_parts", BLOCK_BYTES, memory, "use larger workers, or fewer threads")
    where = located(vectors, folder), None if items is None else located(items, folder)
    source = located_source(path, folder)
    judged, columns = folder.named(source.path.absolute()), tuple(source.columns.items())
    with tempfile.TemporaryDirectory() as name:
        new, named = _files(scorers, Path(name), folder)
        marks = [
            [n, file_sha256(new[s])] if s in new else [n, *folder.mark(s)] for n, s in named.items()
        ]
        job = {
            "evaluate": marks,
            "vectors": where[0].mark(),
            "items": where[1] and where[1].mark(),
            "judgements": [*folder.mark(judged), *columns],
            "settings": [parts, *k, bad_rows.action],
        }
        open_job(folder, job)
        for target, file in new.items():
            with replacing(folder.path / target) as temporary:
                shutil.copyfile(file, temporary)
            folder.put(target)
    needs = folder.needs(*named.values(), judged)
    common = tuple(named.items()), *where, judged, columns, bad_rows.action, tuple(k), memory, needs
    tasks = [EvaluatePart(number, parts, *common) for number in range(parts)]
    words = f"of {parts} parts"
    records = run_shown(
        tasks, folder, engine, "evaluate", parts, words, patience=patience, verbose=verbose
    )
    bad_rows.take((BadRow(*row) for row in records[0]["skipped"]), records[0]["by_reason"])
    ordered = kind_of(source) in ("triplets", "pairs")
    join = joined_order if ordered else Evaluation.joined
    n_items, found = records[0]["n_items"], {name: list[Evaluation]() for name in scorers}
    for task in tasks:
        with np.load(folder.get(f"{task.name}.npz")) as file:
            for place, own in enumerate(found.values()):
                own.append(_part(file, place, n_items))
    return {name: join(own) for name, own in found.items()}


def _files(
    scorers: Mapping[str, Any], new: Path, folder: WorkFolder
) -> tuple[dict[str, Path], dict[str, str]]:
    """Save learners as new files; return these by target, and every scorer as a path or name."""
    saved, named = dict[str, Path](), dict[str, str]()
    for place, (name, scorer) in enumerate(scorers.items()):
        if isinstance(scorer, str | Path):
            named[name] = scorer_named(scorer, folder)
        else:
            named[name] = file = f"scorer-{place:04}.safetensors"
            saved[file] = new / file
            save(scorer, new / file)
    return saved, named


def _part(file: Mapping[str, np.ndarray], place: int, n_items: int) -> Evaluation:
    own = {key.partition("|")[2]: file[key] for key in file if key.startswith(f"{place}|")}
    n = own.pop("n")
    return Evaluation(own, n, n_items)
