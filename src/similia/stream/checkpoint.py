"""State of an unfinished run, from which it can resume exactly."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from similia.contract import StreamLearner
from similia.durable import replace_text
from similia.persistence import load, save
from similia.stream.lessons import Tally

FORMAT = 3  # 2: chunks grow by a quarter; 3: queries not met before are counted
PROGRESS = "progress.json"


class Checkpoint:
    """A folder with a model and how far it has come.

    The model is written under a new name; then one file that names it is replaced atomically. At
    any moment the folder therefore holds either the old state or the new one. `task` holds the
    settings that must match to resume, as plain JSON.
    """

    def __init__(self, folder: Path | str, task: dict[str, Any]) -> None:
        self.folder = Path(folder)
        self.task = task

    @property
    def exists(self) -> bool:
        """Whether there is a state to resume from."""
        return (self.folder / PROGRESS).exists()

    def write(self, model: StreamLearner, tally: Tally) -> None:
        """Replace the state."""
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
        replace_text(self.folder / PROGRESS, json.dumps(document))
        self._remove_models(keep=name)

    def read(self) -> tuple[StreamLearner, Tally]:
        """Load the state; raise ValueError if it belongs to another task."""
        path = self.folder / PROGRESS
        try:
            document = json.loads(path.read_text(encoding="utf-8"))
            name, task, tally = document["model"], document["task"], Tally(**document["tally"])
            known = document["format"] == FORMAT
        except (ValueError, KeyError, TypeError) as error:
            raise ValueError(
                f"{path} is damaged ({error}); delete the folder to start over."
            ) from error
        if not known:
            raise ValueError(f"{path} has a format that this version of similia does not read.")
        different = sorted(n for n in {*task, *self.task} if task.get(n) != self.task.get(n))
        if different:
            here = different[0]
            raise ValueError(
                f"{self.folder} is the checkpoint of another task: {here} was {task.get(here)!r} "
                f"and is {self.task.get(here)!r}; delete the folder to start over."
            )
        return load(self.folder / name), tally

    def remove(self) -> None:
        """Delete the checkpoint, and the folder if nothing else is in it."""
        (self.folder / PROGRESS).unlink(missing_ok=True)
        self._remove_models(keep="")
        if self.folder.is_dir() and not any(self.folder.iterdir()):
            self.folder.rmdir()

    def _remove_models(self, keep: str) -> None:
        for path in self.folder.glob("model-*.safetensors"):
            if path.name != keep:
                path.unlink()
