"""Which tenants share items, as their logs say it."""

from collections.abc import Callable, Iterable
from typing import Any

from similia.service.errors import Damaged, Invalid
from similia.service.log.log import Row
from similia.service.log.records import Configured, Follow, decoded


def shares(first: Row | None) -> str | None:
    """Tenant whose items are shared, by the first row of a log."""
    record = None if first is None else decoded(first.body)[0]
    return record.settings.shares if isinstance(record, Configured) else None


def unfindable(owner: str) -> Any:
    """Refuse to open a tenant alone that shares the items of another."""
    raise Invalid(f"tenant: it shares the items of {owner!r}; open both by Tenants.")


def missing(name: str, owner: str) -> str:
    """What to say if the owner of shared items is not there."""
    return (
        f"log: {name} shares the items of {owner!r}, which is missing; restore the log of "
        f"{owner!r} from a backup that is as new."
    )


def check_followed(
    name: str, owner: str, rows: Iterable[Row], row_of: Callable[[int], Row | None]
) -> None:
    """Refuse an owner's log without the rows that another one follows; raises Damaged.

    The hash of the last of these rows covers all before it.
    """
    found = (decoded(row.body)[0] for row in rows if row.kind == "follow")
    follows = [record for record in found if isinstance(record, Follow)]
    last = max(follows, key=lambda follow: follow.seq, default=None)
    if last is None:
        return
    row = row_of(last.seq)
    if row is None or row.hash != last.hash:
        what = "which is not there" if row is None else "where another one is now"
        raise Damaged(
            f"log: {name} shares the items of {owner!r} up to row {last.seq} of its log, {what}; "
            f"restore a backup of {owner!r} that is as new, or one of {name} that is as old."
        )
