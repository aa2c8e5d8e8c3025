"""The service: its parts in one place, who is let in, and the application made of them."""

import asyncio
import contextlib
import logging
from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import cached_property, lru_cache
from typing import Any
from urllib.parse import urlsplit

from msgspec import structs
from starlette.routing import BaseRoute, Route, Router
from starlette.types import ASGIApp, Receive, Scope, Send

import similia
from similia.exceptions import MissingExtraError
from similia.service.catalogue.embedder import Embedder, open_embedder
from similia.service.catalogue.external import ExternalItems, open_external
from similia.service.engine.warming import warm_up
from similia.service.errors import Conflict, Invalid, Unavailable
from similia.service.http import journal, operation, owners, pages
from similia.service.http import routes as feedback_and_items
from similia.service.http.bounds import Bounds
from similia.service.http.committing import Committer
from similia.service.http.endpoints import Endpoint, Resource, routes
from similia.service.http.guard import Exchange, Guard
from similia.service.http.images import Images
from similia.service.http.keys import LOCAL_OWNER, Key, Keys, bearer
from similia.service.http.limits import Rates, Room
from similia.service.http.metrics import Metrics
from similia.service.http.openapi import document
from similia.service.http.problems import Problem
from similia.service.http.routes import V1
from similia.service.http.telemetry import NoTelemetry, Telemetry
from similia.service.http.work import Pool
from similia.service.judging import judging
from similia.service.log import records
from similia.service.log.records import Query
from similia.service.settings import Settings
from similia.service.tenants.files import ItemFile, KnownQueries, QueryFile
from similia.service.tenants.tenant import Tenant
from similia.service.tenants.tenants import Tenants

#: threads that prepare what is large, or names items that are to come
WRITERS = 4
#: seconds after which logs that were out of reach are tried again
AGAIN = 1.0
#: how browsers and clients on this machine name it
LOOPBACK_NAMES = ("localhost", "127.0.0.1", "::1")

ENDPOINTS: list[Endpoint] = [
    *feedback_and_items.ENDPOINTS,
    *owners.ENDPOINTS,
    *judging.ENDPOINTS,
    *operation.ENDPOINTS,
]


class Service:
    """Parts of a running service."""

    def __init__(
        self,
        settings: Settings,
        *,
        items: ItemFile | None = None,
        queries: QueryFile | None = None,
        images: Images | None = None,
    ) -> None:
        self.settings = settings
        self.keys = Keys(settings.key_file)
        if not settings.is_loopback and not self.keys.needed:
            raise ValueError(
                f"settings: host must be a loopback address without keys, got {settings.host!r}; "
                "make a key first: similia keys add."
            )
        self.embedder: Embedder | None = open_embedder(settings)
        self._elsewhere = open_external(settings)
        self.telemetry = Telemetry() if settings.telemetry else NoTelemetry()
        self.bounds = Bounds(settings)
        self.rates = Rates(settings.rate, settings.burst)
        self.strangers = Rates(settings.wrong_rate, 20)
        self.room = Room(settings.max_requests, settings.max_buffered)
        self.work = Pool("work", settings.threads, settings.max_waiting)
        self.writes = Pool("write", WRITERS, settings.max_requests)
        self.long_work = Pool("long", 1, 8)
        self.metrics = Metrics(self.standing, lambda: self.room.present)
        self.endpoints = list(ENDPOINTS)
        self.items = items
        self.images = images
        if images is not None and self.keys.needed:
            raise ValueError(
                "images: the service must have no keys, as browsers send none for pictures, got "
                f"some in {self.keys.path}; use another store, or put pictures into items as data:."
            )
        self.query_file = queries
        #: queries known by id, by tenant
        self.queries: defaultdict[str, KnownQueries] = defaultdict(KnownQueries)
        self._tenants: Tenants | None = None
        self.ready = False
        self.draining = False
        self._ending = asyncio.Event()
        self._committers: dict[str, Committer] = {}
        #: why the logs could not be opened
        self.failure: BaseException | None = None
        #: why the files to start with could not be read
        self.unreadable: Exception | None = None

    @property
    def tenants(self) -> Tenants:
        """Engines by name; there once the logs are replayed."""
        if self._tenants is None:
            raise Problem(503, "the service is not ready; try again later.", retry_after=1)
        return self._tenants

    @cached_property
    def document(self) -> dict[str, Any]:
        """OpenAPI of all endpoints."""
        return document(self.endpoints, similia.__version__)

    # -- who is let in -------------------------------------------------------------------------

    def admit(
        self, exchange: Exchange, endpoint: Endpoint, tenant: str | None, *, looked: bool = False
    ) -> Key:
        """The caller's key, or 401, 403 or 429; `looked` if keys were read in this moment."""
        if endpoint.scopes is None:
            return LOCAL_OWNER
        key = self.caller(exchange, looked=looked)
        place = key.tenant if endpoint.place == "any" else tenant
        place = None if endpoint.place == "service" else place
        if not key.allows(place, endpoint.scopes):
            raise Problem(403, f"the key must be for {' or '.join(endpoint.scopes)} here.")
        self.rates.check(key.id)
        return key

    def caller(self, exchange: Exchange, *, looked: bool = False) -> Key:
        """The key of whoever asks, for any tenant; 401, 403 or 429 without one that is known."""
        try:
            token = bearer(exchange.headers.get(b"authorization"))
            needed, key = self.keys.asked(token, looked=looked)
        except (ValueError, OSError) as error:
            journal.note(logging.ERROR, "keys cannot be read", reason=str(error))
            raise Problem(503, "keys cannot be read.", retry_after=5) from None
        if not needed:
            self._check_origin(exchange)
            return LOCAL_OWNER
        if key is None:
            self.strangers.check((exchange.scope["client"] or ("unknown",))[0])
            raise Problem(
                401,
                "a known key must be sent: Authorization: Bearer sk_…",
                headers={"www-authenticate": "Bearer"},
            )
        return key

    def _check_origin(self, exchange: Exchange) -> None:
        """Without keys, refuse what a page of another site makes a browser send."""
        if not _is_own(exchange.headers.get(b"host", b""), exchange.headers.get(b"origin")):
            raise Problem(403, "without keys, requests must come from this machine and this site.")

    # -- what operations share -----------------------------------------------------------------

    def committer(self, tenant: Tenant) -> Committer:
        """What stores judgements of a tenant."""
        found = self._committers.get(tenant.name)
        if found is None or found.tenant is not tenant:
            found = self._committers[tenant.name] = Committer(tenant, self.writes)
        return found

    def elsewhere(self, tenant: Tenant) -> ExternalItems | None:
        """The database that has a tenant's items."""
        return self._elsewhere if tenant.name == self.settings.tenant else None

    async def resolved(self, tenant: Tenant, query: Query) -> Query:
        """The query with vectors: its own, those known by its id, or those of its text."""
        elsewhere = self.elsewhere(tenant)
        if query.item and elsewhere is not None:
            return await self.work.run(elsewhere.asked, tenant, query)
        if query.item or query.vectors:
            return query
        if query.id is not None:
            known = await self.work.run(self.queries[tenant.name].find, tenant, query.id)
            if known is not None:
                return known
        if self.embedder is None or not query.text:
            return query
        vector = await self.embedder.embed(query.text)
        return structs.replace(query, vectors={self.settings.embedder_view: vector})

    def create(self, name: str, shares: str | None = None) -> bool:
        """Make a tenant; False if it is there, with the same items."""
        if shares is not None and self._elsewhere is not None and shares == self.settings.tenant:
            raise Invalid(f"tenant: shares must have its items here, got {shares!r} (items_at).")
        try:
            self.tenants.create(name, structs.replace(self._new_tenant, shares=shares))
        except Conflict:
            there = self.tenants.get(name).shares
            if there != shares:
                raise Conflict(
                    f"tenant: {name!r} exists and must keep its items, "
                    f"{'its own' if there is None else f'those of {there!r}'}, got "
                    f"{'its own' if shares is None else f'those of {shares!r:.80}'}."
                ) from None
            return False
        return True

    @property
    def _new_tenant(self) -> records.Settings:
        return records.Settings(held_out=self.settings.hold_out, search=self.settings.search)

    def standing(self) -> Iterator[tuple[str, dict[str, float]]]:
        """Numbers of each tenant, for metrics."""
        if not self.ready or self._tenants is None:
            return
        for name in self._tenants.names():
            if name in self._tenants.unusable:
                yield name, {"usable": 0.0}
                continue
            status = self._tenants.get(name).status()
            numbers = ("seq", "learnt_seq", "items", "judgements", "queries")
            found = {number: float(getattr(status, number)) for number in numbers}
            yield name, {"usable": 1.0, **found}

    # -- life ----------------------------------------------------------------------------------

    async def lifespan(self, receive: Receive, send: Send) -> None:
        """Listen at once, replay beside that, then be ready; at the end, drain and close."""
        await receive()
        opening = asyncio.create_task(self._open())
        await send({"type": "lifespan.startup.complete"})
        await receive()
        self.ready = False
        self._ending.set()
        await opening
        await asyncio.to_thread(self.close)
        await send({"type": "lifespan.shutdown.complete"})

    async def _open(self) -> None:
        try:
            if not await self._reach_logs():
                return
            if self.settings.warm_up == "first":
                await asyncio.to_thread(self._warm_up)
        except Exception as error:
            self.failure = error
            if self.unreadable is None:
                journal.logger.exception("the logs could not be opened")
            return
        self.failure = None
        self.ready = True
        self.metrics.ready = True
        journal.note(logging.INFO, "ready")
        if self.settings.warm_up == "beside":
            await asyncio.to_thread(self._warm_up)

    async def _reach_logs(self) -> bool:
        """Open the logs, whether at once or after a database, or a service that has them, lets us.

        False if the service ends before.
        """
        while not self._ending.is_set():
            try:
                await asyncio.to_thread(self._open_tenants)
                return True
            except Unavailable as error:
                if str(error) != str(self.failure):
                    journal.note(logging.WARNING, "the logs are out of reach", reason=str(error))
                self.failure = error
            if self._tenants is not None:
                await asyncio.to_thread(self._tenants.close)
                self._tenants = None
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._ending.wait(), AGAIN)
        return False

    def _warm_up(self) -> None:
        seconds = warm_up()
        journal.note(logging.INFO, "warm", seconds=round(seconds, 1))

    def _open_tenants(self) -> None:
        self._tenants = Tenants(self.settings.store, cache=self.settings.cache or None)
        first = self._tenants.get_or_create(self.settings.tenant, self._new_tenant)
        self._tenants.open_all()
        for name, error in self._tenants.unusable.items():
            journal.note(logging.ERROR, "a log cannot be used", tenant=name, reason=str(error))
        try:
            if self._elsewhere is not None:
                self._check_apart(first)
                self._elsewhere.begin(first, self.settings.embedder_view)
            self._read_files(first)
        except (ValueError, OSError, MissingExtraError) as error:
            self.unreadable = error
            raise

    def _check_apart(self, first: Tenant) -> None:
        """Refuse to share items that are elsewhere: what one judges would be copied for all."""
        opened = self.tenants.opened()
        sharing = [tenant.name for tenant in opened if tenant.shares == first.name]
        if sharing or first.shares is not None:
            raise ValueError(
                f"settings: items_at must be for a tenant whose items nobody shares, got "
                f"{first.name!r}, which shares them with {first.shares or sharing[0]!r}."
            )

    def _read_files(self, tenant: Tenant) -> None:
        if self.items is not None:
            found, put = self.items.load(tenant)
            journal.note(logging.INFO, "items", found=found, put=put)
        views = tenant.status().views
        if self.query_file is not None and views:
            self.queries[tenant.name] = KnownQueries(self.query_file.queries(views[0].name))

    def close(self) -> None:
        """Finish what runs, write what waits."""
        self.work.close()
        self.writes.close()
        self.long_work.close()
        if self._tenants is not None:
            self._tenants.close()
        if self._elsewhere is not None:
            self._elsewhere.close()
        self.telemetry.close()


def create_app(service: Service, more: Sequence[BaseRoute] = ()) -> ASGIApp:
    """The application of a service; further routes come before its pages."""
    pictures = [] if service.images is None else [service.images.route(service)]
    router = Router(
        [*routes(service, service.endpoints), *more, *pictures, *pages.routes(service)],
        redirect_slashes=False,
        default=_nothing,
    )
    return Guard(service, Ways(router))


class Ways:
    """The router, with a straight way to what is asked for most: `/v1/{tenant}/NAME`."""

    def __init__(self, router: Router) -> None:
        self.router = router
        self._straight = {
            route.path.removeprefix(f"{V1}/"): route
            for route in router.routes
            if isinstance(route, Route)
            and isinstance(route.endpoint, Resource)
            and route.path.startswith(f"{V1}/")
            and "{" not in route.path.removeprefix(f"{V1}/")
        }

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Go the straight way, or through all routes."""
        start, v1, tenant, name = (*scope["path"].split("/", 3), "", "", "")[:4]
        route = self._straight.get(name)
        if route is None or not tenant or start or v1 != "v1":
            await self.router(scope, receive, send)
            return
        scope["path_params"], scope["route"] = {"tenant": tenant}, route
        await route.endpoint(scope, receive, send)


async def _nothing(scope: Scope, receive: Receive, send: Send) -> None:
    raise Problem(404, "there is nothing here.")


@lru_cache(maxsize=16)
def _is_own(host: bytes, origin: bytes | None) -> bool:
    """Whether a browser on this machine asks, for a page of this service."""
    if set(host) & set(b"/@?#\\"):
        return False
    try:
        name = urlsplit(f"//{host.decode('latin-1')}").hostname
    except ValueError:  # half an address
        return False
    foreign = origin is not None and origin.partition(b"://")[2] != host
    return name in LOOPBACK_NAMES and not foreign
