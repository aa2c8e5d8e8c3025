"""All tenants of a service: open, create and close them.

They share nothing but code, unless one was made to share the items of another. A tenant is opened
when somebody asks for it; with many open, those that nobody has used for longest are closed.
"""

import threading
import time
from collections import Counter, OrderedDict, defaultdict
from functools import partial
from pathlib import Path

from msgspec import structs

from similia.service.catalogue.shared import missing, shares
from similia.service.engine.learner import lower_switch_interval
from similia.service.errors import Conflict, Damaged, Invalid, NotFound, ServiceError, Unavailable
from similia.service.log.opening import check_name, names_in, rows_of
from similia.service.log.records import TenantSettings
from similia.service.tenants.tenant import Tenant

#: tenants that stay open; each has about six handles
MAX_OPEN = 64
#: seconds that nobody has asked for a tenant before it may be closed
MIN_IDLE_SECONDS = 2.0


class Tenants:
    """Tenants in a folder, or in the PostgreSQL database of a URL; each is opened when asked for.

    `cache` is the folder for what is computed from logs in a database.
    """

    def __init__(self, where: str | Path, *, cache: str | Path | None = None) -> None:
        self.where = where
        self._cache = cache
        #: of what is open, and used; never held for long
        self._table = threading.Lock()
        #: held to open, create or close a tenant
        self._changing: defaultdict[str, threading.RLock] = defaultdict(threading.RLock)
        #: those not asked for longest come first
        self._open: OrderedDict[str, Tenant] = OrderedDict()
        self._asked: dict[str, float] = {}
        self._users: Counter[str] = Counter()
        #: why tenants could not be opened, by name
        self.unusable: dict[str, Exception] = {}
        lower_switch_interval()

    def names(self) -> list[str]:
        """Names of all tenants."""
        return names_in(self.where)

    def opened(self) -> list[Tenant]:
        """Tenants that are open."""
        with self._table:
            return list(self._open.values())

    def sharing(self, owner: str) -> list[str]:
        """Names of the tenants that share the items of one."""
        first = ((name, next(rows_of(self.where, name, 0, 1), None)) for name in self.names())
        return [name for name, row in first if shares(row) == owner]

    def take(self, name: str) -> Tenant | None:
        """A tenant that is open, and stays so until `give`; None if it must be opened first."""
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
                del self._users[tenant.name]  # those in use alone are kept

    def get(self, name: str) -> Tenant:
        """A tenant; raises NotFound if there is none of this name."""
        with self._table:
            found = self._found_open(name)
        if found is not None:
            return found
        check_name(name)
        self._check_usable(name)
        with self._changing[name]:
            with self._table:
                found = self._found_open(name)
            if found is not None:
                return found
            try:
                found = Tenant.open(
                    self.where, name, cache=self._cache, find=partial(self._found, name)
                )
            except Damaged as error:
                self.unusable[name] = error
                raise
            except (ServiceError, OSError):  # it may be better the next time
                raise
            except Exception as error:
                self.unusable[name] = error
                raise Unavailable(
                    f"tenant: the log of {name!r} cannot be used ({type(error).__name__}: {error})."
                ) from error
            self._keep(found)
        self._close_idle()
        return found

    def _check_usable(self, name: str) -> None:
        if name in self.unusable:
            raise Unavailable(
                f"tenant: the log of {name!r} cannot be used; restore it from a backup, and start "
                "the service again."
            )

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
        """Close tenants that nobody has used for longest, if many are open."""
        for name in self._idle():
            if not self._changing[name].acquire(blocking=False):
                continue
            try:
                with self._table:
                    tenant = self._open.pop(name) if name in self._idle_now() else None
                if tenant is not None:
                    tenant.close()
            finally:
                self._changing[name].release()

    def _idle(self) -> list[str]:
        with self._table:
            return self._idle_now()

    def _idle_now(self) -> list[str]:
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
        check_name(name)
        with self._changing[name]:
            with self._table:
                there = self._open.get(name)
            if name in self.unusable or (there is not None and there.log.last):
                raise Conflict(f"tenant: name must be new, got {name!r}, which exists.")
            if there is not None:  # its maker was killed before the first row was written
                with self._table:
                    del self._open[name]
                there.close()
            owner = None
            if settings is not None and settings.shares is not None:
                owner = self._owner(name, settings.shares)
                settings = structs.replace(settings, search=owner.search)
            made = Tenant.create(self.where, name, settings, cache=self._cache, owner=owner)
            self._keep(made)
        self._close_idle()
        return made

    def _owner(self, name: str, shares: str) -> Tenant:
        try:
            owner = self.get(shares)
        except NotFound:
            owner = None
        if owner is None or shares == name:
            raise Invalid(f"tenant: shares must be the name of another tenant, got {shares!r:.80}.")
        if owner.owner is not None:
            raise Invalid(
                f"tenant: shares must be a tenant with items of its own, got {shares!r}, which "
                f"shares those of {owner.owner.name!r}; share these."
            )
        return owner

    def _found(self, name: str, owner: str) -> Tenant:
        """The owner of items that a tenant shares."""
        if owner in self.unusable:
            raise Damaged(
                f"log: {name} shares the items of {owner!r}, whose log cannot be used; restore "
                "that one from a backup."
            )
        try:
            return self.get(owner)
        except NotFound as error:
            raise Damaged(missing(name, owner)) from error

    def get_or_create(self, name: str, settings: TenantSettings | None = None) -> Tenant:
        """A tenant, made with these settings if there is none."""
        try:
            return self.get(name)
        except NotFound:
            return self.create(name, settings)

    def open_some(self) -> None:
        """Open as many as stay open, so that they are not replayed while somebody waits.

        One that is damaged is put aside, and does not keep the others from being served.
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

    def close(self) -> None:
        """Close all tenants; whatever waits is written first."""
        with self._table:
            tenants = sorted(self._open.values(), key=lambda tenant: tenant.owner is None)
            self._open.clear()
        for tenant in tenants:
            tenant.close()  # those that share items before their owners
