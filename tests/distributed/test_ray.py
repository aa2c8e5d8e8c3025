"""The same on Ray, on this machine; slow to start, so only in `make clusters`."""

import os
from contextlib import contextmanager

import numpy as np
import pytest

from similia.distributed import evaluate_parts, learning
from similia.distributed.engines import engine_named
from similia.distributed.tasks import run_all
from similia.files import read_vectors
from similia.stream import evaluate_file
from tests.distributed.hostile import KillingTheDriver, Unlucky, Writing
from tests.distributed.test_learning import learnt

if "SIMILIA_TEST_CLUSTERS" not in os.environ:
    pytest.skip("`make clusters` runs it", allow_module_level=True)
ray = pytest.importorskip("ray")
pytestmark = pytest.mark.filterwarnings("ignore")


@contextmanager
def started(n_workers):
    ray.init(num_cpus=n_workers, include_dashboard=False, log_to_driver=False)
    try:
        yield "ray"
    finally:
        ray.shutdown()


@pytest.fixture
def running():
    with started(2) as engine:
        yield engine


def test_workers_that_die_hang_or_lack_memory_change_no_bit(problem, inline, running, monkeypatch):
    expected = learnt(problem, inline)
    monkeypatch.setattr(learning, "LearnShare", Unlucky)
    options = {"work": problem.folder / "work", "patience": 20.0}
    assert learnt(problem, running, "again", **options) == expected
    for fate in ("die", "hang", "take_all_memory"):
        assert (problem.folder / "work" / f"{fate}.happened").exists()


def test_an_evaluation_is_that_of_one_machine(problem, running):
    model = problem.learner().learn(problem.X, problem.triplets[:50])
    scorers = {"plain": "cosine", "own": model}
    expected = evaluate_file(scorers, read_vectors(problem.vectors), problem.feedback)
    work = problem.folder / "work"
    found = evaluate_parts(scorers, problem.vectors, problem.feedback, executor=running, work=work)
    for name, own in found.items():
        for measure, values in own.per_query.items():
            np.testing.assert_array_equal(values, expected[name].per_query[measure])


def test_a_killed_driver_goes_on_from_what_is_finished(problem, inline, running, monkeypatch):
    """The first driver has a cluster of its own, which dies with it."""
    expected = learnt(problem, inline)
    problem.let_a_driver_be_killed("ray")
    monkeypatch.setattr(learning, "LearnShare", KillingTheDriver)
    assert learnt(problem, running, "again", work=problem.folder / "work") == expected


def test_an_error_of_a_task_is_raised(tmp_path, running):
    with pytest.raises(ValueError, match="the task itself is wrong"):
        run_all([Writing("wrong", "fail")], tmp_path, engine_named(running))


def test_a_cluster_of_one_worker_survives_its_hanging(tmp_path, patient):
    tasks = [Writing("task-0", "hang"), Writing("task-1", "die"), Writing("task-2", "memory")]
    with started(1) as engine:
        records = run_all(tasks, tmp_path, engine_named(engine), patience=patient)
    assert [record["wrote"] for record in records] == [task.name for task in tasks]
