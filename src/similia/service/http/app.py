"""The service: its parts in one place, how it begins and ends, and the application made of it."""

import asyncio
import contextlib
import logging
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sized
from contextlib import nullcontext
from functools import cached_property
from typing import Any

from msgspec import structs
from starlette.routing import Router
from starlette.types import Receive, Scope, Send

import similia
from similia.exceptions import MissingExtraError
from similia.service.catalogue.embedder import Embedder, open_embedder
from similia.service.catalogue.external import ExternalItems, open_external
from similia.service.engine.warming import warm_up
from similia.service.errors import Conflict, Damaged, Invalid, Unavailable
from similia.service.http import feedback, health, journal, owners, pages, rankings
from similia.service.http.auth import Auth
from similia.service.http.budgets import Budget
from similia.service.http.endpoints import Call, Endpoint, Routes
from similia.service.http.exchange import Exchange
from similia.service.http.feedback import Commits
from similia.service.http.images import IMAGES_PATH, Images
from similia.service.http.keys import Keys
from similia.service.http.lanes import open_lanes
from similia.service.http.metrics import Metrics
from similia.service.http.openapi import document
from similia.service.http.problems import Problem
from similia.service.http.telemetry import Telemetry
from similia.service.judging import judging
from similia.service.log import records
from similia.service.log.records import Query
from similia.service.settings import Settings
from similia.service.tenants.files import ItemFile, KnownQueries, QueryFile
from similia.service.tenants.tenant import Tenant
from similia.service.tenants.tenants import Tenants

#: seconds after which logs that were out of reach are tried again
RETRY_SECONDS = 1.0

ENDPOINTS: list[Endpoint] = [
    *feedback.FEEDBACK_ENDPOINTS,
    *rankings.RANKING_ENDPOINTS,
    *owners.OWNER_ENDPOINTS,
    *judging.JUDGING_ENDPOINTS,
    *health.HEALTH_ENDPOINTS,
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
        self.telemetry = Telemetry() if settings.telemetry else None
        self.auth = Auth(settings, self.keys)
        self.calls = Budget("requests", settings.max_requests)
        self.received = Budget("large requests", settings.max_buffered, settings.max_body)
        self.unread = Budget("answers that nobody reads", settings.max_unread)
        self.lanes = open_lanes(settings)
        self._commits: dict[str, Commits] = {}
        #: requests that are here, also those that are refused
        self.present = 0
        self.metrics = Metrics(self.standing, lambda: self.present)
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
        #: why the logs could not be opened
        self.failure: BaseException | None = None
        #: why the files to start with could not be read
        self.unreadable: Exception | None = None

    @property
    def tenants(self) -> Tenants:
        """Tenants by name; there once the logs are replayed."""
        if self._tenants is None:
            raise Problem(503, "the service is not ready; try again later.", retry_after=1)
        return self._tenants

    @cached_property
    def document(self) -> dict[str, Any]:
        """OpenAPI of all endpoints."""
        return document(self.endpoints, similia.__version__)

    # -- what settings bound ---------------------------------------------------------------------

    def check_batch(self, what: str, rows: Sized) -> None:
        """Refuse batches that are too long."""
        most = self.settings.max_batch
        if len(rows) > most:
            raise Invalid(f"{what} in one request must be at most {most}, got {len(rows)}.")

    def check_vectors(self, name: str, vectors: Mapping[str, Sized]) -> None:
        """Refuse vectors that are too long."""
        most, found = self.settings.max_features, max(map(len, vectors.values()), default=0)
        if found > most:
            raise Invalid(f"numbers in {name} must be at most {most}, got {found}.")

    def check_ranking(self, k: int) -> None:
        """Refuse a ranking that is too long."""
        if k > self.settings.max_k:
            raise Invalid(f"k must be at most {self.settings.max_k}, got {k}.")

    # -- what operations share -------------------------------------------------------------------

    def elsewhere(self, tenant: Tenant) -> ExternalItems | None:
        """The database that has a tenant's items."""
        return self._elsewhere if tenant.name == self.settings.tenant else None

    def commits(self, tenant: Tenant) -> Commits:
        """What appends to a tenant's log."""
        found = self._commits.get(tenant.name)
        if found is None or found.log is not tenant.log:
            found = self._commits[tenant.name] = Commits(tenant.log)
        return found

    async def resolved(self, call: Call, query: Query) -> Query:
        """The query with vectors: its own, those known by its id, or those of its text."""
        elsewhere = self.elsewhere(call.tenant)
        if query.vectors is not None:
            self.check_vectors("query.vectors", query.vectors)
        if query.item and elsewhere is not None:
            return await call.run_in("search", elsewhere.asked, call.tenant, query)
        if query.item or query.vectors:
            return query
        if query.id is not None:
            known = self.queries[call.tenant.name]
            found = await call.run_in("search", known.find, call.tenant, query.id)
            if found is not None:
                return found
        if self.embedder is None or not query.text:
            return query
        vector = await self.embedder.embed(query.text)
        return structs.replace(query, vectors={self.settings.embedder_view: vector})

    async def learnt(self, tenant: Tenant, seq: int) -> None:
        """Wait until a row of the log is known to rankings; no thread waits."""
        loop = asyncio.get_running_loop()
        reached: asyncio.Future[None] = loop.create_future()

        def wake() -> None:
            if not reached.done():
                reached.set_result(None)

        def done() -> None:
            with contextlib.suppress(RuntimeError):  # the loop has ended, and nobody waits
                loop.call_soon_threadsafe(wake)

        tenant.when_learnt(seq, done)
        await reached

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
    def _new_tenant(self) -> records.TenantSettings:
        return records.TenantSettings(held_out=self.settings.hold_out, search=self.settings.search)

    def standing(self) -> Iterator[tuple[str, dict[str, float]]]:
        """Numbers of each tenant that is open, for metrics."""
        if not self.ready or self._tenants is None:
            return
        for name in list(self._tenants.unusable):
            yield name, {"usable": 0.0}
        for tenant in self._tenants.opened():
            status = tenant.status()
            numbers = ("seq", "learnt_seq", "items", "judgements", "queries")
            found = {number: float(getattr(status, number)) for number in numbers}
            yield tenant.name, {"usable": 1.0, **found}

    # -- life ------------------------------------------------------------------------------------

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
        self.metrics.ready.set(1)
        journal.note(logging.INFO, "ready")
        if self.settings.warm_up == "beside":
            await asyncio.to_thread(self._warm_up)

    async def _reach_logs(self) -> bool:
        """Open the logs, if need be once a database answers, or another service lets them go.

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
                await asyncio.wait_for(self._ending.wait(), RETRY_SECONDS)
        return False

    def _warm_up(self) -> None:
        seconds = warm_up()
        journal.note(logging.INFO, "warm", seconds=round(seconds, 1))

    def _open_tenants(self) -> None:
        self._tenants = Tenants(self.settings.store, cache=self.settings.cache or None)
        first: Tenant | None = None
        with contextlib.suppress(Damaged):  # the others are served all the same
            first = self._tenants.get_or_create(self.settings.tenant, self._new_tenant)
        self._tenants.open_some()
        for name, error in self._tenants.unusable.items():
            journal.note(logging.ERROR, "a log cannot be used", tenant=name, reason=str(error))
        if first is None:
            return
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
        sharing = self.tenants.sharing(first.name)
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
        for lane in self.lanes.values():
            lane.close()
        if self._tenants is not None:
            self._tenants.close()
        if self._elsewhere is not None:
            self._elsewhere.close()
        if self.telemetry is not None:
            self.telemetry.close()


class Application:
    """The service as an ASGI application: the API by its endpoints, then pages and pictures."""

    def __init__(self, service: Service) -> None:
        self.service = service
        self._routes = Routes(service, service.endpoints)
        pictures = [] if service.images is None else [service.images.route()]
        self._pages = Router(
            [*pictures, *pages.routes(try_page=service.settings.try_page)],
            redirect_slashes=False,
            default=_nothing,
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request, or live and end."""
        if scope["type"] == "http":
            await Exchange(self.service, scope, receive, send).run(self._serve)
        elif scope["type"] == "lifespan":
            await self.service.lifespan(receive, send)
        else:  # web sockets: nothing here speaks them
            await send({"type": "websocket.close", "code": 1003})

    async def _serve(self, exchange: Exchange) -> None:
        telemetry = self.service.telemetry
        with nullcontext() if telemetry is None else telemetry.span(exchange):
            path = exchange.scope["path"]
            resource, names = self._routes.find(path)
            if resource is not None:
                await resource.serve(exchange, names)
                return
            if path.startswith(IMAGES_PATH):
                self.service.auth.caller(exchange)
            else:
                self.service.auth.visitor(exchange)
            await exchange.delegate(self._pages)


async def _nothing(scope: Scope, receive: Receive, send: Send) -> None:
    raise Problem(404, "there is nothing here.")
