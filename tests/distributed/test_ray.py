"""The same on Ray, on this machine; slow to start, so only where it is asked for."""

import os

import pytest

from similia.distributed import learning
from tests.distributed.hostile import Dying
from tests.distributed.test_learning import learnt

if "SIMILIA_TEST_RAY" not in os.environ:
    pytest.skip("set SIMILIA_TEST_RAY to start Ray", allow_module_level=True)
ray = pytest.importorskip("ray")


@pytest.fixture(scope="module")
def running():
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    yield "ray"
    ray.shutdown()


@pytest.mark.filterwarnings("ignore")
def test_a_killed_worker_changes_no_bit(problem, inline, running, monkeypatch):
    expected = learnt(problem, inline)
    monkeypatch.setattr(learning, "LearnShare", Dying)
    assert learnt(problem, running, "again", work=problem.folder / "work") == expected
    assert (problem.folder / "work" / "death.happened").exists()
