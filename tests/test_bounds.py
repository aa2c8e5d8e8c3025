"""The short form of `make bounds`: compiled loops with every index checked."""

import os
import subprocess
import sys

import pytest

from similia.registry import LEARNERS

PROGRAM = """
import sys
import numpy as np
from scipy import sparse
from similia.linalg.compiled import compiled
from similia.registry import learner_class
from tests.cases import case_of

@compiled
def last(x):
    return x[len(x)]

if sys.argv[1] == "outside":
    last(np.zeros(3))
for form in (np.asarray, sparse.csr_array):
    case = case_of(learner_class(sys.argv[1]), form=form, n=40)
    assert np.isfinite(case.output(case.learn())).all()
"""


def checked(name):
    """Run the program on a learner in a process that checks every index."""
    environment = {**os.environ, "NUMBA_BOUNDSCHECK": "1"}
    command = [sys.executable, "-W", "ignore", "-c", PROGRAM, name]
    return subprocess.run(command, env=environment, capture_output=True, text=True)


@pytest.mark.parametrize("name", LEARNERS)
def test_no_index_of_a_learner_is_out_of_bounds(name):
    ended = checked(name)
    assert ended.returncode == 0, ended.stderr


def test_an_index_out_of_bounds_would_be_noticed():
    assert "IndexError" in checked("outside").stderr
