"""Reports open with ten lines, one figure and claims whose verdicts the results confirm."""

import re
from functools import cache

import pytest

from experiments.exhibits import read_exhibits
from experiments.report import OPENINGS, PAPERS, README, claims_table, with_openings
from experiments.rows import HERE, read_rows

VERDICT = re.compile(r"yes|partly|no|in direction")


@cache
def report(paper):
    return (HERE / "reports" / f"{paper}.md").read_text()


@pytest.mark.parametrize("paper", PAPERS)
def test_the_claims_are_those_of_the_results(paper):
    results = HERE / "results" / paper
    table = claims_table(paper, read_rows(results), read_exhibits(results))
    assert table in report(paper), f"run: python -m experiments.report {paper}"
    verdicts = [line.split(" | ")[-1] for line in table.splitlines()[2:]]
    assert len(verdicts) <= 12
    assert all(VERDICT.match(verdict) for verdict in verdicts)


@pytest.mark.parametrize("paper", PAPERS)
def test_a_report_opens_with_ten_lines_one_figure_and_one_table(paper):
    before, claims = report(paper).split("## Claims", 1)
    title, *lines = [line for line in before.splitlines() if line]
    assert title == f"# {PAPERS[paper]}"
    assert lines[-1].startswith("![")
    assert sum(line.startswith("![") for line in lines) == 1
    assert len(lines) - 1 <= 10
    text = " ".join(lines)
    assert text.index("**Claimed.**") < text.index("**Found.**") < text.index("**Why.**")
    assert "\n|" not in before
    assert claims.split("\n## ")[0].count("\n| --- ") == 1


@pytest.mark.parametrize("paper", PAPERS)
def test_numbers_of_an_opening_are_in_its_report(paper):
    """But for years and equation numbers, a number that is told is one that a table has."""
    opening = (OPENINGS / f"{paper}.md").read_text()
    rest = report(paper).replace(opening.strip(), "").replace(",", "")
    told = re.findall(r"(?<![\w.,(])\d[\d,]*(?:\.\d+)?", re.sub(r"\([\d.]+\)", "", opening))
    missing = [number for number in told if number.replace(",", "") not in rest]
    assert not missing


@pytest.mark.parametrize("paper", PAPERS)
def test_figures_of_a_report_exist(paper):
    figures = re.findall(r"\]\((figures/\w+\.png)\)", report(paper))
    assert figures
    assert all((HERE / "reports" / figure).exists() for figure in figures)


def test_no_report_has_standard_errors_behind_a_plus_minus():
    """± is half of a 95 % interval in all of them."""
    other = re.compile(r"±[^.|]{0,40}standard error|standard errors? over")
    assert not [p.name for p in (HERE / "reports").glob("*.md") if other.search(p.read_text())]


def test_every_figure_belongs_to_a_report():
    named = {name for path in (HERE / "reports").glob("*.md") for name in _named(path)}
    assert {path.name for path in (HERE / "reports" / "figures").glob("*.png")} == named


def _named(path):
    return re.findall(r"figures/([\w-]+\.png)", path.read_text())


def test_the_readme_repeats_the_openings():
    readme = README.read_text()
    assert with_openings(readme) == readme, "run: python -m experiments.report"
