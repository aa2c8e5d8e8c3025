"""Print the benchmark tables: ``python -m benchmarks [name ...]``."""

import platform
import sys
from importlib.metadata import version

from benchmarks import learners, merging, retrieval, slnd, startup

MODULES = (learners, merging, retrieval, slnd, startup)
BENCHMARKS = {f.__name__: f for module in MODULES for f in module.ALL}


def main(names):
    unknown = set(names) - set(BENCHMARKS)
    if unknown:
        sys.exit(f"benchmarks: name must be one of {', '.join(BENCHMARKS)}, got {unknown.pop()}.")
    packages = ("similia", "numpy", "scipy", "scikit-learn", "numba")
    print(f"{platform.machine()}, Python {platform.python_version()}, ", end="")
    print(", ".join(f"{name} {version(name)}" for name in packages))
    for name in names or BENCHMARKS:
        BENCHMARKS[name]()


main(sys.argv[1:])
