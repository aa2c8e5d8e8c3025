"""Print the benchmark tables: ``python -m benchmarks [name ...]``."""

import platform
import sys
from importlib.metadata import version

from benchmarks import (
    adapters,
    beside,
    blend,
    command_line,
    definite_boost,
    distributed,
    followers,
    gerrymandering,
    http,
    index,
    learners,
    logs,
    meg,
    merging,
    page,
    pola,
    retrieval,
    scale,
    service,
    slnd,
    startup,
    tenants,
    walk,
)

MODULES = (
    learners,
    pola,
    meg,
    definite_boost,
    gerrymandering,
    slnd,
    merging,
    distributed,
    followers,
    retrieval,
    scale,
    index,
    adapters,
    blend,
    startup,
    command_line,
    logs,
    service,
    tenants,
    http,
    beside,
    page,
    walk,
)
BENCHMARKS = {f.__name__: f for module in MODULES for f in module.ALL}
#: only if named: they download
BY_NAME = {f.__name__: f for f in (startup.installs, startup.first_minute)}
BENCHMARKS |= BY_NAME


def main(names):
    unknown = set(names) - set(BENCHMARKS)
    if unknown:
        sys.exit(f"benchmarks: name must be one of {', '.join(BENCHMARKS)}, got {unknown.pop()}.")
    packages = ("similia", "numpy", "scipy", "scikit-learn")
    print(f"{platform.machine()}, Python {platform.python_version()}, ", end="")
    print(", ".join(f"{name} {version(name)}" for name in packages))
    for name in names or [n for n in BENCHMARKS if n not in BY_NAME]:
        BENCHMARKS[name]()


main(sys.argv[1:])
