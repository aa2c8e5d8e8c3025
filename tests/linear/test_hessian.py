"""Eigenpairs of second moments: against a dense solver, all at once and as rows come."""

import numpy as np
import pytest
from scipy import sparse

from similia.linear import hessian
from similia.linear.examples import Examples
from similia.linear.frames import projected
from similia.linear.hessian import Hessian, leading_eigenpairs, with_rows


def dense_pairs(rows, weights=None):
    weights = np.ones(len(rows)) if weights is None else weights
    values, vectors = np.linalg.eigh((rows * weights[:, None]).T @ rows / len(rows))
    return values[::-1], vectors[:, ::-1]


def assert_pairs(found, rows, k, weights=None, atol=1e-9):
    values, vectors = dense_pairs(rows, weights)
    np.testing.assert_allclose(found.values, values[:k], atol=atol * values[0])
    ours, theirs = (V[:, :k] @ V[:, :k].T for V in (found.vectors, vectors))
    np.testing.assert_allclose(ours, theirs, atol=1e4 * atol)
    assert found.energy == pytest.approx(values.sum())


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize(("m", "d", "k"), [(50, 8, 3), (6, 30, 4), (20, 20, 20)])
def test_small_sides_are_diagonalised(rng, form, m, d, k):
    rows, weights = rng.normal(size=(m, d)), rng.random(m)
    assert_pairs(leading_eigenpairs(form(rows), None, k, 0), rows, k)
    assert_pairs(leading_eigenpairs(form(rows), weights, k, 0), rows, k, weights)


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
def test_large_sides_are_iterated_on(rng, form, monkeypatch):
    """Few of many eigenpairs; the solver that costs d³ is not called."""
    monkeypatch.setattr(hessian, "LARGE_SIDE", 50)
    monkeypatch.setattr(hessian, "_by_smaller_side", None)
    rows = rng.normal(size=(300, 120)) * 0.7 ** np.arange(120)
    assert_pairs(leading_eigenpairs(form(rows), None, 5, 0), rows, 5, atol=1e-6)


def test_rank_deficient_rows_have_as_many_pairs_as_their_rank(rng):
    rows = rng.normal(size=(40, 3)) @ rng.normal(size=(3, 10))
    for some in (rows, rows[:, [0, 0, 1]], rows * 0.0):
        rank = np.linalg.matrix_rank(some)
        assert len(leading_eigenpairs(some, None, 10, 0).values) == rank
    assert len(leading_eigenpairs(rows.astype(np.float32), None, 10, 0).values) == 3


def test_rows_as_they_come_give_what_all_of_them_give(rng):
    rows = rng.normal(size=(90, 7))
    pairs, n = Hessian(np.zeros(0), np.zeros((7, 0)), 0.0), 0
    for part in np.split(rows, [1, 3, 20, 60]):
        pairs = with_rows(pairs, n, part, 7)
        n += len(part)
    assert_pairs(pairs, rows, 7)


def test_a_share_of_the_energy_is_the_least_rank_that_has_it(rng):
    pairs = Hessian(np.array([4.0, 3.0, 2.0, 1.0]), np.eye(5)[:, :4], 12.0)
    assert [pairs.rank_of_energy(s) for s in (0.1, 4 / 12, 0.34, 9 / 12, 0.8, 0.99)] == [
        1, 1, 2, 3, 4, 4,
    ]  # fmt: skip


def test_projection_whitens_the_second_moment(rng):
    rows = np.hstack([rng.normal(size=(60, 4)), np.ones((60, 1))])
    basis = leading_eigenpairs(rows, None, 3, 0).scale(0.25, 0.0)
    for X in (rows[:, :-1], sparse.csr_array(rows[:, :-1])):
        examples = Examples("test", X, np.arange(60) % 2, intercept=True)
        U = projected(examples, np.arange(60), basis)
        np.testing.assert_allclose(U, rows @ basis, atol=1e-10)
        np.testing.assert_allclose(0.25 * U.T @ U / 60, np.eye(3), atol=1e-9)


@pytest.mark.parametrize("center", [0.0, 5.0, 300.0])
def test_the_typical_eigenvalue_is_the_mean_variance_where_there_is_an_intercept(rng, center):
    """However far the features are from zero; a diagonal, or no intercept, has the mean square."""
    X = center + rng.normal(size=(80, 5)) * [0.5, 1, 2, 3, 4]
    rows = np.hstack([X, np.ones((80, 1))])
    pairs = leading_eigenpairs(rows, None, 6, 0)
    assert pairs.typical(True) == pytest.approx(X.var(axis=0).mean(), rel=1e-6)
    assert pairs.typical(False) == pytest.approx(np.mean(rows**2))
    assert pairs.first(3).typical(True) == pytest.approx(X.var(axis=0).mean(), rel=0.2)
    diagonal = hessian.HessianForm("diagonal", "auto").of(rows, None, 0)
    assert diagonal.typical(True) == pytest.approx(np.mean(rows**2))


def test_rows_that_are_all_the_same_have_next_to_no_variance():
    pairs = leading_eigenpairs(np.full((9, 3), 2.0), None, 3, 0)
    assert 0.0 < pairs.typical(True) < 1e-14


def test_dimension_is_the_mean_squared_length_of_projected_rows(rng):
    rows = rng.normal(size=(60, 6))
    pairs = leading_eigenpairs(rows, None, 4, 0)
    for damping in (0.0, 0.5, 10.0):
        U = rows @ pairs.scale(0.25, damping)
        assert pairs.dimension(damping) == pytest.approx(0.25 * np.mean((U**2).sum(axis=1)))
