import numpy as np
import pytest
from numpy.testing import assert_array_equal

from experiments.datasets import DataNotFoundError, load_office_caltech
from experiments.datasets.image_features import OFFICE_CALTECH as FILES

SIZES = {
    "amazon": [92, 82, 94, 99, 100, 100, 99, 100, 94, 98],
    "caltech": [151, 110, 100, 138, 85, 128, 133, 94, 87, 97],
    "dslr": [12, 21, 12, 13, 10, 24, 22, 12, 8, 23],
    "webcam": [29, 21, 31, 27, 27, 30, 43, 30, 27, 30],
}
# Percent of images whose nearest neighbor in another domain, by cosine, is of their class.
NEAREST = {
    ("amazon", "caltech"): {"surf": 34, "network": 90},
    ("caltech", "amazon"): {"surf": 36, "network": 94},
    ("webcam", "dslr"): {"surf": 85, "network": 99},
    ("dslr", "caltech"): {"surf": 30, "network": 89},
}


def unit(X):
    return X / np.linalg.norm(X, axis=1, keepdims=True)


def standardized(X):
    X = X / X.sum(axis=1, keepdims=True)
    scale = X.std(axis=0)
    return (X - X.mean(axis=0)) / np.where(scale > 0, scale, 1)


@pytest.mark.parametrize(("features", "width"), [("surf", 800), ("network", 1280)])
def test_the_set_has_the_published_sizes(need, features, width):
    need(FILES[features])
    data = load_office_caltech(features)
    assert data.X.shape == (2533, width)
    assert data.X.dtype == np.float32
    assert data.domains == tuple(SIZES)
    assert len(data.classes) == 10
    for code, name in enumerate(data.domains):
        assert np.bincount(data.y[data.domain == code]).tolist() == SIZES[name]
    assert np.all(np.diff(10 * data.domain + data.y) >= 0)


def test_both_features_have_the_same_labels(need):
    need(*FILES.values())
    surf, network = load_office_caltech("surf"), load_office_caltech("network")
    assert_array_equal(surf.y, network.y)
    assert_array_equal(surf.domain, network.domain)
    assert surf.classes == network.classes


def test_visual_words_are_counts(need):
    need(FILES["surf"])
    X = load_office_caltech("surf").X
    assert_array_equal(X, np.round(X))
    assert X.min() == 0
    assert X.max() == 115


@pytest.mark.parametrize("features", FILES)
def test_neighbors_across_domains_are_as_good_as_recorded(need, features):
    need(FILES[features])
    data = load_office_caltech(features)
    prepare = standardized if features == "surf" else lambda X: X
    for (source, target), share in NEAREST.items():
        a, b = (data.domain == data.domains.index(name) for name in (source, target))
        nearest = (unit(prepare(data.X[b])) @ unit(prepare(data.X[a])).T).argmax(axis=1)
        right = 100 * np.mean(data.y[a][nearest] == data.y[b])
        assert right == pytest.approx(share[features], abs=0.6), (source, target)


def test_wrong_options_are_refused():
    with pytest.raises(ValueError, match="features must be one of 'surf', 'network', got 'decaf'"):
        load_office_caltech("decaf")


@pytest.mark.parametrize("features", FILES)
def test_a_missing_file_is_explained(monkeypatch, features):
    monkeypatch.delenv("SIMILIA_DATA", raising=False)
    with pytest.raises(DataNotFoundError, match=r"no public copy.*Saenko.*Set SIMILIA_DATA"):
        load_office_caltech(features)
