"""Remote files by fsspec URL: whole copies, and ranges of bytes."""

import errno
import hashlib
import json
import os
import re
import secrets
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from glob import glob
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import unquote, urlsplit

from similia.exceptions import MissingExtraError
from similia.safety.whole import make_folder, replacing

#: the beginning of a URL, also once a `Path` has taken away one of its slashes
SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):/+")
#: beginning of the names of copies
FETCHED = "fetched-"
#: letters of a file's name that its copy keeps
KEPT_NAME_LETTERS = 80
#: what file systems call that which differs between two versions of a file, best first
VERSIONS = (
    *("ETag", "etag", "md5Hash", "content_md5", "mtime", "LastModified", "last_modified"),
    *("updated", "modified", "created"),
)


def url_of(given: Path | str) -> str | None:
    """The URL, or None for a local path."""
    found = SCHEME.match(str(given))
    if found is None:
        return None
    return f"{found[1].lower()}://{str(given)[found.end() :]}"


def local_path(given: Path | str) -> Path | None:
    """Local path, also of a file: URL; None for remote URLs."""
    url = url_of(given)
    if url is None:
        return Path(given)
    scheme, _, rest = url.partition("://")
    if scheme not in ("file", "local"):
        return None
    return Path(unquote(rest) if re.match("[A-Za-z]:", rest) else f"/{unquote(rest)}")


def parts_of(given: Any) -> list[str]:
    """Files by a path or URL, a folder or glob of Parquet files, or a list: in order of names."""
    if isinstance(given, list | tuple):
        if not given:
            raise ValueError("files must be at least one, got an empty list.")
        return [str(one) for one in given]
    path, url = local_path(given), url_of(given)
    has_glob = any(letter in str(given) for letter in "*?[")
    if path is None:
        return [str(given)] if not has_glob else _listed(url or "")
    if path.exists() and not path.is_dir():
        return [str(given)]
    pattern = None
    if has_glob:
        pattern = path
    elif path.is_dir() and (any(path.glob("*.parquet")) or any(path.glob("*/*.parquet"))):
        pattern = path / "**" / "*.parquet"
    if pattern is None:
        return [str(given)]
    found = sorted(glob(str(pattern), recursive=True))
    if not found:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(given))
    return found


def _listed(url: str) -> list[str]:
    location = Location(url)
    found = sorted(location.glob())
    if not found:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), location.name)
    return found


class Location:
    """A remote file; settings and credentials are fsspec's own."""

    def __init__(self, url: str) -> None:
        try:
            from fsspec.core import url_to_fs
        except ImportError as error:
            raise MissingExtraError("a URL of a file", "fsspec", "remote") from error
        parts = urlsplit(url)
        #: URL for messages and records, without password and signature
        self.name = parts._replace(netloc=parts.netloc.rpartition("@")[2], query="").geturl()
        self.file = PurePosixPath(parts.path or parts.netloc).name
        self.suffix = PurePosixPath(self.file).suffix
        self.url = url
        try:
            self._files, self._path = url_to_fs(url)
        except ImportError as error:
            raise ValueError(f"{self.name}: its file system is not installed ({error}).") from error
        except ValueError as error:
            raise ValueError(
                f"{self.name}: the scheme must be one that fsspec knows, got {parts.scheme}."
            ) from error

    def mark(self) -> dict[str, Any]:
        """URL, size and version, which must match for a copy or finished work to count."""
        with self._failure_explained():
            self._files.invalidate_cache()
            found = self._files.info(self._path)
        size = found.get("size")
        if found.get("type") != "file" or size is None:
            raise ValueError(f"{self.name}: must be a file, got {found.get('type')}.")
        version = next((str(found[key]) for key in VERSIONS if found.get(key) is not None), "")
        return {"url": self.name, "size": int(size), "version": version}

    def exists(self) -> bool:
        """Whether there is such a file."""
        try:
            return bool(self.mark())
        except FileNotFoundError:
            return False

    def glob(self) -> list[str]:
        """URLs of the files whose names match."""
        with self._failure_explained():
            return [
                str(self._files.unstrip_protocol(path)) for path in self._files.glob(self._path)
            ]

    def open(self) -> Any:
        """Open the file for reading; no more is fetched than is read."""
        with self._failure_explained():
            return self._files.open(self._path, "rb", cache_type="none")

    def text(self) -> str | None:
        """Text of the file, or None if there is no such file."""
        try:
            with self._failure_explained():
                return bytes(self._files.cat_file(self._path)).decode()
        except FileNotFoundError:
            return None

    def put(self, source: Path) -> None:
        """Copy a file from here, under another name first, so that it is there whole or not."""
        part = f"{self._path}.{secrets.token_hex(8)}.part"
        with self._failure_explained("written"):
            try:
                self._files.put_file(str(source), part)
                self._files.mv(part, self._path)
            except BaseException:
                with suppress(Exception):
                    self._files.rm_file(part)
                raise
        self._files.invalidate_cache()

    def copy_to(self, target: Path) -> None:
        """Copy the file, whole or not at all."""
        before = self.mark()
        with replacing(target) as temporary:
            with self._failure_explained():
                self._files.get_file(self._path, str(temporary))
            if self.mark() != before or temporary.stat().st_size != before["size"]:
                raise changed(self.name)

    @contextmanager
    def _failure_explained(self, what: str = "read") -> Iterator[None]:
        """Turn errors of any file system into OSErrors that name the file."""
        try:
            yield
        except FileNotFoundError as error:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), self.name) from error
        except Exception as error:
            raise OSError(f"{self.name}: could not be {what} ({str(error)[:200]}).") from error


class RemoteFolder(Location):
    """A remote folder, whose files have one name each."""

    def at(self, name: str) -> Location:
        """A file of the folder."""
        return Location(f"{self.url}/{name}")

    def make(self) -> None:
        """Make the folder, but none above it: a bucket, say."""
        with self._failure_explained("written"), suppress(FileExistsError):
            if not self._files.exists(self._path):
                self._files.mkdir(self._path, create_parents=False)

    def names(self) -> set[str]:
        """Names of the files."""
        self._files.invalidate_cache()
        try:
            with self._failure_explained():
                found = self._files.ls(self._path, detail=True)
        except FileNotFoundError:
            return set()
        return {PurePosixPath(one["name"]).name for one in found if one["type"] == "file"}

    def texts(self, names: Iterable[str]) -> dict[str, str]:
        """Texts of those files that are there."""
        paths = [f"{self._path}/{name}" for name in names]
        with self._failure_explained():
            found = self._files.cat(paths, on_error="omit") if paths else {}
        return {PurePosixPath(path).name: text.decode() for path, text in found.items()}

    def write(self, name: str, text: str) -> None:
        """Write a short file."""
        with self._failure_explained("written"):
            self._files.pipe_file(f"{self._path}/{name}", text.encode())

    def forget(self, name: str) -> None:
        """Remove a file, if it is there."""
        with self._failure_explained("removed"), suppress(FileNotFoundError):
            self._files.rm_file(f"{self._path}/{name}")

    def remove(self) -> None:
        """Remove the folder and what is in it."""
        self._files.invalidate_cache()
        with self._failure_explained("removed"), suppress(FileNotFoundError):
            self._files.rm(self._path, recursive=True)


def changed(name: str) -> ValueError:
    """Error for a file that changed while in use."""
    return ValueError(f"{name}: must stay as it is while work goes on, got another version.")


def fetched(given: Path | str, folder: Path, *, beside: bool = False) -> Path:
    """Local path; a URL is copied into the folder once.

    A copy is named by the URL and the version of the file. `beside` also fetches the ids beside
    vectors, if they have any.
    """
    path, url = local_path(given), url_of(given)
    if path is not None or url is None:
        return Path(given) if path is None else path
    location = Location(url)
    ids = Location(f"{url}.ids") if beside else None
    if ids is not None and not ids.exists():
        ids = None
    marks = [location.mark(), None if ids is None else ids.mark()]
    key = hashlib.sha256(json.dumps([url, marks]).encode()).hexdigest()[:16]
    copy = folder / f"{FETCHED}{key}-{location.file[-KEPT_NAME_LETTERS:]}"
    make_folder(folder)
    for source, target in ((ids, Path(f"{copy}.ids")), (location, copy)):
        if source is not None and not target.exists():
            source.copy_to(target)
    return copy
