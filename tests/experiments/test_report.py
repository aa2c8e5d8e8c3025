import json
import math

import pytest

from experiments import aroma
from experiments.report import main
from experiments.rows import COLUMNS, append_rows, read_rows
from experiments.summary import (
    flattest_window,
    interval,
    speedup,
    steps_to_reach,
    with_interval,
)

STEPS = (1000, 10_000, 100_000)


def _row(contender, seed, step, measure, value, **other):
    row = {
        "stage": "run",
        "problem": "newsgroups",
        "options": "{}",
        "contender": contender,
        "parameters": json.dumps(other.pop("parameters", {})),
        "seed": seed,
        "step": step,
        "queries": 10,
        "score": "inner_product",
        "measure": measure,
        "value": value,
        "seconds": 1.0,
        "versions": "similia 0",
        "note": "",
    }
    return {**row, **other}


@pytest.fixture
def results(tmp_path):
    """OASIS takes ten times the steps of AROMA to a given precision, and is half as good on top."""
    rows = []
    for seed in (0, 1, 2):
        shift = 0.001 * seed
        for i, step in enumerate(STEPS):
            rows += [
                _row("OASIS", seed, step, "precision@10", 0.2 + 0.1 * i + shift),
                _row("OASIS", seed, step, "precision@1", 0.22 + shift),
            ]
            for r in (0.01, 0.1, 1.0, 10.0):
                for name in ("d-AROMA", "f-AROMA"):
                    given = {"parameters": {"r": r}}
                    value = 0.3 + 0.1 * i + shift
                    rows += [
                        _row(name, seed, step, "precision@10", value, **given),
                        _row(name, seed, step, "precision@1", 0.44 + shift, **given),
                        _row(name, seed, step, "map", value / 2, **given),
                    ]
    rows.append(_row("LMNN", 0, 0, "", "", note="not done within the budget of 1 s"))
    append_rows(tmp_path / "results" / "newsgroups.csv", rows)
    return tmp_path


def test_the_report_states_what_the_rows_say(results, capsys):
    folder = results / "reports"
    main(["aroma", "--results", str(results / "results"), "--reports", str(folder)])
    assert capsys.readouterr().out.strip().endswith("aroma.md")
    text = (folder / "aroma.md").read_text()
    lines = [line for line in text.splitlines() if line.startswith("| ")]
    (steps,) = [line for line in lines if "ten times the steps to its best precision@10" in line]
    assert "d-AROMA r=0.01 over OASIS × 10.0 ± 0.0" in steps
    assert steps.endswith("| yes |")
    (gain,) = [line for line in lines if "precision@1 over OASIS" in line]
    assert "f-AROMA r=1 over OASIS × 1.995 ± 0.011 (22 % → 44 %)" in gain
    assert gain.endswith("| in direction |")
    (equal,) = [line for line in lines if "converges faster than d-AROMA" in line]
    assert "× 1.0" in equal
    assert equal.endswith("| no |")
    assert "not done within the budget of 1 s" in text


def test_figures_are_small_and_shown(results):
    folder = results / "reports"
    main(["aroma", "--results", str(results / "results"), "--reports", str(folder)])
    text = (folder / "aroma.md").read_text()
    figures = list((folder / "figures").glob("*.png"))
    assert len(figures) == 4
    for figure in figures:
        assert figure.stat().st_size < 80_000
        assert f"figures/{figure.name}" in text


def test_a_report_without_rows_says_what_to_run(tmp_path):
    with pytest.raises(SystemExit, match=r"experiments\.run aroma"):
        main(["aroma", "--results", str(tmp_path), "--reports", str(tmp_path)])


def test_rows_survive_the_file(tmp_path):
    row = _row("OASIS, tuned", 1, 5, "map", 0.25, note='a "quoted", note')
    append_rows(tmp_path / "a.csv", [row])
    append_rows(tmp_path / "a.csv", [{**row, "value": 0.5}])
    assert read_rows(tmp_path) == [{**row, "value": 0.5}]
    assert (tmp_path / "a.csv").read_text().startswith(",".join(COLUMNS))


def test_steps_are_interpolated_over_their_logarithm():
    curve = [(10, 0.0), (1000, 1.0)]
    assert steps_to_reach(curve, 0.5) == pytest.approx(100)
    assert steps_to_reach(curve, 2.0) == math.inf
    assert steps_to_reach(curve, -1.0) == 10


def test_speedup_is_zero_if_the_target_is_never_reached():
    assert speedup([(10, 0.5), (100, 0.9)], [(10, 0.1), (100, 0.2)]) == 0


def test_the_interval_is_that_of_the_mean():
    """Student's t: with two values, 12.7 standard errors."""
    assert interval([1.0, 3.0]) == (2.0, pytest.approx(12.7062))
    assert math.isnan(interval([1.0])[1])
    assert with_interval([1.0, 3.0], 1, "+") == "+2.0 ± 12.7"


def test_a_ratio_over_splits_that_never_arrive_is_no_average_with_zeros():
    assert aroma._times([2.0, 0.0, 4.0]) == "× 3.0 ± 12.7 (reached on 2 of 3 splits)"
    assert aroma._times([0.0, 0.0]) == "reached on 0 of 2 splits"


def test_the_flattest_window_is_found():
    assert flattest_window([1.0, 0.5, 0.5, 0.4], 2) == 0
    assert math.isnan(flattest_window([1.0], 2))
