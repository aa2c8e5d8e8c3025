"""Who asks, and what they may do: asked before anything is read, stored or waited for."""

import logging
from functools import lru_cache
from urllib.parse import urlsplit

from similia.service.http import journal
from similia.service.http.budgets import UNKNOWN, Rates
from similia.service.http.endpoints import Endpoint
from similia.service.http.exchange import Exchange
from similia.service.http.keys import LOCAL_OWNER, Key, Keys, bearer
from similia.service.http.problems import Problem
from similia.service.settings import Settings

#: how browsers and clients on this machine name it
LOOPBACK_NAMES = ("localhost", "127.0.0.1", "::1")
#: headers by which a proxy says for whom it asks, beside all that begin with `x-forwarded-`
FORWARDING_HEADERS = {b"forwarded", b"via", b"x-real-ip", b"x-client-ip", b"x-original-host"}
FORWARDING_PREFIX = b"x-forwarded-"
#: requests with a wrong key, and for pages, that one address may make at once
MAX_WRONG_BURST, MAX_PAGE_BURST = 20, 1000


class Auth:
    """Lets callers in by their keys; without any, whoever is on this machine."""

    def __init__(self, settings: Settings, keys: Keys) -> None:
        self.keys = keys
        self._known = Rates(settings.rate, settings.burst)
        self._wrong = Rates(settings.wrong_rate, MAX_WRONG_BURST)
        self._pages = Rates(settings.page_rate, MAX_PAGE_BURST)

    def admit(self, exchange: Exchange, endpoint: Endpoint, tenant: str | None) -> Key:
        """The caller's key, or 401, 403 or 429."""
        key = self.caller(exchange)
        place = key.tenant if endpoint.place == "any" else tenant
        place = None if endpoint.place == "service" else place
        assert endpoint.scopes is not None
        if not key.allows(place, endpoint.scopes):
            raise Problem(403, f"the key must be for {' or '.join(endpoint.scopes)} here.")
        self._known.check(key.id)
        return key

    def caller(self, exchange: Exchange) -> Key:
        """The key of whoever asks, for any tenant; 401, 403 or 429 without one that is known."""
        try:
            needed, key = self.keys.look_up(bearer(exchange.headers.get(b"authorization")))
        except (ValueError, OSError) as error:
            journal.note(logging.ERROR, "keys cannot be read", reason=str(error))
            raise Problem(503, "keys cannot be read.", retry_after=5) from None
        if not needed:
            _check_local(exchange)
            key = LOCAL_OWNER
        if key is None:
            self._wrong.check(_address(exchange), close=True)
            raise Problem(
                401,
                "a known key must be sent: Authorization: Bearer sk_…",
                headers={"www-authenticate": "Bearer"},
            )
        exchange.connection.known()
        exchange.caller = exchange.details["key"] = key.id
        return key

    def visitor(self, exchange: Exchange) -> None:
        """Count a request for a page, which needs no key; 429 beyond the rate."""
        self._pages.check(_address(exchange), close=True)


def _address(exchange: Exchange) -> str:
    client = exchange.scope["client"]
    return UNKNOWN if client is None else str(client[0])


def _check_local(exchange: Exchange) -> None:
    """Without keys, refuse proxies, other machines' names, and pages of other sites."""
    headers = exchange.headers
    forwarded = [name for name in headers if name.startswith(FORWARDING_PREFIX)]
    if forwarded or not FORWARDING_HEADERS.isdisjoint(headers):
        raise Problem(403, "without keys, requests must not come through a proxy; make a key.")
    server = exchange.scope["server"]
    port = None if server is None else server[1]
    if not _is_own(headers.get(b"host", b""), headers.get(b"origin"), port):
        raise Problem(403, "without keys, requests must come from this machine and this site.")


@lru_cache(maxsize=16)
def _is_own(host: bytes, origin: bytes | None, port: int | None) -> bool:
    """Whether a program on this machine asks, for this port; or a page of this service."""
    if set(host) & set(b"/@?#\\"):
        return False
    try:
        asked = urlsplit(f"//{host.decode('latin-1')}")
        own = asked.hostname in LOOPBACK_NAMES and (asked.port or 80) == port
    except ValueError:  # half an address, or no port
        return False
    return own and (origin is None or origin.partition(b"://")[2] == host)
