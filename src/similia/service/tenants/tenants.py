"""All tenants of a service: open, create and close them.

They share nothing but code, unless one was made to share the items of another.
"""

import threading
from functools import partial
from pathlib import Path

from msgspec import structs

from similia.service.catalogue.shared import missing
from similia.service.engine.learner import lower_switch_interval
from similia.service.errors import Conflict, Damaged, Invalid, NotFound, Unavailable
from similia.service.log.opening import check_name, names_in
from similia.service.log.records import Settings
from similia.service.tenants.tenant import Tenant


class Tenants:
    """Tenants in a folder, or in the PostgreSQL database of a URL; each is opened when asked for.

    `cache` is the folder for what is computed from logs in a database.
    """

    def __init__(self, where: str | Path, *, cache: str | Path | None = None) -> None:
        self.where = where
        self._cache = cache
        self._lock = threading.RLock()  # to open one may open the owner of its items
        self._open: dict[str, Tenant] = {}
        #: why tenants could not be opened, by name
        self.unusable: dict[str, Exception] = {}
        lower_switch_interval()

    def names(self) -> list[str]:
        """Names of all tenants."""
        return names_in(self.where)

    def opened(self) -> list[Tenant]:
        """Tenants that are open."""
        return list(self._open.values())

    def get(self, name: str) -> Tenant:
        """A tenant; raises NotFound if there is none of this name."""
        found = self._open.get(name)
        if found is not None:
            return found
        check_name(name)
        if name in self.unusable:
            raise Unavailable(
                f"tenant: the log of {name!r} cannot be used; restore it from a backup, and start "
                "the service again."
            )
        with self._lock:
            if name not in self._open:
                find = partial(self._found, name)
                self._open[name] = Tenant.open(self.where, name, cache=self._cache, find=find)
            return self._open[name]

    def create(self, name: str, settings: Settings | None = None) -> Tenant:
        """Make a new tenant; with `shares` in its settings, it has the items of that tenant."""
        with self._lock:
            there = self._open.get(name)
            if name in self.unusable or (there is not None and there.log.last):
                raise Conflict(f"tenant: name must be new, got {name!r}, which exists.")
            if there is not None:  # its maker was killed before the first row was written
                self._open.pop(name).close()
            owner = None
            if settings is not None and settings.shares is not None:
                owner = self._owner(name, settings.shares)
                settings = structs.replace(settings, search=owner.search)
            self._open[name] = Tenant.create(
                self.where, name, settings, cache=self._cache, owner=owner
            )
            return self._open[name]

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

    def get_or_create(self, name: str, settings: Settings | None = None) -> Tenant:
        """A tenant, made with these settings if there is none."""
        try:
            return self.get(name)
        except NotFound:
            return self.create(name, settings)

    def open_all(self) -> None:
        """Open all tenants, so that none is replayed while somebody waits.

        One that is damaged is put aside, and does not keep the others from being served.
        """
        for name in self.names():
            try:
                self.get(name)
            except Unavailable:
                raise
            except Exception as error:
                self.unusable[name] = error

    def close(self) -> None:
        """Close all tenants; whatever waits is written first."""
        with self._lock:
            for tenant in sorted(self._open.values(), key=lambda tenant: tenant.owner is None):
                tenant.close()  # those that share items before their owners
            self._open.clear()
