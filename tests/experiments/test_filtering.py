import tomllib

import numpy as np
import pytest
from scipy import sparse

from experiments.contenders import CONTENDERS
from experiments.problems import PROBLEMS, Problem, validation
from experiments.problems.filtering import pivoted
from experiments.rows import read_rows, select
from experiments.run import run_plan

PLAN = """
seeds = [0]
cuts = [1]

[tuning]
steps = 0
share = 0.2
measure = "accuracy@1"

[contenders."POLA filter"]
kind = "POLA filter"
parameters = { start = "zero", unit = 1.0, threshold_rate = 1.0, average = false }
[contenders."1-NN filter"]
kind = "1-NN filter"
[contenders."Perceptron filter"]
kind = "Perceptron filter"
[contenders."PAUM filter, tuned"]
kind = "PAUM filter"
tune = { tau_positive = [0.5, 2.0] }

[[blocks]]
problem = "toy_stream"
steps = [0]
tuned_by = "balanced_accuracy"
contenders = ["POLA filter", "1-NN filter", "Perceptron filter", "PAUM filter, tuned"]
"""


def toy_stream(seed):
    """Documents of two kinds, which show in three of ten features."""
    rng = np.random.default_rng(seed)
    y = rng.random(120) < 0.3
    X = 0.4 * rng.normal(size=(120, 10))
    X[:, :3] += np.where(y, 1.0, -1.0)[:, None]
    X = sparse.csr_array(X / np.linalg.norm(X, axis=1)[:, None])
    return Problem(X[:50], y[:50], X[50:], y[50:], measured_by="filtering")


@pytest.fixture(autouse=True)
def _problem(monkeypatch):
    monkeypatch.setitem(PROBLEMS, "toy_stream", toy_stream)


def test_filters_are_measured_by_both_kinds_of_mistakes(tmp_path):
    assert run_plan(tomllib.loads(PLAN), tmp_path) == 2 + 4
    rows = read_rows(tmp_path)
    for name in ("POLA filter", "1-NN filter", "Perceptron filter", "PAUM filter, tuned"):
        found = {r["measure"]: r["value"] for r in select(rows, contender=name, stage="run")}
        mean = (found["false_positive_rate"] + found["false_negative_rate"]) / 2
        assert found["balanced_accuracy"] == pytest.approx(1 - mean, abs=1e-4)
        assert found["balanced_accuracy"] > 0.75
    (chosen,) = {r["parameters"] for r in select(rows, contender="PAUM filter, tuned", stage="run")}
    tuned = select(rows, stage="tune", measure="balanced_accuracy")
    assert chosen == max(tuned, key=lambda row: row["value"])["parameters"]


def test_a_filter_is_tuned_on_the_stream_before():
    problem = toy_stream(0)
    part = validation(problem, 0.2, seed=0)
    assert part.X_test.shape == problem.X_train.shape
    np.testing.assert_array_equal(part.y_test, problem.y_train)


def test_predictions_do_not_depend_on_what_comes_later():
    problem = toy_stream(0)
    whole, start = (CONTENDERS["POLA filter"](problem, 0, unit=1.0) for _ in range(2))
    start.X, start.y = start.X[:30], start.y[:30]
    for contender in (whole, start):
        contender.learn_to(0)
    np.testing.assert_array_equal(whole.predicted[:30], start.predicted)


def test_pivoted_lengths_lie_between_the_own_and_the_mean(rng):
    X = sparse.csr_array(rng.random((20, 5)) * rng.uniform(1, 9, size=(20, 1)))
    lengths = sparse.linalg.norm(X, axis=1)
    np.testing.assert_allclose(sparse.linalg.norm(pivoted(X, 1.0), axis=1), 1.0)
    np.testing.assert_allclose(pivoted(X, 0.0).toarray(), X.toarray() / lengths.mean())
    found = sparse.linalg.norm(pivoted(X, 0.75), axis=1)
    np.testing.assert_allclose(found, lengths / (0.25 * lengths.mean() + 0.75 * lengths))
