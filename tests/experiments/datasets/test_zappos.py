import numpy as np
import pytest

from experiments.datasets import DataNotFoundError, load_zappos
from experiments.datasets.objects import ZAPPOS


@pytest.mark.parametrize(
    ("features", "width", "share"), [("effnet", 1280, 75), ("alexnet", 4096, 72)]
)
def test_the_set_has_the_recorded_size_and_agreement_with_cosine(need, features, width, share):
    need(ZAPPOS)
    data = load_zappos(features)
    assert data.X.shape == (85, width)
    assert data.X.dtype == np.float32
    assert data.images.shape == (85, 51, 68, 3)
    X = data.X / np.linalg.norm(data.X, axis=1, keepdims=True)
    S = X @ X.T
    a, b, c = data.triplets.T
    assert round(100 * np.mean(S[a, b] > S[a, c])) == share


def test_no_triplet_occurs_twice_or_reversed(need):
    need(ZAPPOS)
    triplets = load_zappos().triplets
    assert triplets.shape == (283_770, 3)
    assert triplets.min() == 0
    assert triplets.max() == 84
    both = np.concatenate([triplets, triplets[:, [0, 2, 1]]])
    assert len(np.unique(both @ [85 * 85, 85, 1])) == len(both)


def test_a_missing_file_is_explained(monkeypatch):
    monkeypatch.delenv("SIMILIA_DATA", raising=False)
    with pytest.raises(DataNotFoundError, match=r"no public copy.*Heim.*Set SIMILIA_DATA"):
        load_zappos()
