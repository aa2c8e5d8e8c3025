import numpy as np
import pytest

from experiments.datasets import DataNotFoundError, load_tiny_imagenet
from experiments.datasets.image_features import TINY_IMAGENET


def test_the_set_has_the_recorded_sizes(need):
    need(TINY_IMAGENET)
    data = load_tiny_imagenet()
    assert data.X.shape == (20_000, 256)
    assert data.X.dtype == np.float32
    assert data.train[:10_000].all()
    assert not data.train[10_000:].any()
    for half in (data.train, ~data.train):
        assert np.bincount(data.y[half]).tolist() == [50] * 200
    assert len(set(data.classes)) == len(set(data.wnids)) == 200
    assert data.wnids[0] == "n01443537"
    assert data.classes[0].startswith("goldfish")


def test_columns_have_the_variance_of_principal_components(need):
    need(TINY_IMAGENET)
    data = load_tiny_imagenet()
    variance = data.X[data.train].var(axis=0)
    assert np.all(variance[:-1] > 0.98 * variance[1:])


def test_neighbors_are_as_good_as_recorded(need):
    need(TINY_IMAGENET)
    data = load_tiny_imagenet()
    X = data.X / np.linalg.norm(data.X, axis=1, keepdims=True)
    some = np.arange(10_000, 20_000, 10)  # 53.0 % here, 51.7 % of all
    nearest = np.argpartition(-(X[some] @ X[data.train].T), 10, axis=1)[:, :10]
    votes = np.zeros((len(some), 200))
    np.add.at(votes, (np.arange(len(some))[:, None], data.y[data.train][nearest]), 1)
    assert np.mean(votes.argmax(axis=1) == data.y[some]) == pytest.approx(0.53, abs=0.01)


def test_a_missing_file_is_explained(monkeypatch):
    monkeypatch.delenv("SIMILIA_DATA", raising=False)
    with pytest.raises(DataNotFoundError, match=r"no public copy.*Tiny ImageNet.*Set SIMILIA_DATA"):
        load_tiny_imagenet()
