"""Checks and copies of logs, with or without a running service."""

from collections.abc import Iterator
from pathlib import Path

from similia.safety.whole import make_folder
from similia.service.errors import NotFound
from similia.service.log import Checked
from similia.service.opening import backup_tenant, check_tenant, names_in
from similia.service.settings import without_password
from similia.service.sqlite import NAME, check_log


def check(store: str, tenant: str | None = None) -> Iterator[tuple[str, Checked]]:
    """Verify logs; yields each tenant's name and what was found, raises Damaged."""
    for name in _names(store, tenant):
        yield name, check_tenant(store, name)


def backup(
    store: str, target: Path, tenant: str | None = None
) -> Iterator[tuple[str, Path, Checked]]:
    """Copy logs, each in one state, and verify the copies.

    The target has the form of a store in a folder: a service can be started on it.
    """
    if target.resolve() == Path(store).resolve():
        raise ValueError(f"log backup: FOLDER must be another than the store, got {target}.")
    for name in _names(store, tenant):
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
