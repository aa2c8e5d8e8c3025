import numpy as np
import pytest

from experiments.traffic import opened, report
from experiments.traffic.conclusion import conclusion, places, robust_counts
from experiments.traffic.contenders import CONTENDERS, chosen_setting
from experiments.traffic.loop import Cell, Run
from experiments.traffic.plan import (
    CELLS,
    CHOOSING,
    CHOOSING_SEEDS,
    FRESH_SEEDS,
    JUDGING,
    JUDGING_SEEDS,
    ROBUST_SEEDS,
    Task,
    tasks,
)
from experiments.traffic.results import append_rows, missing, read_rows, rows_of
from experiments.traffic.table import START, Gap, Table

GAIN = {"Blend": 0.2, "click table": 0.1, "base": 0.0}


def a_run(seed, gain):
    """1,000 searches that show .4 and more, of every other query seen before."""
    base = 0.4 + 0.01 * seed
    start = np.full(1000, base + 0.05 * (gain > 0))
    shown = np.where(np.arange(1000) < 20, start, base + gain)
    status = np.arange(1000) % 2 * 2
    band = np.arange(1000) % 3
    held = {0: base, 300: base, 1000: base + gain / 10}
    return Run(shown, start, status, band, {300: base + 0.1, 1000: base + 0.1}, held, 0.5)


@pytest.fixture
def folder(tmp_path):
    for stage, cell, world in (
        ("judge", "mixture", "cranfield"),
        ("judge", "noise .5", "cranfield"),
        ("robust", "own", "cranfield"),
    ):
        for name, gain in GAIN.items():
            for seed in range(3):
                task = Task(stage, world, cell, name, {}, seed)
                append_rows(rows_of(task, a_run(seed, gain)), tmp_path)
    return tmp_path


@pytest.fixture
def table(folder):
    return Table(read_rows(folder))


def test_what_chooses_settings_never_judges():
    assert not {*CHOOSING} & {*JUDGING}
    seeds = (CHOOSING_SEEDS, JUDGING_SEEDS, FRESH_SEEDS, ROBUST_SEEDS)
    assert len(set().union(*seeds)) == sum(map(len, seeds))
    for name, (_, settings) in CONTENDERS.items():
        assert len(settings) <= 8
        assert chosen_setting(name) in settings


def test_every_judged_run_is_planned_once():
    planned = [(*task.key, task.seed) for task in tasks("judge")]
    assert len(planned) == len({*planned})
    assert {task.contender for task in tasks("judge")} == {*CONTENDERS}
    assert Cell() in {*CELLS.values()}


def test_rows_say_what_the_run_said_and_are_not_run_again(folder):
    rows = read_rows(folder)
    task = Task("judge", "cranfield", "mixture", "Blend", {}, 1)
    (row,) = (
        r
        for r in rows
        if (r["cell"], r["contender"], r["seed"], r["step"]) == ("mixture", "Blend", 1, 1000)
    )
    found = a_run(1, 0.2)
    assert row["seen"] == pytest.approx(found.shown[::2].mean(), abs=1e-4)
    assert row["held"] == pytest.approx(0.43, abs=1e-4)
    assert row["start held"] == pytest.approx(0.41, abs=1e-4)
    assert row["regret"] == pytest.approx(0.51 - found.shown.mean(), abs=1e-4)
    assert row["windows"] == pytest.approx(found.shown.reshape(5, 200).mean(axis=1), abs=1e-4)
    assert missing([task], rows) == []
    other = task._replace(seed=9)
    assert missing([task, other], rows) == [other]


def test_differences_are_paired_by_seed(table):
    where = ("judge", "cranfield", "mixture")
    gap = table.gap(where, "Blend", "base", "last", 1000)
    assert gap.mean == pytest.approx(0.2, abs=1e-3)
    assert gap.half < 1e-3  # the seeds differ by .01, which a pair does not see
    assert table.gap(where, "Blend", START, "last", 1000).mean == pytest.approx(0.15, abs=1e-3)
    assert table.learnt(where, "Blend", "last", 1000).mean == pytest.approx(0.15, abs=1e-3)
    assert table.best_rival(where, "seen", 1000) == "click table"
    least = table.least_windows(where, 1000)["base"]
    assert least.mean == pytest.approx(0.2 - 0.15 * 20 / 200, abs=1e-3)


def test_beyond_chance_is_beyond_the_interval():
    assert [Gap(0.1, half).sign for half in (0.05, 0.2)] == [1, 0]
    assert Gap(-0.1, 0.05).sign == -1


def test_runs_below_their_start_are_counted(tmp_path):
    for seed, gain in enumerate((0.2, 0.001, 0.2)):
        task = Task("robust", "cranfield", "own", "Blend", {}, seed)
        append_rows(rows_of(task, a_run(seed, gain)), tmp_path)
    counts = robust_counts(Table(read_rows(tmp_path)))
    ((n, bad, worst),) = counts.values()
    assert (n, bad) == (3, 1)
    assert worst == pytest.approx(-0.049, abs=1e-3)


def test_the_conclusion_is_made_of_rows_and_says_who_is_behind(table, folder, tmp_path):
    assert places(table, "judge") == [
        ("judge", "cranfield", "mixture"),
        ("judge", "cranfield", "noise .5"),
    ]
    text = conclusion(table)
    assert "ahead beyond chance in 2 of 2 cells" in text
    for name in GAIN:  # the click table gains most now
        for seed in range(3):
            task = Task("judge", "cranfield", "mixture", name, {}, seed)
            gain = 0.3 if name == "click table" else GAIN[name]
            append_rows(rows_of(task, a_run(seed, gain)), folder)
    assert "behind: Cranfield, mixture (click table, -0.098 ± 0.000)" in conclusion(
        Table(read_rows(folder))
    )


def test_a_report_has_a_conclusion_a_figure_and_one_table(folder, tmp_path, monkeypatch):
    monkeypatch.setattr(opened, "PATH", tmp_path / "none.csv")
    path = report.write(tmp_path / "traffic.md", folder)
    text = path.read_text()
    assert text.index("1. **") < text.index("![") < text.index("## The main table")
    assert (tmp_path / report.FIGURE).stat().st_size > 1000
    assert "| Cranfield | mixture | 0.410 | +0.197 ± 0.000 |" in text


def test_what_was_saved_counts_less_further_down():
    gains = np.array([0.0, 1.0, 0.0])
    assert opened.ndcg(gains) == pytest.approx(1 / np.log2(3))
    assert opened.ndcg(np.sort(gains)[::-1]) == 1.0


def test_scores_are_inner_products_and_alike_queries_have_alike_lists():
    rng = np.random.default_rng(0)
    scores = (rng.random((6, 40)) * (rng.random((6, 40)) < 0.3)).astype("f4")
    scores[5] = scores[4]
    queries, items = opened.factored(scores)
    Q, Z = queries["score"], items["score"]
    assert pytest.approx(scores, abs=1e-5) == Q @ Z.T
    cosine = Q[4] @ Q[5] / np.linalg.norm(Q[4]) / np.linalg.norm(Q[5])
    assert cosine == pytest.approx(1.0, abs=1e-5)


def lists_of(opened_at, pages=2):
    """One list of two pages for each query, opened at one place."""
    n = pages * opened.PAGE
    rank = np.tile(np.arange(n), 4)
    each = np.repeat(np.arange(4), n)
    at = rank == opened_at
    score = 1.0 - rank / n
    place = rank % opened.PAGE
    return opened.Lists(each, each, each, rank, score, rank, place, at, at)


def test_an_item_that_others_open_comes_first_for_whoever_never_asked():
    lists = lists_of(opened_at=13)
    others, own = lists.of(lists.person != 0), lists.of(lists.person == 0)
    table = opened.Table((4, 20), 0.5, items=True)
    table.learn(others)
    assert table.scores(own)[13] > own.score[13]
    pairs = opened.Table((4, 20), 0.5, items=False)
    pairs.learn(others)
    assert pairs.scores(own) == pytest.approx(own.score)


def test_examination_starts_anew_on_the_second_page():
    lists = lists_of(opened_at=13)
    assert opened.looks(lists_of(opened_at=0)).tolist() == [1.0] + [0.0] * 9
    assert lists.place[13] == 3
