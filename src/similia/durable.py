"""Files that are written whole or not at all."""

import os
import re
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

#: names of temporary files
LEFTOVER = re.compile(r"\..*\.[0-9a-f]{16}\.part(\..*)?")


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
