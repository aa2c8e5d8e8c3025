"""The tenants of a service: opened, created and closed.

Tenants share nothing but code, unless one was made to share the items of another. They are opened
on demand; when many are open, the least recently used are closed.
"""

import threading
import time
from collections import Counter, OrderedDict
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from weakref import WeakValueDictionary

import numpy as np
from msgspec import structs

from similia.service.catalogue.shared import missing, shares
from similia.service.engine.learner import lower_switch_interval, return_large_arrays
from similia.service.errors import Conflict, Damaged, Invalid, NotFound, ServiceError, Unavailable
from similia.service.log.opening import (
    ALONE,
    Access,
    check_name,
    follower_folder,
    names_in,
    read_log,
)
from similia.service.log.records import Clicks, Item, Query, TenantSettings, Triplet
from similia.service.tenants.tenant import Tenant

#: tenants kept open; each has about six file handles
MAX_OPEN = 64
#: seconds without a request before a tenant may be closed
MIN_IDLE_SECONDS = 0.2


class Tenants:
    """Tenants in a folder, or in the PostgreSQL database of a URL; each is opened when asked for.

    `cache` is the folder for what is computed from logs in a database.
    """

    def __init__(
        self, where: str | Path, *, cache: str | Path | None = None, access: Access = ALONE
    ) -> None:
        self.where = where
        self.access = access
        self._cache = cache
        self._claim = None
        if access.follows:
            self._cache, self._claim = follower_folder(cache)
        #: guards the tables below; held briefly
        self._table = threading.Lock()
        #: held to open, create or close a tenant; kept while somebody holds or wants it
        self._changing: WeakValueDictionary[str, Any] = WeakValueDictionary()
        #: least recently used first
        self._open: OrderedDict[str, Tenant] = OrderedDict()
        self._asked: dict[str, float] = {}
        self._users: Counter[str] = Counter()
        #: why tenants could not be opened, by name
        self.unusable: dict[str, Exception] = {}
        lower_switch_interval()
        return_large_arrays()

    def _turn(self, name: str) -> Any:
        """Lock of a tenant, or of a name of none."""
        with self._table:
            return self._changing.setdefault(name, threading.RLock())

    def names(self) -> list[str]:
        """Names of the tenants that are served here."""
        return [name for name in names_in(self.where) if self.access.serves(name)]

    def opened(self) -> list[Tenant]:
        """Tenants that are open."""
        with self._table:
            return list(self._open.values())

    def sharing(self, owner: str) -> list[str]:
        """Names of the tenants that share the items of one."""
        found = []
        for name in self.names():
            with closing(read_log(self.where, name)) as log:
                if shares(log) == owner:
                    found.append(name)
        return found

    def take(self, name: str) -> Tenant | None:
        """An open tenant, kept open until `give`; None if it must be opened first."""
        with self._table:
            found = self._found_open(name)
            if found is not None:
                self._users[name] += 1
            return found

    def give(self, tenant: Tenant) -> None:
        """End the use of a tenant that was taken."""
        with self._table:
            self._users[tenant.name] -= 1
            if not self._users[tenant.name]:
                del self._users[tenant.name]  # keep only those in use

    def get(self, name: str) -> Tenant:
        """A tenant; raises NotFound if there is none of this name."""
        with self._table:
            found = self._found_open(name)
        if found is not None:
            return found
        check_name(name)
        if name in self.unusable:
            raise Unavailable(
                f"tenant: the log of {name!r} cannot be used; restore it from a backup, and start "
                "the service again."
            )
        with self._turn(name):
            with self._table:
                found = self._found_open(name)
            if found is not None:
                return found
            held = ExitStack()
            try:

                def find(owner: str) -> Tenant:
                    return held.enter_context(self._found(name, owner))

                found = Tenant.open(
                    self.where, name, cache=self._cache, find=find, access=self.access
                )
                self._keep(found)
            except Damaged as error:
                self.unusable[name] = error
                raise
            except (ServiceError, OSError):  # may be temporary
                raise
            except Exception as error:
                self.unusable[name] = error
                raise Unavailable(
                    f"tenant: the log of {name!r} cannot be used ({type(error).__name__}: {error})."
                ) from error
            finally:
                held.close()  # open tenants keep their owners open
        self._close_idle()
        return found

    @contextmanager
    def using(self, name: str) -> Iterator[Tenant]:
        """A tenant that stays open meanwhile."""
        while (found := self.take(name)) is None:
            self.get(name)
        try:
            yield found
        finally:
            self.give(found)

    def _found_open(self, name: str) -> Tenant | None:
        found = self._open.get(name)
        if found is not None:
            self._asked[name] = time.monotonic()
            self._open.move_to_end(name)
            if found.owner is not None:
                self._open.move_to_end(found.owner.name)
        return found

    def _keep(self, tenant: Tenant) -> None:
        with self._table:
            self._open[tenant.name] = tenant
            self._asked[tenant.name] = time.monotonic()

    def _close_idle(self) -> None:
        """Close the least recently used tenants if too many are open."""
        with self._table:
            idle = self._idle()
        for name in idle:
            turn = self._turn(name)
            if not turn.acquire(blocking=False):
                continue
            try:
                with self._table:
                    tenant = self._open.pop(name) if name in self._idle() else None
                    if tenant is not None:
                        del self._asked[name]
                if tenant is not None:
                    tenant.close()
            finally:
                turn.release()

    def _idle(self) -> list[str]:
        """Names of those to close; only with the table."""
        owners = {tenant.owner.name for tenant in self._open.values() if tenant.owner is not None}
        now = time.monotonic()
        idle = [
            name
            for name in self._open
            if name not in owners
            and not self._users[name]
            and now - self._asked[name] >= MIN_IDLE_SECONDS
        ]
        return idle[: max(0, len(self._open) - MAX_OPEN)]

    def create(self, name: str, settings: TenantSettings | None = None) -> Tenant:
        """Make a new tenant; with `shares` in its settings, it has the items of that tenant."""
        if self.access.follows:
            raise Unavailable(
                f"tenant: {name!r} must be made by a process that writes, got one that follows."
            )
        check_name(name)
        with self._turn(name):
            with self._table:
                there = self._open.get(name)
            if name in self.unusable or (there is not None and there.log.last):
                raise Conflict(f"tenant: name must be new, got {name!r}, which exists.")
            if there is not None:  # its creator was killed before the first row
                with self._table:
                    del self._open[name]
                there.close()
            with ExitStack() as held:
                owner = None
                if settings is not None and settings.shares is not None:
                    owner = held.enter_context(self._owner(name, settings.shares))
                    settings = structs.replace(settings, search=owner.learner.settings.search)
                made = Tenant.create(
                    self.where,
                    name,
                    settings,
                    cache=self._cache,
                    owner=owner,
                    access=self.access,
                )
                self._keep(made)
        self._close_idle()
        return made

    @contextmanager
    def _owner(self, name: str, shares: str) -> Iterator[Tenant]:
        """The tenant whose items a new one is to share, open meanwhile."""
        try:
            self.get(shares)
            is_there = shares != name
        except NotFound:
            is_there = False
        if not is_there:
            raise Invalid(f"tenant: shares must be the name of another tenant, got {shares!r:.80}.")
        with self.using(shares) as owner:
            if owner.owner is not None:
                raise Invalid(
                    f"tenant: shares must be a tenant with items of its own, got {shares!r}, "
                    f"which shares those of {owner.owner.name!r}; share these."
                )
            yield owner

    @contextmanager
    def _found(self, name: str, owner: str) -> Iterator[Tenant]:
        """The owner of items that a tenant shares, open meanwhile."""
        if owner in self.unusable:
            raise Damaged(
                f"log: {name} shares the items of {owner!r}, whose log cannot be used; restore "
                "that one from a backup."
            )
        try:
            self.get(owner)
        except NotFound as error:
            raise Damaged(missing(name, owner)) from error
        with self.using(owner) as found:
            yield found

    def get_or_create(self, name: str, settings: TenantSettings | None = None) -> Tenant:
        """A tenant, made with these settings if there is none."""
        try:
            return self.get(name)
        except NotFound:
            return self.create(name, settings)

    def open_some(self) -> None:
        """Open as many tenants as are kept open, before anybody waits for them.

        A damaged one does not keep the others from being served.
        """
        for name in self.names():
            if len(self._open) >= MAX_OPEN:
                return
            try:
                self.get(name)
            except Damaged:
                continue
            except Unavailable:
                if name not in self.unusable:
                    raise

    def recover(self) -> None:
        """Reconnect after the database was away; raises Taken if another process writes now."""
        for tenant in self.opened():
            tenant.log.writer.recover()

    def close(self) -> None:
        """Write what waits, and close all tenants."""
        with self._table:
            tenants = sorted(self._open.values(), key=lambda tenant: tenant.owner is None)
            self._open.clear()
        for tenant in tenants:
            tenant.close()  # sharers before their owners
        if self._claim is not None:
            self._claim.release()


def warm_up() -> float:
    """Learn and rank in a throw-away tenant, so that nobody waits for imports; return seconds."""
    start = time.perf_counter()
    vectors = np.random.default_rng(0).normal(size=(16, 4)).tolist()
    items = [Item(id=str(i), vectors={"vectors": vector}) for i, vector in enumerate(vectors)]
    query = Query(item="0")
    with TemporaryDirectory() as folder:
        tenant = Tenant.create(folder, "rehearsal")
        try:
            tenant.put_items(items)
            clicked = Clicks(query=query, shown=["1", "2", "3"], clicked=["2"])
            told = tenant.feedback([Triplet(query=query, better="1", worse="2"), clicked])
            tenant.rank(query, min_seq=told[-1].seq, explain=True)
            tenant.next(2)
        finally:
            tenant.close()
    return time.perf_counter() - start
