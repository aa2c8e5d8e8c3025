import json
import math

import pytest

from experiments.report import main
from experiments.rows import COLUMNS, append_rows, read_rows
from experiments.summary import flattest_window, mean_error, speedup, steps_to_reach

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
    lines = [line for line in text.splitlines() if line.startswith("| 20 Newsgroups |")]
    (steps,) = [line for line in lines if "OASIS over d-AROMA r=0.01: steps" in line]
    assert "| × 10.0 ± 0.0 | yes |" in steps
    (gain,) = [line for line in lines if "f-AROMA r=1 over OASIS: precision@1" in line]
    assert "22 % → 44 %" in gain
    assert gain.endswith("| in direction |")
    (equal,) = [line for line in lines if "d-AROMA over f-AROMA" in line]
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


def test_the_error_is_that_of_the_mean():
    mean, error = mean_error([1.0, 3.0])
    assert (mean, error) == (2.0, 1.0)
    assert math.isnan(mean_error([1.0])[1])


def test_the_flattest_window_is_found():
    assert flattest_window([1.0, 0.5, 0.5, 0.4], 2) == 0
    assert math.isnan(flattest_window([1.0], 2))
