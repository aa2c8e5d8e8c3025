import os
import subprocess
import sys

import pytest

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")


def kill(*arguments):
    """Run the program that kills, in a process without threads."""
    limits = {"OPENBLAS_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-m", "tests.service.kills", *arguments]
    done = subprocess.run(
        command, capture_output=True, text=True, env={**os.environ, **limits}, timeout=600
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_twenty_kills_under_load_lose_and_double_nothing():
    assert "20 kills" in kill("20")


def test_kills_lose_nothing_in_a_database(server):
    assert "3 kills" in kill("3", "1", server.url)
