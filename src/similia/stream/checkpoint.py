"""Where learning from a stream was, so that it goes on exactly from there."""

import json
import os
import secrets
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

from similia.persistence import load, save
from similia.stream.tally import Tally

FORMAT = 2  # 2: chunks grow by a quarter, so those of format 1 would end elsewhere
PROGRESS = "progress.json"


class Kept(NamedTuple):
    """What a checkpoint holds."""

    model: Any
    tally: Tally


class Checkpoint:
    """A folder with a model and how far it has come.

    The model is written under a name of its own; then one file, that says which, takes the place of
    the old one in a single step. So at any moment the folder holds the old state or the new one.

    Parameters
    ----------
    folder : path
        Made if it is not there.
    task : dict
        What is learnt, from what and how, as plain JSON: a checkpoint of another task is refused.
    """

    def __init__(self, folder: Path | str, task: dict[str, Any]) -> None:
        self.folder = Path(folder)
        self.task = task

    @property
    def exists(self) -> bool:
        """Whether there is something to go on from."""
        return (self.folder / PROGRESS).exists()

    def write(self, model: Any, tally: Tally) -> None:
        """Replace what is there."""
        self.folder.mkdir(parents=True, exist_ok=True)
        name = f"model-{tally.n:012}.safetensors"
        save(model, self.folder / name)
        document = {
            "format": FORMAT,
            "task": self.task,
            "model": name,
            "class": type(model).__name__,
            "tally": asdict(tally),
        }
        temporary = self.folder / f".{PROGRESS}.{secrets.token_hex(8)}"
        with open(temporary, "w", encoding="utf-8") as file:
            json.dump(document, file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, self.folder / PROGRESS)
        self._forget(keep=name)

    def read(self) -> Kept:
        """Give what was written last, if it is of the same task."""
        path = self.folder / PROGRESS
        try:
            document = json.loads(path.read_text(encoding="utf-8"))
            name, task, tally = document["model"], document["task"], Tally(**document["tally"])
            known = document["format"] == FORMAT
        except (ValueError, KeyError, TypeError) as error:
            raise ValueError(
                f"{path} is damaged ({error}); delete the folder to start anew."
            ) from error
        if not known:
            raise ValueError(f"{path} has a format that this version of similia does not read.")
        different = sorted(n for n in {*task, *self.task} if task.get(n) != self.task.get(n))
        if different:
            here = different[0]
            raise ValueError(
                f"{self.folder} is the checkpoint of another task: {here} was {task.get(here)!r} "
                f"and is {self.task.get(here)!r}; delete the folder to start anew."
            )
        return Kept(load(self.folder / name), tally)

    def remove(self) -> None:
        """Delete the checkpoint, and the folder if nothing else is in it."""
        (self.folder / PROGRESS).unlink(missing_ok=True)
        self._forget(keep="")
        if self.folder.is_dir() and not any(self.folder.iterdir()):
            self.folder.rmdir()

    def _forget(self, keep: str) -> None:
        for path in self.folder.glob("model-*.safetensors"):
            if path.name != keep:
                path.unlink()
