"""Rows near a vector, found by sketches, are those of a full product."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from similia.linalg.near_rows import LANES, NearRows

SEEDS = st.integers(0, 2**32 - 1)


def unit(X):
    return X / np.maximum(np.linalg.norm(X, axis=-1, keepdims=True), 1e-30)


def some_rows(rng, n, d, decay):
    """Rows of length 1 around a few centres, some twice and one of zeros; decay: how fast
    directions lose weight."""
    weights = np.exp(-decay * np.arange(d) / d)
    centres = rng.normal(size=(5, d))
    X = unit((centres[rng.integers(5, size=n)] + 2 * rng.normal(size=(n, d))) * weights)
    X[-1], X[0] = 0.0, X[n // 2]
    return X


def assert_found(sketches, rows, q, limit):
    places, products = sketches.find(rows, q, limit)
    every = rows @ q
    np.testing.assert_allclose(products, every[places], atol=1e-5)
    assert (np.diff(places) > 0).all()
    missed = np.setdiff1d(np.flatnonzero(every > limit), places)
    assert (every[missed] <= limit + 1e-6).all()  # only rounding decides
    assert (products > limit).all()


@settings(max_examples=25)
@given(
    SEEDS,
    st.sampled_from([2, 7, 40, 130]),
    st.sampled_from([1, 3, 16, 100]),
    st.sampled_from([0.0, 3.0, 30.0]),
    st.sampled_from([np.float32, np.float64]),
    st.floats(0.05, 0.999),
)
def test_near_rows_are_those_of_the_full_product(seed, n, d, decay, dtype, limit):
    rng = np.random.default_rng(seed)
    rows = some_rows(rng, n, d, decay).astype(dtype)
    sketches = NearRows(rows, limit)
    queries = [*rows[: min(n, 5)], *unit(rng.normal(size=(3, d))).astype(dtype)]
    queries += [unit(rows[0] + 0.3 * q).astype(dtype) for q in queries[-3:]]
    for q in queries:
        for level in (limit, limit / 2):
            assert_found(sketches, rows, q, level)


def test_rows_that_change_or_are_added_are_found(rng):
    rows = some_rows(rng, 150, 12, 2.0)
    sketches = NearRows(rows, 0.5)
    for n in (150, 151, 4 * LANES, 1000):
        rows = np.vstack([rows, unit(rng.normal(size=(n - len(rows), 12)))])
        changed = rng.integers(n, size=20)
        rows[changed] = unit(rng.normal(size=(20, 12)))
        sketches.change(changed)
        for q in (rows[changed[0]], rows[-1], unit(rng.normal(size=12))):
            assert_found(sketches, rows, q, 0.5)


@pytest.mark.parametrize("away", [0.0, 1e-3, 1e-2])
def test_rows_at_the_limit_are_not_lost(rng, away):
    """Rows at a given angle in all directions, just beyond the limit and just short of it."""
    q, others = unit(rng.normal(size=200)), rng.normal(size=(500, 200))
    others = unit(others - np.outer(others @ q, q))
    for cosine in (0.5 + away, 0.5 - away):
        rows = cosine * q + np.sqrt(1 - cosine**2) * others
        assert_found(NearRows(rows, 0.5), rows, q, 0.5)
    assert len(NearRows(rows, 0.5).find(rows, q, 0.5 - away - 1e-6)[0]) == len(rows)


def test_few_rows_are_looked_at(rng, monkeypatch):
    """The bound is worth its name: of rows that are all far away, hardly any is multiplied."""
    rows = unit(rng.normal(size=(2000, 384))).astype(np.float32)
    sketches, looked = NearRows(rows, 0.5), []

    class Counted(np.ndarray):
        def __getitem__(self, key):
            looked.append(len(key))
            return np.asarray(self)[key]

    for q in unit(rng.normal(size=(20, 384))).astype(np.float32):
        sketches.find(rows.view(Counted), q, 0.5)
    assert np.mean(looked) < 0.1 * len(rows)
