import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from scipy import optimize, sparse

from similia.updates.lego import lego_pass
from tests.problems import blocks
from tests.reference.lego import lego_step

ETA = st.sampled_from([0.01, 0.3, 5.0])
FORM = st.sampled_from([np.asarray, sparse.csr_array])


@given(blocks(), ETA, FORM, st.integers(1, 40))
def test_blocks_equal_the_paper_one_pair_at_a_time(block, eta, form, size):
    Z, targets = block[0], np.abs(block[1][:, 0])
    d = Z.shape[1]
    A, moment, expected = np.eye(d), np.zeros((d, d)), np.eye(d)
    total = expected
    for z, y in zip(Z, targets, strict=True):
        expected = lego_step(expected, z, y, eta)
        total = total + expected
    both = np.column_stack([targets, targets])
    for start in range(0, len(Z), size):
        lego_pass(A, moment, start, form(Z[start : start + size]), both[start : start + size], eta)
    scale = max(1.0, np.abs(expected).max())
    np.testing.assert_allclose(A, expected, atol=1e-8 * scale)
    np.testing.assert_allclose((len(Z) + 1) * A - moment, total, atol=1e-7 * scale * len(Z))


@given(blocks(), ETA)
def test_the_matrix_stays_positive_definite_without_a_projection(block, eta):
    Z, targets = block[0] / max(1.0, np.abs(block[0]).max()), np.abs(block[1][:, :1])
    A = np.eye(Z.shape[1])
    lego_pass(A, np.zeros((0, 0)), 0, Z, np.hstack([targets, targets]), eta)
    assert np.linalg.eigvalsh(A).min() > 0


def test_the_step_solves_the_logdet_problem(rng):
    """Along z the problem has one variable; a generic solver agrees with the closed form."""
    z, y, eta = rng.normal(size=3), 0.5, 0.4
    B = rng.normal(size=(3, 3))
    A = B @ B.T + np.eye(3)
    stepped = lego_step(A, z, y, eta)
    inverse = np.linalg.inv(A)

    def objective(flat):
        L = np.zeros((3, 3))
        L[np.tril_indices(3)] = flat
        M = L @ L.T
        divergence = np.trace(M @ inverse) - np.linalg.slogdet(M @ inverse)[1]
        return divergence + eta / 2 * (z @ M @ z - y) ** 2

    start = np.linalg.cholesky(A)[np.tril_indices(3)]
    L = np.zeros((3, 3))
    L[np.tril_indices(3)] = optimize.minimize(objective, start, tol=1e-12).x
    np.testing.assert_allclose(stepped, L @ L.T, atol=1e-3)


def test_pairs_within_their_bounds_change_nothing(rng):
    Z = rng.normal(size=(5, 4))
    distances = (Z**2).sum(axis=1)
    A = np.eye(4)
    bounds = np.column_stack([distances / 2, distances * 2])
    assert lego_pass(A, np.zeros((0, 0)), 0, Z, bounds, 1.0) == 0
    np.testing.assert_array_equal(A, np.eye(4))
