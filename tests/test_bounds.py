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


def checked(name, cache):
    """Run the program on a learner in a process that checks every index.

    Whether an index is right does not depend on how well the code is optimized, which takes as long
    as everything else; such code must not get into the cache of the others.
    """
    plain = {"NUMBA_BOUNDSCHECK": "1", "NUMBA_OPT": "0", "NUMBA_CACHE_DIR": str(cache)}
    environment = {**os.environ, **plain}
    command = [sys.executable, "-W", "ignore", "-c", PROGRAM, name]
    return subprocess.run(command, env=environment, capture_output=True, text=True)


@pytest.mark.parametrize("name", LEARNERS)
def test_no_index_of_a_learner_is_out_of_bounds(name, tmp_path):
    ended = checked(name, tmp_path)
    assert ended.returncode == 0, ended.stderr


def test_an_index_out_of_bounds_would_be_noticed(tmp_path):
    assert "IndexError" in checked("outside", tmp_path).stderr
