"""Start-up: importing the package, and the first compiled call with a cold and a warm cache."""

import os
import subprocess
import sys
import tempfile

from benchmarks.timing import seconds, table

FIRST_CALL = (
    "import numpy as np; from similia import FactoredAROMA; "
    "FactoredAROMA(prior='zero').learn(np.eye(4), [[0, 1, 2]])"
)


def python(program, **environment):
    def run():
        subprocess.run(
            [sys.executable, "-c", program], check=True, env={**os.environ, **environment}
        )

    return run


def startup():
    with tempfile.TemporaryDirectory() as folder:
        warm = os.path.join(folder, "warm")
        times = seconds(
            {
                "python -c pass": python("pass"),
                "import sklearn": python("import sklearn"),
                "import similia": python("import similia"),
                "from similia import FactoredAROMA": python("from similia import FactoredAROMA"),
                "import sklearn.neighbors": python("import sklearn.neighbors"),
                "first learn, compiled code cached": python(FIRST_CALL, NUMBA_CACHE_DIR=warm),
            },
            repeats=5,
        )
        cold = iter(range(100))

        def first():
            python(FIRST_CALL, NUMBA_CACHE_DIR=os.path.join(folder, str(next(cold))))()

        times.update(seconds({"first learn, nothing cached": first}, repeats=1))
    base = times["import sklearn"]
    rows = [[name, value, value / base] for name, value in times.items()]
    table("Start-up", ["what", "seconds", "× import sklearn"], rows)


ALL = [startup]
