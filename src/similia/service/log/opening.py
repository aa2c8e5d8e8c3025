"""Where a tenant's log is: in a folder, or in a PostgreSQL database."""

import os
import re
from collections.abc import Iterator
from pathlib import Path

from similia.service.errors import Conflict, Invalid, NotFound
from similia.service.log.log import Checked, Log, Row
from similia.service.log.sqlite import NAME as FILE
from similia.service.log.sqlite import SQLiteLog, backup_log, check_log, read_log

NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,49}")


def check_name(name: str) -> None:
    """Refuse names that are not safe in paths, addresses and schemas."""
    if not NAME.fullmatch(name):
        raise Invalid(
            "tenant: name must be up to 50 small letters, digits, '-' and '_', beginning with a "
            f"letter or digit, got {name!r:.80}."
        )


def is_url(where: str | Path) -> bool:
    """Whether a place is a PostgreSQL database."""
    return str(where).startswith(("postgres://", "postgresql://"))


def opened_log(
    where: str | Path, name: str, *, new: bool, cache: str | Path | None = None
) -> tuple[Log, Path]:
    """The log of a tenant, and the folder for what is computed from it."""
    check_name(name)
    if not new and not _exists(where, name):
        raise NotFound(f"tenant: name must be that of a tenant, got {name!r}; create it first.")
    log, folder = _opened(where, name, cache)
    if new and log.last:  # an empty one is what is left if its maker was killed
        log.close()
        raise Conflict(f"tenant: name must be new, got {name!r}, which exists.")
    return log, folder


def _exists(where: str | Path, name: str) -> bool:
    if is_url(where):
        return name in names_in(where)
    return (Path(where) / name / FILE).exists()


def _opened(where: str | Path, name: str, cache: str | Path | None) -> tuple[Log, Path]:
    if not is_url(where):
        folder = Path(where) / name
        return SQLiteLog(folder), folder if cache is None else Path(cache) / name
    # The adapter is imported only where it is asked for: psycopg is an extra.
    from similia.service.log.postgres import PostgresLog

    folder = _cache_folder(cache) / name
    return PostgresLog(str(where), name, folder), folder


def names_in(where: str | Path) -> list[str]:
    """Names of the tenants in a folder or a database."""
    if is_url(where):
        from similia.service.log.postgres import tenants_in

        return tenants_in(str(where))
    return sorted(path.parent.name for path in Path(where).glob(f"*/{FILE}"))


def check_tenant(where: str | Path, name: str) -> Checked:
    """Verify the log of a tenant, whether or not a service is using it; raises Damaged."""
    check_name(name)
    if is_url(where):
        from similia.service.log import postgres

        return postgres.check_log(str(where), name)
    return check_log(Path(where) / name / FILE)


def rows_of(
    where: str | Path, name: str, after: int = 0, up_to: int | None = None, *, others: bool = False
) -> Iterator[Row]:
    """Rows of the log of a tenant, whether or not a service is using it."""
    check_name(name)
    if is_url(where):
        from similia.service.log import postgres

        return postgres.read_log(str(where), name, after, up_to, others=others)
    return read_log(Path(where) / name / FILE, after, up_to, others=others)


def backup_tenant(where: str | Path, name: str, copy: str | Path) -> None:
    """Copy the log of a tenant to an SQLite file, whether or not a service is using it."""
    check_name(name)
    if is_url(where):
        from similia.service.log import postgres

        postgres.backup_log(str(where), name, copy)
    else:
        backup_log(Path(where) / name / FILE, copy)


def _cache_folder(cache: str | Path | None) -> Path:
    if cache is not None:
        return Path(cache)
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(home) / "similia" / "service"
