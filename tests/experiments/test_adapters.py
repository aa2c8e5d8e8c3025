"""Search that learns from feedback: problems, contenders, measure and the report of rows."""

import json
import math
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import sparse
from scipy.optimize import check_grad

from experiments.adapters import lead, pooled_gain
from experiments.contenders import CONTENDERS
from experiments.contenders.adapters import reweighting_loss
from experiments.measures import MEASURES
from experiments.peers import call
from experiments.plan import read_plan, tuning_tasks
from experiments.problems import PROBLEMS, search, validation
from experiments.problems.judged import newsgroups_search
from experiments.report import main
from experiments.rows import HERE, append_rows

D = 6


@pytest.fixture
def collection(monkeypatch):
    """Vectors of which half of the features are noise; the ten best without it are relevant."""
    rng = np.random.default_rng(0)
    Q, Z = (rng.normal(size=(n, D)).astype(np.float32) for n in (50, 200))
    Q, Z = (M / np.linalg.norm(M, axis=1)[:, None] for M in (Q, Z))
    best = np.argsort(-(Q[:, :3] @ Z[:, :3].T), axis=1)[:, :10]
    rows = np.repeat(np.arange(50), 10)
    relevance = sparse.csr_array((np.ones(500), (rows, best.ravel())), shape=(50, 200))
    monkeypatch.setattr("experiments.problems.judged._collection", lambda name: (Q, Z, relevance))
    return Q, Z, relevance


def measured(contender, problem):
    task = SimpleNamespace(cuts=(10,), stage="run")
    found = MEASURES["search"](contender, problem, task, True)
    return {measure: value for _, _, measure, value in found}


# -- problems ------------------------------------------------------------------------------------


def test_five_seeds_test_every_query_once_and_none_that_was_learnt_from(collection):
    Q, _, _ = collection
    tested = []
    for seed in range(5):
        problem = search(seed, name="toy", n=400)
        learnt = {Q[row].tobytes() for row in problem.X_train.triplets[:, 0]}
        parts = [{row.tobytes() for row in part.Q} for part in (problem.X_test, problem.context)]
        assert not learnt & parts[0]
        assert not learnt & parts[1]
        assert not parts[0] & parts[1]
        tested += parts[0]
    assert len(tested) == len(set(tested)) == len(Q)
    assert validation(problem, 0.2, 0).X_test is problem.context


def test_fewer_judgements_are_the_first_of_more(collection):
    few, many = (search(3, name="toy", n=n).X_train.triplets for n in (50, 300))
    np.testing.assert_array_equal(few, many[:50])


def test_shown_feedback_is_on_the_first_results_of_the_base(collection):
    Q, Z, relevance = collection
    first = np.argsort(-(Q @ Z.T), axis=1)[:, :50]
    query, better, worse = search(0, name="toy", n=300, worse="shown").X_train.triplets.T
    for items in (better, worse):
        assert (first[query] == items[:, None]).any(axis=1).all()
    grades = relevance.toarray()
    assert (grades[query, better] > grades[query, worse]).all()


def test_options_of_the_feedback(collection):
    plain = search(0, name="toy", n=5000)
    noisy = search(0, name="toy", n=5000, noise=0.3).X_train.triplets
    same = (noisy == plain.X_train.triplets).all(axis=1)
    assert 0.65 < same.mean() < 0.75
    np.testing.assert_array_equal(noisy[~same], plain.X_train.triplets[~same][:, [0, 2, 1]])
    few = search(0, name="toy", n=5000, n_queries=4)
    assert len(np.unique(few.X_train.triplets[:, 0])) == 4
    perfect = search(0, name="toy", n=100, perfect=True)
    assert measured(CONTENDERS["base adapter"](perfect, 0), perfect)["ndcg@10"] == 1.0


def test_messages_that_validate_are_not_learnt_from(monkeypatch):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(100, D)).astype(np.float32), np.arange(100) % 4
    monkeypatch.setattr("experiments.problems.judged._messages", lambda: (X, y, y % 2 == 0))
    monkeypatch.setattr("experiments.problems.judged.VALIDATED", 20)
    few, many = (newsgroups_search(0, n=50, as_many_items=more) for more in (False, True))
    assert len(few.context.Z) == 20
    assert len(many.context.Z) == len(many.X_test.Z) == 50
    np.testing.assert_array_equal(few.context.Q, many.context.Q)
    learnt = {row.tobytes() for row in few.X_train.Q}
    assert not learnt & {row.tobytes() for row in few.context.Z}
    assert not learnt & {row.tobytes() for row in few.X_test.Z}


# -- contenders ----------------------------------------------------------------------------------

LEARNERS = [
    ("FactoredAROMA adapter", {}),
    ("DiagonalAROMA adapter", {}),
    ("OASIS adapter", {}),
    ("FactoredAROMA adapter, recent", {"pieces": 10}),
    ("ridge adapter", {"lam": 10.0, "rate": 3.0}),
    ("reweighting adapter", {"lam": 0.1, "scale": 3.0}),
    ("torch adapter", {"lr": 0.01, "margin": 0.1, "epochs": 3}),
]


@pytest.mark.parametrize(("kind", "parameters"), LEARNERS)
def test_an_adapter_gains_on_unseen_queries(collection, kind, parameters):
    if kind == "torch adapter" and not call.PYTHON.exists():
        pytest.skip("needs the environment of peers: make peers")
    problem = search(0, name="toy", n=2000)
    contender = CONTENDERS[kind](problem, 0, **parameters)
    contender.learn_to(0)
    found = measured(contender, problem)
    assert found["ndcg@10 gain"] > 2 * found["ndcg@10 gain error"] > 0
    base = measured(CONTENDERS["base adapter"](problem, 0), problem)
    assert found["ndcg@10 gain"] == pytest.approx(found["ndcg@10"] - base["ndcg@10"])
    assert base["ndcg@10 gain"] == base["ndcg@10 gain error"] == 0


def test_late_states_count_more(collection):
    problem = search(0, name="toy", n=40)
    contender = CONTENDERS["FactoredAROMA adapter, recent"](problem, 0, pieces=2)
    contender.learn_to(0)
    states = []
    for n in (20, 40):
        short = search(0, name="toy", n=n)
        online = CONTENDERS["FactoredAROMA adapter"](short, 0, average=False)
        online.learn_to(0)
        states.append(online.W)
    np.testing.assert_allclose(contender.W, (states[0] + 2 * states[1]) / 3, rtol=1e-4, atol=1e-5)


def test_torch_says_what_it_lacks(collection, monkeypatch, tmp_path):
    monkeypatch.setattr(call, "PYTHON", tmp_path / "nowhere")
    contender = CONTENDERS["torch adapter"](search(0, name="toy", n=50), 0, lr=0.1)
    with pytest.raises(call.CannotRunError, match="make peers"):
        contender.learn_to(0)


def test_the_slope_of_the_reweighting_is_that_of_its_loss():
    rng = np.random.default_rng(1)
    X, w, start = rng.normal(size=(20, D)), rng.normal(size=D), np.ones(D)
    error = check_grad(
        lambda w: reweighting_loss(w, X, 0.3, start)[0],
        lambda w: reweighting_loss(w, X, 0.3, start)[1],
        w,
    )
    assert error < 1e-5


def test_a_strong_ridge_keeps_the_base(collection):
    contender = CONTENDERS["ridge adapter"](search(0, name="toy", n=100), 0, lam=1e9, rate=1.0)
    contender.learn_to(0)
    np.testing.assert_allclose(contender.W, np.eye(D), atol=1e-6)


# -- plan and report -----------------------------------------------------------------------------


def test_every_tuned_contender_has_eight_settings_for_each_number_of_judgements():
    plan = read_plan(HERE / "adapters.toml")
    assert {block["problem"] for block in plan["blocks"]} <= set(PROBLEMS)
    counts = {}
    for task in tuning_tasks(plan):
        key = (task.contender, task.problem, task.options, task.seed)
        counts[key] = counts.get(key, 0) + 1
    assert set(counts.values()) == {8}


def test_parts_are_pooled_by_their_queries():
    rows = [
        _row("f-AROMA", seed, measure, value, queries)
        for seed, queries, gain in ((0, 10, 0.1), (1, 30, 0.2))
        for measure, value in (("ndcg@10 gain", gain), ("ndcg@10 gain error", 0.01))
    ]
    mean, half = pooled_gain(rows, "ndcg@10")
    assert mean == pytest.approx(0.175)
    assert half == pytest.approx(1.96 * 0.01 * math.sqrt(10**2 + 30**2) / 40)


def test_the_report_says_who_is_behind(tmp_path):
    rows = []
    for seed in range(3):
        rows.append(_row("base", seed, "ndcg@10", 0.4))
        for name, value in (("f-AROMA", 0.3), ("torch, tuned", 0.5 + 0.001 * seed)):
            rows += [
                _row(name, seed, "ndcg@10", value),
                _row(name, seed, "ndcg@10 gain", value - 0.4),
                _row(name, seed, "ndcg@10 gain error", 0.01),
            ]
        rows.append(_row("torch, tuned", seed, "epoch seconds", 2.0))
        rows.append(_row("torch, tuned", seed, "training seconds", 10.0))
    assert lead(rows, "f-AROMA", "torch, tuned", "ndcg@10")[0] == pytest.approx(-0.201)
    append_rows(tmp_path / "results" / "all.csv", rows)
    folder = tmp_path / "reports"
    main(["adapters", "--results", str(tmp_path / "results"), "--reports", str(folder)])
    text = (folder / "adapters.md").read_text()
    (line,) = [line for line in text.splitlines() if line.startswith("| CISI | f-AROMA |")]
    assert "behind at 100 (-0.201)" in line
    assert "worse: nDCG@10 at 100 (-0.1000)" in line
    assert "1.00 s, 0.5 epochs of torch" in line
    assert "| nDCG@10, base 0.400 | n = 100 |" in text
    assert "| f-AROMA | **-0.100** ± 0.011 |" in text
    assert all(f"figures/{path.name}" in text for path in (folder / "figures").glob("*.png"))


def _row(contender, seed, measure, value, queries=10):
    return {
        "stage": "run",
        "problem": "search",
        "options": json.dumps({"n": 100, "name": "cisi"}),
        "contender": contender,
        "parameters": "{}",
        "seed": seed,
        "step": 0,
        "queries": queries,
        "score": "inner_product",
        "measure": measure,
        "value": value,
        "seconds": 1.0,
        "versions": "similia 0",
        "note": "",
    }
