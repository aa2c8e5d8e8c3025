"""The rank-one update of an eigendecomposition, against the matrix itself and against eigh."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from similia.linalg import eigen_update
from similia.linalg.eigen_update import (
    eigen_step,
    eigen_workspace,
    orthogonality_defect,
    orthogonalize,
    real_components,
    update_eigenpairs,
)
from similia.linalg.secular import (
    bisected_root,
    deflate,
    exact_weights,
    secular_roots,
    secular_vectors,
)

SEED = st.integers(0, 2**32 - 1)

SPECTRA = {
    "random": lambda rng, n: rng.normal(size=n),
    "equal": lambda rng, n: np.full(n, -1.5),
    "zero": lambda rng, n: np.zeros(n),
    "two values": lambda rng, n: rng.choice([-1.0, 2.0], size=n),
    "clustered": lambda rng, n: rng.choice([0.0, 1.0], size=n) + 1e-13 * rng.normal(size=n),
    "close": lambda rng, n: 1.0 + 1e-9 * rng.normal(size=n),
    "graded": lambda rng, n: rng.choice([-1.0, 1.0], size=n) * 10.0 ** rng.uniform(-18, 3, size=n),
    "low rank": lambda rng, n: np.where(np.arange(n) < 3, rng.normal(size=n), 0.0),
}
TERMS = {
    "dense": lambda rng, z: z,
    "zeros": lambda rng, z: np.where(rng.random(len(z)) < 0.5, 0.0, z),
    "one entry": lambda rng, z: np.where(np.arange(len(z)) == len(z) // 2, z, 0.0),
    "tiny entries": lambda rng, z: z * 10.0 ** rng.uniform(-20, 0, size=len(z)),
    "nothing": lambda rng, z: 0.0 * z,
}
RHO = (1.0, -1.0, 0.0, 1e-8, -1e-8, 1e-30, -1e-300, 1e8, -1e8, 1e30, -1e300)


def unitary(rng, n, kind):
    M = rng.normal(size=(n, n))
    return np.linalg.qr(M + 1j * rng.normal(size=(n, n)) if kind == "complex" else M)[0]


def vector(rng, n, kind):
    z = rng.normal(size=n)
    return z + 1j * rng.normal(size=n) if kind == "complex" else z


def rank_one_eigen_update(values, vectors, x, rho):
    """Eigenvalues, ascending, and eigenvectors of Q diag(values) Qᴴ + ρxxᴴ; nothing is changed."""
    kind = np.result_type(vectors, x, np.float64)
    rows = np.array(vectors.T, dtype=kind, order="C")
    values = np.array(values, dtype=np.float64)
    z = real_components(rows, np.asarray(x, dtype=kind))
    real = rows.view(np.float64)
    update_eigenpairs(values, real, z, float(rho), eigen_workspace(real))
    order = np.argsort(values)
    return values[order], rows[order].T


def rank_one_eigenvalues(values, z, rho):
    """Eigenvalues, ascending, of diag(values) + ρzzᴴ, without eigenvectors."""
    values, z = np.array(values, dtype=np.float64), np.ascontiguousarray(np.abs(z), np.float64)
    work, none = eigen_workspace(np.empty((len(values), 0))), np.empty((0, 0))
    parts = work.places, work.poles, work.weights
    k, scale, strength = deflate(values, none, z, float(rho), *parts)
    turn = work.turn[: k * k].reshape(k, k)
    secular_roots(0, k, work.poles[:k], work.weights[:k], strength, work.roots, turn)
    values[work.places[:k]] = scale * work.roots[:k]
    return np.sort(values)


def errors(values, Q, x, rho, result):
    """Residual relative to the size of the matrix, and departure from orthogonality."""
    scale = max(np.abs(values).max(), abs(rho) * np.linalg.norm(x) ** 2, 1e-300)
    # Scaled before they are added: the matrix itself may be near overflow.
    expected = (Q * (values / scale)) @ Q.conj().T + np.outer(x * rho, x.conj()) / scale
    new, R = result
    residual = np.abs((R * (new / scale)) @ R.conj().T - expected).max()
    return residual, np.abs(R.conj().T @ R - np.eye(len(values))).max()


@pytest.mark.parametrize("kind", ["real", "complex"])
@pytest.mark.parametrize("spectrum", SPECTRA)
@pytest.mark.parametrize("term", TERMS)
def test_the_update_is_an_eigendecomposition_of_the_sum(rng, kind, spectrum, term):
    for n in (1, 2, 3, 4, 17):
        for rho in RHO:
            Q, values = unitary(rng, n, kind), SPECTRA[spectrum](rng, n)
            x = Q @ TERMS[term](rng, vector(rng, n, kind))
            result = rank_one_eigen_update(values, Q, x, rho)
            assert max(errors(values, Q, x, rho, result)) <= 1e-12 * n
            assert (np.diff(result[0]) >= 0).all()
            assert result[1].dtype == Q.dtype


@given(SEED, st.integers(1, 40), st.sampled_from(["real", "complex"]), st.floats(-20, 20))
def test_any_spectrum_and_term(seed, n, kind, exponent):
    rng = np.random.default_rng(seed)
    values = SPECTRA[rng.choice(list(SPECTRA))](rng, n)
    Q, rho = unitary(rng, n, kind), rng.choice([-1.0, 1.0]) * 10.0**exponent
    x = Q @ TERMS[rng.choice(list(TERMS))](rng, vector(rng, n, kind))
    result = rank_one_eigen_update(values, Q, x, rho)
    assert max(errors(values, Q, x, rho, result)) <= 1e-12 * n


@pytest.mark.parametrize(
    ("n", "kind", "spectrum"),
    [
        (100, "real", "random"),
        *((400, "real", spectrum) for spectrum in SPECTRA),
        (400, "complex", "random"),
        (1000, "real", "random"),
    ],
)
def test_large_matrices(rng, n, kind, spectrum):
    Q, values, x = unitary(rng, n, kind), SPECTRA[spectrum](rng, n), vector(rng, n, kind)
    for rho in (0.3, -0.3 / n):
        result = rank_one_eigen_update(values, Q, x, rho)
        assert max(errors(values, Q, x, rho, result)) <= 1e-12 * n


@pytest.mark.parametrize("kind", ["real", "complex"])
def test_eigenvalues_are_those_of_eigh(rng, kind):
    Q, values, x = unitary(rng, 30, kind), rng.normal(size=30), vector(rng, 30, kind)
    G = (Q * values) @ Q.conj().T + 0.7 * np.outer(x, x.conj())
    new, vectors = rank_one_eigen_update(values, Q, x, 0.7)
    np.testing.assert_allclose(new, np.linalg.eigvalsh(G), atol=1e-12)
    np.testing.assert_allclose(G @ vectors, vectors * new, atol=1e-12)
    alone = rank_one_eigenvalues(values, Q.conj().T @ x, 0.7)
    np.testing.assert_allclose(alone, new, atol=1e-13)


@pytest.mark.parametrize("spectrum", SPECTRA)
@pytest.mark.parametrize("rho", RHO)
def test_eigenvalues_alone_are_those_found_with_vectors(rng, spectrum, rho):
    values, z = SPECTRA[spectrum](rng, 12), rng.normal(size=12)
    scale = max(np.abs(values).max(), abs(rho) * (z @ z))
    both, _ = rank_one_eigen_update(values, np.eye(12), z, rho)
    np.testing.assert_allclose(rank_one_eigenvalues(values, z, rho), both, atol=1e-14 * scale)


def test_eigenvalues_interlace(rng):
    values, z = np.sort(rng.normal(size=50)), rng.normal(size=50)
    up, down = rank_one_eigenvalues(values, z, 1.0), rank_one_eigenvalues(values, z, -1.0)
    assert (up >= values).all()
    assert (up[:-1] <= values[1:]).all()
    assert (down <= values).all()
    assert (down[1:] >= values[:-1]).all()
    assert up.sum() - values.sum() == pytest.approx(z @ z)


def test_arguments_are_left_alone(rng):
    Q, values, x = unitary(rng, 8, "complex"), np.zeros(8), vector(rng, 8, "complex")
    before = Q.copy(), values.copy(), x.copy()
    rank_one_eigen_update(values, Q, x, 2.0)
    rank_one_eigenvalues(values, x, 2.0)
    for now, then in zip((Q, values, x), before, strict=True):
        np.testing.assert_array_equal(now, then)


def test_a_real_decomposition_takes_a_complex_term(rng):
    x = vector(rng, 6, "complex")
    result = rank_one_eigen_update(np.arange(6.0), np.eye(6), x, -0.5)
    assert result[1].dtype == np.complex128
    assert max(errors(np.arange(6.0), np.eye(6), x, -0.5, result)) <= 1e-13


def test_pairs_that_do_not_change_are_left_where_they_are(rng):
    """Two of ten equal eigenvalues take part in a term on two coordinates; nothing else moves."""
    values, rows = np.zeros(10), np.eye(10)
    x = np.zeros(10)
    x[[3, 7]] = 1.0, -1.0
    assert update_eigenpairs(values, rows, rows @ x, 0.5, eigen_workspace(rows)) == 1
    others = [i for i in range(10) if i not in (3, 7)]
    np.testing.assert_array_equal(rows[others], np.eye(10)[others])
    np.testing.assert_allclose(rows.T @ np.diag(values) @ rows, 0.5 * np.outer(x, x), atol=1e-15)


@pytest.mark.parametrize("kind", ["real", "complex"])
@pytest.mark.parametrize("n", [5, 150])
def test_sharing_the_work_out_changes_nothing(rng, monkeypatch, kind, n):
    monkeypatch.setattr(eigen_update, "SHARED", 2)
    monkeypatch.setattr(eigen_update, "processors", lambda: 3)
    rows = np.ascontiguousarray(unitary(rng, n, kind))
    values, x = rng.normal(size=n), vector(rng, n, kind)
    z = real_components(rows, x)
    alone = values.copy(), rows.copy()
    shared = values.copy(), rows.copy()
    work = eigen_workspace(rows.view(np.float64))
    eigen_step(alone[0], alone[1].view(np.float64), z, -0.4, work)
    update_eigenpairs(shared[0], shared[1].view(np.float64), z, -0.4, work)
    for one, other in zip(alone, shared, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-14)


@pytest.mark.parametrize("kind", ["real", "complex"])
def test_components_are_real_and_restore_the_vector(rng, kind):
    rows = np.ascontiguousarray(unitary(rng, 7, kind).T)
    x = vector(rng, 7, kind)
    x -= rows[2] * (rows[2].conj() @ x)
    projector = rows[4][:, None] * rows[4].conj()
    z = real_components(rows, x)
    assert z.dtype == np.float64
    np.testing.assert_allclose(z @ rows, x, atol=1e-14)
    np.testing.assert_allclose(rows[4][:, None] * rows[4].conj(), projector, atol=1e-14)


@given(SEED, st.integers(3, 12))
def test_halving_finds_the_roots_that_lapack_finds(seed, k):
    """And differences from which orthonormal eigenvectors follow just as well."""
    rng = np.random.default_rng(seed)
    d = np.cumsum(10.0 ** rng.uniform(-6, 0, size=k))
    u = rng.choice([-1.0, 1.0], size=k) * 10.0 ** rng.uniform(-8, 0, size=k)
    u /= np.linalg.norm(u)
    expected, gaps, roots, weights = np.empty(k), np.empty((k, k)), np.empty(k), np.empty(k)
    secular_roots(0, k, d, u, 0.3, expected, gaps)
    for j in range(k):
        roots[j] = bisected_root(d, u, 0.3, j, gaps[j])
    np.testing.assert_allclose(roots, expected, rtol=1e-13)
    exact_weights(0, k, d, u, gaps, weights)
    secular_vectors(0, k, weights, gaps)
    np.testing.assert_allclose(gaps @ gaps.T, np.eye(k), atol=1e-13)
    matrix = np.diag(d) + 0.3 * np.outer(u, u)
    np.testing.assert_allclose(gaps @ matrix, roots[:, None] * gaps, atol=1e-13 * (d[-1] + 0.3))


@pytest.mark.parametrize("kind", ["real", "complex"])
def test_ten_thousand_updates_drift_little_and_are_put_right(rng, kind):
    """Terms come and go, so that the matrix stays of one size while errors add up."""
    n, length = 12, 10_000
    G = np.zeros((n, n), complex)
    values, rows = np.zeros(n), np.eye(n, dtype=complex if kind == "complex" else float)
    work = eigen_workspace(rows.view(np.float64))
    for _ in range(length):
        x = vector(rng, n, kind) / np.sqrt(n)
        rho = -0.3 * float(np.real(x.conj() @ G @ x)) + rng.normal()
        G += rho * np.outer(x, x.conj())
        eigen_step(values, rows.view(np.float64), real_components(rows, x), rho, work)
    assert orthogonality_defect(rows) < 1e-11
    scale = np.abs(values).max()
    assert np.abs((rows.T * values) @ rows.conj() - G).max() < 1e-10 * scale
    orthogonalize(rows)
    assert np.abs(rows @ rows.conj().T - np.eye(n)).max() < 1e-14
    assert np.abs((rows.T * values) @ rows.conj() - G).max() < 1e-10 * scale
