"""The same on a Dask cluster of processes on this machine."""

import pytest

from similia.distributed import learning
from similia.distributed.engines import engine_named
from similia.distributed.tasks import run_all
from tests.distributed.hostile import Dying, Writing
from tests.distributed.test_learning import learnt

distributed = pytest.importorskip("distributed")


@pytest.fixture(scope="module")
def cluster():
    options = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": None}
    with distributed.LocalCluster(**options, processes=True, silence_logs=50) as running:
        yield running.scheduler_address.replace("tcp://", "dask://")


@pytest.mark.filterwarnings("ignore")
def test_a_killed_worker_changes_no_bit(problem, inline, cluster, monkeypatch):
    expected = learnt(problem, inline)
    monkeypatch.setattr(learning, "LearnShare", Dying)
    assert learnt(problem, cluster, "again", work=problem.folder / "work") == expected
    assert (problem.folder / "work" / "death.happened").exists()


@pytest.mark.filterwarnings("ignore")
def test_a_hanging_worker_is_left_for_another(tmp_path, cluster, patient):
    tasks = [Writing("task-0"), Writing("task-1", "hang"), Writing("task-2")]
    records = run_all(tasks, tmp_path, engine_named(cluster), patience=patient)
    assert [record["wrote"] for record in records] == [task.name for task in tasks]
