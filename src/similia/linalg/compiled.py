"""Compilation of loops, cached on disk in a folder named after the compiled sources.

numba's cache watches only the file that a function is in, not the files of the functions that it
calls. Here every function is cached in a folder whose name is a digest of all compiled sources, so
after any change the cache starts empty, and older folders are swept.
"""

import hashlib
import logging
import os
import re
import shutil
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from functools import cache, partial
from pathlib import Path
from threading import Lock
from typing import Any

import llvmlite
import numba
from numba import njit
from numba.core import event
from numba.core.errors import NumbaError

logger = logging.getLogger("similia")

#: where compiled functions call, or take constants from, another file
SOURCES = ("linalg/*.py", "losses.py", "retrieval/*.py", "updates/*.py")
#: most folders kept; several versions of the sources may be in use at a time
KEPT = 4
# Sums may be reordered and fused, but NaN and infinity keep their meaning.
FASTMATH = {"reassoc", "nsz", "contract", "arcp"}

_PACKAGE = Path(__file__).parents[1]
_lock = Lock()


def compiled(function: Callable[..., Any]) -> Any:
    """Compile `function` on its first call with each combination of types; cache the result."""
    return _compiled(function, error_model="numpy", fastmath=FASTMATH)


def compiled_in_order(function: Callable[..., Any]) -> Any:
    """Compile likewise, but keep the order of sums, and raise on division by zero."""
    return _compiled(function)


def _compiled(function: Callable[..., Any], **options: Any) -> Any:
    plain = partial(njit, nogil=True, **options)
    with _lock:
        folder = cache_folder()
        if folder is None or numba.config.DISABLE_JIT:
            return plain()(function)
        # numba reads this setting while it decorates: the user's own functions never see ours.
        users, numba.config.CACHE_DIR = numba.config.CACHE_DIR, str(folder)
        try:
            dispatcher = plain(cache=True)(function)
        except RuntimeError:  # the function is in no file
            return plain()(function)
        finally:
            numba.config.CACHE_DIR = users
    dispatcher.compile = _forgiving(dispatcher, partial(plain(), function))
    return dispatcher


def _forgiving(dispatcher: Any, uncached: Callable[[], Any]) -> Callable[[Any], Any]:
    """`dispatcher.compile`, except that a damaged or full cache warns instead of raising."""
    compile_through_cache = dispatcher.compile

    def compile_(signature: Any) -> Any:
        try:
            entry = compile_through_cache(signature)
            if signature not in dispatcher.overloads:  # two processes wrote at the same time
                raise ValueError("found code for other types")
            return entry
        except NumbaError:
            raise
        except Exception as error:
            path = dispatcher.stats.cache_path
            verb = "write" if signature in dispatcher.overloads else "read"
            warnings.warn(
                f"similia could not {verb} the compilation cache in {path} "
                f"({type(error).__name__}: {error}); compiling without it.",
                RuntimeWarning,
                stacklevel=2,
            )
        if verb == "read":
            shutil.rmtree(path, ignore_errors=True)
            spare = uncached()
            spare.compile(signature)
            for result in spare.overloads.values():
                dispatcher.add_overload(result)
        return compile_through_cache(signature)  # already compiled: the cache is not asked

    return compile_


@cache
def cache_folder() -> Path | None:
    """Folder for code compiled from the present sources; None if no folder can be written to."""
    for root in _roots():
        folder = root / f"similia-{sources_digest()}"
        try:
            new = not folder.exists()
            folder.mkdir(parents=True, exist_ok=True)
            tempfile.TemporaryFile(dir=folder).close()
            os.utime(folder)
        except OSError:
            continue
        if new:
            sweep(root)
        return folder
    logger.info("no folder can be written to: compiled code is not cached")
    return None


def _roots() -> Iterator[Path]:
    if numba.config.CACHE_DIR:
        yield Path(numba.config.CACHE_DIR)
    yield _PACKAGE / "__pycache__"
    users = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    if os.path.isabs(users):
        yield Path(users) / "similia"


def sources_digest() -> str:
    """Digest of all compiled sources, and of the versions that compile them."""
    digest = hashlib.sha256(f"{sys.version} {numba.__version__} {llvmlite.__version__}".encode())
    for pattern in SOURCES:
        for file in sorted(_PACKAGE.glob(pattern)):
            digest.update(file.relative_to(_PACKAGE).as_posix().encode() + file.read_bytes())
    return digest.hexdigest()[:16]


def sweep(root: Path) -> None:
    """Remove all cache folders in `root` but the most recently used."""
    try:
        folders = [f for f in root.iterdir() if re.fullmatch("similia-[0-9a-f]{16}", f.name)]
        folders.sort(key=lambda folder: folder.stat().st_mtime)
    except OSError:  # another process is sweeping, too
        return
    for folder in folders[:-KEPT]:
        shutil.rmtree(folder, ignore_errors=True)


class _Announcement(event.Listener):
    """Log what is compiled before it is, as it can take seconds."""

    def on_start(self, event: Any) -> None:
        """Log a function of ours."""
        function = event.data["dispatcher"].py_func
        if function.__module__.startswith("similia."):
            logger.info("compiling %s for the first time", function.__qualname__)

    def on_end(self, event: Any) -> None:
        """Do nothing: required of a listener."""


event.register("numba:compile", _Announcement())


@compiled
def overwrite(target: Any, source: Any) -> None:
    """Copy `source` to `target`, vectors of the same length.

    The same as ``target[:] = source``, whose check of shapes takes numba seconds to compile.
    """
    for i in range(len(target)):
        target[i] = source[i]
