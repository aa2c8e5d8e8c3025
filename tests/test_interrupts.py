"""Signals, in a process of their own: threads and handlers of other packages disturb them."""

import subprocess
import sys
from pathlib import Path


def test_an_interrupt_leaves_a_state_that_there_would_have_been_anyway():
    plain = ["-q", "-p", "no:cacheprovider", "-p", "no:xdist", "-o", "addopts="]
    command = [
        sys.executable,
        "-m",
        "pytest",
        *plain,
        str(Path(__file__).with_name("interrupted.py")),
    ]
    found = subprocess.run(command, capture_output=True, text=True, cwd=Path(__file__).parents[1])
    assert found.returncode == 0, found.stdout[-5000:]
