"""The trace-one semidefinite programme: both ends of the bracket prove themselves."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.exceptions import ConvergenceWarning

from similia import (
    DistanceConstraints,
    MatrixConstraints,
    RankOneConstraints,
    minimize_max_constraint,
)
from tests.constraint_problems import SEEDS, hermitian


@given(SEEDS, st.integers(1, 6), st.integers(1, 9), st.sampled_from(["real", "complex"]))
def test_the_bracket_is_as_narrow_as_asked_and_both_ends_are_proven(seed, d, n, kind):
    rng = np.random.default_rng(seed)
    matrices = np.array([hermitian(rng, d, kind) for _ in range(n)])
    found = minimize_max_constraint(MatrixConstraints(matrices), tol=1e-2)
    assert found.status == "solved"
    assert found.accuracy <= 1e-2 * (1 + 1e-9)
    assert np.trace(found.W).real == pytest.approx(1.0)
    assert np.linalg.eigvalsh(found.W)[0] >= -1e-12
    assert np.einsum("jab,ba->j", matrices, found.W).real.max() == pytest.approx(found.value)
    assert found.weights.min() >= 0
    assert found.weights.sum() == pytest.approx(1.0)
    lowest = np.linalg.eigvalsh(np.tensordot(found.weights, matrices, 1))[0]
    assert lowest == pytest.approx(found.lower, abs=1e-10)
    assert found.lower <= found.value + 1e-12
    assert (np.diff(found.history[:, 0]) >= 0).all()
    assert (np.diff(found.history[:, 1]) <= 0).all()
    assert len(found.history) == found.n_iter


@given(SEEDS, st.sampled_from([1e-6, 1.0, 1e6]), st.floats(-5, 5))
def test_shifts_and_scales_carry_over(seed, scale, shift):
    rng = np.random.default_rng(seed)
    matrices = np.array([hermitian(rng, 4) for _ in range(5)])
    plain = minimize_max_constraint(MatrixConstraints(matrices), tol=1e-2)
    other = minimize_max_constraint(
        MatrixConstraints(scale * (matrices + shift * np.eye(4))), tol=1e-2
    )
    assert other.spread == pytest.approx(scale * plain.spread)
    assert other.lower / scale - shift <= plain.value + 1e-9
    assert other.value / scale - shift >= plain.lower - 1e-9


def test_known_answers():
    axes = RankOneConstraints(np.eye(4), 0.0)
    found = minimize_max_constraint(axes)
    np.testing.assert_allclose(found.W, np.eye(4) / 4)
    assert (found.value, found.lower, found.n_iter) == (0.25, 0.25, 0)
    # Two eigenvalues: θ is the smallest one, and W all in its direction.
    one = minimize_max_constraint(MatrixConstraints([np.diag([1.0, 3.0])]), tol=1e-6)
    assert one.value == pytest.approx(1.0, abs=1e-5)
    np.testing.assert_allclose(one.W, np.diag([1.0, 0.0]), atol=1e-5)
    # All objects in one place: every distance can be zero.
    pairs = [[a, b] for a in range(5) for b in range(a)]
    same = minimize_max_constraint(DistanceConstraints(pairs, 0.0), tol=1e-4)
    np.testing.assert_allclose(same.W, np.full((5, 5), 0.2), atol=1e-3)


def test_a_matrix_game_of_diagonal_constraints_is_solved(rng):
    """For diagonal matrices it is the game of two players over payoffs: linear programming."""
    from scipy.optimize import linprog

    payoff = rng.normal(size=(8, 5))
    found = minimize_max_constraint(MatrixConstraints([np.diag(row) for row in payoff]), tol=1e-4)
    lp = linprog(
        np.r_[np.zeros(5), 1.0], A_ub=np.c_[payoff, -np.ones(8)], b_ub=np.zeros(8),
        A_eq=[np.r_[np.ones(5), 0.0]], b_eq=[1.0], bounds=[(0, None)] * 5 + [(None, None)],
    )  # fmt: skip
    assert found.lower - 1e-9 <= lp.fun <= found.value + 1e-9
    np.testing.assert_allclose(found.W, np.diag(np.diag(found.W)), atol=1e-9)


def test_a_search_that_is_cut_short_says_how_far_it_came(rng):
    constraints = RankOneConstraints(rng.normal(size=(60, 10)), 0.0)
    with pytest.warns(ConvergenceWarning, match="stopped after 5 screenings with an accuracy of"):
        found = minimize_max_constraint(constraints, tol=1e-4, max_iter=5)
    assert (found.status, found.n_iter) == ("max_iter", 5)
    assert found.lower < minimize_max_constraint(constraints, tol=1e-3).value
    assert found.accuracy > 1e-4


def test_more_accuracy_than_rounding_allows_ends_with_a_warning(rng):
    constraints = RankOneConstraints(rng.normal(size=(9, 3)), 0.0)
    with pytest.warns(ConvergenceWarning, match="screenings, at the limit of rounding"):
        found = minimize_max_constraint(constraints, tol=1e-17, max_iter=100_000)
    assert found.status == "stalled"
    assert found.accuracy < 1e-5


def test_the_unit_of_accuracy_can_be_given(rng):
    constraints = RankOneConstraints(rng.normal(size=(60, 10)), 0.0)
    found = minimize_max_constraint(constraints, tol=1e-3, spread=1.0)
    assert found.spread == 1.0
    assert found.value - found.lower <= 1e-3


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"tol": 0.0}, "minimize_max_constraint: tol must be a positive number"),
        ({"spread": "none"}, "spread must be 'auto' or a positive number"),
        ({"max_iter": 1.5}, "max_iter must be a positive integer"),
        ({"verbose": 2}, "verbose must be True or False"),
        ({"constraints": np.eye(2)}, "constraints must be DistanceConstraints"),
        ({"constraints": DistanceConstraints(np.zeros((0, 2), int), 1.0, n_objects=3)},
         "constraints must not be empty"),
    ],
)  # fmt: skip
def test_wrong_input_is_refused_in_the_house_form(given, words):
    given = {"constraints": MatrixConstraints([np.eye(2)]), **given}
    with pytest.raises(ValueError, match=words):
        minimize_max_constraint(given.pop("constraints"), **given)
