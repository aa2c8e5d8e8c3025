import numpy as np

from experiments.contenders import CONTENDERS, tuples
from experiments.contenders.batch import balanced_rows, leading_directions
from experiments.problems import toy, validation


def test_learning_in_pieces_follows_the_same_stream(monkeypatch):
    monkeypatch.setattr(tuples, "CHUNK", 64)
    problem = toy(0)
    at_once, in_pieces = (CONTENDERS["OASIS"](problem, 3) for _ in range(2))
    at_once.learn_to(200)
    for step in (1, 64, 130, 200):
        in_pieces.learn_to(step)
    assert at_once.learner.n_seen_ == in_pieces.learner.n_seen_ == 200
    np.testing.assert_allclose(
        at_once.learner.W_average_, in_pieces.learner.W_average_, rtol=1e-3, atol=1e-3
    )


def test_validation_never_sees_the_test_points():
    problem = toy(0)
    part = validation(problem, 0.25, seed=1)
    assert len(part.y_test) == round(0.25 * len(problem.y_train))
    ours = {row.tobytes() for row in np.concatenate([part.X_train, part.X_test])}
    assert ours == {row.tobytes() for row in problem.X_train}


def test_leading_directions_are_those_of_the_singular_value_decomposition():
    X = toy(0).X_train
    V = leading_directions(X, 3, seed=0)
    expected = np.linalg.svd(X.astype(float), full_matrices=False)[2][:3]
    np.testing.assert_allclose(np.abs(V @ expected.T), np.eye(3), atol=1e-6)


def test_balanced_rows_take_as_many_of_each_class():
    y = np.array([0] * 50 + [1] * 10 + [2] * 2)
    rows = balanced_rows(y, 15, seed=0)
    assert np.bincount(y[rows]).tolist() == [5, 5, 2]
    assert len(set(rows)) == len(rows)
