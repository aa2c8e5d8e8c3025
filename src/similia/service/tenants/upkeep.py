"""Checks and copies of logs, with or without a running service."""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from similia.linalg.threads import single_blas_thread
from similia.safety.whole import make_folder
from similia.service.catalogue.shared import SharedSource, check_followed, missing, shares
from similia.service.engine.fold import Fold, Unlearnable, set_aside_entry
from similia.service.errors import Damaged, NotFound, ServiceError
from similia.service.log.log import Checked, Row
from similia.service.log.opening import (
    backup_tenant,
    check_tenant,
    names_in,
    opened_log,
    rows_of,
)
from similia.service.log.sqlite import NAME, check_log
from similia.service.settings import without_password


class Found(NamedTuple):
    """What a check of a log found."""

    rows: int
    #: hash of the last row: two logs with the same one are equal
    head: str
    #: why rows cannot be learnt, by number, of those that nobody has set aside yet
    unlearnable: dict[int, str]


def check(
    store: str, tenant: str | None = None, *, set_aside: bool = False
) -> Iterator[tuple[str, Found]]:
    """Verify logs, that owners of shared items have what was shared, and that all can be learnt.

    With `set_aside`, rows that cannot be learnt are set aside by a row that says so, for which no
    service may have the log. Yields each tenant's name and what was found, raises Damaged.
    """
    for name in _names(store, tenant):
        found = check_tenant(store, name)
        _check_shared(store, name)
        unlearnable = _unlearnable(store, name)
        if set_aside and unlearnable:
            _set_aside(store, name, unlearnable)
        yield name, Found(found.rows, found.head, unlearnable)


def _unlearnable(store: str, name: str) -> dict[int, str]:
    """Rows at which a fold of the whole log fails, and why."""
    found: dict[int, str] = {}
    retracted = {row.target: row.seq for row in rows_of(store, name, others=True) if row.target}
    owner = _owner(store, name)
    source = None if owner is None else SharedSource(_LogOnDisk(store, owner), lambda: None)
    careful = False
    while True:
        fold = Fold({**retracted, **dict.fromkeys(found, 0)}, source, careful=careful)
        try:
            with single_blas_thread():
                fold.replay(rows_of(store, name))
                fold.state()
            return found
        except Unlearnable as error:
            found[error.seq] = str(error)
        except ServiceError:
            raise
        except Exception:
            if careful:
                raise
            careful = True  # find the row


def _set_aside(store: str, name: str, rows: dict[int, str]) -> None:
    log, _ = opened_log(store, name, new=False)
    try:
        log.append([set_aside_entry(seq, reason) for seq, reason in rows.items()])
    finally:
        log.close()


class _LogOnDisk:
    """Rows of a log that is not open."""

    def __init__(self, store: str, name: str) -> None:
        self._store, self._name = store, name

    def rows(
        self, after: int = 0, up_to: int | None = None, *, others: bool = False
    ) -> Iterator[Row]:
        """Rows with after < seq <= up_to; with `others` those that are no judgements."""
        return rows_of(self._store, self._name, after, up_to, others=others)


def _check_shared(store: str, name: str) -> None:
    owner = _owner(store, name)
    if owner is None:
        return
    if owner not in names_in(store):
        raise Damaged(missing(name, owner))
    follows = rows_of(store, name, others=True)
    check_followed(name, owner, follows, lambda seq: _row(store, owner, seq))


def _owner(store: str, name: str) -> str | None:
    """Tenant whose items one shares."""
    return shares(_row(store, name, 1))


def _row(store: str, name: str, seq: int) -> Row | None:
    return next(rows_of(store, name, seq - 1, seq), None)


def backup(
    store: str, target: Path, tenant: str | None = None
) -> Iterator[tuple[str, Path, Checked]]:
    """Copy logs, each in one state, and verify the copies.

    The target has the form of a store in a folder: a service can be started on it.
    """
    if target.resolve() == Path(store).resolve():
        raise ValueError(f"log backup: FOLDER must be another than the store, got {target}.")
    # Owners of shared items come last, so that what others follow is in their copies.
    for name in sorted(_names(store, tenant), key=lambda name: _owner(store, name) is None):
        copy = target / name / NAME
        make_folder(copy.parent)
        backup_tenant(store, name, copy)
        yield name, copy, check_log(copy)


def _names(store: str, tenant: str | None) -> list[str]:
    names = names_in(store)
    if not names:
        raise NotFound(f"log: {without_password(store)} must have logs in it, got none.")
    if tenant is not None and tenant not in names:
        raise NotFound(f"log: tenant must be one of {', '.join(names)}, got {tenant!r:.80}.")
    return names if tenant is None else [tenant]
