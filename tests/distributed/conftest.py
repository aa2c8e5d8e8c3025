import os
import signal
import subprocess
import sys
from concurrent.futures import Executor, Future

import numpy as np
import pytest

from similia import OASIS
from tests.problems import labelled


class Inline(Executor):
    """Does everything at once, in this process."""

    def submit(self, fn, /, *args, **kwargs):
        future = Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except Exception as error:
            future.set_exception(error)
        return future


@pytest.fixture
def inline():
    return Inline()


class Problem:
    """Vectors and triplets in files."""

    def __init__(self, folder, n=3000, seed=0):
        rng = np.random.default_rng(seed)
        X, y = labelled(rng, n=120, d=6)
        triplets = rng.integers(120, size=(8 * n, 3))
        same = y[triplets] == y[triplets[:, :1]]
        self.triplets = triplets[same[:, 1] & ~same[:, 2]][:n]
        self.triplets[::4, 1:] = self.triplets[::4, :0:-1]  # errors, so that there is much to learn
        self.X = X
        self.vectors, self.feedback = folder / "vectors.npy", folder / "feedback.npy"
        np.save(self.vectors, X)
        np.save(self.feedback, self.triplets)
        self.folder = folder

    def learner(self):
        return OASIS()

    def output(self, name):
        return self.folder / f"{name}.safetensors"

    def let_a_driver_be_killed(self, engine):
        """Start a driver that is killed before its third share is finished."""
        command = [sys.executable, "-m", "tests.distributed.driver", engine, str(self.folder)]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        ended = subprocess.run(command, env=environment, stderr=subprocess.DEVNULL)
        assert ended.returncode == -signal.SIGKILL
        assert not self.output("again").exists()


@pytest.fixture
def problem(tmp_path):
    return Problem(tmp_path)


@pytest.fixture(scope="session")
def patient():
    """Seconds that a healthy worker never needs between two reports, even on a busy machine."""
    return float(os.environ.get("SIMILIA_TEST_PATIENCE", "10"))
