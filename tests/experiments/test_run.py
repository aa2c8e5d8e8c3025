import tomllib

import pytest

from experiments.peers import call
from experiments.plan import final_tasks, quick, tuning_tasks, unfinished
from experiments.rows import read_rows, select
from experiments.run import main, run_plan

PLAN = """
seeds = [0, 1]
queries = 50
cuts = [1, 10]

[tuning]
steps = 200
share = 0.3
measure = "precision@10"

[contenders.identity]
kind = "identity"
[contenders.OASIS]
kind = "OASIS"
parameters = { C = 0.1, average = false }
[contenders.d-AROMA]
kind = "DiagonalAROMA"
parameters = { prior = "zero", average = false }
sweep = { r = [1.0, 0.01] }
[contenders."f-AROMA, tuned"]
kind = "FactoredAROMA"
tune = { r = [0.1, 10.0] }
[contenders.LEGO]
kind = "LEGO"
max_steps = 150

[[blocks]]
problem = "toy"
steps = [100, 300]
contenders = ["identity", "OASIS", "d-AROMA", "f-AROMA, tuned", "LEGO"]
[[blocks]]
problem = "toy"
options = { n_features = 5 }
steps = [100]
seeds = [0]
contenders = ["d-AROMA"]
sweep = { r = [10.0] }
"""


@pytest.fixture
def plan():
    return tomllib.loads(PLAN)


def test_every_cell_of_the_cross_product_has_its_rows(plan, tmp_path):
    assert run_plan(plan, tmp_path) == 4 + 12 + 1
    rows = read_rows(tmp_path)
    run = select(rows, stage="run", options="{}", measure="precision@10")
    found = {(row["contender"], row["parameters"], row["seed"], row["step"]) for row in run}
    assert len(found) == 2 * (1 + 2 + 2 * 2 + 2 + 2)
    assert {row["step"] for row in select(run, contender="identity")} == {0}
    assert {row["step"] for row in select(run, contender="LEGO")} == {100, 150}
    assert all(0 <= row["value"] <= 1 for row in rows)


def test_learning_helps_on_the_toy_problem(plan, tmp_path):
    plan["blocks"] = plan["blocks"][:1]
    run_plan(plan, tmp_path, only=["identity", "OASIS"])
    rows = select(read_rows(tmp_path), measure="map", score="inner_product", seed=0, queries=120)
    (before,) = select(rows, contender="identity")
    (after,) = select(rows, contender="OASIS", step=300)
    assert after["value"] > before["value"]


def test_a_finished_run_is_not_run_again(plan, tmp_path):
    run_plan(plan, tmp_path, only=["OASIS"])
    before = (tmp_path / "toy.csv").read_bytes()
    assert run_plan(plan, tmp_path, only=["OASIS"]) == 0
    assert (tmp_path / "toy.csv").read_bytes() == before
    assert run_plan(plan, tmp_path, only=["OASIS", "identity"]) == 2


def test_a_longer_plan_runs_what_is_missing(plan, tmp_path):
    run_plan(plan, tmp_path, only=["OASIS"])
    plan["blocks"][0]["steps"].append(400)
    assert run_plan(plan, tmp_path, only=["OASIS"]) == 2
    steps = {row["step"] for row in read_rows(tmp_path)}
    assert steps == {100, 300, 400}


def test_the_same_seed_gives_the_same_values(plan, tmp_path):
    for folder in ("a", "b"):
        run_plan(plan, tmp_path / folder, only=["d-AROMA"])
    a, b = (read_rows(tmp_path / folder) for folder in ("a", "b"))
    assert [row["value"] for row in a] == [row["value"] for row in b]


def test_tuned_contenders_take_the_best_validated_setting(plan, tmp_path):
    run_plan(plan, tmp_path, only=["f-AROMA"])
    rows = read_rows(tmp_path)
    for seed in (0, 1):
        tuned = select(rows, stage="tune", seed=seed, measure="precision@10")
        assert len(tuned) == 2
        best = max(tuned, key=lambda row: row["value"])
        chosen = {row["parameters"] for row in select(rows, stage="run", seed=seed)}
        assert chosen == {best["parameters"]}


def test_a_contender_that_cannot_run_says_why_once(plan, tmp_path, monkeypatch):
    monkeypatch.setattr(call, "PYTHON", tmp_path / "nowhere")
    plan["contenders"]["LMNN"] = {"kind": "LMNN", "parameters": {"n_components": 3}}
    plan["blocks"] = [{"problem": "toy", "steps": [0], "seeds": [0], "contenders": ["LMNN"]}]
    for _ in range(2):
        assert run_plan(plan, tmp_path / "rows") == 1
    (row,) = read_rows(tmp_path / "rows")
    assert "make peers" in row["note"]
    assert len((tmp_path / "rows" / "toy.csv").read_text().splitlines()) == 2


def test_runs_that_share_a_stream_are_joined(plan):
    plan["blocks"].append({**plan["blocks"][0], "steps": [200]})
    tasks = [task for task in final_tasks(plan, []) if task.contender == "OASIS"]
    assert [task.steps for task in tasks] == [(100, 200, 300)] * 2
    assert unfinished(tasks, []) == tasks


def test_quick_keeps_one_seed_and_few_steps(plan):
    short = quick(plan, 120)
    assert {task.seed for task in tuning_tasks(short)} == {0}
    assert max(step for task in final_tasks(short, []) for step in task.steps) == 120


def test_the_command_runs_in_processes(tmp_path):
    path = tmp_path / "tiny.toml"
    path.write_text(PLAN)
    main([str(path), "--results", str(tmp_path / "rows"), "--jobs", "2", "--only", "identity"])
    assert {row["seed"] for row in read_rows(tmp_path / "rows")} == {0, 1}
