import numpy as np
import pytest

from similia.feedback.grades import RelevanceTriplets
from similia.feedback.sampling import PAIR_SAMPLERS, TRIPLET_SAMPLERS

SAMPLERS = [*TRIPLET_SAMPLERS.values(), *PAIR_SAMPLERS.values()]


@pytest.mark.parametrize("sampler", SAMPLERS)
@pytest.mark.parametrize(
    ("y", "words"),
    [
        ([], r"one-dimensional array with one label per point, got shape \(0,\)"),
        (3, r"got shape \(\)"),
        ([[0], [0], [1]], r"got shape \(3, 1\)"),
        ([5, 5, 5], "at least two classes, got one class of 3 points; add points"),
        (["a"], "at least two classes, got one class of 1 points"),
        (["a", "b", "c"], "got 3 classes of one point each; merge classes"),
        ([0.0, np.nan, 1.0, np.nan], "got 2 missing, the first in row 1; leave"),
        (np.array(["a", None, "a"], dtype=object), "got 1 missing, the first in row 1"),
        (np.array(["a", "a", np.nan], dtype=object), "got 1 missing, the first in row 2"),
        (np.array(["2020", "NaT"], dtype="M8[D]"), "got 1 missing, the first in row 1"),
        (np.array(["a", 1, "a"], dtype=object), "labels that can be ordered"),
    ],
)
def test_labels_without_tuples_are_refused(sampler, y, words):
    with pytest.raises(ValueError, match=rf"^{sampler.__name__}: y must be .*{words}"):
        sampler(y)


@pytest.mark.parametrize("sampler", [*SAMPLERS, lambda y: RelevanceTriplets([[0, 1]])])
@pytest.mark.parametrize("n", [-1, 2.0, 0.0, None, True, False, "3"])
def test_n_must_be_a_count(sampler, n, rng):
    with pytest.raises(ValueError, match=r"\.draw: n must be an integer of at least 0, got"):
        sampler([0, 0, 1]).draw(n, rng)


@pytest.mark.parametrize("sampler", [*SAMPLERS, lambda y: RelevanceTriplets([[0, 1]])])
@pytest.mark.parametrize("wrong", [None, 0, np.random.RandomState(0)])
def test_rng_must_be_a_generator(sampler, wrong):
    with pytest.raises(ValueError, match=r"rng must be a numpy\.random\.Generator"):
        sampler([0, 0, 1]).draw(3, wrong)
