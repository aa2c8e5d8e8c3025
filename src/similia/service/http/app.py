"""The service: its parts, startup and shutdown, and routing."""

import asyncio
import contextlib
import logging
from collections import defaultdict
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from functools import cached_property
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from msgspec import structs
from starlette.routing import Router
from starlette.types import Receive, Scope, Send

import similia
from similia.exceptions import MissingExtraError
from similia.service.catalogue.embedder import (
    NONE,
    Embedder,
    WordEmbedder,
    open_embedder,
    open_words,
)
from similia.service.catalogue.external import ExternalItems, open_external
from similia.service.errors import Conflict, Damaged, Invalid, NotFound, Problem, Unavailable
from similia.service.http import feedback, journal, owners, rankings
from similia.service.http.budgets import Budget, open_lanes
from similia.service.http.calls import Call, answer
from similia.service.http.endpoints import V1, Endpoint, endpoints_of
from similia.service.http.keys import Auth, Keys
from similia.service.http.openapi import document
from similia.service.http.pages import IMAGES_PATH, Images, page_router
from similia.service.http.telemetry import Metrics, Traces
from similia.service.judging import judging
from similia.service.log.opening import Access
from similia.service.log.records import Item, Query, TenantSettings
from similia.service.log.writer import RowSource
from similia.service.settings import Settings
from similia.service.tenants.files import ItemFile, KnownQueries, QueryFile
from similia.service.tenants.tenant import Tenant
from similia.service.tenants.tenants import Tenants, warm_up
from similia.tabular.layout import WORD_VIEW

if TYPE_CHECKING:
    from similia.service.http.processes import Processes

#: seconds between attempts to open logs that are out of reach
RETRY_SECONDS = 1.0

ENDPOINTS: list[Endpoint] = [
    each for room in (feedback, rankings, judging, owners) for each in endpoints_of(room)
]


class Service:
    """A running service, as an ASGI application: the API, then pages and pictures."""

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
        if images is not None and self.keys.needed:
            raise ValueError(
                "images: the service must have no keys, as browsers send none for pictures, got "
                f"some in {self.keys.path}; use another store, or put pictures into items as data:."
            )
        self.embedder: Embedder | None = open_embedder(settings)
        self._elsewhere = open_external(settings)
        self.traces = Traces() if settings.telemetry else None
        self.auth = Auth(settings, self.keys)
        self.calls = Budget("requests", settings.max_requests)
        self.received = Budget("large requests", settings.max_buffered, settings.max_body)
        self.unread = Budget("answers that nobody reads", settings.max_unread)
        self.lanes = open_lanes(settings)
        #: group commit of each log, while its writer is there
        self.commits: WeakKeyDictionary[RowSource, feedback.Commits] = WeakKeyDictionary()
        #: requests in progress, refused ones included
        self.present = 0
        self.metrics = Metrics(self)
        self.endpoints = list(ENDPOINTS)
        self._routes = Routes(self.endpoints)
        self._pages: Router = page_router(images, try_page=settings.try_page)
        self.items = items
        self.query_file = queries
        #: queries known by their ids, by tenant
        self.queries: defaultdict[str, KnownQueries] = defaultdict(KnownQueries)
        if items is not None and settings.follow:
            raise ValueError(
                "settings: items must be given to the process that writes, got some for one that "
                "follows."
            )
        #: what makes the view of words beside vectors, for the items of the first tenant
        self._words = open_words(settings, "" if items is None else items.words)
        self._access = Access(settings.follow, settings.address, settings.served)
        self.tenants = self._new_tenants()
        #: other processes that serve the same database
        self.processes: Processes | None = None
        self.ready = False
        #: called when everything is loaded
        self.on_ready: Callable[[], None] = lambda: None
        self.draining = False
        self._ending = asyncio.Event()
        #: why the logs could not be opened
        self.failure: BaseException | None = None
        #: why the files given at the start could not be read
        self.unreadable: Exception | None = None

    # -- requests --------------------------------------------------------------------------------

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request, or run the lifespan."""
        if scope["type"] == "http":
            await Call(self, scope, receive, send).serve(self._answer)
        elif scope["type"] == "lifespan":
            await self._live(receive, send)
        else:  # no web sockets here
            await send({"type": "websocket.close", "code": 1003})

    async def _answer(self, call: Call) -> None:
        with nullcontext() if self.traces is None else self.traces.span(call):
            path, method = call.scope["path"], call.scope["method"]
            endpoints, call.path = self._routes.find(path)
            if not endpoints:
                if path.startswith(IMAGES_PATH):
                    self.auth.identify(call)
                else:
                    self.auth.visitor(call)
                await call.delegate(self._pages)
                return
            call.route = next(iter(endpoints.values())).path
            if method not in endpoints:
                self.auth.visitor(call)
                allowed = ", ".join(sorted(endpoints))
                sentence = f"the method must be one of {allowed}, got {method:.20}."
                raise Problem(405, sentence, headers={"allow": allowed})
            call.endpoint = endpoints[method]
            await answer(call)

    # -- shared by operations --------------------------------------------------------------------

    @cached_property
    def document(self) -> dict[str, Any]:
        """OpenAPI of all endpoints."""
        return document(self.endpoints, similia.__version__)

    def elsewhere(self, tenant: Tenant) -> ExternalItems | None:
        """The database that holds a tenant's items, if it is not the log."""
        return self._elsewhere if tenant.name == self.settings.tenant else None

    async def resolved(self, call: Call, query: Query) -> Query:
        """The query with vectors: its own, those known for its id, or those of its text."""
        elsewhere = self.elsewhere(call.tenant)
        if query.vectors is not None:
            call.check_vectors("query.vectors", query.vectors)
        if query.item and elsewhere is not None:
            return await call.run_in("search", elsewhere.asked, call.tenant, query)
        if query.item or query.vectors:
            return self.with_words(call.tenant, query)
        if query.id is not None:
            known = self.queries[call.tenant.name]
            found = await call.run_in("search", known.find, call.tenant, query.id)
            if found is not None:
                return found
        if self.embedder is None or not query.text:
            return query
        vector = await self.embedder.embed(query.text)
        vectors = {**call.tenant.named(query.text), self.settings.embedder_view: vector}
        return self.with_words(call.tenant, structs.replace(query, vectors=vectors))

    def with_words(self, tenant: Tenant, query: Query) -> Query:
        """A query that has vectors and a text with its words, where they are a view."""
        words = self._words_of(tenant)
        if words is None or not query.text or not query.vectors or WORD_VIEW in query.vectors:
            return query
        vectors = {**query.vectors, WORD_VIEW: words.query(query.text)}
        return structs.replace(query, vectors=vectors)

    def _words_of(self, tenant: Tenant) -> WordEmbedder | None:
        is_first = tenant.home.name == self.settings.tenant
        return self._words if is_first and tenant.has_words else None

    async def embedded(self, tenant: Tenant, items: Sequence[Item]) -> list[Item]:
        """Items, those without vectors with the vector of their text, and all with their words."""
        words = self._words_of(tenant)
        categories = [each.name for each in tenant.columns or () if each.is_category]
        found = []
        for item in items:
            vectors, text = dict(item.vectors), item.text or ""
            named = [str(item.fields[name]) for name in categories if name in item.fields]
            if self.embedder is not None and text and not vectors:
                vectors[self.settings.embedder_view] = await self.embedder.embed_item(text, named)
            if words is not None and vectors and WORD_VIEW not in vectors:
                vectors[WORD_VIEW] = await words.embed_item(text, named)
            found.append(structs.replace(item, vectors=vectors))
        return found

    def create(self, name: str, shares: str | None = None) -> bool:
        """Make a tenant; False if it exists with the same items."""
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

    def listens_at(self, url: str) -> None:
        """Others reach this process at a URL, unless the settings name another."""
        self._access = self._access._replace(address=self.settings.address or url)
        self.tenants.access = self._access

    def _new_tenants(self) -> Tenants:
        settings = self.settings
        return Tenants(settings.store, cache=settings.cache or None, access=self._access)

    @property
    def _new_tenant(self) -> TenantSettings:
        return TenantSettings(held_out=self.settings.hold_out, search=self.settings.search)

    # -- startup and shutdown --------------------------------------------------------------------

    async def _live(self, receive: Receive, send: Send) -> None:
        """Listen at once and replay meanwhile; at the end, drain and close."""
        await receive()
        opening = asyncio.create_task(self._open())
        await send({"type": "lifespan.startup.complete"})
        await receive()
        self.ready = False
        self._ending.set()
        await opening
        if self.processes is not None:
            await self.processes.close()
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
        if self.settings.is_database:
            from similia.service.http.processes import Processes  # needs psycopg, an extra

            self.processes = Processes(self)
            self.processes.begin()
        self.on_ready()
        self.ready = True
        journal.note(logging.INFO, "ready")
        if self.settings.warm_up == "beside":
            await asyncio.to_thread(self._warm_up)

    async def _reach_logs(self) -> bool:
        """Open the logs, retrying while a database is away or another service holds them.

        Returns False if the service ends first.
        """
        while not self._ending.is_set():
            try:
                await asyncio.to_thread(self._open_tenants)
                return True
            except (Unavailable, NotFound) as error:  # nobody has made the first tenant yet
                if str(error) != str(self.failure):
                    journal.note(logging.WARNING, "the logs are out of reach", reason=str(error))
                self.failure = error
            await asyncio.to_thread(self.tenants.close)
            self.tenants = self._new_tenants()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._ending.wait(), RETRY_SECONDS)
        return False

    def _warm_up(self) -> None:
        seconds = warm_up()
        journal.note(logging.INFO, "warm", seconds=round(seconds, 1))

    def _open_tenants(self) -> None:
        first: Tenant | None = None
        with contextlib.suppress(Damaged):  # other tenants are served all the same
            if self.settings.follow:
                first = self.tenants.get(self.settings.tenant)
            else:
                first = self.tenants.get_or_create(self.settings.tenant, self._new_tenant)
        self.tenants.open_some()
        for name, error in self.tenants.unusable.items():
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
        """Refuse to share external items: those that one tenant judges would be copied for all."""
        sharing = self.tenants.sharing(first.name)
        if sharing or first.shares is not None:
            raise ValueError(
                f"settings: items_at must be for a tenant whose items nobody shares, got "
                f"{first.name!r}, which shares them with {first.shares or sharing[0]!r}."
            )

    def _read_files(self, tenant: Tenant) -> None:
        if self.items is not None:
            found, put = self.items.load(tenant, self.settings.words != NONE)
            journal.note(logging.INFO, "items", found=found, put=put)
        views = tenant.status().views
        if self.query_file is not None and views:
            given = self.query_file.queries(views[0].name)
            self.queries[tenant.name] = KnownQueries(self.with_words(tenant, q) for q in given)
        if (words := self._words_of(tenant)) is not None:
            words.load()
        elif tenant.has_words:
            lack = "typed queries lack the view of words, as no file of them is given"
            journal.note(logging.WARNING, lack, setting="words")

    def close(self) -> None:
        """Finish running work and write what is pending."""
        for lane in self.lanes.values():
            lane.close()
        self.tenants.close()
        if self._elsewhere is not None:
            self._elsewhere.close()
        if self.traces is not None:
            self.traces.close()


class Routes:
    """Finds the endpoints of a path. An id in a path may contain slashes."""

    def __init__(self, endpoints: Sequence[Endpoint]) -> None:
        #: endpoints by method, by path
        self._plain: dict[str, dict[str, Endpoint]] = {}
        for endpoint in endpoints:
            methods = self._plain.setdefault(endpoint.path, {})
            methods[endpoint.method] = endpoint
            if endpoint.method == "GET":
                methods["HEAD"] = endpoint
        #: text before and after the id in each path with one, longest ending first
        self._of_ids = sorted(
            (
                (*path.removeprefix(V1).split("{id}"), path)
                for path in self._plain
                if "{id}" in path
            ),
            key=lambda each: -len(each[1]),
        )

    def find(self, path: str) -> tuple[dict[str, Endpoint], dict[str, str]]:
        """Endpoints of a path by method (empty if unknown), and the names in the path."""
        if path in self._plain and "{" not in path:
            return self._plain[path], {}
        start, v1, tenant = (*path.split("/", 3), "", "")[:3]
        if start or v1 != "v1" or not tenant:
            return {}, {}
        below = path[len(f"/v1/{tenant}") :]
        if V1 + below in self._plain and "{" not in below:
            return self._plain[V1 + below], {"tenant": tenant}
        for before, after, pattern in self._of_ids:
            id = below[len(before) : len(below) - len(after)]
            if id and below.startswith(before) and below.endswith(after):
                return self._plain[pattern], {"tenant": tenant, "id": id}
        return {}, {}
