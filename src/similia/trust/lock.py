"""One process at a time: a lock on a folder that ends with whoever holds it."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

if sys.platform == "win32":
    import msvcrt

    def _lock(file: int) -> None:
        while True:
            try:
                msvcrt.locking(file, msvcrt.LK_LOCK, 1)
                return
            except OSError:  # it gives up after ten seconds
                continue

else:
    import fcntl

    def _lock(file: int) -> None:
        fcntl.flock(file, fcntl.LOCK_EX)


NAME = ".lock"


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold the folder; wait while another thread or process holds it.

    The system itself keeps the lock, on an open file, and lifts it when a process ends, however it
    ends. The file is removed at the end, so whoever has waited looks whether the file that is
    locked is still the one that others would lock, and else begins again.
    """
    path = folder / NAME
    file = _acquired(path)
    try:
        yield
    finally:
        if sys.platform != "win32":  # which does not remove open files: there it stays
            path.unlink(missing_ok=True)
        os.close(file)


def _acquired(path: Path) -> int:
    while True:
        file = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            _lock(file)
            if path.exists() and os.path.samestat(os.fstat(file), os.stat(path)):
                return file
        except FileNotFoundError:  # removed between the two looks
            pass
        except BaseException:
            os.close(file)
            raise
        os.close(file)
