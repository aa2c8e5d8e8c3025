"""Compilation of loops, cached on disk in folders named after the compiled sources.

numba's cache watches only the file that a function is in, not those of the functions that it calls.
Here the name of a module's folder holds a digest of the module and of everything that it imports
from this package, so that after a change the cache starts empty where it must.
"""

import hashlib
import inspect
import logging
import os
import re
import shutil
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache, partial
from pathlib import Path
from threading import Lock
from typing import Any

import llvmlite
import llvmlite.binding as llvm
import numba
from numba import njit
from numba.core import event
from numba.core.compiler_lock import global_compiler_lock
from numba.core.errors import NumbaError

logger = logging.getLogger("similia")

KEPT = 4  #: folders kept for a module: several versions of it may be in use at a time
# Sums may be reordered and fused, but NaN and infinity keep their meaning.
FASTMATH = {"reassoc", "nsz", "contract", "arcp"}

# LLVM asks at run time whether two arrays lie far enough apart for a loop on whole vectors. With a
# second loop for what is left over, it asks for more than the length of short arrays, so that their
# sums, and the last bits of what is learnt, would depend on where memory happened to be free.
LEFTOVERS = "-enable-epilogue-vectorization="
LLVM_WITH_LEFTOVERS = range(20, 23)  #: releases known to have that option; others might exit

_PACKAGE = Path(__file__).parents[1]
_IMPORT = re.compile(rb"^\s*(?:from|import) similia\.([\w.]+)", re.MULTILINE)
_lock = Lock()
config: Any = numba.config  # its settings are attributes made at run time


def compiled(function: Callable[..., Any]) -> Any:
    """Compile `function` on its first call with each combination of types; cache the result."""
    return _compiled(function, error_model="numpy", fastmath=FASTMATH)


def compiled_in_order(function: Callable[..., Any]) -> Any:
    """Compile likewise, but keep the order of sums, and raise on division by zero."""
    return _compiled(function)


def _compiled(function: Callable[..., Any], **options: Any) -> Any:
    # A called function is found by name at run time: whichever copy of it was loaded first, that of
    # its caller or its own, and they may round differently. Inlined, there is nothing to find.
    plain = partial(njit, nogil=True, forceinline=True, **options)
    with _lock:
        folder = cache_folder(inspect.getfile(function))
        if config.DISABLE_JIT:
            return function
        if folder is None:
            return _repeatable(plain()(function))
        # numba reads this setting while it decorates: the user's own functions never see ours.
        users, config.CACHE_DIR = config.CACHE_DIR, str(folder)
        try:
            dispatcher: Any = plain(cache=True)(function)
        except RuntimeError:  # numba finds nowhere to write to
            return _repeatable(plain()(function))
        finally:
            config.CACHE_DIR = users
    dispatcher.compile = _forgiving(dispatcher, partial(plain(), function))
    return _repeatable(dispatcher)


def _repeatable(dispatcher: Any) -> Any:
    """Let results depend on values alone, not on the places of arrays in memory."""
    compile_anyhow = dispatcher.compile

    def compile_(signature: Any) -> Any:
        with _without_leftovers():
            return compile_anyhow(signature)

    dispatcher.compile = compile_
    return dispatcher


_depth = 0  # of compilations, as one compiles what it calls


@contextmanager
def _without_leftovers() -> Iterator[None]:
    """Switch `LEFTOVERS` off for this package's code, and on again for that of others."""
    global _depth
    if llvm.llvm_version_info[0] not in LLVM_WITH_LEFTOVERS:
        yield
        return
    with global_compiler_lock:
        if not _depth:
            llvm.set_option("", LEFTOVERS + "false")
        _depth += 1
        try:
            yield
        finally:
            _depth -= 1
            if not _depth:
                llvm.set_option("", LEFTOVERS + "true")


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
def cache_folder(file: str) -> Path | None:
    """Folder for code compiled from a file as it is now; None if there is none to write to."""
    path = Path(file)
    if not path.is_file():
        return None
    inside = path.is_relative_to(_PACKAGE)
    name = ".".join((path.relative_to(_PACKAGE) if inside else Path(path.name)).parts)
    versions = sys.version, numba.__version__, llvmlite.__version__, config.BOUNDSCHECK
    digest = hashlib.sha256(repr(versions).encode())
    for source in sorted(imported_files(path)):
        digest.update(source.name.encode() + _source(source)[0])
    for root in _roots():
        folder = root / "similia" / f"{name}-{digest.hexdigest()[:16]}"
        try:
            new = not folder.exists()
            folder.mkdir(parents=True, exist_ok=True)
            tempfile.TemporaryFile(dir=folder).close()
            os.utime(folder)
        except OSError:
            continue
        if new:
            sweep(folder)
        return folder
    logger.info("no folder can be written to: code compiled from %s is not cached", name)
    return None


def _roots() -> Iterator[Path]:
    if config.CACHE_DIR:
        yield Path(config.CACHE_DIR)
    yield _PACKAGE / "__pycache__"
    users = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    if os.path.isabs(users):
        yield Path(users)


def imported_files(file: Path) -> set[Path]:
    """The file itself, and all files of the package that it imports, directly or not."""
    found, waiting = set(), [file]
    while waiting:
        path = waiting.pop()
        if path not in found and path.is_file():
            found.add(path)
            waiting += _source(path)[1]
    return found


@cache
def _source(file: Path) -> tuple[bytes, list[Path]]:
    """Content of a file, and the files of the package that it imports itself."""
    content = file.read_bytes()
    modules = {module.decode() for module in _IMPORT.findall(content)}
    targets = [_PACKAGE.joinpath(*module.split(".")) for module in modules]
    return content, [path for t in targets for path in (t.with_suffix(".py"), *t.glob("*.py"))]


def sweep(folder: Path) -> None:
    """Remove the folders of older versions of the module that a folder is for."""
    pattern = folder.name.rpartition("-")[0] + "-" + 16 * "[0-9a-f]"
    try:
        versions = sorted(folder.parent.glob(pattern), key=lambda version: version.stat().st_mtime)
    except OSError:  # another process is sweeping, too
        return
    for version in versions[:-KEPT]:
        shutil.rmtree(version, ignore_errors=True)


class _Announcement(event.Listener):
    """Log what is compiled before it is, as it can take seconds."""

    def on_start(self, event: Any) -> None:
        """Log a function of ours."""
        function = event.data["dispatcher"].py_func
        if function.__module__.startswith("similia."):
            logger.info("compiling %s for the first time", function.__qualname__)

    def on_end(self, event: Any) -> None:
        """Required of a listener."""


event.register("numba:compile", _Announcement())


@compiled
def overwrite(target: Any, source: Any) -> None:
    """``target[:] = source`` for vectors, whose check of shapes takes numba seconds to compile."""
    for i in range(len(target)):
        target[i] = source[i]


@compiled
def eliminate_row(H, c, k, row, t):
    """`downdates.eliminate_row`, for passes that are not compiled ahead yet."""
    done = H[row, t:].copy()
    # Four rows at a time: a quarter of the traffic of one at a time.
    for i in range(0, k - 3, 4):
        p, q, r, s = H[i, t:], H[i + 1, t:], H[i + 2, t:], H[i + 3, t:]
        f, g, h, j = c[i] * p[0], c[i + 1] * q[0], c[i + 2] * r[0], c[i + 3] * s[0]
        for u in range(len(done)):
            done[u] -= (f * p[u] + g * q[u]) + (h * r[u] + j * s[u])
    for i in range(k - k % 4, k):
        p = H[i, t:]
        f = c[i] * p[0]
        for u in range(len(done)):
            done[u] -= f * p[u]
    for u in range(len(done)):
        H[k, t + u] = done[u]
