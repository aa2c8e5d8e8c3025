"""Snapshots: sealed files with the learner after a full block, each named after its last row.

They are a cache: the log alone is the truth. One that is damaged, of other library versions, of
another log or from before a retraction is ignored, and more of the log is learnt again.
"""

import json
import logging
import threading
from collections.abc import Callable, Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from similia import __version__
from similia.exceptions import ModelFileError
from similia.persistence import reading, saving
from similia.persistence.loading import restored
from similia.safety.whole import make_folder, remove_leftovers
from similia.service.catalogue.items import Layout
from similia.service.engine import fold as folding
from similia.service.engine.fold import Fold, Pairs, Unlearnable
from similia.service.errors import ServiceError
from similia.service.log.log import Log
from similia.similarity.blend import Blend

logger = logging.getLogger("similia.service")

CLASS = "Snapshot"
#: full blocks between snapshots
BLOCKS_BETWEEN = 64
#: newest snapshots, all kept; of older ones fewer and fewer
N_NEWEST = 2
ARRAYS = ("lists", "exams", "retracted")


class Sealed(NamedTuple):
    """Contents of a snapshot."""

    #: last row in it, and that row's hash, which identifies the log
    seq: int
    hash: str
    learner: Blend
    lists: NDArray[np.int64]
    exams: NDArray[np.int64]
    retracted: NDArray[np.int64]
    pairs: Pairs


class Snapshots:
    """The snapshots of a tenant."""

    def __init__(self, folder: Path, log: Log) -> None:
        self.folder = folder
        self._log = log
        self._writing: threading.Thread | None = None
        self.newest = max(self.numbers(), default=0)

    def numbers(self) -> list[int]:
        """Last rows of the existing snapshots, in order."""
        found = (path.stem.removeprefix("snapshot-") for path in self.folder.glob("snapshot-*"))
        return sorted(int(number) for number in found if number.isdecimal())

    # -- reading -------------------------------------------------------------------------------

    def restored(self, new: Callable[[], Fold], last: int) -> Fold:
        """A new fold, continued from the newest valid snapshot up to row `last`."""
        for sealed in self.all(last):
            fold = new()
            if not self._holds(sealed, fold.retracted):
                continue
            try:
                self._restore(fold, sealed)
                return fold
            except (ModelFileError, Unlearnable) as error:
                logger.warning("A snapshot is ignored: %s", error)
        return new()

    def all(self, last: int) -> Iterator[Sealed]:
        """Snapshots that fit the log, the newest first."""
        for number in reversed(self.numbers()):
            if number > last:
                continue
            try:
                sealed = read(self._path(number))
                row = self._log.row(number)
                if sealed.seq != number or row is None or row.hash.hex() != sealed.hash:
                    raise ModelFileError(f"{self._path(number)} is of another log.")
            except (ModelFileError, OSError) as error:
                logger.warning("A snapshot is ignored: %s", error)
                continue
            yield sealed

    def _holds(self, sealed: Sealed, retracted: dict[int, int]) -> bool:
        """Whether nothing that the snapshot learnt has been retracted."""
        now = {row for row in retracted if row <= sealed.seq}
        changed = np.array(sorted(now ^ set(sealed.retracted.tolist())), np.int64)
        learnt = changed[~np.isin(changed, sealed.exams)]
        return not len(learnt) or not (sealed.pairs or np.isin(learnt, sealed.lists).any())

    def _restore(self, fold: Fold, sealed: Sealed) -> None:
        for row in self._log.rows(0, sealed.seq, others=True):
            fold.feed_other(row)
        if fold.items is None or widths(fold.items.layout) != widths_of(sealed.learner):
            raise ModelFileError(f"{self._path(sealed.seq)} is of other views than the log.")
        fold.resume(sealed.seq, sealed.learner, sealed.lists, sealed.exams.tolist(), sealed.pairs)

    # -- writing -------------------------------------------------------------------------------

    def keep(self, fold: Fold) -> None:
        """Write a snapshot in the background, if the last one is old."""
        n_new = len(fold.lists) - int(np.searchsorted(fold.lists, self.newest, "right"))
        if n_new < BLOCKS_BETWEEN * folding.LISTS_PER_BLOCK or self._writing is not None:
            return
        try:
            sealed = self._sealed(fold)
        except ServiceError as error:  # the log is away, and snapshots are only a cache
            logger.warning("No snapshot was written: %s", error)
            return
        self._writing = threading.Thread(
            target=self._write_beside, args=(sealed,), name="snapshot", daemon=True
        )
        self._writing.start()

    def _write_beside(self, sealed: Sealed) -> None:
        try:
            self._write(sealed)
        except OSError as error:  # snapshots are only a cache
            logger.warning("No snapshot was written: %s", error)
        finally:
            self._writing = None

    def write(self, fold: Fold) -> None:
        """Write a snapshot if there is none yet."""
        writing = self._writing
        if writing is not None:
            writing.join()
        if fold.learner is not None and fold.through > self.newest:
            self._write(self._sealed(fold))

    def _sealed(self, fold: Fold) -> Sealed:
        assert fold.learner is not None
        row = self._log.row(fold.through)
        assert row is not None
        return Sealed(
            fold.through,
            row.hash.hex(),
            deepcopy(fold.learner),
            fold.lists,
            np.array([seq for seq in fold.exams if seq <= fold.through], np.int64),
            np.array(sorted(seq for seq in fold.retracted if seq <= fold.through), np.int64),
            fold.pairs_then,
        )

    def _write(self, sealed: Sealed) -> None:
        make_folder(self.folder)
        remove_leftovers(self.folder)
        write(self._path(sealed.seq), sealed)
        self.newest = sealed.seq
        for number in superfluous(self.numbers()):
            self._path(number).unlink(missing_ok=True)

    def _path(self, number: int) -> Path:
        return self.folder / f"snapshot-{number:012d}.safetensors"


def widths(layout: Layout) -> dict[str, tuple[int, int]]:
    """Features of queries and items, by view."""
    return {view.name: (view.width * view.compared, view.width) for view in layout.views}


def widths_of(learner: Blend) -> dict[str, tuple[int, int]]:
    """The same, as a learner has them."""
    return {name: (m, n) for name, m, n in learner.widths_}


def superfluous(numbers: list[int]) -> list[int]:
    """Snapshots to remove, so that distances from the newest roughly double."""
    newest, kept = numbers[-1], 0
    found = []
    for place, number in enumerate(reversed(numbers)):
        if place < N_NEWEST or newest - number >= 2 * kept:
            kept = newest - number
        elif number != numbers[0]:
            found.append(number)
    return found


def write(path: Path, sealed: Sealed) -> None:
    """Write a snapshot to one file, whole or not at all."""
    parameters = {"seq": sealed.seq, "hash": sealed.hash, "pairs": json.dumps(sealed.pairs)}
    parameters["block"] = folding.LISTS_PER_BLOCK
    parameters["learner"] = sealed.learner.get_params(deep=False)
    attributes = {name: getattr(sealed, name) for name in ARRAYS}
    attributes["learner"] = sealed.learner.get_state()
    saving.write(path, CLASS, parameters, attributes)


def read(path: Path) -> Sealed:
    """Read a snapshot; all checksums are compared, and the versions that wrote it."""
    document = reading.read_document_of(path, CLASS, "snapshot")
    written = document["versions"].get("similia")
    if written != __version__:
        raise ModelFileError(f"{path} is of similia {written}, which may learn otherwise.")

    def sealed(parameters: dict[str, Any], attributes: dict[str, Any]) -> Sealed:
        if parameters["block"] != folding.LISTS_PER_BLOCK:
            raise ValueError(f"it was learnt in blocks of {parameters['block']}")
        learner = restored("Blend", parameters["learner"], attributes["learner"])
        found = json.loads(parameters["pairs"])
        pairs = {key: tuple((id, bool(kind)) for id, kind in v) for key, v in found.items()}
        lists, exams, retracted = arrays = [attributes[name] for name in ARRAYS]
        if not all(
            isinstance(a, np.ndarray) and a.dtype == np.int64 and a.ndim == 1 for a in arrays
        ):
            raise ValueError(f"{', '.join(ARRAYS)} are no numbers of rows")
        seq, hash_ = parameters["seq"], parameters["hash"]
        return Sealed(seq, hash_, learner, lists, exams, retracted, pairs)

    return reading.rebuilt(path, document, sealed)
