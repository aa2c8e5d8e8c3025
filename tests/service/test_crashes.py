import os
import subprocess
import sys

import pytest


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_twenty_kills_under_load_lose_and_double_nothing():
    limits = {"OPENBLAS_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-m", "tests.service.kills", "20"],
        capture_output=True,
        text=True,
        env={**os.environ, **limits},
    )
    assert done.returncode == 0, done.stderr
    assert "20 kills" in done.stdout
