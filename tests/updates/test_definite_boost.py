"""Steps and passes of DefiniteBoost against the transcription of the paper."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar

from similia.linalg.eigen_update import eigen_workspace
from similia.linalg.threads import single_blas_thread
from similia.updates.definite_boost import (
    RECORDED,
    RankOneTerms,
    add_pairs,
    approximate_step,
    boost_pass,
    guaranteed_progress,
    promised_progress,
    screen_few_pairs,
    screen_pairs,
    transposed,
)
from tests.constraint_problems import SEEDS, near_and_far
from tests.reference import definite_boost as reference


@given(st.floats(0.05, 3.0), st.floats(0.05, 3.0), st.floats(-0.99, 0.99))
def test_the_step_minimises_the_bound_of_appendix_e(low, high, share):
    r = share * (high if share > 0 else low)
    found = minimize_scalar(
        reference.bound_of_appendix_e, args=(r, -low, high), bracket=(-1.0, 1.0), tol=1e-12
    )
    assert approximate_step(r, -low, high) == pytest.approx(found.x, abs=1e-5)
    assert guaranteed_progress(r, -low, high) == pytest.approx(-np.log(found.fun), abs=1e-10)
    assert guaranteed_progress(r, -low, high) >= -1e-15


@given(st.floats(0.05, 3.0), st.floats(0.05, 3.0), st.floats(0.01, 0.99), st.floats(0.0, 1.0))
def test_a_step_that_is_cut_off_keeps_its_part_of_the_progress(low, high, share, part):
    r = share * high
    step = part * approximate_step(r, -low, high)
    promised = promised_progress(step, r, -low, high)
    expected = -np.log(reference.bound_of_appendix_e(step, r, -low, high))
    assert promised == pytest.approx(expected, abs=1e-12)
    # The bound is convex in the step, so a part of it gives at least that part of what it gives.
    whole = -np.expm1(-guaranteed_progress(r, -low, high))
    assert -np.expm1(-promised) >= part * whole - 1e-12


@pytest.mark.parametrize("lam", [0.5, 1.0, 2.0])
def test_the_step_is_the_printed_one_for_symmetric_eigenvalues_only(lam):
    def printed(r, low, high):
        return np.log((1 + r / high) / (1 + r / low)) / (high - low)

    r = 0.3 * lam
    assert approximate_step(r, -lam, lam) == pytest.approx(printed(r, -lam, lam))
    with np.errstate(invalid="ignore"):
        assert not printed(r, -0.1 * lam, lam) > 0  # the paper's own experiment: log of a negative


def problem(seed, d, n):
    rng = np.random.default_rng(seed)
    pairs, bounds, sense, _ = near_and_far(rng, d, n)
    signs = np.where(sense == "<=", 1.0, -1.0)
    Z = np.eye(d)[pairs[:, 0]] - np.eye(d)[pairs[:, 1]]
    shifts = signs * bounds**2
    matrices = [
        s * np.outer(z, z) - c * np.eye(d) for s, z, c in zip(signs, Z, shifts, strict=True)
    ]
    return pairs.astype(np.uint32), signs, shifts, Z, np.array(matrices)


def terms_of(kind, pairs, signs, shifts, Z):
    if kind == "pairs":
        return RankOneTerms(
            np.zeros((0, Z.shape[1])), *np.ascontiguousarray(pairs.T), signs, shifts
        )
    none = np.zeros(0, np.uint32)
    return RankOneTerms(Z, none, none, signs, shifts)


@pytest.mark.parametrize("kind", ["pairs", "vectors"])
@given(
    seed=SEEDS, d=st.integers(2, 9), n=st.integers(1, 12), steps=st.integers(1, 30),
    cap=st.sampled_from([np.inf, 1.0, 0.2]),
)  # fmt: skip
def test_a_pass_equals_the_paper_one_step_at_a_time(kind, seed, d, n, steps, cap):
    pairs, signs, shifts, Z, matrices = problem(seed, d, n)
    eps = 1e-7
    W, alpha, expected = reference.definite_boost(np.eye(d) / d, matrices, eps, steps, cap=cap)
    spectra = np.linalg.eigvalsh(matrices)
    values, rows = np.full(d, -np.log(d)), np.eye(d)
    ours, records = np.zeros(n), np.empty((steps, len(RECORDED)))
    with single_blas_thread():
        taken = boost_pass(
            values, rows, eigen_workspace(rows), ours, terms_of(kind, pairs, signs, shifts, Z),
            spectra[:, 0].copy(), spectra[:, -1].copy(), eps, False, cap, records,
        )  # fmt: skip
    # Ties are broken by rounding, so constraints that are equal may change places.
    assert taken == len(expected)
    np.testing.assert_allclose((rows.T * np.exp(values)) @ rows, W, atol=1e-9)
    total = np.tensordot(ours, matrices, 1)
    np.testing.assert_allclose(total, np.tensordot(alpha, matrices, 1), atol=1e-7)
    if taken:
        columns = np.array([step[1:] for step in expected])
        np.testing.assert_allclose(records[:taken, 1:5], columns, atol=1e-7)


@given(seed=SEEDS, d=st.integers(2, 20), n=st.integers(0, 50))
def test_screening_and_adding_pairs_agree_with_the_matrices(seed, d, n):
    rng = np.random.default_rng(seed)
    first, second = rng.integers(d, size=(2, n)).astype(np.uint32)
    signs, shifts, weights = rng.choice([-1.0, 1.0], n), rng.normal(size=n), rng.normal(size=n)
    A = rng.normal(size=(d, d))
    W = A + A.T
    Z = np.eye(d)[first] - np.eye(d)[second]
    out, M = np.empty(n), np.zeros((d, d))
    screen_pairs(W, first, second, signs, shifts, out)
    np.testing.assert_allclose(out, signs * np.vecdot(Z @ W, Z) - shifts, atol=1e-12)
    F = rng.normal(size=(d, 3))
    np.testing.assert_array_equal(transposed(F), F.T)
    screen_few_pairs(F, first, second, signs, shifts, out)
    np.testing.assert_allclose(out, signs * ((Z @ F) ** 2).sum(1) - shifts, atol=1e-12)
    add_pairs(M, first, second, weights)
    np.testing.assert_allclose(M, (Z.T * weights) @ Z, atol=1e-12)
