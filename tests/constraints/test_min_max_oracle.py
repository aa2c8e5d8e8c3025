"""The trace-one semidefinite programme over constraints that only an oracle knows."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.exceptions import ConvergenceWarning

from similia import (
    ConstraintOracle,
    DefiniteBoost,
    MatrixConstraints,
    RankOneConstraints,
    minimize_max_constraint,
)
from similia.constraints.sets import UnionConstraints
from tests.constraint_problems import SEEDS, hermitian, oracle_of

KINDS = st.sampled_from(["real", "complex"])


def mixed(rng, d, n, kind="real"):
    """Vectors with bounds of either sense, and matrices."""
    Z = rng.normal(size=(n, d)) + (1j * rng.normal(size=(n, d)) if kind == "complex" else 0.0)
    vectors = RankOneConstraints(Z, rng.normal(size=n), rng.choice(["<=", ">="], size=n))
    return UnionConstraints([vectors, MatrixConstraints([hermitian(rng, d, kind) for _ in Z])])


@given(SEEDS, st.integers(1, 5), st.integers(1, 6), KINDS)
def test_an_oracle_leads_to_the_theta_of_the_constraints_it_knows(seed, d, n, kind):
    rng = np.random.default_rng(seed)
    constraints = mixed(rng, d, n, kind)
    whole = minimize_max_constraint(constraints, tol=1e-3)
    oracle = oracle_of(constraints)
    found = minimize_max_constraint(oracle, tol=1e-3, spread=whole.spread or 1.0)
    assert found.status == "solved"
    assert found.lower <= whole.value + 1e-9
    assert whole.lower <= found.value + 1e-9
    assert found.value - found.lower <= 1.001e-3 * found.spread
    assert found.n_queries >= 1


@given(SEEDS, st.integers(1, 5), st.integers(1, 6), KINDS)
def test_both_ends_are_proven_by_all_constraints(seed, d, n, kind):
    rng = np.random.default_rng(seed)
    constraints = mixed(rng, d, n, kind)
    oracle = oracle_of(constraints)
    found = minimize_max_constraint(oracle)
    assert constraints.values(found.W).max() == pytest.approx(found.value, abs=1e-9)
    assert np.trace(found.W).real == pytest.approx(1.0)
    weights = np.zeros(len(constraints))
    weights[oracle.keys] = found.weights
    assert weights.min() >= 0
    assert weights.sum() == pytest.approx(1.0)
    lowest = np.linalg.eigvalsh(constraints.combination(weights))[0]
    assert lowest == pytest.approx(found.lower, abs=1e-9)
    assert (np.diff(found.history[:, 0]) >= 0).all()
    assert (np.diff(found.history[:, 1]) <= 0).all()
    assert found.n_queries <= found.n_iter + 1


def test_few_of_many_constraints_are_named(rng):
    constraints = RankOneConstraints(rng.normal(size=(5000, 5)), 0.0)
    oracle = oracle_of(constraints)
    found = minimize_max_constraint(oracle, tol=1e-2)
    assert found.status == "solved"
    assert len(oracle.keys) <= found.n_queries < 200


def test_an_oracle_that_names_several_at_once_is_asked_less_often(rng):
    Z = rng.normal(size=(2000, 12))
    constraints = RankOneConstraints(Z, 0.0)

    def worst_ten(W):
        worst = np.argsort(-constraints.values(W))[:10].tolist()
        return [(j, (Z[j], "<=", 0.0)) for j in worst]

    one, ten = oracle_of(constraints), ConstraintOracle(12, worst_ten)
    slow, quick = (minimize_max_constraint(oracle, tol=1e-2) for oracle in (one, ten))
    assert slow.status == quick.status == "solved"
    assert max(slow.lower, quick.lower) <= min(slow.value, quick.value)
    assert 2 * quick.n_queries < slow.n_queries


def test_constraints_that_cannot_be_listed():
    """|z|² = 1 for all z of two blocks: each has the largest eigenvalue of its block of W."""

    def find(W):
        best = None
        for block in (slice(0, 2), slice(2, 5)):
            values, vectors = np.linalg.eigh(W[block, block])
            z = np.zeros(5)
            z[block] = vectors[:, -1]
            weight = 1.0 if block.start else 2.0
            if best is None or weight * values[-1] > best[0]:
                best = weight * values[-1], np.sqrt(weight) * z
        return best[1].tobytes(), (best[1], "<=", 0.0)

    found = minimize_max_constraint(ConstraintOracle(5, find), tol=1e-3)
    # Eigenvalues t/2 twice and t three times, with trace one: t = 1/4.
    assert found.lower <= 0.25 <= found.value
    np.testing.assert_allclose(found.W, np.diag([1, 1, 2, 2, 2]) / 8, atol=2e-2)


def test_an_oracle_that_was_asked_before_goes_on_from_what_it_has_named(rng):
    constraints = RankOneConstraints(rng.normal(size=(300, 5)), 0.0)
    oracle = oracle_of(constraints)
    first = minimize_max_constraint(oracle, tol=1e-2)
    again = minimize_max_constraint(oracle, tol=1e-2)
    assert again.spread == pytest.approx(first.spread)
    assert again.n_queries < first.n_queries
    assert len(again.weights) == len(oracle.keys)
    assert again.lower <= first.value
    assert first.lower <= again.value


def test_the_least_slack_makes_impossible_constraints_possible(rng):
    constraints = RankOneConstraints(rng.normal(size=(200, 4)), 0.05)
    oracle = oracle_of(constraints, strict=True)
    found = minimize_max_constraint(oracle, tol=1e-3)
    assert found.lower > 0
    boost = DefiniteBoost(tol=1e-3).fit(oracle.shifted(found.value + 0.05))
    assert boost.status_ == "solved"
    assert constraints.values(boost.W_).max() <= found.value + 0.0511


def test_where_nothing_is_violated_theta_is_at_most_zero_and_that_is_all(rng):
    constraints = RankOneConstraints(rng.normal(size=(100, 4)), 3.0)
    with pytest.warns(ConvergenceWarning, match="the oracle named no constraint"):
        found = minimize_max_constraint(oracle_of(constraints, strict=True))
    assert (found.status, found.value) == ("met", 0.0)
    assert constraints.values(found.W).max() <= 0
    assert found.lower <= minimize_max_constraint(constraints).value
    with pytest.warns(ConvergenceWarning, match="after 0 screenings, where .* accuracy of inf"):
        nothing = minimize_max_constraint(ConstraintOracle(3, lambda W: None))
    assert (nothing.status, nothing.value, nothing.lower) == ("met", 0.0, -np.inf)
    np.testing.assert_allclose(nothing.W, np.eye(3) / 3)
    assert len(nothing.weights) == 0


def test_a_search_that_is_cut_short_says_how_far_it_came(rng):
    oracle = oracle_of(RankOneConstraints(rng.normal(size=(200, 8)), 0.0))
    with pytest.warns(ConvergenceWarning, match="stopped after 5 screenings with an accuracy of"):
        found = minimize_max_constraint(oracle, tol=1e-4, max_iter=5)
    assert (found.status, found.n_iter) == ("max_iter", 5)


def test_an_oracle_that_does_not_name_the_worst_is_refused(rng):
    Z = rng.normal(size=(30, 4))
    constraints = RankOneConstraints(Z, 0.0)
    calls = []

    def second_best(W):
        calls.append(1)
        j = int(np.argsort(constraints.values(W))[-1 if len(calls) == 1 else 0])
        return j, (Z[j], "<=", 0.0)

    words = r"find must name the constraint with the largest tr\(WC\), got"
    with pytest.raises(ValueError, match=words):
        minimize_max_constraint(ConstraintOracle(4, second_best))

    def silent_later(W):
        calls.append(1)
        return None if len(calls) > 3 else (0, (Z[0], "<=", 0.0))

    calls.clear()
    with pytest.raises(ValueError, match="got None, with 0"):
        minimize_max_constraint(
            ConstraintOracle(4, lambda W: silent_later(W)), tol=1e-6, max_iter=100
        )
