"""Rows near a vector: the first are those of a full product, of the others almost all are found."""

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.linalg import hadamard

from similia.linalg.near_rows import (
    BITS,
    DOUBT,
    EXACT,
    FEW,
    FIRST,
    FIRST_DOUBT,
    LANES,
    SURE,
    WORD,
    NearRows,
    _signs,
    sketch,
)

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


def naive_bits(X):
    """Signs of vectors turned by Hadamard's matrix and random signs, twice."""
    n = max(BITS, 1 << (X.shape[1] - 1).bit_length())
    turned, H = np.zeros((len(X), n)), hadamard(n).astype(float)
    turned[:, : X.shape[1]] = X
    for signs in _signs(n):
        turned = (signs * turned) @ H
    return turned[:, :BITS] > 0


def most(limit, bits, doubt):
    """In how many bits a row may differ."""
    p = np.arccos(limit) / np.pi
    return int(bits * p + doubt * np.sqrt(bits * p * (1 - p)))


def naive_near(rows, q, limit, exact):
    """Rows near q: any of the first, of the others those that differ in few bits."""
    differ, first = naive_bits(rows) != naive_bits(q[None]), FIRST * WORD
    alike = differ[:, :first].sum(axis=1) <= most(limit, first, FIRST_DOUBT)
    alike &= differ.sum(axis=1) <= most(limit, BITS, DOUBT)
    return np.flatnonzero((rows @ q > limit) & ((np.arange(len(rows)) < exact) | alike))


def sketches(near, rows):
    """All numbers of the sketches, row by row."""
    codes = np.concatenate(near.kept(rows)[0], axis=1)
    return codes.transpose(0, 2, 1).reshape(-1, codes.shape[1])[: len(rows)]


def at_angle(rng, q, cosine, n):
    """Rows in all directions at a given cosine to q."""
    others = rng.normal(size=(n, len(q)))
    others = unit(others - np.outer(others @ q, q))
    return cosine * q + np.sqrt(1 - cosine**2) * others


@settings(max_examples=25)
@given(
    SEEDS,
    st.sampled_from([2, 7, 40, 130]),
    st.sampled_from([1, 3, 16, 100]),
    st.sampled_from([0.0, 3.0, 30.0]),
    st.sampled_from([np.float32, np.float64]),
    st.floats(0.05, 0.999),
)
def test_the_first_rows_are_those_of_the_full_product(seed, n, d, decay, dtype, limit):
    rng = np.random.default_rng(seed)
    rows = some_rows(rng, n, d, decay).astype(dtype)
    for q in [*rows[: min(n, 5)], *unit(rng.normal(size=(3, d))).astype(dtype)]:
        places, products = NearRows().find(rows, q, limit)
        every = rows @ q
        np.testing.assert_allclose(products, every[places], atol=1e-5)
        assert (np.diff(places) > 0).all()
        missed = np.setdiff1d(np.flatnonzero(every > limit), places)
        assert (every[missed] <= limit + 1e-6).all()  # only rounding decides
        assert (products > limit).all()


@pytest.mark.parametrize("d", [1, 5, 300, 600])
@pytest.mark.parametrize("exact", [0, 1, 70, 100])
def test_rows_found_are_those_transcribed(rng, d, exact):
    rows = some_rows(rng, 150, d, 2.0)
    near = NearRows(exact)
    for q in [*rows[:2], *unit(rows[:3] + 0.1 * rng.normal(size=(3, d)))]:
        found = near.find(rows, q, 0.6)[0]
        assert found.tolist() == naive_near(rows, q, 0.6, exact).tolist()


def test_several_threads_may_search_while_sketches_grow(rng):
    rows, whole = some_rows(rng, 3000, 12, 2.0), NearRows(0)
    expected = whole.find(rows, rows[0], 0.6)[0]
    for _ in range(20):
        near = NearRows(0)
        with ThreadPoolExecutor(4) as pool:
            parts = [rows[:n] for n in (1000, 3000, 17, 2000) * 4]
            found = list(pool.map(lambda part, near=near: near.find(part, rows[0], 0.6)[0], parts))
        for part, places in zip(parts, found, strict=True):
            np.testing.assert_array_equal(places, expected[expected < len(part)])
        np.testing.assert_array_equal(sketches(near, rows), sketches(whole, rows))


def test_sketches_are_the_same_in_every_bit_however_rows_arrive(rng):
    rows = some_rows(rng, 1000, 12, 2.0)
    piecewise, whole = NearRows(0), NearRows(0)
    for n in (1, 2, LANES, LANES + 1, 300, 1000):
        _, signs, _ = piecewise.kept(rows[:n])
    codes = sketches(piecewise, rows)
    np.testing.assert_array_equal(codes, sketches(whole, rows))
    code = np.empty(codes.shape[1], np.uint64)
    for i in (0, 77, 998, 999):  # the last is a row of zeros
        sketch(rows[i], signs, code)
        assert code.tolist() == codes[i].tolist()
        assert np.bitwise_count(code).sum() == naive_bits(rows[[i]]).sum()


@pytest.mark.parametrize("d", [2, 16, 384, 1000])
@pytest.mark.parametrize("limit", [0.5, 0.8])
def test_hardly_any_row_of_weight_is_missed(rng, d, limit):
    """Rows of weight κ in all directions: at most 2 % are missed where κ is 0, and none beyond."""
    lost = {}
    for kappa in (1e-6, 0.1, 0.2, 0.4):
        counts = []
        for q in unit(rng.normal(size=(20, d))):
            rows = at_angle(rng, q, limit + kappa * (1 - limit), 200)
            counts.append(len(NearRows(0).find(rows, q, limit)[0]))
        lost[kappa] = 1 - np.mean(counts) / 200
    assert lost[1e-6] < 0.04
    assert max(kappa * share for kappa, share in lost.items()) < 0.001
    assert lost[0.4] == 0


@pytest.mark.parametrize("words", [2, 8])
def test_sparse_vectors_are_as_good_as_dense_ones(rng, words):
    """Few words of many, half of them shared: coordinates of one turn would often be zero."""
    q = np.zeros(1000)
    q[:words] = words**-0.5
    rows = np.zeros((500, 1000))
    rows[:, : words // 2] = words**-0.5
    for row in rows:
        row[words + rng.permutation(900)[: words - words // 2]] = words**-0.5
    found = NearRows(0).find(rows, q, 0.4)[0]
    assert len(found) > 0.99 * len(rows)
    far = np.roll(rows, -words, axis=1)
    assert len(NearRows(0).find(far, q, 0.4)[0]) == np.sum(far @ q > 0.4)


def test_few_rows_are_looked_at(rng):
    """A sketch is worth its name: of rows that are all far away, hardly any is multiplied."""
    rows = unit(rng.normal(size=(5000, 384))).astype(np.float32)
    codes = sketches(NearRows(0), rows)
    differ = np.bitwise_count(codes[1:] ^ codes[0])
    assert np.mean(differ[:, :FIRST].sum(axis=1) <= most(0.5, FIRST * WORD, FIRST_DOUBT)) < 0.02
    assert np.mean(differ.sum(axis=1) <= most(0.5, BITS, DOUBT)) < 0.001
    assert np.mean(differ.sum(axis=1) <= most(0.5, BITS, 0) + SURE) < 0.1


@pytest.mark.parametrize("d", [2, 16, 384])
@pytest.mark.parametrize("limit", [0.5, 0.8, 0.99])
def test_no_row_of_the_first_is_missed(rng, d, limit):
    """Among more numbers than are multiplied without a sketch."""
    for q in unit(rng.normal(size=(20, d))):
        rows = at_angle(rng, q, limit + 1e-6, 500 + FEW // d)
        assert len(NearRows(10**6).find(rows, q, limit)[0]) == len(rows)


def test_more_rows_than_are_compared_one_by_one(rng):
    rows = some_rows(rng, EXACT + 500, 24, 1.0)
    near = NearRows()
    for q in rows[[3, EXACT - 1, EXACT, EXACT + 400]]:
        found = near.find(rows, q, 0.7)[0]
        wanted = np.flatnonzero(rows @ q > 0.7)
        np.testing.assert_array_equal(found[found < EXACT], wanted[wanted < EXACT])
        assert len(np.setdiff1d(wanted, found)) <= 0.01 * len(wanted) + 1
        assert not len(np.setdiff1d(found, wanted))


@pytest.mark.skipif("SIMILIA_DATA" not in os.environ, reason="SIMILIA_DATA is not set")
@pytest.mark.parametrize(
    "file", ["20newsgroups/20news_minilm384.npz", "retrieval/scifact/minilm384.npz"]
)
def test_neighbours_of_encoded_texts_are_found(file):
    """Of 100 texts among thousands: all that weigh anything, almost all of the others."""
    path = Path(os.environ["SIMILIA_DATA"], file)
    if not path.exists():
        pytest.skip(f"SIMILIA_DATA has no {file}")
    with np.load(path) as arrays:
        texts = unit(arrays["X" if "X" in arrays else "docs"].astype(np.float32))
    queries, rows = texts[:100], np.ascontiguousarray(texts[100:])
    near, kernel = NearRows(0), np.maximum(queries @ rows.T - 0.5, 0) / 0.5
    total, missed = np.sum(kernel > 0), kernel.copy()
    for q, weights in zip(queries, missed, strict=True):
        weights[near.find(rows, q, 0.5)[0]] = 0.0
    assert total > 300
    assert np.sum(missed > 0) < 0.01 * total
    assert missed.max() < 0.1
    assert missed.sum() < 0.001 * kernel.sum()
