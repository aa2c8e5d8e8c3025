"""Checks and copies of logs, with or without a running service."""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import NamedTuple

from similia.linalg.threads import single_blas_thread
from similia.safety.whole import make_folder
from similia.service.catalogue.shared import SharedSource, check_followed, missing, shares
from similia.service.engine.fold import Fold, Unlearnable, set_aside_entry
from similia.service.errors import Damaged, NotFound, ServiceError
from similia.service.log.log import Log
from similia.service.log.opening import names_in, opened_log, read_log
from similia.service.log.rows import Checked
from similia.service.log.sqlite import LOG_FILE, read_sqlite, write_log
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
    """Verify that logs are intact, have owners that are as new, and can be learnt.

    With `set_aside`, rows that cannot be learnt are set aside, by a row that says so; no service
    may have the log then. Yields each tenant's name and what was found. Raises Damaged.
    """
    for name in _names(store, tenant):
        with closing(read_log(store, name)) as log, _owner(store, name, log) as owner:
            found = log.check()
            if owner is not None:
                check_followed(log, owner)
            unlearnable = _unlearnable(log, owner)
        if set_aside and unlearnable:
            log, _ = opened_log(store, name, new=False)
            with closing(log):
                log.append([set_aside_entry(seq, reason) for seq, reason in unlearnable.items()])
        yield name, Found(found.rows, found.head, unlearnable)


def _unlearnable(log: Log, owner: Log | None) -> dict[int, str]:
    """Rows that cannot be learnt, and why."""
    found: dict[int, str] = {}
    retracted = log.retracted()
    source = None if owner is None else SharedSource(owner, lambda: None)
    careful = False
    while True:
        fold = Fold({**retracted, **dict.fromkeys(found, 0)}, source, careful=careful)
        try:
            with single_blas_thread():
                fold.replay(log.learner_rows())
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


@contextmanager
def _owner(store: str, name: str, log: Log) -> Iterator[Log | None]:
    """The log of the tenant whose items one shares, if it shares any."""
    owner = shares(log)
    if owner is None:
        yield None
    elif owner not in names_in(store):
        raise Damaged(missing(name, owner))
    else:
        with closing(read_log(store, owner)) as found:
            yield found


def backup(
    store: str, target: Path, tenant: str | None = None
) -> Iterator[tuple[str, Path, Checked]]:
    """Copy logs, each in one state, and verify the copies.

    The target has the form of a store in a folder: a service can be started on it.
    """
    if target.resolve() == Path(store).resolve():
        raise ValueError(f"log backup: FOLDER must be another than the store, got {target}.")
    # Owners of shared items come last, so that what others follow is in their copies.
    for name in sorted(_names(store, tenant), key=lambda name: not _is_sharing(store, name)):
        copy = target / name / LOG_FILE
        copy_log(store, name, copy)
        with closing(read_sqlite(copy)) as copied:
            yield name, copy, copied.check()


def copy_log(store: str, name: str, copy: Path) -> None:
    """Copy a log, which may be in use, to an SQLite file; rows never change, so in one state."""
    make_folder(copy.parent)
    with closing(read_log(store, name)) as log:
        write_log(copy, log.rows(0, log.last))


def _is_sharing(store: str, name: str) -> bool:
    with closing(read_log(store, name)) as log:
        return shares(log) is not None


def _names(store: str, tenant: str | None) -> list[str]:
    names = names_in(store)
    if not names:
        raise NotFound(f"log: {without_password(store)} must have logs in it, got none.")
    if tenant is not None and tenant not in names:
        raise NotFound(f"log: tenant must be one of {', '.join(names)}, got {tenant!r:.80}.")
    return names if tenant is None else [tenant]
