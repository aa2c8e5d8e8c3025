"""Where a tenant's log is: in a folder, or in a PostgreSQL database."""

import re
from pathlib import Path

from similia.service.errors import Conflict, Invalid, NotFound
from similia.service.log import Log

NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,62}")


def check_name(name: str) -> None:
    """Refuse names that are not safe in paths and addresses."""
    if not NAME.fullmatch(name):
        raise Invalid(
            "tenant: name must be up to 63 small letters, digits, '-' and '_', beginning with a "
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
    from similia.service.sqlite import NAME as FILE
    from similia.service.sqlite import SQLiteLog

    folder = Path(where) / name
    there = (folder / FILE).exists()
    if new and there:
        raise Conflict(f"tenant: name must be new, got {name!r}, which exists in {where}.")
    if not new and not there:
        raise NotFound(f"tenant: name must be that of a tenant, got {name!r}; create it first.")
    return SQLiteLog(folder), folder


def opened_names(where: str | Path) -> list[str]:
    """Names of the tenants in a folder or a database."""
    from similia.service.sqlite import NAME as FILE

    return sorted(path.parent.name for path in Path(where).glob(f"*/{FILE}"))
