"""How the defaults choose one map or two, and whether points are held out."""

import numpy as np
import pytest

from similia import NeighborhoodGerrymandering, load, save
from similia.neighbors import gerrymandering, maps
from similia.neighbors.training import simplest
from tests.gerrymandering_problems import clusters, quick

FLAT, LOW = np.full(11, 0.30), np.full(11, 0.20)


@pytest.mark.parametrize(
    ("trials", "expected"),
    [
        ([FLAT, FLAT], (0, False)),
        ([FLAT, FLAT - 0.01], (0, False)),  # within a standard error of 400 points, 0.023
        ([FLAT, LOW], (1, False)),
        ([LOW, FLAT], (0, False)),
        ([np.concatenate([[0.2], np.full(10, 0.3)]), FLAT], (0, True)),
        ([np.concatenate([[0.29], np.full(10, 0.3)]), FLAT], (0, False)),
    ],
)
def test_the_simplest_form_is_kept_unless_another_is_clearly_better(trials, expected):
    assert simplest(trials, 400.0) == expected


@pytest.mark.parametrize("asymmetric", [False, True])
@pytest.mark.parametrize("stopping", [False, True])
def test_the_default_is_the_form_that_the_trials_show(asymmetric, stopping, rng, monkeypatch):
    X, y = clusters(rng)
    told = quick(asymmetric=asymmetric, early_stopping=stopping).fit(X, y)
    monkeypatch.setattr(gerrymandering, "simplest", lambda trials, n: (asymmetric, stopping))
    chosen = quick().fit(X, y)
    np.testing.assert_array_equal(chosen.U_, told.U_)
    np.testing.assert_array_equal(chosen.V_, told.V_)
    np.testing.assert_array_equal(chosen.validation_errors_, told.validation_errors_)


def test_what_is_told_is_not_tried(rng, monkeypatch):
    X, y = clusters(rng)
    monkeypatch.setattr(NeighborhoodGerrymandering, "_trial_errors", None)
    for asymmetric in (True, False):
        learner = quick(asymmetric=asymmetric, early_stopping=False).fit(X, y)
        assert (learner.V_ is learner.U_) is not asymmetric


def test_few_points_and_a_database_of_its_own_get_two_maps_without_a_trial(rng):
    X, y = clusters(rng, n=60)
    assert len(quick().fit(X, y).adam_moments_) == 4
    assert len(quick().fit(X, y, items=X, item_labels=y).adam_moments_) == 4


def test_what_only_the_trial_cannot_do_is_no_error(rng, monkeypatch):
    """Classes that can win a vote among all points but not among those of a trial."""
    X, y = rng.normal(size=(90, 4)), np.arange(90) // 6
    monkeypatch.setattr(gerrymandering, "TRIAL_POINTS", 30)
    learner = quick().fit(X, y)
    assert np.isfinite(learner.U_).all()


def test_one_map_by_choice_is_saved_and_goes_on(rng, tmp_path, monkeypatch):
    X, y = clusters(rng)
    monkeypatch.setattr(gerrymandering, "simplest", lambda trials, n: (0, False))
    learner = quick().fit(X, y)
    save(learner, tmp_path / "model.safetensors")
    loaded = load(tmp_path / "model.safetensors")
    for each in (learner, loaded):
        each.partial_fit(X[:30], y[:30])
        assert each.V_ is each.U_
    np.testing.assert_array_equal(loaded.U_, learner.U_)
    with pytest.raises(ValueError, match="asymmetric must be as in fit"):
        learner.set_params(asymmetric=True).partial_fit(X[:30], y[:30])


def test_few_features_and_many_points_get_one_map(rng):
    """A ring around a disk beside noise: two maps learn the noise."""
    y = rng.integers(3, size=900)
    angle, radius = rng.uniform(0, 2 * np.pi, 900), 1.0 + y + 0.45 * rng.normal(size=900)
    noise = 2.0 * rng.normal(size=(900, 3))
    X = np.column_stack([radius * np.cos(angle), radius * np.sin(angle), noise])
    assert len(NeighborhoodGerrymandering(random_state=0).fit(X, y).adam_moments_) == 2


def test_images_of_many_features_are_short_unless_told_otherwise(rng, monkeypatch):
    monkeypatch.setattr(maps, "MAX_AUTO_COMPONENTS", 4)
    X, y = clusters(rng)
    for options, p in (
        ({}, 4),
        ({"n_components": 5}, 5),
        ({"init": "identity"}, 6),
        ({"init": "lda"}, 6),
        ({"init": np.eye(6)}, 6),
    ):
        assert quick(**options).fit(X, y).U_.shape == (p, 6)
