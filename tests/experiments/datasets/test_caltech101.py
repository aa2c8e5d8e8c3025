import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from experiments.datasets import DataNotFoundError, load_caltech101, tfidf
from experiments.datasets.image_features import CALTECH101 as FILES

WIDTH = {"visterms": 1000, "fisher": 2048, "effnet": 1280}


@pytest.mark.parametrize("features", FILES)
def test_the_set_has_the_published_sizes(need, features):
    need(FILES[features])
    data = load_caltech101(features, background=True)
    assert data.X.shape == (9144, WIDTH[features])
    assert data.X.dtype == np.float32
    assert len(data.classes) == 102
    sizes = np.bincount(data.y)
    assert (sizes[:101].min(), sizes[:101].max(), sizes[101]) == (31, 800, 467)
    assert all(
        image.startswith(f"{data.classes[label]}/")
        for image, label in zip(data.images, data.y, strict=True)
    )


def test_background_is_left_out_unless_asked_for(need):
    need(FILES["visterms"])
    data = load_caltech101()
    assert data.X.shape == (8677, 1000)
    assert "BACKGROUND_Google" not in data.classes
    assert_array_equal(np.unique(data.y), np.arange(101))


def test_a_seed_names_the_same_classes_for_all_features(need):
    need(*FILES.values())
    drawn = [load_caltech101(f, n_classes=5, random_state=3) for f in FILES]
    assert len(set(drawn[0].classes)) == 5
    assert drawn[0].classes == drawn[1].classes == drawn[2].classes
    assert_array_equal(drawn[0].images, drawn[2].images)
    assert drawn[0].classes != load_caltech101(n_classes=5, random_state=4).classes
    assert_array_equal(np.unique(drawn[0].y), np.arange(5))


def test_fisher_vectors_are_scaled_back_to_unit_length(need):
    need(FILES["fisher"])
    X = load_caltech101("fisher", n_classes=3, random_state=0).X
    assert_allclose(np.linalg.norm(X, axis=1), 1, atol=0.02)


def test_visterms_are_counts_with_the_published_sparsity(need):
    need(FILES["visterms"])
    X = load_caltech101(background=True).X
    nonzero = np.diff(X.indptr)
    assert (np.median(nonzero), nonzero.max()) == (25, 74)
    assert_array_equal(X.data, np.round(X.data))
    weighted, _ = tfidf(X, slice(4000), dtype=np.float32)
    assert weighted.dtype == np.float32


def test_wrong_options_are_refused():
    with pytest.raises(ValueError, match="n_classes must be at most 101, got 102"):
        load_caltech101(n_classes=102)
    with pytest.raises(ValueError, match="features must be one of 'visterms', 'fisher', 'effnet'"):
        load_caltech101("sift")


def test_a_missing_file_is_explained(monkeypatch):
    monkeypatch.delenv("SIMILIA_DATA", raising=False)
    with pytest.raises(DataNotFoundError, match=r"no public copy.*Caltech-101.*Set SIMILIA_DATA"):
        load_caltech101()
