"""Generations of a model in a folder: numbered files, a history, and which one is current.

``history.json`` says which generation is current and what happened so far; it is replaced in one
step, after the model that it names is safely on the disk. So whoever reads the folder sees the
state before or after a change, never one in between. Whoever changes it holds a lock, and reads it
again before: several processes may do so, and no generation is lost.
"""

import hashlib
import json
import os
import secrets
from contextlib import nullcontext
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from similia.exceptions import ModelFileError
from similia.persistence import load, save
from similia.trust.lock import locked

FORMAT = 1
HISTORY = "history.json"


class OvertakenError(Exception):
    """Another generation is in use by now than the one that a challenger was compared with."""


class Generations:
    """Models under numbers from 1; 0 is the base, which has no file.

    Parameters
    ----------
    folder : path
        Made if it is not there.
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = Path(folder)
        if self.folder.exists() and not self.folder.is_dir():
            raise ValueError(f"Promotion: folder must be a folder, got the file {folder}.")
        self.current = 0
        self.events: list[dict[str, Any]] = []
        self.refresh()

    def refresh(self) -> None:
        """See what other processes have done."""
        if (self.folder / HISTORY).exists():
            self._read()

    def path(self, generation: int) -> Path:
        """Give the file of a generation."""
        return self.folder / f"generation-{generation:06d}.safetensors"

    def load(self, generation: int) -> Any:
        """Give the learner of a generation, if its file is the one that was promoted."""
        path = self.path(generation)
        written = [e for e in self.events if e["event"] == "promotion" and e["to"] == generation]
        if not written:
            raise ValueError(
                f"Promotion: generation must be one that was promoted, got {generation}; "
                f"there are {[e['to'] for e in self.events if e['event'] == 'promotion']}."
            )
        if not path.exists():
            raise FileNotFoundError(f"{path} is missing; restore it, or roll back further.")
        if _file_sha256(path) != written[-1]["sha256"]:
            raise ModelFileError(
                f"{path} is not the file that was promoted; restore it from a copy, "
                "or roll back further."
            )
        return load(path)

    def promote(self, learner: Any, figures: dict[str, Any], champion: int) -> int:
        """Keep a learner as the next generation and make it the current one.

        Raises OvertakenError if `champion`, which it was compared with, is no longer in use.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        with locked(self.folder):
            self._expect(champion)
            numbers = [event["to"] for event in self.events if event["event"] == "promotion"]
            number = max(numbers, default=0) + 1
            save(learner, self.path(number))
            entry = {"sha256": _file_sha256(self.path(number)), "learner": type(learner).__name__}
            self._record("promotion", number, {**entry, **figures})
        return number

    def refuse(self, figures: dict[str, Any], champion: int) -> None:
        """Record that a challenger was not promoted; raises as `promote`."""
        self.folder.mkdir(parents=True, exist_ok=True)
        with locked(self.folder):
            self._expect(champion)
            self._record("refusal", self.current, figures)

    def _expect(self, champion: int) -> None:
        self.refresh()
        if self.current != champion:
            raise OvertakenError

    def roll_back(self, to: int | None) -> int:
        """Make an earlier generation the current one; by default the one before the current."""
        with locked(self.folder) if self.folder.is_dir() else nullcontext():
            self.refresh()
            target = self._previous() if to is None else to
            if isinstance(target, bool) or not isinstance(target, int) or target < 0:
                raise ValueError(f"Promotion.rollback: to must be a generation, got {target!r}.")
            if target:
                self.load(target)  # what cannot be used must not become current
            self._record("rollback", target, {})
        return target

    def _previous(self) -> int:
        if self.current == 0:
            raise ValueError(
                "Promotion.rollback: there must be a promoted generation, got the base already."
            )
        origins = [e["from"] for e in self.events if e["event"] == "promotion"]
        numbers = [e["to"] for e in self.events if e["event"] == "promotion"]
        return int(origins[numbers.index(self.current)])

    # -- the file ------------------------------------------------------------------------------

    def _record(self, event: str, to: int, figures: dict[str, Any]) -> None:
        now = datetime.now(UTC).isoformat(timespec="seconds")
        entry = {"event": event, "time": now, "from": self.current, "to": to, **figures}
        events = [*self.events, entry]
        body = {"format": FORMAT, "current": to, "events": events}
        _replace(self.folder / HISTORY, json.dumps({**body, "sha256": _seal(body)}, indent=1))
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
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            if isinstance(error, ModelFileError):
                raise
            raise ModelFileError(
                f"{path} is damaged: {error or type(error).__name__}; restore it from a copy."
            ) from error


def _seal(body: dict[str, Any]) -> str:
    text = json.dumps(body, sort_keys=True, allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


def _file_sha256(path: Path) -> str:
    with open(path, "rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _replace(path: Path, text: str) -> None:
    """Write a file whole or not at all."""
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}.tmp")
    try:
        with open(temporary, "x", encoding="utf-8") as stream:
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
