"""Write a report from rows: python -m experiments.report aroma. It reads rows and runs nothing.

A report opens with `openings/<paper>.md` (what was claimed, what we found, why), one figure and the
claims, whose verdicts are computed here. `experiments/README.md` repeats the openings.
"""

import argparse
import math
import sys
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

from experiments.exhibits import read_exhibits
from experiments.rows import HERE, Row, read_rows, run_key
from experiments.summary import markdown_table

OPENINGS = HERE / "openings"
README = HERE / "README.md"
BEGIN, END = "<!-- openings: python -m experiments.report -->", "<!-- end of the openings -->"
PAPERS = {
    "aroma": "AROMA: the paper's claims, measured again",
    "pola": "POLA: the paper's claims, measured again",
    "meg": "MEG and DefiniteBoost: the paper's claims, measured again",
    "slnd": "SLND: the paper's claims, measured again",
    "gerrymandering": "Neighborhood gerrymandering, measured",
    "adapters": "Search that learns from feedback",
}
#: the figure of each opening
FIGURES = {
    "aroma": "aroma_newsgroups_trace",
    "pola": "pola_digit_pairs",
    "meg": "meg_error",
    "slnd": "slnd_passes",
    "gerrymandering": "gerrymandering_domains",
    "adapters": "adapters_cisi_ndcg",
}


class Claim(NamedTuple):
    """What a paper says and what came out; "yes" only if the paper's number is reached."""

    claim: str
    paper: str
    measured: str
    reproduced: str


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.split(":")[0])
    parser.add_argument("paper", nargs="?", help="all if not given", choices=PAPERS)
    parser.add_argument("--results", type=Path, help="folder of the rows")
    parser.add_argument("--reports", type=Path, default=HERE / "reports")
    given = parser.parse_args(arguments)
    for paper in [given.paper] if given.paper else PAPERS:
        results = given.results or HERE / "results" / paper
        sys.stdout.write(f"{write_report(paper, results, given.reports)}\n")
    if given.reports == HERE / "reports":
        README.write_text(with_openings(README.read_text()))


def write_report(paper: str, results: Path, reports: Path) -> Path:
    rows = read_rows(results)
    if not rows:
        raise SystemExit(f"no rows in {results}; run: python -m experiments.run {paper}")
    exhibits = read_exhibits(results)
    body = import_module(f"experiments.{paper}").report(rows, exhibits, reports / "figures")
    body = [*opening(paper, rows, exhibits), *body]
    path = reports / f"{paper}.md"
    path.parent.mkdir(parents=True, exist_ok=True)
    notes = ["## Notes", (OPENINGS / "notes" / f"{paper}.md").read_text().strip()]
    body += [*notes, *_failures(rows), *_provenance(paper, rows)]
    path.write_text("\n\n".join(body) + "\n")
    return path


def opening(paper: str, rows: list[Row], exhibits: dict[str, Any]) -> list[str]:
    """Title, ten lines, one figure and the claims."""
    figure = f"figures/{FIGURES[paper]}.png"
    return [
        f"# {PAPERS[paper]}",
        (OPENINGS / f"{paper}.md").read_text().strip(),
        f"![{PAPERS[paper]}]({figure})",
        "## Claims",
        claims_table(paper, rows, exhibits),
        "*Yes*: the paper's number is reached. *Partly*: what it says holds with a smaller number, "
        "or for some of the sets or forms. ± is half of a 95 % interval over splits or seeds "
        "(Student's t), here and in all tables but those that say otherwise.",
    ]


def claims_table(paper: str, rows: list[Row], exhibits: dict[str, Any]) -> str:
    claims = import_module(f"experiments.{paper}").claims(rows, exhibits)
    return markdown_table(["claim", "paper", "measured", "reproduced"], claims)


def with_openings(readme: str) -> str:
    """The README with the openings of all reports between its two marks."""
    before, rest = readme.split(BEGIN)
    parts = [
        f"### [{title}](reports/{paper}.md)\n\n{(OPENINGS / f'{paper}.md').read_text().strip()}"
        for paper, title in PAPERS.items()
    ]
    return "\n\n".join([before + BEGIN, *parts, END + rest.split(END)[1]])


def _failures(rows: list[Row]) -> list[str]:
    """Say which contenders could not run, and why."""
    lines = sorted(
        {
            (row["problem"], row["contender"], row["stage"], row["note"])
            for row in rows
            if math.isnan(row["value"])
        }
    )
    if not lines:
        return []
    header = ["problem", "contender", "stage", "reason"]
    return ["## Could not run", markdown_table(header, lines)]


def _provenance(paper: str, rows: list[Row]) -> list[str]:
    seeds = sorted({row["seed"] for row in rows})
    used = sorted({row["versions"] for row in rows})
    seconds: dict[Any, float] = {}
    for row in rows:
        seconds[run_key(row)] = max(seconds.get(run_key(row), 0.0), row["seconds"])
    return [
        "## How this was made",
        f"Seeds {', '.join(map(str, seeds))}; {len(seconds)} runs, {len(rows)} rows, "
        f"{sum(seconds.values()) / 60:.0f} minutes of learning in one thread. "
        f"Versions: {'; '.join(used)}.",
        "    make peers            # once, for the contenders of other libraries\n"
        f"    python -m experiments.run {paper}\n"
        f"    python -m experiments.report {paper}",
    ]


if __name__ == "__main__":
    main()
