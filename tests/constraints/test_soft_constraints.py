"""DefiniteBoost where constraints have a price instead of being laws."""

import warnings

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from similia import (
    ConstraintOracle,
    DefiniteBoost,
    DistanceConstraints,
    MatrixConstraints,
    RankOneConstraints,
    minimize_max_constraint,
)
from similia.constraints import projections
from similia.linalg.spectral import von_neumann_divergence
from tests.constraint_problems import (
    CHOICES,
    SEEDS,
    WAYS,
    density,
    hermitian,
    impossible,
    met_by,
    near_and_far,
)
from tests.reference import definite_boost as reference

KINDS = st.sampled_from(["real", "complex"])


def contradictory(rng, d=6, n=20):
    """Distances of which a part is the wrong way round."""
    pairs, bounds, sense, _ = near_and_far(rng, d, n, slack=0.3)
    wrong = rng.random(n) < 0.3
    sense = np.where(wrong, np.where(sense == "<=", ">=", "<="), sense)
    return DistanceConstraints(pairs, bounds, sense, n_objects=d)


def fitted(boost, constraints, **given):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return boost.fit(constraints, **given)


@given(SEEDS, st.integers(2, 6), st.integers(1, 6), KINDS, st.sampled_from([0.1, 1.0, 10.0]))
def test_steps_are_those_of_the_plain_form(seed, d, n, kind, price):
    rng = np.random.default_rng(seed)
    matrices = np.array([hermitian(rng, d, kind) - 0.2 * np.eye(d) for _ in range(n)])
    start = density(rng, d, kind)
    W, alpha, steps = reference.definite_boost(start, matrices, 1e-4, 60, cap=price)
    boost = DefiniteBoost(C=price, nearest=False, max_iter=60)
    fitted(boost, MatrixConstraints(matrices), start=start)
    assert boost.n_iter_ == len(steps)
    np.testing.assert_allclose(boost.W_, W, atol=1e-8)
    np.testing.assert_allclose(boost.alpha_, alpha, atol=1e-6)
    if steps:
        found = [boost.history_[name] for name in ("value", "step", "dual", "dual_bound")]
        np.testing.assert_allclose(
            np.transpose(found), [s[1:] for s in steps], rtol=1e-5, atol=1e-7
        )


@given(SEEDS, st.integers(2, 5), st.integers(1, 6), KINDS, st.integers(0, 40), st.booleans())
def test_the_gap_is_objective_less_dual_value_wherever_the_search_ends(
    seed, d, n, kind, steps, possible
):
    rng = np.random.default_rng(seed)
    U, start = density(rng, d, kind), density(rng, d, kind)
    matrices = met_by(rng, U, n) if possible else impossible(rng, d, n)[0]
    boost = DefiniteBoost(C=rng.choice([0.3, 3.0]), max_iter=steps + 1)
    fitted(boost, MatrixConstraints(matrices), start=start)
    objective = reference.soft_objective(boost.W_, start, matrices, boost.C)
    assert boost.objective_ == pytest.approx(objective, abs=1e-8)
    assert boost.gap_ == pytest.approx(
        objective - reference.dual_value(start, matrices, boost.alpha_), abs=1e-8
    )
    assert boost.gap_ >= 0
    assert boost.alpha_.min() >= 0
    assert boost.alpha_.max() <= boost.C
    assert boost.certificate_ is None
    # Weak duality: no other matrix has a lower objective than the dual value.
    assert reference.soft_objective(U, start, matrices, boost.C) >= boost.dual_ - 1e-9
    r = np.einsum("jab,ba->j", matrices, boost.W_).real
    np.testing.assert_allclose(boost.slack_, np.maximum(r, 0), atol=1e-10)


@given(SEEDS, st.integers(2, 5), st.integers(1, 6), st.sampled_from(CHOICES[:3]), st.booleans())
def test_the_dual_value_rises_and_is_above_its_bound(seed, d, n, choice, exact):
    rng = np.random.default_rng(seed)
    matrices = np.array([hermitian(rng, d) - 0.1 * rng.normal() * np.eye(d) for _ in range(n)])
    boost = DefiniteBoost(
        C=0.5, choice=choice, projection="exact" if exact else "approximate", random_state=0,
        max_iter=40,
    )  # fmt: skip
    fitted(boost, MatrixConstraints(matrices))
    dual = np.concatenate([[0.0], boost.history_["dual"]])
    assert (np.diff(dual) >= -1e-9).all()
    assert (boost.history_["dual"] >= boost.history_["dual_bound"] - 1e-9).all()
    # Steps that end at the cap may be short; the others are as many as promised at most.
    at_cap = np.zeros(len(boost.history_["step"]), bool)
    alpha = np.zeros(n)
    for t, (j, step) in enumerate(
        zip(boost.history_["constraint"], boost.history_["step"], strict=True)
    ):
        alpha[j] += step
        at_cap[t] = alpha[j] >= 0.5 - 1e-12
    up = (boost.history_["value"] > 0) & ~at_cap
    assert up.sum() <= boost.iteration_bound_ + 1e-9


@pytest.mark.parametrize(("choice", "projection"), WAYS)
def test_all_ways_lead_to_the_same_solution(rng, choice, projection):
    constraints, start = contradictory(rng), density(rng, 6)
    way = {"choice": choice, "projection": projection, "random_state": 3, "max_iter": 50_000}
    boost = DefiniteBoost(C=2.0, tol=1e-7, **way).fit(constraints, start=start)
    other = DefiniteBoost(C=2.0, tol=1e-10, choice="all").fit(constraints, start=start)
    assert boost.status_ == other.status_ == "solved"
    assert boost.gap_ < 1e-4
    np.testing.assert_allclose(boost.W_, other.W_, atol=1e-6)
    assert boost.objective_ == pytest.approx(other.objective_, abs=1e-5)
    # What stays violated has its whole price.
    assert boost.violation_ > 0.01
    assert (boost.alpha_[boost.slack_ > 1e-6] == 2.0).all()


def test_compiled_passes_and_single_steps_are_the_same(rng, monkeypatch):
    Z = rng.normal(size=(15, 6))
    for constraints in (contradictory(rng), RankOneConstraints(Z, 0.3)):
        for nearest in (True, False):
            boost = DefiniteBoost(C=1.0, nearest=nearest, max_iter=300, tol=1e-3)
            one = clone(boost).fit(constraints)
            with monkeypatch.context() as patch:
                patch.setattr(projections, "PARALLEL_FEATURES", 0)
                other = clone(boost).fit(constraints)
            assert one.status_ == other.status_ == "solved"
            for name in one.history_:
                np.testing.assert_allclose(one.history_[name], other.history_[name], atol=1e-8)


@example(1116, 2, 6)  # L-BFGS ends early unless it starts anew
@given(SEEDS, st.integers(2, 5), st.integers(1, 6))
def test_a_high_price_changes_nothing_where_all_can_be_met(seed, d, n):
    """Exact penalties: a price of at least the largest dual variable is a law."""
    rng = np.random.default_rng(seed)
    constraints = MatrixConstraints(met_by(rng, density(rng, d), n))
    law = fitted(DefiniteBoost(choice="all", tol=1e-8), constraints)
    high = 1.01 * law.alpha_.max() + 0.01
    soft = fitted(DefiniteBoost(C=high, choice="all", tol=1e-8), constraints)
    np.testing.assert_allclose(soft.W_, law.W_, atol=1e-5)
    assert soft.violation_ <= 1e-6


@given(SEEDS, st.integers(2, 5), st.integers(1, 6), st.sampled_from([0.5, 5.0, 50.0]))
def test_the_slacks_exceed_the_least_possible_by_what_the_price_says(seed, d, n, price):
    """Σ ξ_j ≤ Σ ξ_j(V) + Δ(V, W₀)/C for any V, so for the one with the least slacks."""
    rng = np.random.default_rng(seed)
    matrices, _ = impossible(rng, d, n)
    boost = DefiniteBoost(C=price, choice="all", tol=1e-7)
    fitted(boost, MatrixConstraints(matrices))
    for V in (density(rng, d), density(rng, d, floor=1e-3), np.eye(d) / d):
        slack = np.maximum(np.einsum("jab,ba->j", matrices, V), 0).sum()
        allowed = von_neumann_divergence(V, np.eye(d) / d) / price
        assert boost.slack_.sum() <= slack + allowed + boost.gap_ / price + 1e-9
        assert allowed <= np.log(d) / price + 1e-12


def test_a_warm_start_goes_on_within_the_price(rng):
    constraints = contradictory(rng)
    dear = DefiniteBoost(C=4.0, choice="all", tol=1e-7).fit(constraints)
    with pytest.raises(ValueError, match=r"alpha must be at most C = 2, got 4; pass np.minimum"):
        DefiniteBoost(C=2.0).fit(constraints, alpha=dear.alpha_)
    cheap = DefiniteBoost(C=2.0, tol=1e-6).fit(constraints, alpha=np.minimum(dear.alpha_, 2.0))
    whole = DefiniteBoost(C=2.0, tol=1e-6).fit(constraints)
    np.testing.assert_allclose(cheap.W_, whole.W_, atol=1e-4)


def test_the_same_slack_for_all_is_the_other_way_out(rng):
    constraints = contradictory(rng)
    least = minimize_max_constraint(constraints, tol=1e-4)
    assert least.lower > 0
    boost = DefiniteBoost(tol=1e-6, choice="all").fit(constraints.shifted(least.value + 1e-3))
    assert boost.status_ == "solved"
    soft = DefiniteBoost(C=5.0, tol=1e-6, choice="all").fit(constraints)
    # Each is better at its own aim.
    worst, total = constraints.values(boost.W_), np.maximum(constraints.values(boost.W_), 0)
    assert worst.max() < soft.violation_
    assert soft.slack_.sum() < total.sum()


@pytest.mark.parametrize("C", [0.0, -1.0, np.inf, np.nan, "auto", True])
def test_a_price_is_a_positive_number(C):
    with pytest.raises(ValueError, match="DefiniteBoost: C must be None or a positive number"):
        DefiniteBoost(C=C).fit(MatrixConstraints([-np.eye(2)]))


def test_an_oracle_cannot_have_a_price():
    with pytest.raises(ValueError, match="C must be None with an oracle"):
        DefiniteBoost(C=1.0).fit(ConstraintOracle(2, lambda W: None))
