"""Tiny and huge numbers: a finite state and finite scores, or an error in words."""

import numpy as np
import pytest

from similia.registry import LEARNERS, learner_class
from tests.cases import case_of

SMALL = {"float32": [-12, -20, -38, -44], "float64": [-80, -120, -155, -160, -165, -300, -320]}


@pytest.mark.parametrize("dtype", SMALL)
@pytest.mark.parametrize("share", [0.3, 1.0])
@pytest.mark.parametrize("name", LEARNERS)
def test_tiny_rows_leave_finite_states_or_are_refused(name, share, dtype, rng):
    for exponent in SMALL[dtype]:
        case = case_of(learner_class(name), dtype=dtype)
        tiny = np.where(rng.random(len(case.X)) < share, 10.0**exponent, 1.0)
        case.X = (case.X * tiny[:, None]).astype(dtype)
        try:
            case.learn()
        except ValueError as error:
            assert "scale it up" in str(error)  # noqa: PT017
            assert not case.learner.__sklearn_is_fitted__()
            continue
        for value in case.learner.get_state().values():
            if np.asarray(value).dtype.kind == "f":
                assert np.isfinite(value).all()
        assert np.isfinite(case.output()).all()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", LEARNERS)
def test_huge_queries_are_refused_or_have_finite_scores(name, dtype):
    case = case_of(learner_class(name), dtype=dtype)
    learner = case.learn()
    by_labels = learner.learns_from == "labels"
    calls = [learner.decision_function] if by_labels else [learner.pairwise_score]
    if not by_labels:
        calls += [learner.query_vectors, learner.item_vectors]
        calls += [lambda Q: learner.pairwise_score(case.X, Q)]
    for scale in [0.9 * np.finfo(dtype).max, 1e30, 1e8]:
        for call in calls:
            Q = np.clip(case.X.astype(float), -1, 1) * scale
            try:
                found = call(Q.astype(dtype))
            except ValueError as error:
                assert "scale it down" in str(error)  # noqa: PT017
            else:
                assert np.isfinite(found).all()


@pytest.mark.parametrize("name", LEARNERS)
def test_a_learner_in_single_precision_refuses_what_only_double_precision_holds(name):
    case = case_of(learner_class(name), dtype="float32")
    case.learn()
    before = {name: np.copy(value) for name, value in case.learner.get_state().items()}
    if case.learner.get_state()["moment_"].dtype != np.float32:
        return
    with pytest.raises(ValueError, match="for float32"):
        case.learn(X=case.X.astype(float) * 1e25)
    for attribute, value in case.learner.get_state().items():
        np.testing.assert_array_equal(value, before[attribute])
