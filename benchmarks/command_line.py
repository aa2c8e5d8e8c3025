"""Speed and memory of the command line, against the library it calls."""

import csv
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from scipy import sparse

from benchmarks.retrieval import gemm
from benchmarks.timing import seconds, table
from benchmarks.workloads import triplets, unit_vectors
from similia.registry import learner_class
from similia.retrieval import evaluate
from similia.stream import base_of

NAMES = ("query", "better", "worse")
N_ITEMS, D = 20_000, 384


def write_feedback(folder, form, rows):
    """Write judgements; ids are texts in forms that end in "texts"."""
    kind, _, ids = form.partition(" ")
    path = Path(folder) / f"{ids or 'numbers'}-{len(rows)}.{kind}"
    if kind == "npy":
        np.save(path, rows)
        return path
    if kind == "parquet":
        import pyarrow as pa
        from pyarrow import parquet

        columns = rows.T if not ids else [[f"item-{i}" for i in c] for c in rows.T.tolist()]
        parquet.write_table(pa.table(dict(zip(NAMES, columns, strict=True))), path)
        return path
    with open(path, "w", newline="") as file:
        named = ([f"item-{i}" for i in row] for row in rows.tolist()) if ids else rows.tolist()
        if kind == "csv":
            writer = csv.writer(file)
            writer.writerow(NAMES)
            writer.writerows(named)
        else:
            file.writelines(json.dumps(dict(zip(NAMES, row, strict=True))) + "\n" for row in named)
    return path


#: reports its own peak memory; what the system reports of a child includes its parent's at the fork
PROGRAM = """
import sys
from similia.cli.main import app
try:
    app(sys.argv[1:], prog_name="similia")
finally:
    with open("/proc/self/status") as file:
        print([line.split()[1] for line in file if line.startswith("VmHWM")][0], file=sys.stderr)
"""


def command(*arguments):
    """Run the command line in a process of its own; return seconds and peak memory in MiB."""
    program = [sys.executable, "-c", PROGRAM, *map(str, arguments)]
    start = time.perf_counter()
    found = subprocess.run(program, check=True, capture_output=True, text=True)
    return time.perf_counter() - start, int(found.stderr.split()[-1]) / 1024


def prepared(folder):
    X = unit_vectors(N_ITEMS, D)
    np.save(folder / "X.npy", X)
    (folder / "ids").write_text("".join(f"item-{i}\n" for i in range(N_ITEMS)))
    return X


def inside(*arguments):
    """Run a command in this process, where everything is already loaded."""
    from typer.testing import CliRunner

    from similia.cli.main import app

    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    if result.exit_code:
        raise RuntimeError(result.output)


def learn_command():
    forms = ("npy", "parquet", "csv", "jsonl", "parquet texts", "csv texts", "jsonl texts")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        X = prepared(folder)
        for learner in ("FactoredAROMA", "OASIS"):
            rows = []
            for n in (10_000, 30_000, 100_000):
                judgements = triplets(N_ITEMS, N_ITEMS, n)

                def own(judgements=judgements, learner=learner):
                    learner_class(learner)().learn(X, judgements)

                contenders = {"learn": own}
                for form in forms:
                    path = write_feedback(folder, form, judgements)
                    ids = ["--ids", folder / "ids"] if "texts" in form else []
                    words = ["learn", folder / "X.npy", path, "-o", folder / "m", *ids]

                    def run(words=words, learner=learner):
                        inside(*words, "--learner", learner)

                    contenders[form] = run
                times = seconds(contenders, repeats=3)
                rate = [times["learn"] / n * 1e6]
                rows.append([n, *rate, *(f"{times['learn'] / times[f]:.0%}" for f in forms)])
            table(
                f"`similia learn`, {learner}, {D} features, float32: share of the speed of "
                "`learn` on arrays in memory",
                ["judgements", "µs of `learn`", *forms],
                rows,
            )


def learn_memory():
    rows = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        np.save(folder / "X.npy", unit_vectors(1000, 8))
        for n in (10_000, 1_000_000, 4_000_000):
            judgements = triplets(1000, 1000, n)
            for form in ("csv", "jsonl", "parquet"):
                path = write_feedback(folder, form, judgements)
                size = path.stat().st_size / 2**20
                words = ("learn", folder / "X.npy", path, "-o", folder / "m", "--learner", "OASIS")
                took, peak = command(*words)
                rows.append([form, n, size, peak, took])
                path.unlink()
    table(
        "`similia learn`, whole process: memory against the size of the file, 8 features",
        ["format", "judgements", "MiB of file", "peak MiB", "seconds"],
        rows,
    )


def evaluate_command():
    rows = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for n_items in (10_000, 30_000, 100_000):
            Q, Z = unit_vectors(1000, D, seed=1), unit_vectors(n_items, D, seed=2)
            np.save(folder / "Q.npy", Q)
            np.save(folder / "Z.npy", Z)
            rng = np.random.default_rng(0)
            judged = np.column_stack(
                [
                    np.repeat(np.arange(1000), 10),
                    rng.integers(n_items, size=10_000),
                    np.ones(10_000),
                ]
            ).astype(int)
            path = folder / "f.csv"
            np.savetxt(
                path, judged, "%d", delimiter=",", comments="", header="query,item,relevance"
            )
            model = learner_class("OASIS")().learn(Q, [[0, 1, 2]], items=Z)
            from similia import save

            save(model, folder / "m")
            grades = sparse.csr_array(
                (judged[:, 2].astype(float), (judged[:, 0], judged[:, 1])), shape=(1000, n_items)
            )
            grades.data[:] = 1.0

            def library(Q=Q, Z=Z, model=model, grades=grades):
                evaluate(base_of(model, Q, Z), Q, Z, relevance=grades)
                evaluate(model, Q, Z, relevance=grades)

            def run(path=path):
                inside(
                    "evaluate", folder / "m", folder / "Q.npy", path, "--items", folder / "Z.npy"
                )

            def products(Q=Q, Z=Z):
                gemm(Q, Z)
                gemm(Q, Z)

            times = seconds({"command": run, "evaluate": library, "gemm": products}, repeats=3)
            rows.append(
                [n_items, times["command"] / times["evaluate"], times["command"] / times["gemm"]]
            )
    table(
        f"`similia evaluate`, base and adapted, 1,000 queries, {D} features, float32",
        ["items", "× two calls of `evaluate`", "× their GEMMs"],
        rows,
    )


def help_time():
    def run():
        subprocess.run(
            [sys.executable, "-m", "similia.cli.main", "--help"],
            check=True,
            stdout=subprocess.DEVNULL,
        )

    times = seconds({"similia --help": run}, repeats=5)
    table("Help", ["command", "seconds"], [[name, value] for name, value in times.items()])


ALL = [learn_command, learn_memory, evaluate_command, help_time]
