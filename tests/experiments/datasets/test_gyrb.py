from collections import Counter

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from experiments.datasets import DataNotFoundError, load_gyrb
from experiments.datasets.objects import GYRB, KERNELS

CLOSE_PAIRS = {"spectrum3": 152, "spectrum2": 437, "identity": 454}


def spectrum_kernel(proteins, k):
    """Leslie, Eskin and Noble 2002, with rows of unit length, one pair at a time."""
    counts = [Counter(p[i : i + k] for i in range(len(p) - k + 1)) for p in proteins]
    K = np.array([[sum(a[run] * b[run] for run in a) for b in counts] for a in counts], dtype=float)
    return K / np.sqrt(np.outer(np.diag(K), np.diag(K)))


def squared_distances(K):
    return np.add.outer(np.diag(K), np.diag(K)) - 2 * K


@pytest.mark.parametrize("kernel", KERNELS)
def test_the_kernel_is_one(need, kernel):
    need(GYRB)
    K = load_gyrb(kernel).K
    assert K.shape == (52, 52)
    assert_array_equal(K, K.T)
    assert_allclose(np.diag(K), 1)
    assert np.linalg.eigvalsh(K).min() > -1e-13


def test_the_set_has_the_recorded_sizes(need):
    need(GYRB)
    data = load_gyrb()
    assert np.bincount(data.y).tolist() == [31, 11, 10]
    assert data.classes == ("Vibrio", "Acinetobacter", "Pseudomonas")
    assert len(set(data.proteins.tolist())) == len(set(data.ids.tolist())) == 52
    assert {len(p) for p in data.proteins} == {147}
    assert {len(d) for d in data.dna} == {441}


def test_kernels_follow_from_the_sequences(need):
    need(GYRB)
    proteins = load_gyrb().proteins.tolist()
    for k in (2, 3):
        assert_allclose(load_gyrb(f"spectrum{k}").K, spectrum_kernel(proteins, k), atol=1e-13)
    letters = np.array([list(p) for p in proteins])
    same = (letters[:, None] == letters[None]).mean(axis=2)
    assert_allclose(load_gyrb("identity").K, same, atol=1e-13)


@pytest.mark.parametrize("kernel", KERNELS)
def test_distances_are_as_recorded(need, kernel):
    need(GYRB)
    data = load_gyrb(kernel)
    distances = squared_distances(data.K / np.trace(data.K))
    assert (distances[np.triu_indices(52, 1)] < 0.2 / 52).sum() == CLOSE_PAIRS[kernel]
    np.fill_diagonal(distances, np.inf)
    assert_array_equal(data.y[distances.argmin(axis=1)], data.y)


def test_wrong_options_are_refused():
    with pytest.raises(ValueError, match="kernel must be one of 'spectrum3', 'spectrum2'"):
        load_gyrb("rbf")


def test_a_missing_file_is_explained(monkeypatch):
    monkeypatch.delenv("SIMILIA_DATA", raising=False)
    with pytest.raises(DataNotFoundError, match=r"no public copy.*PubMLST.*Set SIMILIA_DATA"):
        load_gyrb()
