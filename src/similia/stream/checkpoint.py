"""State of an unfinished run, from which it can resume exactly."""

import hashlib
import json
import re
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from similia.contract import StreamLearner
from similia.feedback import Judgements
from similia.persistence import load, save
from similia.persistence.loading import MAX_COUNT
from similia.persistence.reading import read_document
from similia.safety.whole import has_own_seal, make_folder, remove_leftovers, write_sealed
from similia.stream.lessons import Tally
from similia.views import Views

#: 3 counts new queries; 4 is sealed, and recognizes feedback by content
CHECKPOINT_FORMAT = 4
PROGRESS = "progress.json"
MODEL_FILE = re.compile(r"model-\d{12}\.safetensors")


class Checkpoint:
    """A folder with a model and its progress.

    The model is written under a new name; then one file that names it is replaced atomically. At
    any moment the folder therefore holds either the old state or the new one. `task` holds the
    settings that must match to resume, as plain JSON. One run at a time may use a folder.
    """

    def __init__(self, folder: Path | str, task: dict[str, Any]) -> None:
        self.folder = Path(folder)
        self.task = task
        #: digest of the judgements learnt so far; set by `read`
        self.learnt = ""

    @property
    def exists(self) -> bool:
        """Whether there is a state to resume from."""
        return (self.folder / PROGRESS).exists()

    def trail(self) -> "Trail":
        """A new digest, kept with the state and compared on resuming."""
        return Trail()

    def write(self, model: StreamLearner, tally: Tally, learnt: str = "") -> None:
        """Replace the state."""
        make_folder(self.folder)
        name = f"model-{tally.n:012}.safetensors"
        save(model, self.folder / name)
        state = {"model": name, "class": type(model).__name__, "learnt": learnt}
        self._replace({**state, "tally": asdict(tally)})
        self._sweep(keep=name)

    def read(self) -> tuple[StreamLearner, Tally]:
        """Load the state; raise ValueError if it belongs to another task."""
        document, path = self._document(), self.folder / PROGRESS
        try:
            tally, name = _checked_tally(document["tally"]), document["model"]
            if type(name) is not str or not MODEL_FILE.fullmatch(name):
                raise ValueError("it names no model of a checkpoint")
            self.learnt = document["learnt"]
        except (ValueError, KeyError, TypeError) as error:
            raise _damaged(path, error) from error
        model = load(self.folder / name)
        if type(model).__name__ != document.get("class"):
            raise _damaged(path, "its model is of another class")
        self._sweep(keep=name)
        return model, tally

    def finish(self, output: Path | str, tally: Tally) -> None:
        """Record that the model is in `output`, then delete the checkpoint.

        A run that is killed in between is resumed from `output`.
        """
        if self.exists:
            self._replace({"saved": _seal_of(output), "tally": asdict(tally)})
            self._sweep(keep="")
        self.remove()

    def finished(self, output: Path | str) -> tuple[StreamLearner, Tally] | None:
        """Model in `output` and tally, if only the deletion of the checkpoint is left."""
        if not self.exists or "saved" not in (document := self._document()):
            return None
        try:
            if document["saved"] != _seal_of(output):
                raise ValueError("it is another model")
            return load(output), _checked_tally(document["tally"])
        except (ValueError, OSError, KeyError, TypeError) as error:
            raise ValueError(
                f"{self.folder} is the checkpoint of a finished run, but its model is not in "
                f"{output} ({error}); delete the folder to start over."
            ) from error

    def remove(self) -> None:
        """Delete the checkpoint, and the folder if nothing else is in it."""
        if not self.folder.is_dir():
            return
        (self.folder / PROGRESS).unlink(missing_ok=True)
        self._sweep(keep="")
        if not any(self.folder.iterdir()):
            self.folder.rmdir()

    def _replace(self, state: dict[str, Any]) -> None:
        document = {"format": CHECKPOINT_FORMAT, "task": self.task, **state}
        write_sealed(self.folder / PROGRESS, document)

    def _document(self) -> dict[str, Any]:
        """What `progress.json` holds, if it is whole and of this task."""
        path = self.folder / PROGRESS
        try:
            document = json.loads(path.read_text(encoding="utf-8"))
            form, task = document["format"], document["task"]
            if form == CHECKPOINT_FORMAT and not has_own_seal(document):
                raise ValueError("it does not match its checksum")
            if type(task) is not dict:
                raise ValueError("it names no task")
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise _damaged(path, error) from error
        if form != CHECKPOINT_FORMAT:
            raise ValueError(f"{path} has a format that this version of similia does not read.")
        different = sorted(n for n in {*task, *self.task} if task.get(n) != self.task.get(n))
        if different:
            here = different[0]
            raise ValueError(
                f"{self.folder} is the checkpoint of another task: {here} was {task.get(here)!r} "
                f"and is {self.task.get(here)!r}; delete the folder to start over."
            )
        return document

    def _sweep(self, keep: str) -> None:
        """Remove other models, and leftovers of killed runs."""
        for path in self.folder.glob("model-*.safetensors"):
            if path.name != keep and MODEL_FILE.fullmatch(path.name):
                path.unlink(missing_ok=True)
        remove_leftovers(self.folder)


class Trail:
    """Running digest of judgements, which identifies a stream up to any point."""

    def __init__(self) -> None:
        self._sha = hashlib.sha256()

    def add(self, part: Judgements) -> None:
        """Add a chunk."""
        lists = part.lists
        arrays = [part.tuples, part.values]
        if lists is not None:
            arrays += [lists.starts - lists.starts[0], lists.items, lists.gains, lists.weights]
            arrays += [lists.trusted, *(lists.nuisance[name] for name in sorted(lists.nuisance))]
        self._sha.update(content(*arrays).encode())

    def __str__(self) -> str:
        return self._sha.hexdigest()


def content(*values: Any) -> str:
    """Digest of arrays, sparse matrices, views and plain values."""
    sha = hashlib.sha256()
    for value in values:
        if isinstance(value, Views):
            sha.update(content(*(part for name in value for part in (name, value[name]))).encode())
        elif sparse.issparse(value):
            rows = value.tocsr()
            sha.update(content(rows.shape, rows.data, rows.indices, rows.indptr).encode())
        elif isinstance(value, np.ndarray) and value.dtype.kind != "O":
            sha.update(f"{value.dtype.str} {value.shape}".encode())
            for start in range(0, len(value) if value.ndim else 0, 4096):  # copies stay small
                sha.update(np.ascontiguousarray(value[start : start + 4096]).data.cast("B"))
        elif isinstance(value, np.ndarray):
            sha.update(repr(value.tolist()).encode())
        else:
            sha.update(repr(value).encode())
    return sha.hexdigest()


def _seal_of(model: Path | str) -> str:
    """Checksum of everything in a model file, from its header."""
    return read_document(model)["header_sha256"]


def _damaged(path: Path, reason: object) -> ValueError:
    return ValueError(f"{path} is damaged ({reason}); delete the folder to start over.")


def _checked_tally(found: Any) -> Tally:
    """The tally; raises ValueError unless a run could have written it."""
    tally = Tally(**found)
    kinds = {name: type(value) for name, value in asdict(Tally()).items()}
    points: list[Any] = tally.curve if type(tally.curve) is list else [None]
    numbers = [value for name, value in found.items() if kinds[name] is not list]
    if any(type(point) is not list or len(point) != 4 for point in points):
        raise ValueError("its curve is none")
    numbers += [number for point in points for number in point]
    if not all(type(number) in (int, float) and 0 <= number < MAX_COUNT for number in numbers):
        raise ValueError("its counts are none")
    if not all(type(found[name]) is int for name, kind in kinds.items() if kind is int):
        raise ValueError("its counts are not whole")
    if tally.width < 1:
        raise ValueError("its curve has no width")
    return tally
