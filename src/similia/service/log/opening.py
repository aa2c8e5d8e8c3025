"""Where a tenant's log is: in a folder, or in a PostgreSQL database.

The PostgreSQL adapter is imported when needed: psycopg is an extra.
"""

import itertools
import os
import re
from pathlib import Path
from typing import NamedTuple

from filelock import BaseFileLock, FileLock, Timeout

from similia.safety.whole import make_folder
from similia.service.errors import Conflict, Damaged, Invalid, NotFound
from similia.service.log.log import Log
from similia.service.log.sqlite import LOG_FILE, read_sqlite, sqlite_log
from similia.service.settings import is_url

#: folder of snapshots, beside a log or in the cache
SNAPSHOTS_FOLDER = "snapshots"
#: folder in the cache, with one for each process here that follows logs; no name of a tenant
FOLLOWERS_FOLDER = ".followers"
TENANT_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,49}")


class Access(NamedTuple):
    """How a process uses logs in a database."""

    #: whether another process writes them
    follows: bool = False
    #: URL at which those who follow them reach this process
    address: str = ""
    #: names of the tenants that it serves; none is all
    only: frozenset[str] = frozenset()

    def serves(self, name: str) -> bool:
        """Whether a tenant is served here."""
        return not self.only or name in self.only


#: of a process that writes, and that nobody follows
ALONE = Access()


def check_name(name: str) -> None:
    """Refuse names that are unsafe in paths, URLs and schemas."""
    if not TENANT_NAME.fullmatch(name):
        raise Invalid(
            "tenant: name must be up to 50 small letters, digits, '-' and '_', beginning with a "
            f"letter or digit, got {name!r:.80}."
        )


def names_in(where: str | Path) -> list[str]:
    """Names of the tenants in a folder or a database."""
    if is_url(where):
        from similia.service.log.postgres import tenants_in

        return tenants_in(str(where))
    return sorted(path.parent.name for path in Path(where).glob(f"*/{LOG_FILE}"))


def read_log(where: str | Path, name: str) -> Log:
    """A tenant's log, read only; a service may be using it."""
    check_name(name)
    if is_url(where):
        from similia.service.log.postgres import read_postgres

        return read_postgres(str(where), name)
    return read_sqlite(Path(where) / name / LOG_FILE)


def opened_log(
    where: str | Path,
    name: str,
    *,
    new: bool,
    cache: str | Path | None = None,
    access: Access = ALONE,
) -> tuple[Log, Path]:
    """A tenant's log, and the folder for snapshots and other files computed from it."""
    check_name(name)
    there = name in names_in(where) if is_url(where) else (Path(where) / name / LOG_FILE).exists()
    if not new and not there:
        raise NotFound(f"tenant: name must be that of a tenant, got {name!r}; create it first.")
    if is_url(where):
        folder = _cache_folder(cache) / name
        if access.follows:
            from similia.service.log.following import followed_log

            return followed_log(str(where), name), folder
        from similia.service.log.postgres import postgres_log

        log = postgres_log(str(where), name, folder, access.address)
    else:
        folder = Path(where if cache is None else cache) / name
        log = sqlite_log(Path(where) / name)
        if not log.last and (Path(where) / name / SNAPSHOTS_FOLDER).exists():
            log.close()
            raise Damaged(
                f"log: the log of {name!r} is empty, but there are snapshots of it; restore it "
                "from a backup, or remove its folder to begin anew."
            )
    if new and log.last:  # an empty log is left by a creator that was killed
        log.close()
        raise Conflict(f"tenant: name must be new, got {name!r}, which exists.")
    return log, folder


def follower_folder(cache: str | Path | None) -> tuple[Path, BaseFileLock]:
    """A folder for a process that follows logs, and the lock that keeps others on this machine out.

    The lock is released when the process ends, however that ends.
    """
    folder = _cache_folder(cache) / FOLLOWERS_FOLDER
    make_folder(folder)
    for number in itertools.count():
        lock = FileLock(folder / f"{number}.lock", thread_local=False)
        try:
            lock.acquire(blocking=False)
        except Timeout:
            continue
        return folder / str(number), lock
    raise AssertionError


def _cache_folder(cache: str | Path | None) -> Path:
    if cache is not None:
        return Path(cache)
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(home) / "similia" / "service"
