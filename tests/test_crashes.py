"""Saves, promotions and checkpoints that end at every change of the disk, one after the other."""

import sys

import numpy as np
import pytest

from tests.fuzz.crashes import SCENES, in_a_child, problem_of

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="/proc and forks of Linux"),
    pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning"),
]


@pytest.mark.parametrize("name", SCENES)
def test_a_power_cut_at_any_change_loses_nothing_that_was_acknowledged(name, tmp_path):
    done, last = False, 0
    while not done:
        last += 1
        folder = tmp_path / str(last)
        folder.mkdir()
        rng = np.random.default_rng(last)
        problem, done = problem_of(
            SCENES[name], folder, lambda k, work, rng=rng: in_a_child(rng, k, work), last
        )
        assert problem is None
    assert last > 4
