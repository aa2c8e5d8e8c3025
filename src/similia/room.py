"""How much memory there is, asked before an array of many numbers is made.

An allocation that fails is the good case: systems promise more memory than they have, and end
whoever then uses it.
"""

import math
import os
import sys
from pathlib import Path

import numpy as np
from numpy.typing import DTypeLike

#: limits of a container: cgroups of version 2 and 1
CONTAINER = "/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"


def memory() -> int:
    """Bytes that this process may hold: the machine's, or what a limit leaves of them."""
    return min(_of_machine(), _of_container(), _of_process())


def check_room(owner: str, width: int, dtype: DTypeLike, *shapes: tuple[int, ...]) -> None:
    """Refuse vectors of so many features that arrays of these shapes have no room in memory."""
    wanted = sum(map(math.prod, shapes)) * np.dtype(dtype).itemsize
    if wanted > (limit := memory()):
        raise ValueError(
            f"{owner}: X must have few enough features for {limit / 1e9:.3g} GB of memory, got "
            f"{width}, which take {wanted / 1e9:.3g} GB; reduce them first, as with "
            "sklearn.decomposition.TruncatedSVD."
        )


def _of_machine() -> int:
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):  # not a Unix: allocations fail by themselves
        return sys.maxsize


def _of_container() -> int:
    limits = [sys.maxsize]
    for path in CONTAINER:
        try:
            limits.append(int(Path(path).read_text()))
        except (ValueError, OSError):  # "max", or no such container
            continue
    return min(limits)


def _of_process() -> int:
    try:
        import resource
    except ImportError:
        return sys.maxsize
    soft = resource.getrlimit(resource.RLIMIT_AS)[0]
    return sys.maxsize if soft == resource.RLIM_INFINITY else soft
