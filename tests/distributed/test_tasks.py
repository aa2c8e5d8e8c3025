"""Tasks on processes: deaths, hangs, errors, and nothing done twice."""

import json
import pickle

import numpy as np
import pytest

from similia.distributed import (
    evaluate_parts,
    index_shards,
    learn_shares,
    search_ranges,
    search_shards,
)
from similia.distributed import tasks as tasks_module
from similia.distributed.engines import engine_named
from similia.distributed.folders import WorkFolder, finished
from similia.distributed.tasks import run_all
from tests.distributed.conftest import Inline
from tests.distributed.hostile import Writing
from tests.elsewhere import in_clusters


def names(records):
    return [record["wrote"] for record in records]


@in_clusters
def test_outcomes_come_in_the_order_of_the_tasks_whatever_happens(tmp_path, patient):
    """Workers are killed, hang or lack memory; their tasks are done again by others."""
    fates = ["", "die", "hang", "memory"]
    tasks = [Writing(f"task-{i}", fate) for i, fate in enumerate(fates)]
    records = run_all(tasks, WorkFolder(tmp_path), engine_named("processes:2"), patience=patient)
    assert names(records) == [task.name for task in tasks]
    for task in tasks:
        assert (tmp_path / f"{task.name}.txt").read_text() == task.name
        assert finished(WorkFolder(tmp_path), task.name) is not None


@in_clusters
def test_a_task_that_kills_every_worker_is_given_up(tmp_path, monkeypatch):
    monkeypatch.setattr(tasks_module, "MAX_LOSSES", 1)
    tasks = [Writing("fatal", "always die")]
    with pytest.raises(RuntimeError, match="fatal: its worker died or hung 2 times in a row"):
        run_all(tasks, WorkFolder(tmp_path), engine_named("processes:1"))


def test_an_error_of_a_task_is_raised(tmp_path, inline):
    with pytest.raises(ValueError, match="the task itself is wrong"):
        run_all([Writing("wrong", "fail")], WorkFolder(tmp_path), engine_named(inline))


def test_finished_tasks_are_not_repeated_and_damaged_ones_are(tmp_path, inline):
    tasks = [Writing(f"task-{i}") for i in range(3)]
    run_all(tasks, WorkFolder(tmp_path), engine_named(inline))
    before = [(tmp_path / f"{task.name}.txt").stat().st_mtime_ns for task in tasks]
    (tmp_path / "task-1.txt").write_text("tampered with")
    (tmp_path / "task-2.json").write_text(json.dumps({"outcome": {}})[:-3])
    records = run_all(tasks, WorkFolder(tmp_path), engine_named(inline))
    assert names(records) == ["task-0", "task-1", "task-2"]
    after = [(tmp_path / f"{task.name}.txt").stat().st_mtime_ns for task in tasks]
    assert after[0] == before[0]
    assert (tmp_path / "task-1.txt").read_text() == "task-1"


@pytest.mark.parametrize(
    "text",
    ["[]", "3", "{}", '{"outcome": {"n": 5}, "files": {}}', '{"sha256": "", "files": []}'],
)
def test_a_record_without_its_checksum_counts_for_nothing(tmp_path, inline, text):
    task = Writing("task-0")
    (whole,) = run_all([task], WorkFolder(tmp_path), engine_named(inline))
    record = tmp_path / "task-0.json"
    record.write_text(record.read_text().replace('"files"', '"more": 1, "files"'))
    assert finished(WorkFolder(tmp_path), "task-0") is None
    record.write_text(text)
    assert finished(WorkFolder(tmp_path), "task-0") is None
    assert run_all([task], WorkFolder(tmp_path), engine_named(inline)) == [whole]


def test_reports_of_all_tasks_are_added_up(tmp_path, inline):
    seen = []
    run_all(
        [Writing(f"t{i}") for i in range(4)],
        WorkFolder(tmp_path),
        engine_named(inline),
        watch=seen.append,
    )
    assert seen[-1] == 4


@pytest.mark.parametrize("name", ["threads:2", "processes:0", "dask://nowhere", "ray:4", ""])
def test_an_unknown_engine_is_refused(name):
    with pytest.raises(ValueError, match="executor must be processes, processes:N"):
        engine_named(name)


class Weighing(Inline):
    """Notes how many bytes a call would send to a worker."""

    def __init__(self):
        self.sent = []

    def submit(self, fn, /, *args, **kwargs):
        self.sent.append(len(pickle.dumps((fn, args, kwargs))))
        return super().submit(fn, *args, **kwargs)


def test_workers_are_sent_paths_and_numbers_and_never_arrays(problem):
    engine, X = Weighing(), np.tile(problem.X, (20, 1))
    np.save(problem.vectors, X)
    given = {"executor": engine}
    model = problem.output("model")
    learn_shares(problem.learner(), problem.vectors, problem.feedback, output=model, **given)

    def folder(name):
        return problem.folder / name

    scorers = {"plain": "cosine", "own": model}
    evaluate_parts(scorers, problem.vectors, problem.feedback, work=folder("measured"), **given)
    sides = problem.vectors, problem.vectors
    search_ranges(model, *sides, 3, work=folder("exact"), range_size=999, **given)
    index_shards(problem.vectors, folder("shards"), backend="exact", shard_size=999, **given)
    search_shards(folder("shards"), problem.vectors, 3, work=folder("found"), **given)
    assert len(engine.sent) >= 8 + 8 + 3 + 3 + 3
    assert max(engine.sent) < 1500 < min(X.nbytes, problem.triplets.nbytes) / 10
