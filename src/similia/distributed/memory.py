"""Memory of a task: what its engine gives, and sizes that fit."""

import os
import sys
from pathlib import Path

#: share of its memory that a task plans with: Dask pauses a worker at 0.8
PLANNED_SHARE = 0.75
#: bytes of a process that has imported this library and has no data yet
PROCESS_BYTES = 2**28
#: limits of a container, in bytes
CGROUP_FILES = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")
MB = 10**6


def machine_memory() -> int | None:
    """Bytes of memory of this machine or container, if it tells."""
    found = []
    if sys.platform != "win32":
        found.append(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    for file in map(Path, CGROUP_FILES):
        text = file.read_text().strip() if file.exists() else "max"
        if text.isdigit():
            found.append(int(text))
    return min(found, default=None)


def rows_that_fit(largest: int, row: int, beside: int, memory: float | None) -> int:
    """Halve a number of rows until they, and what is beside them, fit; `row` is bytes of each."""
    if memory is None:
        return largest
    while largest > 1 and PROCESS_BYTES + beside + largest * row > PLANNED_SHARE * memory:
        largest //= 2
    return largest


def check_fits(owner: str, wanted: int, memory: float | None, advice: str) -> None:
    """Raise unless a task that holds so many bytes, beside its process, fits."""
    needed = (PROCESS_BYTES + wanted) / PLANNED_SHARE
    if memory is not None and needed > memory:
        raise ValueError(
            f"{owner}: memory of a task must be at least {needed / MB:,.0f} MB for this, got "
            f"{memory / MB:,.0f} MB (of a worker, over its threads); {advice}."
        )
