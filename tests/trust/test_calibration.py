import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import ndtr

from similia import OASIS, DiagonalAROMA, FactoredAROMA
from similia.trust import calibration, calibration_of, chosen_scale
from tests.problems import triplets_of


def honest(rng, n=20_000):
    """Margins whose signs are as likely as their standard deviations say."""
    mean, std = rng.normal(size=n) * 2, rng.uniform(0.1, 2, size=n)
    return np.where(rng.normal(mean, std) > 0, mean, -mean), std


def test_an_honest_posterior_has_a_small_error_and_a_scale_of_one(rng):
    margins, std = honest(rng)
    found = calibration(margins, std)
    assert found.error < 0.015
    assert abs(found.overconfidence) < 0.01
    assert chosen_scale(margins, std) == pytest.approx(1.0, rel=0.05)


@pytest.mark.parametrize("factor", [0.05, 0.3, 4.0])
def test_a_dishonest_one_is_noticed_and_its_scale_found(rng, factor):
    margins, std = honest(rng)
    found = calibration(margins, std * factor)
    assert found.error > 0.05
    assert (found.overconfidence > 0) == (factor < 1)
    assert ("too sure" in str(found)) == (factor < 1)
    scale = chosen_scale(margins, std * factor)
    assert scale == pytest.approx(1 / factor, rel=0.05)
    assert calibration(margins, std * factor, scale=scale).error < 0.015


@given(st.integers(0, 2**32 - 1), st.integers(1, 40), st.integers(1, 12))
def test_the_error_is_the_weighted_gap_of_the_bins(seed, n, n_bins):
    rng = np.random.default_rng(seed)
    margins, std = rng.normal(size=n), rng.uniform(0.1, 3, size=n)
    found = calibration(margins, std, n_bins=n_bins)
    assert found.n == n
    filled = found.count > 0
    gaps = np.abs(found.accuracy - found.confidence)[filled]
    assert found.error == pytest.approx(np.average(gaps, weights=found.count[filled]))
    assert (found.confidence[filled] >= found.edges[:-1][filled] - 1e-12).all()
    assert (found.confidence[filled] <= found.edges[1:][filled] + 1e-12).all()
    assert 0 <= found.error <= 1
    json.dumps(found.to_dict(), allow_nan=False)


def test_no_deviation_is_full_confidence_and_no_margin_is_none():
    found = calibration([1.0, -1.0, 0.0], [0.0, 0.0, 0.0], n_bins=2)
    np.testing.assert_array_equal(found.count, [1, 2])
    np.testing.assert_array_equal(found.accuracy, [0.5, 0.5])
    np.testing.assert_array_equal(found.confidence, [0.5, 1.0])
    assert np.isfinite(found.log_loss)


@pytest.mark.parametrize("cls", [FactoredAROMA, DiagonalAROMA])
def test_a_learner_is_checked_on_its_own_triplets(cls, rng):
    X = rng.normal(size=(40, 4))
    learner = cls().learn(X, triplets_of(rng, 40, 40, 100))
    triplets = triplets_of(rng, 40, 40, 300)
    found = calibration_of(learner, X, triplets)
    assert found.error == calibration_of(learner, X, triplets, items=X).error
    assert found.n == 300
    with pytest.raises(ValueError, match=r"^calibration_of: learner must know how sure"):
        calibration_of(OASIS().learn(X, triplets), X, triplets)


def test_bad_arguments_are_refused():
    for margins, std in (([1.0], [1.0, 2.0]), ([], []), ([[1.0]], [[1.0]])):
        with pytest.raises(ValueError, match=r"^calibration: margins and std must be two arrays"):
            calibration(margins, std)
    for margins, std in (([np.nan], [1.0]), ([1.0], [-1.0]), ([1.0], [np.inf])):
        with pytest.raises(ValueError, match=r"^chosen_scale: margins must be finite"):
            chosen_scale(margins, std)
    with pytest.raises(ValueError, match=r"^calibration: scale must be"):
        calibration([1.0], [1.0], scale=0)
    with pytest.raises(ValueError, match=r"^calibration: n_bins must be"):
        calibration([1.0], [1.0], n_bins=0)


def test_the_figure_shows_every_curve(rng, tmp_path):
    plotting = pytest.importorskip("similia.plotting", exc_type=ImportError)
    margins, std = honest(rng, 500)
    curves = {"as it is": calibration(margins, std), "scaled": calibration(margins, std, scale=3)}
    figure = plotting.calibration_figure(curves)
    figure.savefig(tmp_path / "calibration.png")
    assert (tmp_path / "calibration.png").stat().st_size > 1000
    (axes,) = figure.axes
    labels = [text.get_text() for text in figure.legends[0].get_texts()]
    assert labels[0] == "honest"
    assert [label.split(":")[0] for label in labels[1:]] == list(curves)
    assert len(axes.lines) == 3
    with pytest.raises(ValueError, match=r"^calibration_figure: curves must not be empty"):
        plotting.calibration_figure({})


def test_an_honest_curve_is_not_warned_of(rng):
    warned = 0
    for n in (20, 200, 2000) * 10:
        mean = rng.normal(size=n)
        right = rng.random(n) < ndtr(np.abs(mean))
        warned += bool(calibration(np.where(right, 1, -1) * np.abs(mean), np.ones(n)).warnings)
    assert warned <= 1


def test_a_falling_curve_is_warned_of(rng):
    mean = rng.normal(size=2000)
    sure = ndtr(np.abs(mean))
    right = rng.random(2000) < 1.3 - sure  # the surer, the less often right
    found = calibration(np.where(right, 1, -1) * np.abs(mean), np.ones(2000))
    assert any("The curve falls" in text for text in found.warnings)
    assert "The curve falls" in str(found)
    assert found.to_dict()["warnings"] == found.warnings


def test_data_unlike_those_learnt_from_are_warned_of(rng):
    margins = np.where(rng.random(1000) < 0.55, 5.0, -5.0)  # all but certain, and hardly right
    found = calibration(margins, np.ones(1000))
    assert any("differ from those learnt from" in text for text in found.warnings)
    assert not calibration(margins, np.ones(1000), scale=40.0).warnings


def test_the_legend_covers_no_point():
    plotting = pytest.importorskip("similia.plotting", exc_type=ImportError)
    curve = calibration(np.linspace(-3, 3, 50), np.linspace(0.5, 2, 50))
    figure = plotting.calibration_figure({f"learner {i}": curve for i in range(5)})
    figure.draw_without_rendering()
    legend, axes = figure.legends[0], figure.axes[0]
    assert not legend.get_window_extent().overlaps(axes.get_window_extent())
