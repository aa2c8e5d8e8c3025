"""The path of a newcomer by the clock: from nothing to a first better ranking of one's own CSV.

    python tests/newcomer.py dist/similia-*.whl

A fresh environment, nothing in the caches of pip and of compiled code. The CSV is that of the 569
tumours that comes with scikit-learn. No log of clicks belongs to it, so 300 comparisons are made
from the diagnoses, one in ten of them wrong; 150 cases that nobody compares anything with judge.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

#: what a newcomer writes: the columns of a CSV as vectors, raw and standardized
CONVERT = """
import numpy as np
table = np.loadtxt("cases.csv", delimiter=",", skiprows=1)[:, :30]
def unit(X):
    return (X / np.linalg.norm(X, axis=1, keepdims=True)).astype("float32")
np.save("cases.npy", unit(table))
np.save("scaled.npy", unit((table - table.mean(0)) / table.std(0)))
"""
#: what people would have said
COMPARE = """
import numpy as np
rng = np.random.default_rng(0)
kind = np.loadtxt("cases.csv", delimiter=",", skiprows=1)[:, 30]
new, met = np.split(rng.permutation(569), [150])
np.savetxt("new.txt", new, "%d")
rows = np.column_stack([rng.choice(met, 3000), *rng.integers(569, size=(2, 3000))])
same = kind[rows] == kind[rows[:, :1]]
told = rows[same[:, 1] & ~same[:, 2]][:300]
wrong = rng.random(300) < 0.1
told[wrong] = told[wrong][:, [0, 2, 1]]
np.savetxt("told.csv", told, "%d", ",", header="query,better,worse", comments="")
"""
#: share of the ten first answers with the diagnosis of the case, for the cases that judge
COUNT = """
import sys
import numpy as np
kind = np.loadtxt("cases.csv", delimiter=",", skiprows=1)[:, 30]
new = set(np.loadtxt("new.txt", int))
found = np.loadtxt(sys.argv[1], delimiter=",", skiprows=1)[:, [0, 2]].astype(int)
pairs = [(q, i) for q, i in found if q in new and q != i]
print(f"{np.mean([kind[q] == kind[i] for q, i in pairs]):.3f}")
"""


class Walk:
    """A folder in which commands run, with caches of their own, and what each took."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.total = folder, 0.0
        self.environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
        self.environment |= {"XDG_CACHE_HOME": str(folder / "cache")}

    def run(self, title: str, *words: object, output: str | None = None) -> str:
        """Run a command; print what it took."""
        start = time.perf_counter()
        done = subprocess.run(
            list(map(str, words)),
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            check=False,
        )
        seconds = time.perf_counter() - start
        if done.returncode:
            sys.exit(f"{title}: exit code {done.returncode}\n{done.stderr}")
        if output:
            (self.folder / output).write_text(done.stdout)
        self.total += seconds
        print(f"{seconds:7.1f} s  {title}", flush=True)
        return done.stdout.strip()


def main(wheel: Path) -> None:
    """Install the wheel, learn, search before and after, and say what each step took."""
    with tempfile.TemporaryDirectory() as name:
        walk = Walk(Path(name))
        bin_ = walk.folder / "venv" / "bin"
        python, similia = bin_ / "python", bin_ / "similia"
        walk.run("python -m venv", sys.executable, "-m", "venv", "venv")
        install = "-m", "pip", "install", "--quiet", "--no-cache-dir", wheel.resolve()
        walk.run("pip install --no-cache-dir", python, *install)
        installed = next(walk.folder.glob("venv/lib/python*/site-packages"))
        size = sum(file.stat().st_size for file in installed.rglob("*") if file.is_file())
        own = installed / "sklearn" / "datasets" / "data" / "breast_cancer.csv"
        shutil.copy(own, walk.folder / "cases.csv")
        walk.run("CSV to vectors", python, "-c", CONVERT)
        walk.run("comparisons to learn from", python, "-c", COMPARE)
        view, asked = ("--view", "scaled=scaled.npy"), ("--query-view", "scaled=scaled.npy")
        walk.run("similia index", similia, "index", "cases.npy", "-o", "plain")
        search = similia, "search", "plain", "cases.npy", "-k", 11
        walk.run("similia search, before", *search, output="before.csv")
        learn = similia, "learn", "cases.npy", "told.csv", "-o", "model", *view
        walk.run("similia learn", *learn)
        walk.run(
            "similia index", similia, "index", "cases.npy", "-o", "both", "--model", "model", *view
        )
        search = similia, "search", "both", "cases.npy", "-k", 11, "--model", "model"
        walk.run("similia search, after", *search, *view, *asked, output="after.csv")
        total = walk.total
        before = walk.run("count, before", python, "-c", COUNT, "before.csv")
        after = walk.run("count, after", python, "-c", COUNT, "after.csv")
        walk.run("similia learn, once more", *learn)
        print(
            f"Python {sys.version.split()[0]}: {total:.0f} s in all, {size / 2**20:.0f} MiB; "
            f"right among ten: {before} before, {after} after."
        )
        if not float(after) > float(before):
            sys.exit("no better than before")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
