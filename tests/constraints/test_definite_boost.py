"""DefiniteBoost as it is used."""

import pickle
import warnings
from contextlib import contextmanager

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError

from similia import (
    ConstraintOracle,
    DefiniteBoost,
    DistanceConstraints,
    MatrixConstraints,
    RankOneConstraints,
)
from similia.constraints import definite_boost, dual, projections
from tests.constraint_problems import (
    CHOICES,
    SEEDS,
    WAYS,
    density,
    hermitian,
    impossible,
    met_by,
    near_and_far,
    oracle_of,
)
from tests.reference import definite_boost as reference


def near_far(rng, d=8, n=20, K=None):
    pairs, bounds, sense, _ = near_and_far(rng, d, n, K=K)
    return DistanceConstraints(pairs, bounds, sense, n_objects=d)


@given(
    seed=SEEDS, d=st.integers(2, 6), n=st.integers(1, 6), kind=st.sampled_from(["real", "complex"])
)
def test_steps_are_those_of_the_paper_from_any_start(seed, d, n, kind):
    rng = np.random.default_rng(seed)
    matrices = met_by(rng, density(rng, d, kind), n)
    start = density(rng, d, kind)
    W, alpha, steps = reference.definite_boost(start, matrices, 1e-4, 60)
    boost = DefiniteBoost(nearest=False, tol=1e-4, max_iter=60)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # not all are solved by then
        boost.fit(MatrixConstraints(matrices), start=start)
    assert boost.n_iter_ == len(steps)
    np.testing.assert_allclose(boost.W_, W, atol=1e-9)
    np.testing.assert_allclose(boost.alpha_, alpha, atol=1e-7 * max(1.0, alpha.max()))
    assert boost.dual_ == pytest.approx(reference.dual_value(start, matrices, alpha), abs=1e-9)
    if steps:
        np.testing.assert_array_equal(boost.history_["constraint"], [s[0] for s in steps])
        found = [boost.history_[name] for name in ("value", "step", "dual", "dual_bound")]
        np.testing.assert_allclose(
            np.transpose(found), [s[1:] for s in steps], rtol=1e-6, atol=1e-8
        )


def test_exact_steps_solve_the_problem_in_one_variable(rng):
    matrices = met_by(rng, density(rng, 4), 3)
    start = density(rng, 4)
    boost = DefiniteBoost(projection="exact", nearest=False, tol=1e-3).fit(
        MatrixConstraints(matrices), start=start
    )
    G = reference.logarithm(start)
    for j, step in zip(boost.history_["constraint"], boost.history_["step"], strict=True):
        assert step == pytest.approx(reference.exact_step(G, matrices[j], 100.0), abs=1e-6)
        G = G - step * matrices[j]
        assert reference.value(reference.density(G)[0], matrices[j]) == pytest.approx(0, abs=1e-10)


@pytest.mark.parametrize(("choice", "projection"), WAYS)
def test_all_ways_lead_to_the_same_nearest_matrix(rng, choice, projection):
    constraints, start = near_far(rng), density(rng, 8)
    way = {"choice": choice, "projection": projection, "random_state": 3, "max_iter": 50_000}
    boost = DefiniteBoost(tol=1e-7, **way).fit(constraints, start=start)
    other = DefiniteBoost(tol=1e-9, choice="all").fit(constraints, start=start)
    assert boost.status_ == "solved"
    assert boost.violation_ <= 1.001e-7
    np.testing.assert_allclose(boost.W_, other.W_, atol=1e-6)
    assert np.trace(boost.W_) == pytest.approx(1.0)
    assert np.linalg.eigvalsh(boost.W_)[0] > 0


@pytest.mark.parametrize(("choice", "projection"), WAYS)
def test_without_nearest_the_constraints_are_met_and_that_is_all(rng, choice, projection):
    boost = DefiniteBoost(nearest=False, choice=choice, projection=projection, random_state=0)
    constraints = near_far(rng)
    boost.fit(constraints)
    assert boost.status_ == "solved"
    assert constraints.values(boost.W_).max() <= boost.tol * 1.001
    best = DefiniteBoost(choice="all", tol=1e-8).fit(constraints)
    assert boost.divergence_ >= best.divergence_ - boost.gap_ - 1e-6


@pytest.mark.parametrize("size", [8, 12])
def test_compiled_passes_and_single_steps_are_the_same(rng, monkeypatch, size):
    K = density(rng, size)
    sets = [near_far(rng, size, K=K) for _ in range(3)]
    for constraints in (sets[0], sets[1:]):
        for nearest in (True, False):
            boost = DefiniteBoost(nearest=nearest, max_iter=300, tol=1e-3)
            one = clone(boost).fit(constraints)
            with monkeypatch.context() as patch:
                patch.setattr(projections, "PARALLEL_FEATURES", 0)
                other = clone(boost).fit(constraints)
            assert one.status_ == other.status_ == "solved"
            assert list(one.history_) == list(other.history_)
            for name in one.history_:
                np.testing.assert_allclose(one.history_[name], other.history_[name], atol=1e-8)


@pytest.mark.parametrize("choice", CHOICES)
@given(seed=SEEDS, d=st.integers(1, 5), n=st.integers(1, 5))
def test_impossible_constraints_are_proven_impossible(choice, seed, d, n):
    rng = np.random.default_rng(seed)
    matrices, _ = impossible(rng, d, n)
    boost = DefiniteBoost(choice=choice, random_state=0)
    with pytest.warns(ConvergenceWarning, match="no W meets all constraints"):
        boost.fit(MatrixConstraints(matrices))
    assert boost.status_ == "infeasible"
    p, smallest = boost.certificate_
    assert p.min() >= 0
    assert p.sum() == pytest.approx(1.0)
    assert np.linalg.eigvalsh(np.tensordot(p, matrices, 1))[0] >= smallest > 0


def test_impossible_distances_are_proven_impossible():
    near = DistanceConstraints([[0, 1], [1, 2]], 0.1, n_objects=3)
    far = DistanceConstraints([[0, 2]], 0.5, ">=", n_objects=3)
    with pytest.warns(ConvergenceWarning, match="smallest eigenvalue"):
        boost = DefiniteBoost().fit([near, far])
    assert boost.certificate_.smallest > 0


def test_a_certificate_is_not_given_for_constraints_that_can_just_be_met():
    """Only W = e₁e₁ᵀ meets this one, on the edge of the cone: no matrix within it does."""
    constraints = RankOneConstraints([[0.0, 1.0]], 0.0)
    for choice in CHOICES:
        for projection in ("approximate", "exact"):
            boost = DefiniteBoost(choice=choice, projection=projection, tol=1e-6).fit(constraints)
            assert boost.status_ == "solved"
            np.testing.assert_allclose(boost.W_, np.diag([1.0, 0.0]), atol=2e-6)


def test_constraints_that_always_hold_leave_the_start_alone(rng):
    start = density(rng, 3)
    for constraints in (
        MatrixConstraints([-np.eye(3)]),
        DistanceConstraints([[1, 1]], 0.5, n_objects=3),
    ):
        boost = DefiniteBoost().fit(constraints, start=start)
        assert (boost.status_, boost.n_iter_, boost.iteration_bound_) == ("solved", 0, 0.0)
        assert all(len(boost.history_[name]) == 0 for name in ("dual", "gap", "constraint"))
        np.testing.assert_allclose(boost.W_, start, atol=1e-12)


def test_one_feature_has_one_matrix():
    boost = DefiniteBoost().fit(MatrixConstraints([[[-1.0]], [[0.0]]]))
    np.testing.assert_array_equal(boost.W_, [[1.0]])
    with pytest.warns(ConvergenceWarning, match="no W meets"):
        assert DefiniteBoost().fit(MatrixConstraints([[[1.0]]])).status_ == "infeasible"


@pytest.mark.parametrize("scale", [1e-8, 1e8])
def test_the_scale_of_the_constraints_does_not_matter(rng, scale):
    matrices = met_by(rng, density(rng, 4), 5)
    for choice in CHOICES:
        boost = DefiniteBoost(choice=choice, random_state=0, tol=1e-5)
        plain = clone(boost).fit(MatrixConstraints(matrices))
        scaled = clone(boost).set_params(tol=1e-5 * scale).fit(MatrixConstraints(scale * matrices))
        np.testing.assert_allclose(scaled.W_, plain.W_, atol=1e-4)
        assert scaled.dual_ == pytest.approx(plain.dual_, abs=1e-6)


@pytest.mark.parametrize("choice", ["most_violated", "cyclic", "all"])
def test_a_later_fit_goes_on_from_given_dual_variables(rng, choice):
    """Saved as plain arrays, and with constraints added at the end."""
    K = density(rng, 8)
    first, more = near_far(rng, K=K), near_far(rng, n=5, K=K)
    boost = DefiniteBoost(choice=choice, tol=1e-7, max_iter=50_000).fit(first)
    again = clone(boost).fit(first, alpha=boost.alpha_)
    assert again.n_iter_ <= 1
    np.testing.assert_allclose(again.W_, boost.W_, atol=1e-9)
    if choice == "all":
        both = clone(boost).fit([first, more], alpha=boost.alpha_)
        new = clone(boost).fit([first, more])
        np.testing.assert_allclose(both.W_, new.W_, atol=1e-5)


def test_a_stopped_search_says_so_and_goes_on_where_it_was(rng):
    constraints = near_far(rng)
    short = DefiniteBoost(max_iter=10, tol=1e-6)
    with pytest.warns(ConvergenceWarning, match="stopped after 10 steps .* raise max_iter or tol"):
        short.fit(constraints)
    assert (short.status_, short.n_iter_) == ("max_iter", 10)
    rest = DefiniteBoost(tol=1e-6).fit(constraints, alpha=short.alpha_)
    whole = DefiniteBoost(tol=1e-6).fit(constraints)
    assert rest.n_iter_ + 10 == whole.n_iter_
    np.testing.assert_allclose(rest.W_, whole.W_, atol=1e-8)


@given(SEEDS, st.integers(2, 9), st.integers(1, 30), st.sampled_from([None, 0.3, 3.0]))
def test_the_ascent_goes_far_below_what_differences_of_the_dual_show(seed, d, n, C):
    """h rises by the order of r² near its maximum, so 1e-12 is out of reach of its values."""
    rng = np.random.default_rng(seed)
    pairs, bounds, sense, _ = near_and_far(rng, d, n)
    if C is not None:  # contradictions
        sense = np.where(rng.random(n) < 0.3, np.where(sense == "<=", ">=", "<="), sense)
    constraints = DistanceConstraints(pairs, bounds, sense, n_objects=d)
    boost = DefiniteBoost(choice="all", C=C, tol=1e-12).fit(constraints)
    assert boost.status_ == "solved"
    assert boost.gap_ < 1e-9


@pytest.mark.parametrize("kind", ["real", "complex"])
def test_the_curvature_of_the_dual_is_the_slope_of_its_gradient(rng, kind):
    constraints = MatrixConstraints([hermitian(rng, 5, kind) for _ in range(4)], rng.normal(size=4))
    log_start = reference.logarithm(density(rng, 5, kind))
    alpha, v = rng.random(4), rng.normal(size=4)
    here, there, back = (
        dual.dual_point(constraints, log_start, alpha + t * v) for t in (0.0, 1e-5, -1e-5)
    )
    slope = (there.values - back.values) / 2e-5
    np.testing.assert_allclose(dual._curvature(constraints, here.state)(v), -slope, rtol=1e-6)
    assert here.dual > 0.5 * (there.dual + back.dual)


def test_more_accuracy_than_rounding_allows_ends_with_a_warning(rng):
    boost = DefiniteBoost(choice="all", tol=1e-18)
    with pytest.warns(ConvergenceWarning, match="at the limit of rounding"):
        boost.fit(near_far(rng))
    assert boost.status_ == "stalled"
    assert boost.violation_ < 1e-7
    assert boost.n_iter_ < boost.max_iter


def test_progress_is_reported_step_by_step(rng, monkeypatch):
    reported = []

    @contextmanager
    def bar(description, total, *, enabled):
        assert (description, total, enabled) == ("DefiniteBoost", 5000, True)
        yield reported.append

    monkeypatch.setattr(definite_boost, "progress", bar)
    constraints = near_far(rng)
    for choice in CHOICES:
        reported.clear()
        boost = DefiniteBoost(choice=choice, verbose=True, max_iter=5000).fit(constraints)
        assert sum(reported) == boost.n_iter_ > 0


def test_an_oracle_finds_what_screening_finds(rng):
    constraints = near_far(rng)
    for nearest in (True, False):
        oracle = oracle_of(constraints, strict=True)
        boost = DefiniteBoost(tol=1e-6, nearest=nearest).fit(oracle)
        whole = DefiniteBoost(tol=1e-6, nearest=nearest).fit(constraints)
        assert boost.status_ == "solved"
        assert constraints.values(boost.W_).max() <= 1.001e-6
        atol = 1e-4 if nearest else 1e-9
        np.testing.assert_allclose(boost.W_, whole.W_, atol=atol)
        assert len(boost.alpha_) == len(oracle.keys)
        assert boost.n_iter_ <= boost.iteration_bound_ < np.inf


def test_an_oracle_that_names_nothing_leaves_the_start():
    oracle = ConstraintOracle(3, lambda W: None)
    assert oracle.named().terms() is None
    boost = DefiniteBoost().fit(oracle)
    np.testing.assert_allclose(boost.W_, np.eye(3) / 3)
    assert (boost.gap_, boost.violation_, boost.n_iter_) == (0.0, 0.0, 0)


def test_an_oracle_of_complex_matrices_gives_a_complex_matrix():
    C = np.array([[0.0, 1j], [-1j, 0.0]])
    boost = DefiniteBoost(tol=1e-7).fit(
        ConstraintOracle(2, lambda W: (0, C + 0.5 * np.eye(2)), complex)
    )
    assert np.trace(boost.W_ @ C).real == pytest.approx(-0.5, abs=1e-6)


@pytest.mark.parametrize("choice", CHOICES)
def test_real_constraints_and_a_complex_start_give_a_complex_matrix(rng, choice):
    start = density(rng, 8, "complex")
    Z = rng.normal(size=(3, 8))
    sets = [near_far(rng, n=4, K=start.real), RankOneConstraints(Z, np.vecdot(Z @ start.real, Z))]
    sets.append(MatrixConstraints(met_by(rng, start, 2, margin=-0.02)))
    each = np.array([s.matrix(j) for s in sets for j in range(len(s))])
    boost = DefiniteBoost(choice=choice, random_state=0, tol=1e-6).fit(sets, start=start)
    assert np.abs(boost.W_.imag).max() > 1e-3
    np.testing.assert_allclose(boost.W_, boost.W_.conj().T)
    assert np.einsum("jab,ba->j", each, boost.W_).real.max() <= 1.001e-6
    assert boost.gap_ < 1e-4
    alone = DefiniteBoost(choice=choice, random_state=0, tol=1e-6).fit(sets[0], start=start)
    assert alone.status_ == "solved"


def test_a_metric_over_features_moves_pairs_as_asked(rng):
    X = rng.normal(size=(20, 4))
    y = np.arange(20) % 2
    X[:, 0] += 4 * y
    pairs = np.array([(a, b) for a in range(20) for b in range(a)])
    near = y[pairs[:, 0]] == y[pairs[:, 1]]
    constraints = [
        DistanceConstraints(pairs[near], 2.8, X=X),
        DistanceConstraints(pairs[~near], 1.4, ">=", X=X),
    ]
    boost = DefiniteBoost(choice="all").fit(constraints)
    distance = boost.pairwise_distance(X)[pairs[:, 0], pairs[:, 1]]
    assert distance[near].max() <= 2.8 + 1e-3
    assert distance[~near].min() >= 1.4 - 1e-3
    moved = boost.transform(X)
    assert np.linalg.norm(moved[3] - moved[7]) == pytest.approx(boost.pairwise_distance(X)[3, 7])
    np.testing.assert_allclose(boost.pairwise_distance(X[:3], X), boost.pairwise_distance(X)[:3],
                               atol=1e-6)  # fmt: skip


def test_an_embedding_of_objects_has_the_distances_of_the_kernel(rng):
    boost = DefiniteBoost().fit(near_far(rng))
    E, W = boost.transform(), boost.W_
    np.testing.assert_allclose(E @ E.T, W, atol=1e-12)
    D = boost.pairwise_distance()
    assert D[1, 4] == pytest.approx(np.sqrt(W[1, 1] + W[4, 4] - 2 * W[1, 4]))


def test_results_are_repeatable_and_plain(rng):
    constraints = near_far(rng)
    for seed in (7, np.random.RandomState(7)):
        boost = DefiniteBoost(choice="random", random_state=seed).fit(constraints)
        assert boost.status_ == "solved"
    boost = DefiniteBoost(choice="random", random_state=1)
    one, two = clone(boost).fit(constraints), clone(boost).fit(constraints)
    np.testing.assert_array_equal(one.W_, two.W_)
    copy = pickle.loads(pickle.dumps(one))
    np.testing.assert_array_equal(copy.alpha_, one.alpha_)


def test_given_arrays_are_left_alone(rng):
    start, alpha = density(rng, 8), rng.random(20)
    before = start.copy(), alpha.copy()
    DefiniteBoost().fit(near_far(rng), start=start, alpha=alpha)
    np.testing.assert_array_equal(start, before[0])
    np.testing.assert_array_equal(alpha, before[1])


def test_using_before_solving_says_so():
    for use in (lambda b: b.transform(), lambda b: b.pairwise_distance(), lambda b: b.components_):
        with pytest.raises(NotFittedError):
            use(DefiniteBoost())


EYE = np.eye(8) / 8
WRONG = {
    "tol": ({"tol": 0.0}, {}, "DefiniteBoost: tol must be a positive number"),
    "max_iter": ({"max_iter": 0}, {}, "DefiniteBoost: max_iter must be a positive integer"),
    "choice": ({"choice": "best"}, {}, "DefiniteBoost: choice must be one of 'most_violated'"),
    "projection": ({"projection": 1}, {}, "DefiniteBoost: projection must be one of"),
    "nearest": ({"nearest": 1}, {}, "DefiniteBoost: nearest must be True or False"),
    "start's shape": ({}, {"start": np.eye(3) / 3}, r"start must be an array .* shape \(8, 8\)"),
    "start's symmetry": ({}, {"start": EYE + 0.1 * np.eye(8, k=1)}, "start must be symmetric"),
    "start's trace": ({}, {"start": np.eye(8)}, "start must have trace one, got 8"),
    "start's sign": ({}, {"start": np.diag([2.0, -1.0] + [0.0] * 6)}, "start must be positive def"),
    "start's rank": ({}, {"start": np.diag([1.0] + [0.0] * 7)}, "start must be positive definite"),
    "start's NaN": ({}, {"start": np.full((8, 8), np.nan)}, "start must be finite"),
    "alpha's length": ({}, {"alpha": np.zeros(21)}, "alpha must be an array of at most 20 numbers"),
    "alpha's sign": ({}, {"alpha": [-1.0]}, "alpha must be at least 0, got -1"),
    "alpha's NaN": ({}, {"alpha": [np.nan]}, "alpha must be finite, but it contains NaN"),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_wrong_input_is_refused_and_changes_nothing(rng, name):
    parameters, given, words = WRONG[name]
    boost = DefiniteBoost().fit(near_far(rng))
    W = boost.W_.copy()
    with pytest.raises(ValueError, match=words):
        boost.set_params(**parameters).fit(near_far(rng), **given)
    np.testing.assert_array_equal(boost.W_, W)


def test_an_oracle_does_its_own_choosing():
    with pytest.raises(ValueError, match='choice must be "most_violated" with an oracle'):
        DefiniteBoost(choice="all").fit(ConstraintOracle(2, lambda W: None))
    with pytest.raises(ValueError, match="X must have 3 features, got 2"):
        DefiniteBoost().fit(MatrixConstraints([-np.eye(3)])).transform(np.eye(2))
