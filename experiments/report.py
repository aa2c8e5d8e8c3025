"""Write a report from rows: python -m experiments.report aroma. It reads rows and runs nothing."""

import argparse
import math
from importlib import import_module
from pathlib import Path
from typing import Any

from experiments.exhibits import read_exhibits
from experiments.rows import HERE, Row, read_rows, run_key
from experiments.summary import markdown_table


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.split(":")[0])
    parser.add_argument("paper", help="name of a module of this folder that knows its claims")
    parser.add_argument("--results", type=Path, help="folder of the rows")
    parser.add_argument("--reports", type=Path, default=HERE / "reports")
    given = parser.parse_args(arguments)
    results = given.results or HERE / "results" / given.paper
    print(write_report(given.paper, results, given.reports))


def write_report(paper: str, results: Path, reports: Path) -> Path:
    rows = read_rows(results)
    if not rows:
        raise SystemExit(f"no rows in {results}; run: python -m experiments.run {paper}")
    body = import_module(f"experiments.{paper}").report(
        rows, read_exhibits(results), reports / "figures"
    )
    path = reports / f"{paper}.md"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n\n".join([*body, *_failures(rows), *_provenance(paper, rows)]) + "\n")
    return path


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
    return ["## Could not run", markdown_table(header, map(list, lines))]


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
