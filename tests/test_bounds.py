"""`make bounds` builds with every index checked; these tests say that this build would notice."""

import os
import sys

import numpy as np
import pytest

from similia.linalg.bound import sparse_quadratic
from similia.updates.definite_boost import screen_pairs

pytestmark = pytest.mark.skipif(
    not os.environ.get("SIMILIA_BOUNDS"), reason="indices are checked in `make bounds` alone"
)


def test_an_index_out_of_bounds_is_an_error():
    ptr, index = np.array([0, 1]), np.array([7])
    with pytest.raises(IndexError):
        sparse_quadratic(np.eye(2), ptr, index, np.ones(1))


def test_inner_functions_report_what_they_cannot_raise(monkeypatch):
    """They have no way to raise; pytest turns what they report into failures."""
    reported = []
    monkeypatch.setattr(sys, "unraisablehook", reported.append)
    far, one = np.array([7], np.uint32), np.ones(1)
    screen_pairs(np.eye(2), far, far, one, one, np.empty(1))
    assert [r.exc_type for r in reported] == [IndexError]
