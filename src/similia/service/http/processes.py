"""Other processes that serve the same database.

One writes a tenant, any number follow it. Requests that change a log are handed on to the process
that writes it, and so are those for tenants that are not served here.
"""

import asyncio
import contextlib
import time
from typing import TYPE_CHECKING

import httpx

from similia.service.errors import Problem, ServiceError, Taken, Unavailable
from similia.service.http.calls import Call
from similia.service.log.following import LogFollower
from similia.service.log.opening import check_name
from similia.service.log.writers import Claim, Writers
from similia.service.schemas import Health

if TYPE_CHECKING:
    from similia.service.http.app import Service

#: seconds to reach another process
CONNECT_SECONDS = 5.0
#: seconds between looks at the claim of a process that writes
WATCH_SECONDS = 0.25
#: addresses remembered, by tenant
MAX_KNOWN = 10_000
#: header of a request that comes from another process, which is not handed on again
FROM_PROCESS = b"similia-process"
#: headers that are handed on, and those of the answer
REQUEST_HEADERS = (b"authorization", b"content-type", b"content-encoding", b"traceparent")
ANSWER_HEADERS = ("retry-after", "www-authenticate", "allow")


class Processes:
    """The other processes: which of them writes, and what it answers.

    Keys are checked here and there, so a key's rate of writing is one for all processes.
    """

    def __init__(self, service: "Service") -> None:
        self._service = service
        settings = service.settings
        self._writers = Writers(settings.store)
        self._claim = None
        if not settings.follow:
            access = service.tenants.access
            self._claim = Claim(settings.store, access.address, access.only)
        self._watching: asyncio.Task[None] | None = None
        #: addresses by tenant, until one does not answer
        self._known: dict[str, str] = {}
        most = settings.max_requests
        self._client = httpx.AsyncClient(
            timeout=httpx.Timeout(None, connect=CONNECT_SECONDS),
            limits=httpx.Limits(max_connections=most, max_keepalive_connections=most),
            headers={"accept-encoding": "identity"},
            trust_env=False,
        )

    # -- requests --------------------------------------------------------------------------------

    def answers(self, call: Call) -> bool:
        """Whether another process answers: it has the tenant, or writes what is only read here."""
        tenant = call.path.get("tenant")
        if tenant is None:
            return False
        access = self._service.tenants.access
        reads = "read" in (call.endpoint.scopes or ())
        return not access.serves(tenant) or (access.follows and not reads)

    async def forward(self, call: Call) -> None:
        """Let another process answer; raises Unavailable if none does."""
        tenant = call.details["tenant"] = call.path["tenant"]
        if FROM_PROCESS in call.headers:
            raise Problem(503, f"{tenant!r} is not written here; try again later.", retry_after=1)
        check_name(tenant)
        content = await call.read()
        if len(self._known) > MAX_KNOWN:
            self._known.clear()
        try:
            with contextlib.suppress(httpx.ConnectError):  # nothing was sent: look again
                if tenant in self._known:
                    await self._forward(call, tenant, content)
                    return
            self._known[tenant] = await call.run_in("look", self._writers.find, tenant)
            await self._forward(call, tenant, content)
        except httpx.HTTPError as error:
            self._known.pop(tenant, None)
            raise Unavailable(
                f"log: the process that writes {tenant!r} did not answer ({type(error).__name__}), "
                "so nothing counts as stored; send it again later."
            ) from error

    async def _forward(self, call: Call, tenant: str, content: bytes) -> None:
        address = httpx.URL(self._known[tenant])
        path = call.scope["raw_path"]
        if call.scope["query_string"]:
            path += b"?" + call.scope["query_string"]
        headers = [(name, call.headers[name]) for name in REQUEST_HEADERS if name in call.headers]
        answer = await self._client.request(
            call.scope["method"],
            address.copy_with(raw_path=path),
            content=content,
            headers=[*headers, (FROM_PROCESS, b"1"), (b"x-request-id", call.id.encode())],
        )
        if answer.status_code == 503:
            self._known.pop(tenant, None)
        given = [
            (name.encode(), answer.headers[name].encode())
            for name in ANSWER_HEADERS
            if name in answer.headers
        ]
        media = answer.headers.get("content-type", "").encode()
        await call.respond(answer.status_code, answer.content, given, media)

    # -- health ----------------------------------------------------------------------------------

    def health(self) -> Health:
        """How far logs that are followed are ahead of what ranks; raises Problem if too far."""
        behind, heard, now = 0, 0.0, time.monotonic()
        for tenant in self._service.tenants.opened():
            if tenant.learner.has_stopped:
                raise Problem(503, "not ready: learning has stopped; start this process again.")
            follower = tenant.log.writer
            if not isinstance(follower, LogFollower):
                continue
            if follower.failure is not None:
                raise Problem(503, "not ready: a log has changed; start this process again.")
            behind = max(behind, follower.last - tenant.learner.seq)
            heard = max(heard, now - (follower.heard or now))
        most = self._service.settings.max_silence
        if 0 < most < heard:
            raise Problem(
                503, f"not ready: the logs were last read {heard:.0f} s ago.", retry_after=1
            )
        if self._claim is not None:
            return Health("ready")
        return Health("ready", behind, round(heard, 3))

    # -- writing ---------------------------------------------------------------------------------

    def begin(self) -> None:
        """Say that this process writes, if it does, and end it once another one does."""
        if self._claim is not None:
            self._watching = asyncio.create_task(self._watch(self._claim))

    async def _watch(self, claim: Claim) -> None:
        is_sure = True
        while True:
            try:
                is_new = not await asyncio.to_thread(claim.hold)
                if is_new or not is_sure:
                    is_sure = False
                    await asyncio.to_thread(self._service.tenants.recover)
                is_sure = True
            except Taken as error:
                self._service.unreadable = error
                return
            except ServiceError:  # the database is away
                is_sure = False
            await asyncio.sleep(WATCH_SECONDS)

    async def close(self) -> None:
        """Disconnect."""
        if self._watching is not None:
            self._watching.cancel()
            await asyncio.wait([self._watching])
        await self._client.aclose()
        await asyncio.to_thread(self._writers.close)
        if self._claim is not None:
            await asyncio.to_thread(self._claim.close)
