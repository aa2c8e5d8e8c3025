"""After warming up, nothing that a command does is left to compile."""

import os
import subprocess
import sys

import pytest

from similia.registry import ALL_LEARNERS
from similia.stream.warmup import warm_up

COMMANDS = """
import sys
from pathlib import Path
import numpy as np
from numba.core import event
from scipy import sparse
from typer.testing import CliRunner
from similia.cli.main import app
from similia.stream.warmup import warm_up

learner, form, folder = sys.argv[1:4]

def run(*words):
    words = [str(folder / word) if "." in word else word for word in words]
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 0, (words, result.output)

folder = Path(folder)
rng = np.random.default_rng(0)
X = rng.normal(size=(60, 6)).astype(form.split()[1])
if form.startswith("dense"):
    np.save(folder / "X.npy", X)
else:
    sparse.save_npz(folder / "X.npy.npz", sparse.csr_array(np.maximum(X, 0)))
vectors = "X.npy" if form.startswith("dense") else "X.npy.npz"
signs = rng.choice([-1, 1], size=300)
for name, header, rows in (
    ("t.csv", "query,better,worse", rng.integers(60, size=(300, 3))),
    ("p.csv", "a,b,label", np.column_stack([rng.integers(60, size=(300, 2)), signs])),
    ("l.csv", "row,label", np.column_stack([np.arange(60), np.arange(60) % 3])),
    ("g.csv", "query,item,relevance", rng.integers(1, 60, size=(300, 3))),
):
    np.savetxt(folder / name, rows, "%d", delimiter=",", header=header, comments="")

list(warm_up([learner], [form]))
with event.install_recorder("numba:compile") as recorder:
    taught = "t.csv" if sys.argv[4] == "triplets" else "p.csv"
    run("learn", vectors, taught, "--learner", learner, "-o", "m.safetensors")
    for judged in ("t.csv", "p.csv", "l.csv", "g.csv"):
        run("evaluate", "m.safetensors", vectors, judged)
    run("evaluate", "m.safetensors", vectors, "g.csv", "--base", "euclidean")
    run("apply", "m.safetensors", vectors, "-o", "o.npy")
    if "AROMA" in learner:
        run("suggest", "m.safetensors", vectors)
print(sorted({record.data["dispatcher"].py_func.__name__ for _, record in recorder.buffer}))
"""


@pytest.mark.parametrize(
    ("learner", "kind", "form"),
    [("FactoredAROMA", "triplets", "dense float32"), ("LEGO", "pairs", "sparse float64")],
)
def test_no_command_compiles_after_warmup(tmp_path, learner, kind, form):
    """In a process with an empty cache: whatever compiles after warming up is recorded."""
    done = subprocess.run(
        [sys.executable, "-c", COMMANDS, learner, form, str(tmp_path), kind],
        env={**os.environ, "NUMBA_CACHE_DIR": str(tmp_path / "cache"), "NUMBA_OPT": "0"},
        capture_output=True,
        text=True,
    )
    assert (done.stdout, done.returncode) == ("[]\n", 0), done.stderr


def test_every_learner_can_be_warmed_up():
    rows = list(warm_up(list(ALL_LEARNERS), ["dense float64"]))
    assert [row["learner"] for row in rows] == list(ALL_LEARNERS)
