"""Run what has no rows yet, then write the report: ``python -m experiments.blend [name ...]``.

Names of parts, sets, kinds of feedback and methods leave out all others of their kind:
``python -m experiments.blend searches scifact noise``, ``… today cisi grades Qdrant``.
"""

import sys
from collections.abc import Iterable

from experiments.blend import judgements, report, searches, weights
from experiments.blend.clicks import SETS
from experiments.blend.today import TODAY

PARTS = ("searches", "today", "weights", *judgements.NAMES)
#: feedback that today's methods are compared on
COMPARED = ("clicks", "clean clicks", "grades")


def main(names: list[str]) -> None:
    known = {*PARTS, *SETS, *searches.FEEDBACK, "ours", *TODAY}
    for name in names:
        if name not in known:
            raise SystemExit(f"experiments.blend: names must be among {sorted(known)}, got {name}.")

    def chosen(among: Iterable[str]) -> list[str]:
        return [name for name in among if name in names] or list(among)

    for part in chosen(PARTS):
        if part == "searches":
            searches.run(chosen(SETS), chosen(searches.FEEDBACK), ["ours"])
        elif part == "today":
            methods = chosen(["ours", *TODAY])
            seeds = (*searches.FRESH, *searches.COMPARED)
            searches.run(chosen(SETS), chosen(COMPARED), methods, seeds)
        elif part == "weights":
            weights.run()
        else:
            judgements.run([part])
    report.write()


main(sys.argv[1:])
