"""Generations of a model in a folder: numbered files, a sealed history, and which one is in use.

``history.json`` names the generation in use and lists what happened. It is replaced in one step,
after the model that it names is on the disk, so a reader sees the state before or after a change
and never one in between. A writer holds a lock and rereads the history first: several processes can
promote into one folder, and no generation is lost.
"""

import hashlib
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeAlias

from filelock import FileLock

from similia.contract import Stateful
from similia.durable import replace_text
from similia.exceptions import ModelFileError
from similia.persistence import load, save

FORMAT = 1
HISTORY = "history.json"
LOCK = ".lock"

#: what happened, when, and its figures, as plain values
Event: TypeAlias = dict[str, Any]


class OvertakenError(Exception):
    """The generation in use is no longer the one that a challenger was compared with."""


def locked(folder: Path) -> FileLock:
    """Folder lock, held across threads and processes, released when its process exits."""
    return FileLock(folder / LOCK)


class Generations:
    """Models numbered from 1; 0 is the base, which has no file.

    Parameters
    ----------
    folder : path
        Created by the first change.
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = Path(folder)
        if self.folder.exists() and not self.folder.is_dir():
            raise ValueError(f"Promotion: folder must be a folder, got the file {folder}.")
        self.current = 0
        self.events: list[Event] = []
        self.refresh()

    def refresh(self) -> None:
        """Reread the history, which other processes may have changed."""
        if (self.folder / HISTORY).exists():
            self._read()

    def latest(self, event: str) -> Event | None:
        """The most recent event of a kind, if any."""
        return next((e for e in reversed(self.events) if e["event"] == event), None)

    def path(self, generation: int) -> Path:
        """File of a generation."""
        return self.folder / f"generation-{generation:06d}.safetensors"

    def load(self, generation: int) -> Any:
        """Load the learner of a generation, if its file is the one that was promoted."""
        path, promoted = self.path(generation), self._promotions()
        if generation not in promoted:
            raise ValueError(
                f"Promotion: generation must be one that was promoted, got {generation}; "
                f"there are {list(promoted)}."
            )
        if not path.exists():
            raise FileNotFoundError(f"{path} is missing; restore it, or roll back further.")
        if _file_sha256(path) != promoted[generation]["sha256"]:
            raise ModelFileError(
                f"{path} is not the file that was promoted; restore it from a copy, "
                "or roll back further."
            )
        return load(path)

    def promote(self, learner: Stateful, figures: Event, champion: int) -> int:
        """Save a learner as the next generation and put it to use.

        Raises OvertakenError if `champion`, which it was compared with, is no longer in use.
        """
        with self.changing(champion):
            number = max(self._promotions(), default=0) + 1
            save(learner, self.path(number))
            entry = {"sha256": _file_sha256(self.path(number)), "learner": type(learner).__name__}
            self.record("promotion", {**entry, **figures}, number)
        return number

    def roll_back(self, to: int | None) -> int:
        """Put an earlier generation to use, by default the one that the current replaced."""
        if not self.folder.is_dir():
            raise FileNotFoundError(f"{self.folder}: no folder of generations.")
        with self.changing():
            target = self._previous() if to is None else to
            if isinstance(target, bool) or not isinstance(target, int) or target < 0:
                raise ValueError(f"Promotion.rollback: to must be a generation, got {target!r}.")
            if target:
                self.load(target)  # a generation that cannot be loaded must not become current
            self.record("rollback", {}, target)
        return target

    def _promotions(self) -> dict[int, Event]:
        return {e["to"]: e for e in self.events if e["event"] == "promotion"}

    def _previous(self) -> int:
        if self.current == 0:
            raise ValueError(
                "Promotion.rollback: there must be a promoted generation, got the base already."
            )
        return int(self._promotions()[self.current]["from"])

    # -- the file ------------------------------------------------------------------------------

    @contextmanager
    def changing(self, champion: int | None = None) -> Iterator[None]:
        """Lock the folder and reread its history.

        Raises OvertakenError if `champion` is no longer in use.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        with locked(self.folder):
            self.refresh()
            if champion not in (None, self.current):
                raise OvertakenError
            yield

    def record(self, event: str, figures: Event, to: int | None = None) -> None:
        """Append an event, and put generation `to` to use; only while `changing`."""
        now = datetime.now(UTC).isoformat(timespec="seconds")
        to = self.current if to is None else to
        entry = {"event": event, "time": now, "from": self.current, "to": to, **figures}
        events = [*self.events, entry]
        body = {"format": FORMAT, "current": to, "events": events}
        text = json.dumps({**body, "sha256": _seal(body)}, indent=1)
        replace_text(self.folder / HISTORY, text)
        self.current, self.events = to, events

    def _read(self) -> None:
        path = self.folder / HISTORY
        try:
            document = json.loads(path.read_text(encoding="utf-8"))
            seal = document.pop("sha256")
            if document["format"] > FORMAT:
                raise ModelFileError(
                    f"{path} has format {document['format']}, but this version of similia reads "
                    f"formats up to {FORMAT}; upgrade similia."
                )
            if seal != _seal(document):
                raise ValueError("it does not match its checksum")
            self.current, self.events = document["current"], document["events"]
        except ModelFileError:
            raise
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise ModelFileError(
                f"{path} is damaged: {error or type(error).__name__}; restore it from a copy."
            ) from error


def _seal(body: Event) -> str:
    text = json.dumps(body, sort_keys=True, allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


def _file_sha256(path: Path) -> str:
    with open(path, "rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
