"""The same on a Dask cluster of processes on this machine."""

import sys
from urllib.request import urlopen

import numpy as np
import pytest
from typer.testing import CliRunner

from similia.cli.main import app
from similia.distributed import evaluate_parts, learning
from similia.distributed.engines import engine_named
from similia.distributed.folders import WorkFolder
from similia.distributed.tasks import run_all
from similia.files import read_vectors
from similia.trust import evaluate_file
from tests.distributed.hostile import KillingTheDriver, Unlucky, Writing
from tests.distributed.test_learning import learnt
from tests.elsewhere import in_clusters

distributed = pytest.importorskip("distributed")
pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="limits of memory"),
    pytest.mark.filterwarnings("ignore"),
]


def started(n_workers):
    options = {"n_workers": n_workers, "threads_per_worker": 1, "dashboard_address": None}
    return distributed.LocalCluster(
        **options, processes=True, silence_logs=50, memory_limit="1.5GiB"
    )


@pytest.fixture(scope="module")
def cluster():
    with started(2) as running:
        yield running.scheduler_address.replace("tcp://", "dask://")


@in_clusters
def test_workers_that_die_hang_or_lack_memory_change_no_bit(problem, inline, cluster, monkeypatch):
    expected = learnt(problem, inline)
    monkeypatch.setattr(learning, "LearnShare", Unlucky)
    options = {"work": problem.folder / "work", "patience": 20.0}
    assert learnt(problem, cluster, "again", **options) == expected
    for fate in ("die", "hang", "take_all_memory"):
        assert (problem.folder / "work" / f"{fate}.happened").exists()


def test_a_cluster_a_client_and_an_address_are_taken_and_stay_open(problem, inline):
    expected = learnt(problem, inline)
    with started(1) as running, distributed.Client(running) as client:
        for name, given in zip("abc", (running, client, running.scheduler_address), strict=True):
            assert learnt(problem, given, name) == expected
        assert client.submit(sum, [1, 2]).result() == 3


def test_an_evaluation_is_that_of_one_machine(problem, cluster, rng):
    X = np.concatenate([problem.X, problem.X])  # ties
    np.save(problem.vectors, X)
    grades = problem.folder / "grades.csv"
    rows = rng.integers(240, size=(600, 2)).tolist()
    grades.write_text("query,item,relevance\n" + "".join(f"{q},{i},1\n" for q, i in rows))
    model = problem.learner().learn(X, problem.triplets[:50])
    scorers = {"plain": "cosine", "own": model}
    expected = evaluate_file(scorers, read_vectors(problem.vectors), grades)
    found = evaluate_parts(
        scorers, problem.vectors, grades, executor=cluster, work=problem.folder / "work"
    )
    for name, own in found.items():
        for measure, values in own.per_query.items():
            np.testing.assert_array_equal(values, expected[name].per_query[measure])


@in_clusters
def test_a_killed_driver_goes_on_from_what_is_finished(problem, inline, cluster, monkeypatch):
    expected = learnt(problem, inline)
    problem.let_a_driver_be_killed(cluster)
    monkeypatch.setattr(learning, "LearnShare", KillingTheDriver)
    assert learnt(problem, cluster, "again", work=problem.folder / "work") == expected


@in_clusters
def test_a_cluster_of_one_worker_survives_its_hanging(tmp_path, patient):
    tasks = [Writing("task-0", "hang"), Writing("task-1", "memory"), Writing("task-2", "die")]
    with started(1) as running:
        engine = engine_named(running.scheduler_address.replace("tcp://", "dask://"))
        records = run_all(tasks, WorkFolder(tmp_path), engine, patience=patient)
    assert [record["wrote"] for record in records] == [task.name for task in tasks]


@in_clusters
def test_an_executor_of_dask_serves_as_one(problem, inline, cluster):
    expected = learnt(problem, inline)
    with distributed.Client(cluster.replace("dask://", "tcp://")) as client:
        assert learnt(problem, client.get_executor(), "again") == expected


@in_clusters
def test_commands_run_on_the_cluster(problem, inline, cluster):
    expected, output = learnt(problem, inline), problem.output("again")
    given = (problem.vectors, problem.feedback)
    words = ["learn", *given, "--learner", "OASIS", "-o", output, "--shares", 4]
    found = CliRunner().invoke(app, [*map(str, words), "--executor", cluster])
    assert found.exit_code == 0, found.output
    assert output.read_bytes() == expected
    words = [str(word) for word in ("evaluate", output, *given, "--json")]
    alone, parted = (
        CliRunner().invoke(app, [*words, *more]) for more in ([], ["--executor", cluster])
    )
    assert (alone.exit_code, parted.stdout) == (0, alone.stdout)


@in_clusters
def test_the_dashboard_shows_the_tasks(problem):
    """What its pages draw is what the scheduler counts, by the name of the function."""
    pytest.importorskip("bokeh", reason="the dashboard needs bokeh")
    options = {"n_workers": 1, "threads_per_worker": 1, "silence_logs": 50}
    with (
        distributed.LocalCluster(**options, dashboard_address="127.0.0.1:0") as running,
        distributed.Client(running) as client,
    ):
        learnt(problem, running.scheduler_address.replace("tcp://", "dask://"))
        counts = client.run_on_scheduler(
            lambda dask_scheduler: {
                name: dict(prefix.state_counts)
                for name, prefix in dask_scheduler.task_prefixes.items()
            }
        )
        page = urlopen(running.dashboard_link, timeout=60)
        assert page.status == 200
    assert counts["perform"]["memory"] >= 4
