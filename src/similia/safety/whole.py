"""Files and changes of a model that happen completely or not at all."""

import hashlib
import json
import os
import re
import secrets
import signal
import stat
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import current_thread, main_thread
from types import FrameType
from typing import Any

#: names of temporary files
LEFTOVER = re.compile(r"\..*\.[0-9a-f]{16}\.part(\..*)?")
#: signals whose handlers commonly raise: Ctrl-C, time limits, requests to end
_NAMES = ("INT", "TERM", "ALRM", "HUP", "USR1", "BREAK")
_SIGNALS = [getattr(signal, f"SIG{name}") for name in _NAMES if hasattr(signal, f"SIG{name}")]

# -- files ---------------------------------------------------------------------------------------


@contextmanager
def replacing(path: Path | str) -> Iterator[Path]:
    """Yield a temporary path beside `path`; put it in place of `path` once it is on the disk.

    If the block fails, `path` stays as it was and the temporary file is removed. A file that was
    there keeps its permissions; a symbolic link keeps its target.
    """
    target = Path(os.path.realpath(path))
    temporary = target.with_name(f".{target.stem}.{secrets.token_hex(8)}.part{target.suffix}")
    try:
        temporary.touch(exist_ok=False)
        mode = stat.S_IMODE((target if target.exists() else temporary).stat().st_mode)
        yield temporary
        temporary.chmod(mode)
        with open(temporary, "rb+") as file:
            os.fsync(file.fileno())
        os.replace(temporary, target)
    finally:
        temporary.unlink(missing_ok=True)
    _sync_folder(target.parent)


def make_folder(folder: Path) -> None:
    """Create a folder and those above it, so that a power cut does not take them away again."""
    missing = [path for path in (folder, *folder.parents) if not path.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    for path in missing:
        _sync_folder(path.parent)


def remove_leftovers(folder: Path) -> None:
    """Remove temporary files of killed processes, from a folder that nobody else writes to."""
    for path in folder.glob(".*.part*"):
        if LEFTOVER.fullmatch(path.name):
            path.unlink(missing_ok=True)


def _sync_folder(folder: Path) -> None:
    """Flush the names in a folder to the disk."""
    if os.name == "posix":  # elsewhere a folder cannot be opened, and renaming is durable
        opened = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(opened)
        finally:
            os.close(opened)


def replace_text(path: Path | str, text: str) -> None:
    """Write `text` to `path`, in place of anything there."""
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


# -- checksums -----------------------------------------------------------------------------------


def write_sealed(path: Path, document: dict[str, Any], indent: int | None = None) -> None:
    """Write a JSON document and its own checksum, in place of anything there."""
    replace_text(path, json.dumps({**document, "sha256": document_sha256(document)}, indent=indent))


def has_own_seal(document: dict[str, Any]) -> bool:
    """Remove the checksum of a document that was read; say whether it is the right one."""
    return bool(document.pop("sha256") == document_sha256(document))


def document_sha256(document: dict[str, Any]) -> str:
    """SHA-256 of a JSON document, whatever the order of its entries."""
    text = json.dumps(document, sort_keys=True, allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


def file_sha256(path: Path) -> str:
    """SHA-256 of a file."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


# -- changes -------------------------------------------------------------------------------------


@contextmanager
def all_or_nothing(model: Any) -> Iterator[None]:
    """Restore every attribute of `model` if the block fails.

    For a new start, which replaces the learnt arrays. Continuing changes them in place, and so
    checks everything first.
    """
    before = dict(vars(model))
    try:
        yield
    except BaseException:
        with held_signals():
            vars(model).clear()
            vars(model).update(before)
        raise


@contextmanager
def held_signals() -> Iterator[Callable[[], None]]:
    """Hold back signal handlers until the yielded function is called, or the block ends.

    Python runs a handler between any two operations of the main thread, and an exception from it
    (KeyboardInterrupt) would leave a learner half-way between two states.
    """
    if current_thread() is not main_thread():  # where no handler ever runs
        yield lambda: None
        return
    handlers: dict[int, Callable[[int, FrameType | None], Any]] = {}
    held: list[int] = []
    arrived: deque[int] = deque()

    def hold(number: int, frame: FrameType | None) -> None:
        arrived.append(number)

    def deliver() -> None:
        while arrived:
            number = arrived.popleft()
            handlers[number](number, None)

    def restore() -> None:
        """Restore all former handlers, even if one of them raises."""
        try:
            while held:
                number = held[-1]
                # An interrupt can make an inner block end after the outer one, which then had the
                # last word: only a handler of this module is replaced.
                if getattr(signal.getsignal(number), "__code__", None) is hold.__code__:
                    signal.signal(number, handlers[number])
                held.pop()
        finally:
            if held:
                restore()

    try:
        for number in _SIGNALS:
            handler = signal.getsignal(number)
            if callable(handler):
                handlers[number] = handler
                held.append(number)
                signal.signal(number, hold)
        yield deliver
    finally:
        try:
            restore()
        finally:
            deliver()
