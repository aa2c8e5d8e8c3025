import tomllib
from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.neighbors import KNeighborsClassifier

from experiments.contenders import CONTENDERS
from experiments.contenders.tuples import rca_factor
from experiments.measures import MEASURES, majority, nearest_rows
from experiments.plan import final_tasks, quick
from experiments.problems import toy
from experiments.problems.images import glyph, noisy_digits, noisy_images
from experiments.rows import read_rows, select
from experiments.run import run_plan

PLAN = """
seeds = [0, 1]
cuts = [1, 3]

[tuning]
steps = 200
share = 0.3
measure = "accuracy@3"

[contenders.Euclidean]
kind = "identity"
[contenders.LEGO]
kind = "LEGO"
[contenders.RCA]
kind = "RCA"
parameters = { n_components = 4 }
[contenders.FDA]
kind = "FDA"
[contenders."NCA, tuned"]
kind = "NCA"
parameters = { n_components = 5, n_points = 60, max_iter = 5 }
tune = { tol = [1e-5, 1e-1] }

[[blocks]]
problem = "toy"
options = { measured_by = "neighbors" }
vary = { n_features = [6, 8] }
steps = [100, 300]
contenders = ["Euclidean", "LEGO", "RCA", "FDA", "NCA, tuned"]
"""


def test_a_plan_of_neighbors_runs_over_varied_options(tmp_path):
    plan = tomllib.loads(PLAN)
    assert run_plan(plan, tmp_path) == 2 * 2 * (2 + 5)
    rows = select(read_rows(tmp_path), stage="run")
    names = ("accuracy", "gained", "lost")
    assert {row["measure"] for row in rows} == {f"{name}@{k}" for name in names for k in (1, 3)}
    assert {row["score"] for row in rows} == {"l2"}
    assert len({row["options"] for row in rows}) == 2
    assert {row["step"] for row in select(rows, contender="RCA")} == {100, 300}
    accuracies = select(rows, measure=lambda name: name.startswith("accuracy"))
    assert all(0 <= row["value"] <= 1 for row in accuracies)
    euclidean = select(accuracies, contender="Euclidean", measure="accuracy@3")
    for row in select(accuracies, contender="FDA", measure="accuracy@3"):
        same = {name: row[name] for name in ("options", "seed")}
        plain = select(euclidean, **same)[0]["value"]
        gained, lost = (
            select(rows, contender="FDA", measure=f"{name}@3", **same)[0]["value"]
            for name in ("gained", "lost")
        )
        assert row["value"] - plain == pytest.approx((gained - lost) / row["queries"], abs=1e-4)


def test_quick_keeps_one_of_the_varied_options():
    tasks = final_tasks(quick(tomllib.loads(PLAN)), [])
    assert len({task.options for task in tasks}) == 1


def test_neighbors_vote_as_those_of_scikit_learn():
    problem = toy(0, measured_by="neighbors")
    task = SimpleNamespace(cuts=(1, 2, 3, 5), stage="run")
    found = MEASURES["neighbors"](CONTENDERS["identity"](problem, 0), problem, task, True)
    values = {measure: value for _, _, measure, value in found}
    for k in task.cuts:
        rival = KNeighborsClassifier(k, algorithm="brute").fit(problem.X_train, problem.y_train)
        expected = rival.score(problem.X_test, problem.y_test)
        assert values[f"accuracy@{k}"] == pytest.approx(expected)


def test_of_equal_votes_the_smallest_label_wins():
    assert majority(np.array([[2, 1, 0], [2, 2, 0]])).tolist() == [0, 2]
    assert nearest_rows(np.array([[0.0], [5.0]]), np.array([[4.0]]), 2).tolist() == [[1, 0]]


def test_a_pool_is_gone_through_again():
    problem = toy(0)
    thrice = CONTENDERS["LEGO"](problem, 0, pool=40, average=False)
    thrice.learn_to(120)
    by_hand = CONTENDERS["LEGO"](problem, 0, average=False)
    pairs, signs = by_hand._drawn(0)
    for _ in range(3):
        by_hand.learner.learn(problem.X_train, pairs[:40], signs[:40])
    np.testing.assert_array_equal(thrice.learner.A_, by_hand.learner.A_)


def test_rca_whitens_what_varies_within_chunklets(rng):
    X = rng.normal(size=(30, 3)) * [1.0, 2.0, 5.0]
    similar = np.array([[0, 1], [1, 2], [3, 4], [7, 9], [9, 8], [8, 7]])
    Z = X @ rca_factor(X, similar).T
    chunklets = ([0, 1, 2], [3, 4], [7, 8, 9])
    spread = sum((Z[rows] - Z[rows].mean(0)).T @ (Z[rows] - Z[rows].mean(0)) for rows in chunklets)
    np.testing.assert_allclose(spread / 8, np.eye(3), atol=1e-10)


def test_rca_is_blind_where_chunklets_do_not_vary(rng):
    X = rng.normal(size=(10, 6))
    assert rca_factor(X, np.array([[0, 1], [2, 3]])).shape == (2, 6)


@pytest.mark.parametrize(("noise", "numbers"), [("pixel", 72), ("line", 6), ("image", 1)])
def test_noise_has_the_energy_of_the_image_and_keeps_to_its_lines(noise, numbers):
    X, y = noisy_images(6000, noise, np.random.default_rng(0))
    assert np.bincount(y)[[2, 5]].tolist() == [3000, 3000]
    for digit in (2, 5):
        added = X[y == digit].reshape(-1, 12, 12) - glyph(digit)
        assert (added**2).sum((1, 2)).mean() == pytest.approx((glyph(digit) ** 2).sum(), rel=0.05)
        for columns in (added[::2], added[1::2].transpose(0, 2, 1)):
            assert not columns[:, :, 1::2].any()
            assert columns[:, :, ::2].all()
            assert len(np.unique(columns[0, :, ::2].round(5))) == numbers


def test_test_images_have_noise_of_their_own():
    problem = noisy_digits(0)
    assert len(problem.X_train) == 64
    seen = {row.tobytes() for row in problem.X_train}
    assert not seen & {row.tobytes() for row in problem.X_test}
