"""What must work after ``pip install similia``, without extras; run by ``make release``."""

import subprocess
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path

import numpy as np

import similia


def command(*words: object) -> str:
    """Standard output of the installed command."""
    program = Path(sys.executable).with_name("similia")
    arguments = [str(program), *map(str, words)]
    done = subprocess.run(arguments, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(arguments)} ended with {done.returncode}: {done.stderr}")
    return done.stdout


def main() -> None:
    """Teach, save, describe and use a model, by the command and from Python."""
    installed = Path(similia.__file__).parent
    checks = {
        "installed, not the clone": "site-packages" in installed.parts,
        "py.typed": (installed / "py.typed").exists(),
        "version": similia.__version__ == version("similia"),
        "--version": command("--version") == f"similia {similia.__version__}\n",
        "learners": "FactoredAROMA" in command("learners"),
    }
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 8)).astype(np.float32)
    wanted = X @ np.diag([4, 4, 0, 0, 0, 0, 0, 0]) @ X.T  # what people want: two of the features
    rows = rng.integers(200, size=(2000, 3))
    first, second = (wanted[rows[:, 0], rows[:, side]] for side in (1, 2))
    rows[first < second] = rows[first < second][:, [0, 2, 1]]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        np.save(folder / "X.npy", X)
        text = "\n".join(["query,better,worse", *(",".join(map(str, row)) for row in rows[:1500])])
        (folder / "told.csv").write_text(text)
        files = folder / "X.npy", folder / "told.csv"
        command("learn", *files, "--learner", "factoredaroma", "-o", folder / "model")
        checks["info"] = command("info", folder / "model").startswith("FactoredAROMA")
        learnt = similia.load(folder / "model")
    before = similia.OASIS().learn(X, np.empty((0, 3), dtype=int)).score(X, rows[1500:])
    checks["better on judgements not learnt"] = learnt.score(X, rows[1500:]) > before
    failed = [check for check, passed in checks.items() if not passed]
    if failed:
        sys.exit(f"smoke test failed: {', '.join(failed)}")
    print(
        f"similia {similia.__version__} on Python {sys.version.split()[0]}: {len(checks)} checks."
    )


if __name__ == "__main__":
    main()
