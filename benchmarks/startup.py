"""The first minute: first calls of a process against an import everybody knows, and installations.

``python -m benchmarks first_minute`` prints all of it, and at last what is asked beside what is
found. It runs only by name, as does ``installs``: they download, and take minutes.
"""

import socket
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from urllib.request import urlopen

import numpy as np

from benchmarks.timing import seconds, table

ROOT = Path(__file__).resolve().parents[1]
#: what everything is compared with
BASE = "import sklearn.linear_model"
README = (ROOT / "README.md").read_text(encoding="utf-8")
EXAMPLE = next(part for part in README.split("```python\n")[1:] if "Impressions" in part)
EXAMPLE = EXAMPLE.split("```")[0]
IMPORTS = {
    "python -c pass": "pass",
    "import sklearn": "import sklearn",
    BASE: BASE,
    "import similia": "import similia",
    "from similia import FactoredAROMA": "from similia import FactoredAROMA",
}
SPARSE = """
from scipy.sparse import csr_array
views = similia.Views(vectors=csr_array(items["vectors"]), price=items["price"])
asking = similia.Views(vectors=csr_array(queries["vectors"]))
similia.Blend().learn(asking, lists, items=views)
"""
#: the README's example, and the same with other numbers, shapes and sparse vectors
EXAMPLES = {
    "README": EXAMPLE,
    "in double precision": EXAMPLE.replace("float32", "float64"),
    "of 384 features": EXAMPLE.replace(", 64)", ", 384)"),
    "and then with sparse vectors": f"{EXAMPLE}{SPARSE}",
}
TRIPLETS = "X = np.eye(6); {0}().learn(X, [[0, 1, 2]])"
PAIRS = "X = np.eye(6); {0}().learn(X, [[0, 1]], [1])"
LABELS = "X = np.random.default_rng(0).normal(size=(60, 6)); {0}().fit(X, np.arange(60) % 3)"
LEARNERS = {
    **dict.fromkeys(("Blend", "FactoredAROMA", "DiagonalAROMA", "OASIS"), TRIPLETS),
    **dict.fromkeys(("POLA", "KernelPOLA", "LEGO", "MEG"), PAIRS),
    **dict.fromkeys(("AROW", "SLNDClassifier", "SGDOneVsRest"), LABELS),
    "NeighborhoodGerrymandering": LABELS,
}


def python(program):
    def run():
        subprocess.run([sys.executable, "-c", program], check=True, stdout=subprocess.DEVNULL)

    return run


def compared(title, programs, repeats):
    """Print seconds of each program, and times that of the import; return seconds."""
    times = seconds({name: python(text) for name, text in programs.items()}, repeats=repeats)
    rows = [[name, value, value / times[BASE]] for name, value in times.items()]
    table(title, ["what", "seconds", f"× {BASE}"], rows)
    return times


def startup():
    return compared("Start-up", IMPORTS, 5)


def first_calls():
    learners = {
        name: f"import numpy as np; from similia import {name}; {text.format(name)}"
        for name, text in LEARNERS.items()
    }
    return compared("First calls of a process", {BASE: BASE, **EXAMPLES, **learners}, 3)


def answers(url):
    try:
        return urlopen(url, timeout=5).status == 200
    except OSError:
        return False


def commands():
    """`evaluate`, `demo` in a new and in a used folder of caches, and `serve` until it answers."""
    similia = [sys.executable, "-m", "similia.cli.main"]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        rng = np.random.default_rng(0)
        np.save(folder / "items.npy", rng.normal(size=(500, 32)).astype(np.float32))
        rows = rng.integers(500, size=(200, 3))
        header = {"header": "query,better,worse", "comments": ""}
        np.savetxt(folder / "judged.csv", rows, "%d", ",", **header)

        def command(*words):
            subprocess.run([*similia, *words], check=True, cwd=folder, **quiet)

        def serve():
            with socket.create_server(("127.0.0.1", 0)) as free:
                port = str(free.getsockname()[1])
            given = ["serve", "items.npy", "--store", "store", "--port", port]
            with subprocess.Popen([*similia, *given], cwd=folder, **quiet) as service:
                while service.poll() is None and not answers(f"http://127.0.0.1:{port}/readyz"):
                    time.sleep(0.02)
                service.terminate()

        command("learn", "items.npy", "judged.csv", "--learner", "OASIS")
        evaluated = partial(command, "evaluate", "model.safetensors", "items.npy", "judged.csv")
        begun = time.perf_counter()
        command("demo", "-o", "out")
        cold = time.perf_counter() - begun
        times = seconds(
            {
                BASE: python(BASE),
                "evaluate": evaluated,
                "serve, until it is ready": serve,
                "--help": lambda: command("--help"),
                "demo": lambda: command("demo", "-o", "out"),
            },
            repeats=3,
        )
    rows = [[what, value, value / times[BASE]] for what, value in times.items()]
    table("Commands in a new process", ["what", "seconds", f"× {BASE}"], rows)
    table("`similia demo`", ["cold ÷ warm"], [[cold / times["demo"]]])
    return {**times, "cold demo": cold}


def size(folder):
    """MB of the files of a folder."""
    return sum(f.stat().st_size for f in folder.rglob("*") if f.is_file()) / 1e6


def installs():
    """New environments: what they take, and `make demo` from a bare clone against scikit-learn."""
    with tempfile.TemporaryDirectory() as name:
        folder, rows = Path(name), []
        clone = folder / "clone"
        subprocess.run(["git", "clone", "-q", ROOT, clone], check=True)
        taken = {}
        for title, words in {
            "scipy scikit-learn": ["scipy", "scikit-learn"],
            "similia": [str(clone)],
        }.items():
            begun = time.perf_counter()
            here = folder / title.replace(" ", "-")
            subprocess.run([sys.executable, "-m", "venv", here], check=True)
            before = size(here)
            install = [here / "bin" / "python", "-m", "pip", "install", "-q", *words]
            subprocess.run(install, check=True)
            taken[title] = time.perf_counter() - begun
            rows.append([f"pip install {title}", taken[title], size(here) - before])
        begun = time.perf_counter()
        subprocess.run(["make", "-s", "demo"], cwd=clone, check=True, stdout=subprocess.DEVNULL)
        took = time.perf_counter() - begun
        rows.append(["make demo", took, size(clone / ".venv")])
    table("Installations", ["what", "seconds", "MB"], rows)
    table("`make demo`", ["÷ scipy and scikit-learn"], [[took / taken["scipy scikit-learn"]]])
    return rows


def first_minute():
    imports, calls, used = startup(), first_calls(), commands()
    fetched, ours, demo = installs()
    nothing = imports["python -c pass"]
    examples = max(calls[name] for name in EXAMPLES)
    learners = max(calls[name] for name in LEARNERS)
    rest = max(used["evaluate"], used["serve, until it is ready"])
    table(
        "The first minute",
        ["what", "asked", "found"],
        [
            [f"README's example, any form ÷ {BASE}", "2.5", examples / calls[BASE]],
            [f"first call of any learner ÷ {BASE}", "3", learners / calls[BASE]],
            [f"evaluate, serve until it is ready ÷ {BASE}", "3", rest / used[BASE]],
            ["demo, cold ÷ warm", "1.3", used["cold demo"] / used["demo"]],
            ["make demo ÷ pip install scipy scikit-learn", "3", demo[1] / fetched[1]],
            [
                "import similia, s beside an empty program",
                "0.05",
                imports["import similia"] - nothing,
            ],
            ["similia --help, s", "0.2", used["--help"]],
            ["installed, MB", "300", ours[2]],
            ["environment of the demo, MB", "450", demo[2]],
        ],
    )


ALL = [startup, first_calls, commands]
