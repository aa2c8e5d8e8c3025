"""Start-up: importing the package, and the first learn of a process."""

import subprocess
import sys

from benchmarks.timing import seconds, table

FIRST_LEARN = (
    "import numpy as np; from similia import FactoredAROMA; "
    "FactoredAROMA(prior='zero').learn(np.eye(4), [[0, 1, 2]])"
)
PROGRAMS = {
    "python -c pass": "pass",
    "import sklearn": "import sklearn",
    "import sklearn.linear_model": "import sklearn.linear_model",
    "import similia": "import similia",
    "from similia import FactoredAROMA": "from similia import FactoredAROMA",
    "first learn": FIRST_LEARN,
}


def python(program):
    def run():
        subprocess.run([sys.executable, "-c", program], check=True)

    return run


def startup():
    times = seconds({name: python(program) for name, program in PROGRAMS.items()}, repeats=5)
    base = times["import sklearn.linear_model"]
    rows = [[name, value, value / base] for name, value in times.items()]
    table("Start-up", ["what", "seconds", "× import sklearn.linear_model"], rows)


ALL = [startup]
