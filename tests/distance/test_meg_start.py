"""MEG from a given positive definite matrix."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from similia import MEG, load, save
from tests.constraint_problems import SEEDS, density
from tests.distance.test_meg import hidden_metric, measured, objects
from tests.problems import FORMS, labelled
from tests.reference import meg as reference
from tests.reference.definite_boost import logarithm

FIELDS = {float: "real", complex: "complex"}


@given(SEEDS, st.integers(1, 6), st.sampled_from([float, complex]), st.booleans())
def test_from_a_given_matrix_steps_are_those_of_the_plain_form(seed, d, kind, normalized):
    rng = np.random.default_rng(seed)
    start, trace = 3.0 * density(rng, d, FIELDS[kind]), 2.0
    x, y, _ = measured(rng, d, 20, kind)
    field = FIELDS[kind]
    learner = MEG(
        start=start, trace=trace, eta=0.1, field=field, normalized=normalized, average=True
    )
    learner.learn_matrices(x[:0], y[:0])
    np.testing.assert_allclose(learner.A_, 2.0 * start / np.trace(start), atol=1e-12)
    learner.learn_matrices(x, y)
    G, total = logarithm(start / np.trace(start).real), 0.0
    states = [trace * reference.matrix(G, normalized)]
    for row, target in zip(x, y, strict=True):
        # tr(AX) = tr(W sX), so the plain form sees s times the instance.
        G, loss = reference.meg_step(G, trace * np.outer(row, row.conj()), target, 0.1, normalized)
        total += loss
        states.append(trace * reference.matrix(G, normalized))
    np.testing.assert_allclose(learner.A_, states[-1], atol=1e-9)
    np.testing.assert_allclose(learner.A_average_, np.mean(states, axis=0), atol=1e-9)
    assert learner.total_loss_ == pytest.approx(total, rel=1e-8)


def test_the_identity_given_as_a_matrix_is_the_identity(rng):
    X, pairs, y, _ = hidden_metric(rng)
    signs = np.where(y > np.median(y), -1, 1)
    for matrix in (np.eye(X.shape[1]), np.eye(X.shape[1], dtype=int)):
        for other, target in (({}, y), ({"feedback": "labels"}, signs)):
            named = MEG(**other).learn(X, pairs, target)
            given = MEG(start=matrix, **other).learn(X, pairs, target)
            np.testing.assert_allclose(given.A_, named.A_, atol=1e-10)
            np.testing.assert_allclose(given.bounds_, named.bounds_)
            assert given.trace_ == named.trace_


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_the_trace_and_typical_bounds_are_those_of_the_start(rng, form):
    X, y = labelled(rng)
    d = X.shape[1]
    start = 3.0 * d * density(rng, d)
    learner = MEG(start=start, n_pairs=1).fit(form(X), y)
    assert learner.trace_ == pytest.approx(3.0 * d)
    moved = X @ np.linalg.cholesky(start)
    same = MEG(n_pairs=1).fit(moved, y)
    np.testing.assert_allclose(learner.bounds_, same.bounds_, rtol=1e-4)


def test_the_nearer_the_start_the_smaller_the_loss(rng):
    pairs, y, _, trace = objects(rng, length=500)
    learnt = MEG(n_objects=12, trace=trace).learn(None, pairs, y)
    again = MEG(n_objects=12, start=learnt.K_).learn(None, pairs, y)
    assert again.trace_ == pytest.approx(trace)
    assert again.total_loss_ < 0.5 * learnt.total_loss_


WRONG_STARTS = {
    "another size": (np.eye(3), r"start must be an array of real numbers of shape \(2, 2\)"),
    "complex": (np.eye(2, dtype=complex), "start must be an array of real numbers"),
    "booleans": (np.eye(2, dtype=bool), "start must be an array of real numbers"),
    "NaN": (np.diag([1.0, np.nan]), "start must be finite"),
    "not symmetric": (np.array([[1.0, 0.5], [0.0, 1.0]]), "start must be symmetric or Hermitian"),
    "singular": (np.ones((2, 2)), "start must be positive definite, got eigenvalues from"),
    "indefinite": (
        np.diag([2.0, -1.0]),
        "start must be positive definite, got eigenvalues from -1",
    ),
    "zero": (np.zeros((2, 2)), "start must be positive definite"),
    "a name": ("zero", "start must be 'identity' or an array"),
    "a list": ([[1.0, 0.0], [0.0, 1.0]], "start must be 'identity' or an array"),
}


@pytest.mark.parametrize("case", WRONG_STARTS)
def test_wrong_starts_are_refused_and_nothing_has_changed(case):
    start, words = WRONG_STARTS[case]
    for use in (
        lambda m: m.learn(np.eye(2), [[0, 1]], [1.0]),
        lambda m: m.learn_matrices(np.eye(2), [1.0, 1.0]),
        lambda m: m.fit(np.eye(2), [0, 1]),
    ):
        learner = MEG(start=start)
        with pytest.raises(ValueError, match=f"^MEG: {words}"):
            use(learner)
        assert not learner.__sklearn_is_fitted__()
        assert not hasattr(learner, "n_features_in_")


@pytest.mark.parametrize("kind", [float, complex])
def test_a_given_start_is_saved(rng, tmp_path, kind):
    x, y, state = measured(rng, length=90, kind=kind)
    field = FIELDS[kind]
    start = density(rng, 4, FIELDS[kind])
    learner = MEG(start=start, field=field).learn_matrices(x[:30], y[:30])
    save(learner, tmp_path / "state")
    loaded = load(tmp_path / "state")
    np.testing.assert_array_equal(loaded.start, start)
    assert loaded.loss_bound(state) == learner.loss_bound(state)
