"""Files that are written whole or not at all."""

import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def replacing(path: Path | str) -> Iterator[Path]:
    """Yield a temporary path beside `path`; put it in place of `path` once it is on the disk.

    If the block fails, `path` stays as it was and the temporary file is removed. A file that was
    there keeps its permissions; a symbolic link keeps its target.
    """
    target = Path(os.path.realpath(path))
    temporary = target.with_name(f".{target.stem}.{secrets.token_hex(8)}{target.suffix}")
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
    if os.name == "posix":  # elsewhere a folder cannot be opened, and renaming is durable
        folder = os.open(target.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def replace_text(path: Path | str, text: str) -> None:
    """Write `text` to `path`, in place of anything there."""
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8")
