"""Find a data file: in the user's folder, in the cache, or at its public source.

`files.toml` lists every file with its origin, checksum and address. ``SIMILIA_DATA`` names a folder
of ready files, which is only read; ``SIMILIA_CACHE`` names the folder for downloads and for what is
derived from them, by default `similia` in the user's cache folder.
"""

import hashlib
import http.client
import os
import tomllib
import urllib.request
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pooch
from numpy.typing import NDArray

from similia.contract import Array
from similia.progress import progress

DATA_VARIABLE = "SIMILIA_DATA"
CACHE_VARIABLE = "SIMILIA_CACHE"
TIMEOUT = 30.0
BLOCK = 1 << 18

pooch.get_logger().setLevel("WARNING")


class DataNotFoundError(FileNotFoundError):
    """A data file is not stored and not downloadable."""


class DataFile(NamedTuple):
    """Origin of a file in one or two sentences, its checksum, and a public copy of the same bytes.

    Without a published checksum, the reader of the file checks its rows (`check_rows`).
    """

    origin: str
    sha256: str | None = None
    url: str | None = None


FILES = {
    path: DataFile(source["origin"], **facts)
    for source in tomllib.loads(Path(__file__).with_name("files.toml").read_text())["sources"]
    for path, facts in source["files"].items()
}


def data_folder() -> Path | None:
    """Folder of ready data files, if the environment names one."""
    named = os.environ.get(DATA_VARIABLE)
    return Path(named).expanduser() if named else None


def cache_folder() -> Path:
    """Folder for downloads and derived files; it need not exist yet."""
    named = os.environ.get(CACHE_VARIABLE)
    return Path(named).expanduser() if named else pooch.os_cache("similia")


def locate(path: str) -> Path | None:
    """Verified local copy of a file of `FILES`, in the data folder or else the cache; or None."""
    for folder in filter(None, (data_folder(), cache_folder())):
        found = folder / path
        if found.is_file():
            sha256 = FILES[path].sha256
            if sha256 is not None:
                _check_digest(str(found), sha256, _digest(found), "Replace or remove it.")
            return found
    return None


def fetch(path: str) -> Path:
    """Return a verified local copy of a file of `FILES`, after downloading it if necessary.

    Raises
    ------
    DataNotFoundError
        There is no local copy, and no public one within reach.
    ValueError
        The file is damaged. A damaged download is deleted; any other file is left alone.
    """
    found = locate(path)
    if found is not None:
        return found
    origin, sha256, url = FILES[path]
    where = f"{DATA_VARIABLE} ({data_folder() or 'not set'})"
    missing = f"{path} is neither in {where} nor in the cache ({cache_folder()})"
    remedy = f"Set {DATA_VARIABLE} to a folder that contains {path}."
    if url is None:
        raise DataNotFoundError(f"{missing}, and it has no public copy. {origin} {remedy}")
    target = cache_folder() / path
    try:
        pooch.retrieve(url, sha256, target.name, target.parent, downloader=_download)
    except (OSError, http.client.HTTPException) as error:
        raise DataNotFoundError(
            f"{missing}, and {url} could not be downloaded "
            f"({type(error).__name__}: {error}). {origin} {remedy}"
        ) from error
    return target


def fetch_first(*paths: str) -> tuple[str, Path]:
    """Return the first file with a local copy, or else download the last one."""
    for path in paths:
        found = locate(path)
        if found is not None:
            return path, found
    return paths[-1], fetch(paths[-1])


def read_npz(path: str, *names: str) -> list[Array]:
    """Read the named arrays of an .npz file of `FILES`; nothing is unpickled."""
    with fetch(path).open("rb") as stream, np.load(stream, allow_pickle=False) as arrays:
        return [arrays[name] for name in names]


def dequantized(X: Array, scale: Array | None = None) -> NDArray[np.float32]:
    """X as float32, each column times its entry of `scale`."""
    values = X.astype(np.float32)
    if scale is not None:
        values *= scale.astype(np.float32)
    return values


def check_rows(path: Path, sha256: str, rows: Array) -> None:
    """Raise unless the rows read from a file are the expected ones, in any order.

    This replaces the checksum of a compressed file whose packing may change.
    """
    found = hashlib.sha256(b"".join(sorted(row.tobytes() for row in rows))).hexdigest()
    _check_digest(f"the rows of {path}", sha256, found, "Replace or remove that file.")


def _download(url: str, output: str, _: Any) -> None:
    """Copy the bytes at `url` unchanged; pooch's own downloader decodes gzip-encoded responses."""
    with urllib.request.urlopen(url, timeout=TIMEOUT) as source, open(output, "wb") as target:
        size = int(source.headers.get("Content-Length") or 0)
        with progress(url.rpartition("/")[2], size, enabled=size > 0) as advance:
            while block := source.read(BLOCK):
                target.write(block)
                advance(len(block))
        if target.tell() < size:
            raise OSError(f"received only {target.tell()} of {size} bytes")


def _digest(path: Path) -> str:
    status = path.stat()
    return _digest_of_version(str(path.resolve()), status.st_mtime_ns, status.st_size)


@cache
def _digest_of_version(path: str, modified: int, size: int) -> str:
    return pooch.file_hash(path)


def _check_digest(owner: str, expected: str, actual: str, remedy: str) -> None:
    if actual != expected:
        raise ValueError(f"{owner}: SHA-256 must be {expected}, got {actual}. {remedy}")
