"""All tenants of a service: open, create and close them. They share nothing but code."""

import threading
from pathlib import Path

from similia.service.engine import answer_promptly
from similia.service.errors import NotFound, Unavailable
from similia.service.opening import check_name, names_in
from similia.service.records import Settings
from similia.service.tenant import Tenant


class Tenants:
    """Tenants in a folder, or in the PostgreSQL database of a URL; each is opened when asked for.

    `cache` is the folder for what is computed from logs in a database.
    """

    def __init__(self, where: str | Path, *, cache: str | Path | None = None) -> None:
        self.where = where
        self._cache = cache
        self._lock = threading.Lock()
        self._open: dict[str, Tenant] = {}
        #: why tenants could not be opened, by name
        self.unusable: dict[str, Exception] = {}
        answer_promptly()

    def names(self) -> list[str]:
        """Names of all tenants."""
        return names_in(self.where)

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
                self._open[name] = Tenant.open(self.where, name, cache=self._cache)
            return self._open[name]

    def create(self, name: str, settings: Settings | None = None) -> Tenant:
        """Make a new tenant."""
        with self._lock:
            self._open[name] = Tenant.create(self.where, name, settings, cache=self._cache)
            return self._open[name]

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
            for tenant in self._open.values():
                tenant.close()
            self._open.clear()
