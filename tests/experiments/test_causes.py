"""What turns claims on and off: the length of rows, how far classes lie apart, a kernel."""

import numpy as np
import pytest

from experiments import aroma, kernel_pola, meg
from experiments.problems.matrices import _moved_together
from similia import OASIS, DiagonalAROMA, FactoredAROMA


@pytest.mark.parametrize("learner", [OASIS, DiagonalAROMA, FactoredAROMA])
def test_shorter_rows_are_another_c_and_r(learner, rng):
    """Rows of length s with C and r are rows of length one with Cs⁴ and r/s⁴."""
    X, s = rng.normal(size=(60, 5)), 0.5
    X /= np.linalg.norm(X, axis=1)[:, None]
    triplets = rng.integers(60, size=(200, 3))
    short, unit = {"r": 0.1}, {"r": 0.1 / s**4}
    if learner is OASIS:
        short, unit = {"C": 0.1, "prior_scale": 1.0}, {"C": 0.1 * s**4, "prior_scale": s**2}
    else:
        short, unit = ({**one, "prior": "zero", "update_on": "margin"} for one in (short, unit))
    models = [
        learner(average=False, **given).learn(rows, triplets)
        for given, rows in ((short, s * X), (unit, X))
    ]
    np.testing.assert_allclose(s**2 * models[0].W_, models[1].W_, atol=1e-12)


def row(contender, value, options="{}", **more):
    return {
        "stage": "run", "problem": aroma.WORDS, "options": options, "contender": contender,
        "parameters": '{"r":0.01}', "seed": 0, "step": 20_000, "queries": 10, "score": "l2",
        "measure": "precision@1", "value": value, "seconds": 1.0, "versions": "", "note": "",
        **more,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("short", "verdict"),
    [(0.4, "no"), (0.3, "partly: × 1.33, with rows for which C = 0.1 is too small")],
)
def test_the_factor_is_that_of_the_shorter_rows(short, verdict):
    rows = [
        row(name, value, options, seed=seed)
        for seed in (0, 1)
        for options, oasis in (("{}", 0.4), (aroma.SHORT, short))
        for name, value in (("OASIS", oasis), ("d-AROMA", 0.4), ("f-AROMA", 0.4))
    ]
    (claim,) = aroma._length_claim(rows)
    assert claim.reproduced == verdict
    assert "f-AROMA r=0.01, rows of length 1: × 1.00" in claim.measured


def test_genera_that_are_moved_together_keep_what_is_within(rng):
    points, y = rng.normal(size=(12, 5)), np.arange(12) % 3
    K = _moved_together(points @ points.T, y, 0.5)
    squares = np.diag(K)[:, None] + np.diag(K) - 2 * K
    gaps = points[:, None] - points
    before = (gaps**2).sum(axis=2)
    same = y[:, None] == y
    np.testing.assert_allclose(squares[same], before[same], atol=1e-9)
    assert _distance_of_means(K, y) == pytest.approx(_distance_of_means(points @ points.T, y) / 4)


def _distance_of_means(K, y):
    weights = (y == 0) / np.sum(y == 0) - (y == 1) / np.sum(y == 1)
    return weights @ K @ weights


def test_what_is_sooner_is_told_by_the_rows():
    def measured(options, step, value, contender=meg.SLOW):
        more = {"problem": "gyrb", "options": options, "step": step, "measure": "error_loo"}
        return row(contender, value, **more)

    rows = [
        row
        for options, late in (("{}", 0.0), ('{"apart":0.5}', 0.1))
        for row in (
            measured(options, 5_000, 0.3),
            measured(options, 20_000, late),
            measured(options, 0, 0.0, meg.TARGET),
        )
    ]
    *_, table = meg._apart_part(rows)
    near, far = table.splitlines()[2:]
    assert near.endswith("| 0.0 | 20,000 |")
    assert far.endswith("| 0.0 | more than 20,000 |")


def test_a_kernel_takes_rings_apart_and_no_linear_map_does(monkeypatch):
    monkeypatch.setattr(kernel_pola, "TRAIN_PAIRS", 3000)
    found = kernel_pola.shares(kernel_pola.rings, 0)
    assert found["KernelPOLA, Gaussian"] > 0.85 > 0.65 > found["POLA"]
