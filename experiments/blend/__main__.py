"""Run what has no rows yet, then write the report: ``python -m experiments.blend [part ...]``."""

import sys

from experiments.blend import judgements, report, searches
from experiments.blend.clicks import SETS
from experiments.blend.today import TODAY

PARTS = {
    "clicks": lambda sets: searches.run(sets, list(searches.FEEDBACK), ["ours"]),
    "today": lambda sets: searches.run(
        sets, ["clicks", "grades"], ["ours", *TODAY], searches.COMPARED
    ),
    **{name: lambda _, name=name: judgements.run([name]) for name in judgements.NAMES},
}


def main(names: list[str]) -> None:
    sets = [name for name in names if name in SETS] or list(SETS)
    parts = [name for name in names if name in PARTS] or list(PARTS)
    for part in parts:
        PARTS[part](sets)
    report.write()


main(sys.argv[1:])
