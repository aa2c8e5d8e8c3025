"""Votes with a chosen number of voters, databases of their own, and the report on the rows."""

from types import SimpleNamespace

import numpy as np
import pytest

from experiments import gerrymandering
from experiments.contenders import CONTENDERS
from experiments.measures import MEASURES
from experiments.problems import validation
from experiments.problems.base import Problem
from experiments.problems.domains import Held

TASK = SimpleNamespace(cuts=(1, 3, 5))


def split(rng, n_queries=0):
    """Two classes; with queries of their own, these are mirrored."""

    def points(n, sign):
        y = np.arange(n) % 2
        return (sign * (rng.normal(size=(n, 3)) + 4.0 * y[:, None] - 2.0)).astype(np.float32), y

    sign = -1.0 if n_queries else 1.0
    items, queries = points(60, 1.0), points(n_queries, sign)
    X, y = (np.concatenate(part) for part in zip(queries, items, strict=True))
    held, test = points(20, sign), points(30, sign)
    return Problem(X, y, *test, measured_by="voting", context=Held(*held, n_queries))


def measured(kind, problem, **parameters):
    contender = CONTENDERS[kind](problem, 0, **parameters)
    contender.learn_to(0)
    found = MEASURES["voting"](contender, problem, TASK, True)
    return {measure: value for _, _, measure, value in found}


def test_the_number_of_voters_is_chosen_on_points_held_out(rng):
    problem = split(rng)
    values = measured("identity", problem)
    assert values["accuracy"] == values[f"accuracy@{values['chosen_k']:.0f}"]
    wrong = problem._replace(context=problem.context._replace(y=1 - problem.context.y))
    assert measured("identity", wrong)["accuracy@3"] == values["accuracy@3"]


def test_queries_are_mapped_to_a_database_of_another_kind(rng):
    problem = split(rng, n_queries=40)
    assert measured("identity", problem)["accuracy"] < 0.2
    assert measured("class regression", problem, tied=False)["accuracy"] > 0.9
    found = measured("gerrymandering", problem, asymmetric=True, init="classes")
    assert found["accuracy"] > 0.9


@pytest.mark.parametrize("n_queries", [0, 40])
def test_only_queries_are_held_out_for_tuning(n_queries, rng):
    problem = split(rng, n_queries)
    part = validation(problem, 0.25, 0)
    n = n_queries or 60
    assert len(part.y_test) == n // 4
    assert len(part.y_train) == len(problem.y_train) - n // 4
    assert part.context.n_queries == (30 if n_queries else 0)
    items = slice(part.context.n_queries, None)
    if n_queries:
        np.testing.assert_array_equal(part.X_train[items], problem.X_train[n_queries:])


def row(problem, contender, seed, value, options="{}", measure="accuracy", score="l2"):
    return {
        "stage": "run",
        "problem": problem,
        "options": options,
        "contender": contender,
        "parameters": "{}",
        "seed": seed,
        "step": 0,
        "queries": 10,
        "score": score,
        "measure": measure,
        "value": value,
        "seconds": 1.0,
        "versions": "",
        "note": "",
    }


def test_the_report_says_who_won_by_paired_splits(tmp_path):
    rows = []
    for seed in range(5):
        noise = 0.001 * seed
        rows.append(row("isolet", "NCA", seed, 0.95 + noise))
        rows.append(row("isolet", "gerrymandering, symmetric", seed, 0.96 + noise))
        rows.append(row("isolet", "gerrymandering, asymmetric", seed, 0.94 - noise))
        options = '{"centered":false,"pair":"webcam to amazon"}'
        rows.append(row("domain_pair", "symmetric", seed, 0.5 + noise, options))
        rows.append(row("domain_pair", "asymmetric", seed, 0.7, options))
    exhibits = {"two_embeddings": pictures()}
    text = "\n\n".join(gerrymandering.report(rows, exhibits, tmp_path / "figures"))
    assert "| gerrymandering, symmetric against NCA | 5 of 5 | −1.0 ± 0.0 |" in text
    assert "| gerrymandering, asymmetric against NCA | 0 of 5 |" in text
    assert "webcam to amazon" in text
    assert {path.name for path in (tmp_path / "figures").iterdir()} == {
        "gerrymandering_domains.png",
        "gerrymandering_embeddings.png",
    }


def pictures():
    rng = np.random.default_rng(0)
    found = {"query_labels": np.arange(12) % 3, "item_labels": np.arange(20) % 3}
    for title in ("before", "one map", "two maps"):
        found[f"{title}, queries"] = rng.normal(size=(12, 2))
        found[f"{title}, items"] = rng.normal(size=(20, 2))
    return found
