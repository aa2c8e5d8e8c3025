"""Every set of constraints says the same as its matrices."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from similia import ConstraintOracle, DistanceConstraints, MatrixConstraints, RankOneConstraints
from similia.constraints import pairs
from similia.constraints.sets import UnionConstraints, as_constraints
from similia.linalg.gibbs import GibbsState
from tests.constraint_problems import SEEDS, density, hermitian
from tests.problems import FORMS


def senses(rng, n):
    return rng.choice(["<=", ">="], size=n)


def objects(rng, d, n):
    return DistanceConstraints(
        rng.integers(d, size=(n, 2)), rng.random(n), senses(rng, n), n_objects=d
    )


def features(rng, d, n, form=np.asarray, n_samples=7):
    X = np.round(rng.normal(size=(n_samples, d)), 1)
    chosen = rng.integers(n_samples, size=(n, 2))
    return DistanceConstraints(chosen, rng.random(n), senses(rng, n), X=form(X))


def vectors(rng, d, n, kind="real"):
    Z = rng.normal(size=(n, d)) + (1j * rng.normal(size=(n, d)) if kind == "complex" else 0.0)
    return RankOneConstraints(Z, rng.random(n), senses(rng, n))


def matrices(rng, d, n, kind="real"):
    return MatrixConstraints([hermitian(rng, d, kind) for _ in range(n)], rng.normal(size=n))


def sparse_matrices(rng, d, n):
    each = [hermitian(rng, d) * (rng.random((d, 1)) < 0.5) for _ in range(n)]
    return MatrixConstraints([sparse.csr_array(C + C.T) for C in each], rng.normal(size=n))


SETS = {
    "objects": objects,
    "features": features,
    "sparse features": lambda *args: features(*args, form=sparse.csr_array),
    "many samples": lambda *args: features(*args, n_samples=200),
    "vectors": vectors,
    "complex vectors": lambda *args: vectors(*args, kind="complex"),
    "matrices": matrices,
    "complex matrices": lambda *args: matrices(*args, kind="complex"),
    "sparse matrices": sparse_matrices,
    "union": lambda *args: UnionConstraints([objects(*args), matrices(*args), vectors(*args)]),
    "union of objects": lambda *args: UnionConstraints([objects(*args), objects(*args)]),
}


@pytest.mark.parametrize("name", SETS)
@given(seed=SEEDS, d=st.integers(1, 6), n=st.integers(1, 8))
def test_values_sums_and_bounds_are_those_of_the_matrices(name, seed, d, n):
    rng = np.random.default_rng(seed)
    constraints = SETS[name](rng, d, n).shifted(0.25)
    kind = "complex" if constraints.dtype.kind == "c" else "real"
    W = density(rng, d, kind)
    each = np.array([constraints.matrix(j) for j in range(len(constraints))])
    expected = np.einsum("jab,ba->j", each, W).real
    np.testing.assert_allclose(constraints.values(W), expected, atol=1e-10)
    which = rng.integers(len(constraints), size=3)
    np.testing.assert_allclose(constraints.values(W, which), expected[which], atol=1e-10)
    state = GibbsState(hermitian(rng, d, kind))
    of_state = np.einsum("jab,ba->j", each, state.matrix()).real
    np.testing.assert_allclose(constraints.state_values(state), of_state, atol=1e-10)
    np.testing.assert_allclose(constraints.state_values(state, which), of_state[which], atol=1e-10)
    weights = rng.normal(size=len(constraints))
    sums = np.tensordot(weights, each, 1)
    np.testing.assert_allclose(constraints.combination(weights), sums, atol=1e-10)
    np.testing.assert_allclose(constraints.combination(np.abs(weights)),
                               np.tensordot(np.abs(weights), each, 1), atol=1e-10)  # fmt: skip
    low, high = constraints.bounds()
    spectra = np.linalg.eigvalsh(each)
    np.testing.assert_allclose(low, spectra[:, 0], atol=1e-10)
    np.testing.assert_allclose(high, spectra[:, -1], atol=1e-10)


@pytest.mark.parametrize("name", SETS)
def test_rank_one_terms_are_the_matrices(rng, name):
    constraints = SETS[name](rng, 5, 6)
    terms = constraints.terms()
    for j in range(len(constraints)):
        term = constraints.rank_one(j)
        if term is None:
            assert terms is None
            continue
        C = term.sign * np.outer(term.z, term.z.conj()) - term.shift * np.eye(5)
        np.testing.assert_allclose(constraints.matrix(j), C)
        if terms is not None:
            z = (
                terms.Z[j]
                if terms.Z.size
                else np.eye(5)[terms.first[j]] - np.eye(5)[terms.second[j]]
            )
            D = terms.signs[j] * np.outer(z, z) - terms.shifts[j] * np.eye(5)
            np.testing.assert_allclose(D, C)


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_feature_distances_are_those_of_the_metric(rng, form):
    X, W = rng.normal(size=(9, 4)), density(rng, 4)
    chosen = rng.integers(9, size=(30, 2))
    z = X[chosen[:, 0]] - X[chosen[:, 1]]
    squares = np.vecdot(z @ W, z)
    near = DistanceConstraints(chosen, 0.5, X=form(X))
    far = DistanceConstraints(chosen, 0.5, ">=", X=form(X))
    np.testing.assert_allclose(near.values(W), squares - 0.25)
    np.testing.assert_allclose(far.values(W), 0.25 - squares)


def test_many_pairs_are_shared_out_among_processors(rng, monkeypatch):
    chosen, W = rng.integers(30, size=(1000, 2)), density(rng, 30)
    bounds, sense = rng.random(1000), senses(rng, 1000)
    constraints = DistanceConstraints(chosen, bounds, sense, n_objects=30)
    alone = constraints.values(W)
    monkeypatch.setattr(pairs, "PARALLEL_PAIRS", 10)
    np.testing.assert_array_equal(constraints.values(W), alone)
    some = rng.integers(1000, size=50)
    np.testing.assert_array_equal(constraints.values(W, some), alone[some])
    np.testing.assert_allclose(constraints.shifted(0.5).values(W), alone - 0.5, atol=1e-15)


def test_one_bound_and_one_sense_hold_for_all_constraints():
    constraints = RankOneConstraints(np.eye(3), 0.5, ">=")
    np.testing.assert_array_equal(constraints.values(np.eye(3) / 3), 0.5 - np.ones(3) / 3)


def test_a_list_of_sets_is_their_union(rng):
    a, b = objects(rng, 4, 3), matrices(rng, 4, 2)
    both = as_constraints("here", [a, b])
    assert len(both) == 5
    np.testing.assert_allclose(both.values(np.eye(4) / 4)[3:], b.values(np.eye(4) / 4))


def test_an_oracle_keeps_what_it_has_named():
    named = iter(
        [("a", (np.ones(3), "<=", 0.5)), ("b", np.diag([1.0, 0.0, -1.0])), ("a", None), None]
    )
    oracle = ConstraintOracle(3, lambda W: next(named))
    W = np.diag([0.5, 0.3, 0.2])
    assert [oracle.search(W) for _ in range(4)] == [0, 1, 0, None]
    assert oracle.keys == ["a", "b"]
    np.testing.assert_allclose(oracle.values(W), [0.5, 0.3])
    np.testing.assert_allclose(
        oracle.combination(np.array([1.0, 2.0])), oracle.matrix(0) + 2 * oracle.matrix(1)
    )
    assert oracle.rank_one(0).shift == 0.5
    assert oracle.rank_one(1) is None
    np.testing.assert_allclose(oracle.values(W, [1]), [0.3])
    np.testing.assert_allclose(oracle.named().shifted(0.25).values(W), [0.25, 0.05])


def test_an_oracle_may_name_several_constraints_of_which_the_first_counts():
    answers = iter([[("a", np.eye(3)), ("b", (np.ones(3), "<=", 0.5))],
                    [("b", None), ("c", np.diag([1.0, 0.0, -1.0]))],
                    [("d", np.eye(3)), ("e", np.eye(2))]])  # fmt: skip
    oracle = ConstraintOracle(3, lambda W: next(answers))
    W = np.diag([0.5, 0.3, 0.2])
    assert oracle.search(W) == 0
    before = oracle.named()
    assert oracle.search(W) == 1
    assert oracle.keys == ["a", "b", "c"]
    np.testing.assert_allclose(oracle.values(W), [1.0, 0.5, 0.3])
    np.testing.assert_allclose(before.values(W), [1.0, 0.5])
    with pytest.raises(ValueError, match="on 3 features"):
        oracle.search(W)
    assert oracle.keys == ["a", "b", "c"]  # a bad answer names nothing


@pytest.mark.parametrize("thin", [False, True])
def test_what_an_oracle_has_named_is_a_set_of_its_own_in_the_same_order(rng, thin):
    each = [("a", np.diag([1.0, 0.0, -1.0])), ("b", (np.ones(3), ">=", 0.5)), ("c", np.eye(3)),
            ("d", (np.arange(3.0), "<=", 0.2))]  # fmt: skip
    if thin:
        each[2] = ("c", sparse.csr_array(np.eye(3)))
    named = iter(each)
    oracle = ConstraintOracle(3, lambda W: next(named))
    for _ in each:
        oracle.search(np.eye(3) / 3)
    W, finite = density(rng, 3), oracle.named()
    matrices = np.array([oracle.matrix(j) for j in range(4)])
    np.testing.assert_allclose(finite.values(W), np.einsum("jab,ba->j", matrices, W), atol=1e-12)
    state = GibbsState(hermitian(rng, 3))
    np.testing.assert_allclose(finite.state_values(state), finite.values(state.matrix()))
    weights = rng.normal(size=4)
    np.testing.assert_allclose(finite.combination(weights), np.tensordot(weights, matrices, 1))
    for j, C in enumerate(finite.shifted(0.1).matrix(j) for j in range(4)):
        np.testing.assert_allclose(C, matrices[j] - 0.1 * np.eye(3))
    assert [finite.rank_one(j) is None for j in range(4)] == [True, False, True, False]
    assert finite.rank_one(1).shift == -0.5


ONE = [[0, 1]]
WRONG = {
    "pairs as floats": (lambda: DistanceConstraints([[0.0, 1.0]], 1.0, n_objects=2),
                        "pairs must be an integer array of shape"),
    "pairs beyond the objects": (lambda: DistanceConstraints([[0, 5]], 1.0, n_objects=3),
                                 "pairs must be row indices between 0 and 2"),
    "no pairs, no number of objects": (lambda: DistanceConstraints(np.zeros((0, 2), int), 1.0),
                                       "n_objects must be given"),
    "half an object": (lambda: DistanceConstraints(ONE, 1.0, n_objects=2.5),
                       "n_objects must be a positive integer"),
    "no object": (lambda: DistanceConstraints(ONE, 1.0, n_objects=0),
                  "n_objects must be a positive integer"),
    "X and a number": (lambda: DistanceConstraints(ONE, 1.0, X=np.eye(2), n_objects=2),
                       "n_objects must be None if X is given"),
    "X with NaN": (lambda: DistanceConstraints(ONE, 1.0, X=[[np.nan], [1.0]]), "X must be finite"),
    "negative distance": (lambda: DistanceConstraints(ONE, -1.0), "distances must be at least 0"),
    "NaN as distance": (lambda: DistanceConstraints(ONE, np.nan), "distances must be finite"),
    "two distances for one pair": (lambda: DistanceConstraints(ONE, [1.0, 2.0]),
                                   r"distances must be a number or an array of shape \(1,\)"),
    "words as distances": (lambda: DistanceConstraints(ONE, "far"), "distances must be a number"),
    "unknown sense": (lambda: DistanceConstraints(ONE, 1.0, "<"), 'sense must be "<=" or ">="'),
    "sense as number": (lambda: DistanceConstraints(ONE, 1.0, -1), 'sense must be "<=" or ">="'),
    "three senses for one": (lambda: DistanceConstraints(ONE, 1.0, ["<="] * 3), "sense must be"),
    "a flat Z": (lambda: RankOneConstraints(np.ones(3), 1.0), "Z must be an array of numbers"),
    "Z of words": (lambda: RankOneConstraints([["a"]], 1.0), "Z must be an array of numbers"),
    "Z infinite": (lambda: RankOneConstraints([[np.inf]], 1.0), "Z must be finite"),
    "no matrix": (lambda: MatrixConstraints([]), "matrices must not be empty"),
    "not square": (lambda: MatrixConstraints([np.ones((2, 3))]), "matrices must be square"),
    "not symmetric": (lambda: MatrixConstraints([[[0.0, 1.0], [0.0, 0.0]]]),
                      "matrices must be symmetric or Hermitian, but number 0 is not"),
    "not Hermitian": (lambda: MatrixConstraints([[[0.0, 1j], [1j, 0.0]]]), "must be symmetric or"),
    "NaN in a matrix": (lambda: MatrixConstraints([np.eye(2), np.full((2, 2), np.nan)]),
                        "NaN or infinity in number 1"),
    "NaN in a sparse matrix": (lambda: MatrixConstraints([sparse.csr_array([[np.nan]])]),
                               "NaN or infinity in number 0"),
    "two sizes": (lambda: MatrixConstraints([np.eye(2), np.eye(3)]), "must be of one shape"),
    "union of sizes": (lambda: UnionConstraints([MatrixConstraints([np.eye(d)]) for d in (2, 3)]),
                       r"parts must have one n_features, got \[2, 3\]"),
    "empty union": (lambda: UnionConstraints([]), "parts must be one or more finite sets"),
    "union with an oracle": (lambda: as_constraints("here", [ConstraintOracle(2, print)]),
                             "parts must be one or more finite sets"),
    "anything else": (lambda: as_constraints("here", np.eye(2)), "here: constraints must be Dist"),
    "oracle of no size": (lambda: ConstraintOracle(0, print), "n_features must be a positive"),
    "oracle of half a size": (lambda: ConstraintOracle(1.5, print), "n_features must be a posit"),
    "oracle without function": (lambda: ConstraintOracle(2, 3), "find must be a function"),
    "oracle of integers": (lambda: ConstraintOracle(2, print, dtype=int), "dtype must be float64"),
    "oracle naming another size": (
        lambda: ConstraintOracle(2, lambda W: (0, np.eye(3))).search(np.eye(2)),
        "find must return constraints on 2 features",
    ),
    "oracle naming no pair": (
        lambda: ConstraintOracle(2, lambda W: np.eye(2)).search(np.eye(2)),
        r"find must return None, \(key, constraint\) or a list of such, got",
    ),
    "oracle naming an empty list": (
        lambda: ConstraintOracle(2, lambda W: []).search(np.eye(2)),
        r"find must return None where no constraint is violated, got \[\]",
    ),
    "oracle naming a list as key": (
        lambda: ConstraintOracle(2, lambda W: ([0], np.eye(2))).search(np.eye(2)),
        "with a hashable key, got list",
    ),
    "oracle naming half a constraint": (
        lambda: ConstraintOracle(2, lambda W: (0, (np.ones(2), "<="))).search(np.eye(2)),
        "or a matrix, got a tuple of 2",
    ),
    "oracle shifted down": (
        lambda: ConstraintOracle(2, print).shifted(-1.0), "by must be a number of at least 0"
    ),
    "oracle naming a complex one": (
        lambda: ConstraintOracle(1, lambda W: (0, ([1j], "<=", 1.0))).search(np.eye(1)),
        "find must return constraints on 1 features of dtype float64",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_wrong_constraints_are_refused_in_the_house_form(name):
    make, words = WRONG[name]
    with pytest.raises(ValueError, match=words):
        make()
