"""Checks and copies of logs, with or without a running service."""

from collections.abc import Iterator
from pathlib import Path

from similia.safety.whole import make_folder
from similia.service.catalogue.shared import check_followed, missing, shares
from similia.service.errors import Damaged, NotFound
from similia.service.log.log import Checked, Row
from similia.service.log.opening import backup_tenant, check_tenant, names_in, rows_of
from similia.service.log.sqlite import NAME, check_log
from similia.service.settings import without_password


def check(store: str, tenant: str | None = None) -> Iterator[tuple[str, Checked]]:
    """Verify logs, and that owners of shared items have what was shared.

    Yields each tenant's name and what was found, raises Damaged.
    """
    for name in _names(store, tenant):
        found = check_tenant(store, name)
        _check_shared(store, name)
        yield name, found


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
