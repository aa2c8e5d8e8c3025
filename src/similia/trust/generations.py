"""Generations of a model in a folder: numbered files, a sealed history, and which one is in use.

``history.json`` names the generation in use and lists what happened. It is replaced in one step,
after the model that it names is on the disk, so a reader sees the state before or after a change
and never one in between. A writer holds a lock and rereads the history first: several processes can
promote into one folder, and no generation is lost.
"""

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from filelock import FileLock

from similia import __version__
from similia.exceptions import ModelFileError
from similia.safety.whole import (
    file_sha256,
    has_own_seal,
    make_folder,
    remove_leftovers,
    write_sealed,
)

if TYPE_CHECKING:
    from similia.contract import Stateful
    from similia.trust.evidence import Evidence

HISTORY_FORMAT = 1
HISTORY = "history.json"
LOCK_FILE = ".lock"

#: what happened, when, and its figures, as plain values
Event: TypeAlias = dict[str, Any]


class Generations:
    """Models numbered from 1 in a folder that the first change creates; 0 is the base."""

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = Path(folder)
        if self.folder.exists() and not self.folder.is_dir():
            raise ValueError(f"Promotion: folder must be a folder, got the file {folder}.")
        self.current = 0
        self.events: list[Event] = []
        self._evidence: dict[str, dict[str, Any]] = {}
        self.refresh()

    def refresh(self) -> None:
        """Reread the history, which other processes may have changed."""
        path = self.folder / HISTORY
        if not path.exists():
            return
        try:
            document = json.loads(path.read_text(encoding="utf-8"))
            form = document["format"]
            if form <= HISTORY_FORMAT:
                if not has_own_seal(document):
                    raise ValueError("it does not match its checksum")
                _check_history(document["current"], document["events"])
                self.current, self.events = document["current"], document["events"]
                self._evidence = document.get("evidence", {})
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise ModelFileError(
                f"{path} is damaged: {error or type(error).__name__}; restore it from a copy."
            ) from error
        if form > HISTORY_FORMAT:
            raise ModelFileError(
                f"{path} has format {form}, but this version of similia reads formats up to "
                f"{HISTORY_FORMAT}; upgrade similia."
            )

    def load(self, generation: int) -> Any:
        """Load the learner of a generation, if its file is the one that was promoted."""
        from similia.persistence import load

        return load(self._intact(generation))

    def check(self, generation: int) -> None:
        """Refuse a generation that cannot be loaded.

        If this version wrote the file, it is checked without importing its learner: what `save`
        wrote loads as long as every checksum is right. A file of another version is loaded.
        """
        from similia.persistence.description import learner_document
        from similia.persistence.reading import rebuilt

        path = self._intact(generation)
        document = learner_document(path)
        if document["versions"].get("similia") == __version__:
            rebuilt(path, document, lambda *_: None)
        else:
            self.load(generation)

    def _intact(self, generation: int) -> Path:
        """File of a generation, if it is the one that was promoted."""
        path, promoted = self._path(generation), self._promotions()
        if generation not in promoted:
            raise ValueError(
                f"Promotion: generation must be one that was promoted, got {generation}; "
                f"there are {list(promoted)}."
            )
        if not path.exists():
            raise FileNotFoundError(f"{path} is missing; restore it, or roll back further.")
        if file_sha256(path) != promoted[generation]["sha256"]:
            raise ModelFileError(
                f"{path} is not the file that was promoted; restore it from a copy, "
                "or roll back further."
            )
        return path

    @contextmanager
    def changing(self) -> Iterator[None]:
        """Lock the folder, across threads and processes, and reread its history.

        The lock is released when its process exits, however that ends.
        """
        make_folder(self.folder)
        with FileLock(self.folder / LOCK_FILE):
            remove_leftovers(self.folder)
            self.refresh()
            yield

    def promote(self, learner: "Stateful", figures: Event) -> int:
        """Save a learner as the next generation and make it current; only while `changing`."""
        from similia.persistence import save

        number = max(self._promotions(), default=0) + 1
        save(learner, self._path(number))
        entry = {"sha256": file_sha256(self._path(number)), "learner": type(learner).__name__}
        self.record("promotion", {**entry, **figures}, number)
        return number

    def roll_back(self, to: int | None) -> int:
        """Make an earlier generation current, by default the one before."""
        if not self.folder.is_dir():
            raise FileNotFoundError(f"{self.folder}: no folder of generations.")
        with self.changing():
            if to is None and self.current == 0:
                raise ValueError(
                    "Promotion.rollback: there must be a promoted generation, got the base already."
                )
            target = self._promotions()[self.current]["from"] if to is None else to
            if isinstance(target, bool) or not isinstance(target, int) or target < 0:
                raise ValueError(f"Promotion.rollback: to must be a generation, got {target!r}.")
            if target:
                self.check(target)  # a damaged generation must not become current
            self.record("rollback", {}, target)
        return target

    def evidence(self, kind: str) -> "Evidence":
        """Evidence against the champion by challengers of one kind."""
        from similia.trust.evidence import Evidence

        found = self._evidence.get(kind)
        return Evidence() if found is None else Evidence.from_dict(found)

    @property
    def n_attempts(self) -> int:
        """Number of attempts to replace the champion, of all kinds."""
        return sum(len(kept["attempts"]) for kept in self._evidence.values())

    def record(
        self,
        event: str,
        figures: Event,
        to: int | None = None,
        evidence: "Mapping[str, Evidence] | None" = None,
    ) -> None:
        """Append an event and make generation `to` current; only while `changing`.

        Evidence is about the champion, and so is forgotten when another one comes into use.
        """
        now = datetime.now(UTC).isoformat(timespec="seconds")
        to = self.current if to is None else to
        entry = {"event": event, "time": now, "from": self.current, "to": to, **figures}
        kept = self._evidence if to == self.current else {}
        kept = kept | {kind: found.to_dict() for kind, found in (evidence or {}).items()}
        body = {
            "format": HISTORY_FORMAT,
            "current": to,
            "events": [*self.events, entry],
            "evidence": kept,
        }
        write_sealed(self.folder / HISTORY, body, indent=1)
        self.current, self.events, self._evidence = to, [*self.events, entry], kept

    def _path(self, generation: int) -> Path:
        return self.folder / f"generation-{generation:06d}.safetensors"

    def _promotions(self) -> dict[int, Event]:
        return {e["to"]: e for e in self.events if e["event"] == "promotion"}


def _check_history(current: Any, events: Any) -> None:
    """Raise ValueError for a history that this package cannot have written."""
    generations = {0}
    for entry in events:
        kinds = {"event": str, "time": str, "from": int, "to": int}
        if any(type(entry[name]) is not kind for name, kind in kinds.items()):
            raise ValueError("an event has no kind, time or generations")
        if entry["event"] == "promotion":
            if type(entry["sha256"]) is not str or entry["to"] < 1:
                raise ValueError("a promotion has no file")
            generations.add(entry["to"])
        if not {entry["from"], entry["to"]} <= generations:
            raise ValueError("a generation was never promoted")
    if type(events) is not list or type(current) is not int or current not in generations:
        raise ValueError("the generation in use was never promoted")
