"""Memory of a task: what its engine gives, and sizes that fit."""

import os
import sys
from pathlib import Path
from typing import NamedTuple

#: share of its memory that a task plans with: Dask pauses a worker at 0.8
PLANNED_SHARE = 0.75
#: bytes of a process that has imported this library and has no data yet
PROCESS_BYTES = 2**28
#: limits of a container, in bytes
CGROUP_FILES = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")
MB = 10**6
#: rows below which ranges are not cut for want of memory
LEAST_ROWS = 2**10


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


class Cut(NamedTuple):
    """How items are cut into ranges or shards: the parameter, its default, and what tasks hold."""

    owner: str
    name: str
    largest: int
    #: bytes that a task takes for a row of the items, and beside them
    row: int
    beside: int

    def size(self, given: int | None, n: int, memory: float | None) -> int:
        """Rows of a range: those given, or as many as fit; raise where they do not fit."""
        fits = self.largest
        while fits > LEAST_ROWS and not self._fits(fits, memory):
            fits //= 2
        size = given or fits
        advice = f", or {self.name}={fits}" if fits < size and self._fits(fits, memory) else ""
        wanted = self.beside + min(n, size) * self.row
        check_fits(self.owner, wanted, memory, f"use larger workers{advice}")
        return size

    def _fits(self, size: int, memory: float | None) -> bool:
        taken = PROCESS_BYTES + self.beside + size * self.row
        return memory is None or taken <= PLANNED_SHARE * memory


def check_fits(owner: str, wanted: int, memory: float | None, advice: str) -> None:
    """Raise unless a task that holds so many bytes, beside its process, fits."""
    needed = (PROCESS_BYTES + wanted) / PLANNED_SHARE
    if memory is not None and needed > memory:
        raise ValueError(
            f"{owner}: memory of a task must be at least {needed / MB:,.0f} MB for this, got "
            f"{memory / MB:,.0f} MB (of a worker, over its threads); {advice}."
        )
