"""Snapshots: sealed files with the learner after a full block, each named after its last row."""

from pathlib import Path

from similia.service.fold import Fold
from similia.service.log import Log


class Snapshots:
    """The snapshots of a tenant: a cache, as the log alone is the truth."""

    def __init__(self, folder: Path, log: Log) -> None:
        self.folder = folder
        self._log = log
        self.newest = 0

    def newest_fold(self, retracted: dict[int, int]) -> Fold | None:
        """The fold of the newest snapshot that fits the log, or None."""
        return None

    def keep(self, fold: Fold, every: int) -> None:
        """Write a snapshot if the last one is so many blocks old."""

    def write(self, fold: Fold) -> int:
        """Write a snapshot; return the last row in it."""
        return 0

    def close(self, fold: Fold) -> None:
        """Write a last one."""
