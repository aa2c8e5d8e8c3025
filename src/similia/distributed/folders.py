"""Work folders: a path that all workers find, or a URL of any file system that fsspec knows."""

import json
import shutil
import tempfile
import time
import weakref
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from similia.files.locations import FETCHED, Location, RemoteFolder, fetched, local_path, url_of
from similia.persistence import save
from similia.safety.whole import (
    file_sha256,
    has_own_seal,
    make_folder,
    replace_text,
    replacing,
    write_sealed,
)

Record = dict[str, Any]

#: description of the task of a folder
JOB = "job.json"
#: seconds between two reports of a task, and between two looks at them: here, and by URL
PAUSE, REMOTE_PAUSE = 0.5, 2.0
#: end of the names of files that hold how far a task is
REPORT_SUFFIX = ".progress"


class WorkFolder:
    """A folder of work: a local one, or a URL, of which this process has a copy of what it uses.

    Files are written below `path`, and `put` before others are told of them.
    """

    def __init__(self, given: Path | str) -> None:
        path = local_path(given)
        self.remote: RemoteFolder | None = None
        if path is None:
            self.remote = RemoteFolder((url_of(given) or "").rstrip("/"))
            path = Path(tempfile.mkdtemp(prefix="similia-"))
            weakref.finalize(self, shutil.rmtree, path, ignore_errors=True)
        #: where files are in this process
        self.path = path.absolute()
        self.pause = PAUSE if self.remote is None else REMOTE_PAUSE
        self._said: tuple[float, dict[str, str]] = (-np.inf, {})

    @property
    def address(self) -> str:
        """Path or URL, by which others open the same folder."""
        return str(self.path) if self.remote is None else self.remote.url

    def __str__(self) -> str:
        return str(self.path) if self.remote is None else self.remote.name

    def check(self) -> None:
        """Refuse a folder that holds anything but work or copies."""
        names = self.names()
        if JOB not in names and any(not name.startswith(FETCHED) for name in names):
            raise ValueError(f"{self}: the folder for work must be new or empty.")

    def make(self) -> None:
        """Check the folder, and make it if it is not there."""
        self.check()
        make_folder(self.path)
        if self.remote is not None:
            self.remote.make()

    def names(self) -> set[str]:
        """Names of the files."""
        if self.remote is not None:
            return self.remote.names()
        return {path.name for path in self.path.iterdir()} if self.path.exists() else set()

    def get(self, name: str) -> Path:
        """Path of a file, in this process."""
        path = self.path / name
        if self.remote is not None and not path.exists():
            self.remote.at(name).copy_to(path)
        return path

    def put(self, *names: str) -> None:
        """Let others find files that were written below `path`."""
        if self.remote is not None:
            for name in names:
                self.remote.at(name).put(self.path / name)

    def named(self, path: Path) -> str:
        """What tasks call a file: a path, or the name of what is in this folder, and put there."""
        if path.parent != self.path:
            return str(path.absolute())
        self.make()
        self.put(path.name)
        return path.name

    def needs(self, *names: str | None) -> tuple[str, ...]:
        """Those that are files of this folder."""
        own = (name for name in names if name and not Path(name).is_absolute())
        return tuple(name for name in own if (self.path / name).is_file())

    def mark(self, name: str) -> list[int | str]:
        """What must match for work by a file, as `named`, or anything else to count."""
        path = self.path / name
        if name.startswith(FETCHED) or not path.is_file():
            return [name]  # names of copies hold their version
        stat = path.stat()
        return [name, stat.st_size, stat.st_mtime_ns]

    def remove(self) -> None:
        """Remove the folder and all that is in it."""
        shutil.rmtree(self.path, ignore_errors=self.remote is not None)
        if self.remote is not None:
            self.remote.remove()

    # -- what tasks say while they run ---------------------------------------------------------

    def say(self, name: str, text: str) -> None:
        """Write how far a task is."""
        if self.remote is None:
            (self.path / f"{name}{REPORT_SUFFIX}").write_text(text, encoding="utf-8")
            return
        self.remote.write(f"{name}{REPORT_SUFFIX}", text)

    def said(self, names: Iterable[str]) -> dict[str, str]:
        """How far tasks are, of those that have said so."""
        if self.remote is None:
            return dict(self._said_here(names))
        if time.monotonic() - self._said[0] >= self.pause:
            found = self._said[1]
            with suppress(OSError):  # a run outlives a look that fails
                texts = self.remote.texts(f"{name}{REPORT_SUFFIX}" for name in names)
                found = {name.removesuffix(REPORT_SUFFIX): text for name, text in texts.items()}
            self._said = (time.monotonic(), found)
        return self._said[1]

    def _said_here(self, names: Iterable[str]) -> Iterable[tuple[str, str]]:
        for name in names:
            try:
                yield name, (self.path / f"{name}{REPORT_SUFFIX}").read_text(encoding="utf-8")
            except OSError:
                continue

    def silence(self, name: str) -> None:
        """Forget what a task said, whose worker is lost."""
        (self.path / f"{name}{REPORT_SUFFIX}").unlink(missing_ok=True)
        if self.remote is not None:
            self.remote.forget(f"{name}{REPORT_SUFFIX}")
            self._said[1].pop(name, None)


# -- jobs and records ------------------------------------------------------------------------------


def open_job(folder: WorkFolder, task: Record) -> None:
    """Claim a work folder, or continue that of the same task."""
    folder.make()
    text, before = json.dumps(task, sort_keys=True), _job(folder)
    if before is None:
        replace_text(folder.path / JOB, text)
        folder.put(JOB)
    elif before != text:
        raise ValueError(
            f"{folder} holds the work of another task, or its files have changed since; delete it "
            "to start over."
        )


def kept(folder: WorkFolder, name: str) -> Any:
    """What the job of a folder was told by this name, if there is a job."""
    before = _job(folder)
    return None if before is None else json.loads(before).get(name)


def _job(folder: WorkFolder) -> str | None:
    if folder.remote is not None:
        return folder.remote.at(JOB).text()
    path = folder.path / JOB
    return path.read_text(encoding="utf-8") if path.exists() else None


def finished(folder: WorkFolder, name: str) -> Record | None:
    """Outcome of a task if its record and files are whole, else None."""
    try:
        path = folder.path / f"{name}.json"
        remote = folder.remote
        text = remote.at(path.name).text() if remote else path.read_text(encoding="utf-8")
        record = json.loads(text or "")
        if not has_own_seal(record):
            return None
        return record["outcome"] if _intact(folder, record["files"]) else None
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def _intact(folder: WorkFolder, files: Mapping[str, Sequence[Any]]) -> bool:
    """Whether files are as recorded; by URL, their sizes, as they would have to be fetched."""
    remote = folder.remote
    if remote is not None:
        return all(remote.at(file).mark()["size"] == size for file, (_, size) in files.items())
    return all(file_sha256(folder.path / file) == sha for file, (sha, _) in files.items())


def finish(folder: WorkFolder, name: str, outcome: Record, files: Sequence[str]) -> None:
    """Record that a task is done, once its files are where others find them."""
    paths = {file: folder.path / file for file in files}
    sums = {file: [file_sha256(path), path.stat().st_size] for file, path in paths.items()}
    folder.put(*files)
    write_sealed(folder.path / f"{name}.json", {"outcome": outcome, "files": sums})
    folder.put(f"{name}.json")


def fetched_for_work(given: Path | str, folder: WorkFolder, *, beside: bool = False) -> Path:
    """`fetched` into a work folder."""
    if local_path(given) is None:
        folder.check()
    return fetched(given, folder.path, beside=beside)


def remote_file(output: Path | str) -> Location | None:
    """Where a URL points to, None for a path; raise if no such file system is known."""
    return None if local_path(output) is not None else Location(url_of(output) or "")


def save_at(model: Any, output: Path | str) -> None:
    """Save a model to a path or a URL, whole or not at all."""
    location = remote_file(output)
    if location is None:
        save(model, local_path(output) or output)
        return
    with tempfile.TemporaryDirectory() as here:
        file = Path(here) / location.file
        save(model, file)
        location.put(file)


def write_arrays(path: Path, arrays: Mapping[str, Any]) -> None:
    """Write arrays to a .npz file, whole or not at all."""
    with replacing(path) as temporary, open(temporary, "wb") as opened:
        np.savez(opened, **arrays)
