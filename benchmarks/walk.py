"""How far one judgement travels: the code that `similia learn` passes through for one row of a CSV.

The command runs in this process, once to import and compile, then once under a profiler. What
counts is each function of the package at its first call (comprehensions belong to the function
they are written in): how many there are, in how many files, and how often the next new function is
in another package.

``python -m benchmarks.walk`` also lists them in order.
"""

import sys
import tempfile
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np
from typer.testing import CliRunner

import similia
from benchmarks.timing import table
from similia.cli.main import app
from similia.registry import DEFAULT

ROOT = Path(similia.__file__).parent
#: the default, and a learner of one matrix from triplets alone
LEARNERS = (DEFAULT, "FactoredAROMA")
COMPREHENSIONS = ("<genexpr>", "<listcomp>", "<dictcomp>", "<setcomp>")


class Function(NamedTuple):
    file: Path
    name: str

    @property
    def package(self):
        return self.file.parts[0]


def functions_called(arguments):
    """Functions of the package that a command enters, in the order of their first calls."""
    codes = {}

    def watch(frame, event, _):
        if event == "call":
            codes.setdefault(frame.f_code)

    sys.setprofile(watch)
    try:
        result = CliRunner().invoke(app, arguments)
    finally:
        sys.setprofile(None)
    if result.exit_code:
        raise RuntimeError(result.output)
    return [
        Function(Path(code.co_filename).relative_to(ROOT), code.co_qualname)
        for code in codes
        if Path(code.co_filename).is_relative_to(ROOT) and code.co_name not in COMPREHENSIONS
    ]


def walk(learner):
    """Functions that a learner's run on one row enters, in the order of their first calls."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        np.save(folder / "vectors.npy", np.random.default_rng(0).normal(size=(20, 8)))
        (folder / "row.csv").write_text("query,better,worse\n0,1,2\n")
        words = ("learn", folder / "vectors.npy", folder / "row.csv", "-o", folder / "model")
        arguments = [*map(str, words), "--learner", learner]
        functions_called(arguments)
        return functions_called(arguments)


def learn_one_row():
    rows, walks = [], {learner: walk(learner) for learner in LEARNERS}
    for learner, found in walks.items():
        files = {function.file for function in found}
        changes = sum(a.package != b.package for a, b in pairwise(found))
        rows.append([learner, len(found), len(files), changes])
    header = ["learner", "functions", "files", "changes of package"]
    table("`similia learn`, one row of a CSV", header, rows)
    return walks


ALL = [learn_one_row]

if __name__ == "__main__":
    for learner, found in learn_one_row().items():
        print(f"\n{learner}:")
        for function in found:
            print(function.file, function.name)
