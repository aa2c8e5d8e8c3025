"""Work inside the memory of the workers: the same bits, cut smaller, or refused with the number."""

import json
import logging
import math
import sys
from concurrent.futures import Executor, Future
from contextlib import nullcontext

import numpy as np
import pytest

from similia import Blend
from similia.distributed import Engine, evaluate_parts, index_shards, search_ranges
from similia.distributed import tasks as tasks_module
from similia.distributed.engines import engine_named
from similia.distributed.folders import WorkFolder
from similia.distributed.memory import PLANNED_SHARE, PROCESS_BYTES, Cut, machine_memory
from similia.distributed.tasks import run_all
from similia.retrieval.scorers import BLOCK_BYTES
from similia.stored import StoredRows
from tests.distributed.hostile import Writing
from tests.distributed.test_learning import learnt

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="reads at offsets are of POSIX")


def engine_with(executor, memory):
    return Engine(lambda: nullcontext(executor), lost=(), memory=lambda: memory)


@pytest.fixture
def stays(monkeypatch):
    """As if every file were large beside the memory of a task; counts what was read so."""
    seen, made = [], StoredRows.of
    monkeypatch.setattr("similia.distributed.shares.MAPPED_SHARE", 0)
    monkeypatch.setattr(StoredRows, "of", lambda path: seen.append(path) or made(path))
    return seen


def test_shares_learnt_from_rows_that_stay_in_their_file_have_the_same_bits(
    problem, inline, stays, monkeypatch
):
    for learner in (problem.learner(), Blend()):
        monkeypatch.setattr(problem, "learner", lambda learner=learner: learner)
        name = type(learner).__name__
        found = learnt(problem, engine_with(inline, 1e9), f"{name}-stays")
        assert stays
        assert found == learnt(problem, engine_with(inline, math.inf), f"{name}-mapped")


def test_parts_evaluated_from_rows_that_stay_have_the_same_bits(problem, inline, stays):
    given = {"scorers": {"plain": "cosine"}, "vectors": problem.vectors, "path": problem.feedback}
    small, large = (
        evaluate_parts(
            **given, work=problem.folder / str(memory), executor=engine_with(inline, memory)
        )["plain"]
        for memory in (1e9, math.inf)
    )
    assert stays
    for measure, values in large.per_query.items():
        np.testing.assert_array_equal(small.per_query[measure], values)


def test_ranges_and_shards_are_cut_to_the_memory_and_kept_when_it_changes(problem, inline):
    X = np.zeros((3000, 64), np.float32)
    X[:, 0] = np.arange(3000)
    np.save(problem.vectors, X)
    memory = (PROCESS_BYTES + BLOCK_BYTES + 3 * 1100 * 256) / PLANNED_SHARE
    given = {"executor": engine_with(inline, memory), "work": problem.folder / "found"}
    rows, _ = search_ranges("euclidean", problem.vectors, problem.vectors, 1, **given)
    assert json.loads((problem.folder / "found/job.json").read_text())["range_size"] == 1024
    np.testing.assert_array_equal(rows[:, 0], np.arange(3000))
    given["executor"] = engine_with(inline, None)
    again, _ = search_ranges("euclidean", problem.vectors, problem.vectors, 1, **given)
    np.testing.assert_array_equal(again, rows)
    memory = (PROCESS_BYTES + 2**26 + 4 * 1100 * 256) / PLANNED_SHARE
    folder = problem.folder / "shards"
    index_shards(problem.vectors, folder, backend="exact", executor=engine_with(inline, memory))
    assert len(json.loads((folder / "shards.json").read_text())["shards"]) == 3


def test_a_task_that_cannot_fit_is_refused_with_the_number_that_would_do(problem, inline):
    np.save(problem.vectors, np.ones((5000, 8), np.float32))
    given = {"executor": engine_with(inline, 4e8)}
    message = r"memory of a task must be at least [\d,]+ MB for this, got 400 MB"
    with pytest.raises(ValueError, match=f"search_ranges: {message}"):
        search_ranges("cosine", problem.vectors, problem.vectors, 1,
                      work=problem.folder / "a", **given)  # fmt: skip
    with pytest.raises(ValueError, match=f"evaluate_parts: {message}"):
        evaluate_parts({"": "cosine"}, problem.vectors, problem.feedback,
                       work=problem.folder / "b", **given)  # fmt: skip
    with pytest.raises(
        ValueError, match=r"index_shards: .* got 448 MB .* use larger workers, or shard_size=4096"
    ):
        index_shards(problem.vectors, problem.folder / "c", backend="exact",
                     executor=engine_with(inline, 4.481e8), shard_size=5000)  # fmt: skip
    assert not any((problem.folder / name).exists() for name in "abc")


def test_half_as_many_rows_until_they_fit():
    cut = Cut("here", "size", 8192, 10**5, 0)
    assert cut.size(None, 10**6, None) == 8192
    assert cut.size(None, 10**6, 1e12) == 8192
    small = (PROCESS_BYTES + 300e6) / PLANNED_SHARE
    assert cut.size(None, 10**6, small) == 2048
    with pytest.raises(ValueError, match=r"use larger workers, or size=2048\."):
        cut.size(8192, 10**6, small)
    assert cut.size(8192, 1000, small) == 8192  # there are no more
    with pytest.raises(ValueError, match=r"at least 494 MB .* use larger workers\."):
        cut.size(None, 10**6, 1e8)


def test_processes_share_the_memory_of_the_machine():
    whole = machine_memory()
    assert whole
    assert engine_named("processes:4").memory() == whole / 4


@pytest.mark.filterwarnings("ignore")
def test_dask_tells_the_memory_of_a_worker_over_its_threads_and_who_is_gone():
    distributed = pytest.importorskip("distributed")
    options = {"n_workers": 1, "threads_per_worker": 2, "dashboard_address": None}
    with distributed.LocalCluster(**options, processes=False, memory_limit="2GB") as cluster:
        engine = engine_named(cluster)
        assert engine.memory() == 1e9
        with engine.open(), distributed.Client(cluster) as client:
            assert "is running with" in engine.state()
            assert engine.news() == []
            client.retire_workers()
            (line,) = engine.news()
            assert "is gone; it last held" in line
            assert line.endswith("of 2,000 MB")
            assert engine.state() == "the cluster has no workers"
            assert engine.news() == []


# -- silence -----------------------------------------------------------------------------------


class Idle(Executor):
    """Has no workers."""

    def submit(self, fn, /, *args, **kwargs):
        return Future()


def test_silence_ends_with_its_reason_whatever_it_is(tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(tasks_module, "START_SECONDS", 0.0)
    monkeypatch.setattr(tasks_module, "QUIET_SECONDS", 0.1)
    monkeypatch.setattr(tasks_module, "NEWS_SECONDS", 0.0)
    engine = engine_with(Idle(), None)
    engine.state = lambda: "the cluster has no workers"
    lines = iter([["worker a is gone; it last held 950 MB of 1,000 MB"]])
    engine.news = lambda: next(lines, [])
    with (
        caplog.at_level(logging.WARNING),
        pytest.raises(RuntimeError, match=r"no task has moved for .*: the cluster has no workers"),
    ):
        run_all([Writing("task")], WorkFolder(tmp_path), engine, patience=0.5)
    said = [record.message for record in caplog.records]
    assert said[0] == "worker a is gone; it last held 950 MB of 1,000 MB"
    assert sum("no task has moved" in line for line in said) == 1


def test_an_engine_that_does_not_answer_ends_no_run_by_that(tmp_path, monkeypatch, caplog):
    for name in ("START_SECONDS", "NEWS_SECONDS"):
        monkeypatch.setattr(tasks_module, name, 0.0)
    monkeypatch.setattr(tasks_module, "QUIET_SECONDS", 0.1)
    engine = engine_with(Idle(), None)

    def silent():
        raise OSError("the connection is lost")

    engine.state = engine.news = silent
    with (
        caplog.at_level(logging.WARNING),
        pytest.raises(RuntimeError, match=r"no task has moved for .*: its engine does not answer"),
    ):
        run_all([Writing("task")], WorkFolder(tmp_path), engine, patience=0.5)
    assert [record.message.partition(": ")[2] for record in caplog.records] == [
        "its engine does not answer"
    ]


def test_each_lost_worker_is_a_line(tmp_path, caplog):
    tasks = [Writing("task", "memory")]
    with caplog.at_level(logging.WARNING):
        run_all(tasks, WorkFolder(tmp_path), engine_named("processes:1"))
    assert [r.message for r in caplog.records] == ["task: its worker was lost (MemoryError: )"]
