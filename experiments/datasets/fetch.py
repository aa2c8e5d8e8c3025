"""Find a data file: in the user's folder, in the cache, or at its public source.

``SIMILIA_DATA`` names a folder of ready data files, which is only read. ``SIMILIA_CACHE`` names the
folder for downloads and for what is derived from them; without it the user's cache folder is taken.
Every data file with a known SHA-256 is compared with it before use, once per process and file
version; of the few others, what they hold is compared.
"""

import hashlib
import http.client
import os
import sys
import urllib.error
import urllib.request
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from similia.exceptions import DataNotFoundError
from similia.progress import progress

DATA_VARIABLE = "SIMILIA_DATA"
CACHE_VARIABLE = "SIMILIA_CACHE"
TIMEOUT = 30.0
BLOCK = 1 << 18

_digests: dict[tuple[str, int, int], str] = {}


class DataFile(NamedTuple):
    """One file of data.

    `path` is relative to the data or cache folder, `origin` one or two sentences on where the data
    come from, and `url` a public copy of the very bytes, where there is one. Without a published
    `sha256`, whoever reads the file checks what it holds, by `check_contents`.
    """

    path: str
    sha256: str | None
    origin: str
    url: str | None = None


def data_folder() -> Path | None:
    """Give the folder of ready data files, if the environment names one."""
    named = os.environ.get(DATA_VARIABLE)
    return Path(named).expanduser() if named else None


def cache_folder() -> Path:
    """Give the folder for downloads and derived files; it need not exist yet."""
    named = os.environ.get(CACHE_VARIABLE)
    if named:
        return Path(named).expanduser()
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "similia"
    variable = "LOCALAPPDATA" if os.name == "nt" else "XDG_CACHE_HOME"
    base = os.environ.get(variable)
    return (Path(base) if base else Path.home() / ".cache") / "similia"


def locate(file: DataFile) -> Path | None:
    """Give the path of a verified local copy, the user's folder before the cache, or None."""
    for folder in (data_folder(), cache_folder()):
        path = folder / file.path if folder else None
        if path and path.is_file():
            if file.sha256 is not None:
                _check_digest(str(path), file.sha256, _digest(path), "Replace or remove it.")
            return path
    return None


def fetch(file: DataFile) -> Path:
    """Give the path of a verified local copy, downloaded first if need be.

    Raises
    ------
    DataNotFoundError
        There is no local copy, and no public one or none within reach.
    ValueError
        The file is damaged; the message names both checksums. Nothing is deleted but an
        incomplete or damaged download.
    """
    path = locate(file)
    if path is not None:
        return path
    if file.url is None:
        raise DataNotFoundError(
            f"{_missing(file)}. It has no public copy to download. {file.origin} {_remedy(file)}"
        )
    target = cache_folder() / file.path
    try:
        _download(file.url, file.sha256, target)
    except (OSError, http.client.HTTPException) as error:
        raise DataNotFoundError(
            f"{_missing(file)}, and {file.url} could not be downloaded "
            f"({type(error).__name__}: {error}). {file.origin} {_remedy(file)}"
        ) from error
    return target


def read_npz(file: DataFile, *names: str) -> list[NDArray[Any]]:
    """Give the named arrays of an .npz data file, fetched if need be; never unpickles."""
    with fetch(file).open("rb") as stream, np.load(stream, allow_pickle=False) as arrays:
        return [arrays[name] for name in names]


def dequantized(X: NDArray[Any], scale: NDArray[Any] | None = None) -> NDArray[np.float32]:
    """Give X (times `scale`, one factor a column) as float32."""
    given = X.astype(np.float32)
    if scale is not None:
        given *= scale.astype(np.float32)
    return given


def check_contents(path: Path, sha256: str, rows: NDArray[Any]) -> None:
    """Raise unless the rows read from a file are, in any order, those that are expected.

    This takes the place of the checksum of a compressed file whose packing may change.
    """
    found = hashlib.sha256(b"".join(sorted(row.tobytes() for row in rows))).hexdigest()
    _check_digest(f"the rows of {path}", sha256, found, "Replace or remove that file.")


@contextmanager
def replacing(target: Path) -> Iterator[IO[bytes]]:
    """Open a temporary file that becomes `target` if all goes well, and vanishes otherwise."""
    target.parent.mkdir(parents=True, exist_ok=True)
    part = target.with_name(f"{target.name}.{uuid.uuid4().hex}.part")
    try:
        with part.open("xb") as stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(part, target)
    finally:
        part.unlink(missing_ok=True)


def _download(url: str, sha256: str | None, target: Path) -> None:
    with urllib.request.urlopen(url, timeout=TIMEOUT) as source, replacing(target) as stream:
        size = int(source.headers.get("Content-Length") or 0)
        digest, received = hashlib.sha256(), 0
        with progress(target.name, size, enabled=size > 0) as advance:
            while block := source.read(BLOCK):
                stream.write(block)
                digest.update(block)
                received += len(block)
                advance(len(block))
        if received < size:
            raise OSError(f"only {received} of {size} bytes came")
        if sha256 is not None:
            _check_digest(url, sha256, digest.hexdigest(), "The download was discarded.")


def _digest(path: Path) -> str:
    """SHA-256 of a file, computed once per path, modification time and size."""
    status = path.stat()
    key = (str(path.resolve()), status.st_mtime_ns, status.st_size)
    if key not in _digests:
        with path.open("rb") as stream:
            _digests[key] = hashlib.file_digest(stream, "sha256").hexdigest()
    return _digests[key]


def _check_digest(owner: str, expected: str, actual: str, remedy: str) -> None:
    if actual != expected:
        raise ValueError(f"{owner}: SHA-256 must be {expected}, got {actual}. {remedy}")


def _missing(file: DataFile) -> str:
    folder = data_folder()
    where = f"{DATA_VARIABLE} ({folder if folder else 'not set'})"
    return f"{file.path} is neither in {where} nor in the cache ({cache_folder()})"


def _remedy(file: DataFile) -> str:
    return f"Set {DATA_VARIABLE} to a folder that contains {file.path}."
