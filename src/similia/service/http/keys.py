"""API keys in a file that is read again whenever it changes, and what each may call.

A key is ``sk_ID_SECRET`` with a secret of 256 random bits. Slow hashes protect passwords that can
be guessed; nobody guesses 256 bits, so a fast keyed hash (BLAKE2b) is as safe and keeps requests
cheap. It is keyed by the file's salt, so equal secrets in two files have different hashes.
"""

import asyncio
import hashlib
import hmac
import json
import logging
import os
import re
import secrets
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import msgspec
from filelock import FileLock

from similia.safety.whole import make_folder, replacing
from similia.service.errors import Problem
from similia.service.http import journal
from similia.service.http.budgets import STRANGERS_WAIT, Rates
from similia.service.settings import Settings

if TYPE_CHECKING:
    from similia.service.http.calls import Call

#: what a key may do: read, judge, or everything
SCOPES = ("read", "feedback", "admin")
#: a key of all tenants
EVERY = "*"
TOKEN_PREFIX = "sk"
MAX_TOKEN_LENGTH = 128
#: compared with if a key is unknown, so that timing tells nothing
DUMMY_HASH = "0" * 64
#: names of this machine in `Host`
LOOPBACK_NAMES = ("localhost", "127.0.0.1", "::1")
#: headers that proxies add
FORWARDING_HEADER = re.compile(
    rb".*forwarded.*|via|.*-ip|cdn-loop|x-(envoy|original|arr)-.*|x-varnish|tailscale-.*"
)
#: what browsers say of requests that no other site made
OWN_SITE = (b"none", b"same-origin")
#: requests with a wrong key, and for pages, that one address may make at once
MAX_WRONG_BURST, MAX_PAGE_BURST = 20, 250


@dataclass(frozen=True)
class Key:
    """A key, without its secret."""

    id: str
    tenant: str
    scopes: tuple[str, ...]
    hash: str = DUMMY_HASH
    name: str = ""
    #: judgements with this key are this judge's
    judge: str | None = None
    created: str = ""
    #: seconds since 1970, or None for never
    expires: float | None = None

    def allows(self, tenant: str | None, scopes: tuple[str, ...]) -> bool:
        """Whether the key may do one of these in a tenant; None is the service itself."""
        if self.tenant not in (EVERY, tenant):
            return False
        return "admin" in self.scopes or any(scope in self.scopes for scope in scopes)


#: any caller of a service without keys, which listens on loopback only
LOCAL_OWNER = Key("local", EVERY, SCOPES, name="local owner")
#: a caller whose key is not known, or not needed
VISITOR = Key("", "", ())


class Keys:
    """Keys of a file; `find` sees changes of the file at once.

    Parameters
    ----------
    path : path
        JSON, readable by its owner only. If it exists, requests need a key, even if none is in it.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = threading.Lock()
        self._stamp: tuple[int, ...] | None = None
        self._salt = ""
        self._keys: dict[str, Key] = {}
        #: once a file was seen, keys are needed: even if it is empty or has been removed
        self._needed = False

    @property
    def needed(self) -> bool:
        """Whether requests need a key."""
        return self.look()

    def find(self, token: str) -> Key | None:
        """The key of a token, or None if it is unknown, expired or revoked."""
        self.look()
        return self.known(token)

    def known(self, token: str) -> Key | None:
        """The same, as of the last `look`."""
        prefix, _, rest = token[:MAX_TOKEN_LENGTH].partition("_")
        identifier, _, secret = rest.partition("_")
        known = self._keys.get(identifier)
        hashed = _hash(secret, self._salt)
        same = hmac.compare_digest(hashed, known.hash if known else DUMMY_HASH)
        if known is None or not same or prefix != TOKEN_PREFIX or len(token) > MAX_TOKEN_LENGTH:
            return None
        return None if known.expires is not None and known.expires <= time.time() else known

    def list(self, tenant: str | None = None) -> list[Key]:
        """All keys, or those of a tenant."""
        self.look()
        return [key for key in self._keys.values() if tenant in (None, key.tenant)]

    def add(
        self,
        tenant: str,
        scopes: tuple[str, ...],
        *,
        name: str = "",
        judge: str | None = None,
        expires: float | None = None,
    ) -> tuple[Key, str]:
        """Make a key; the token is returned and stored nowhere."""
        if not scopes or set(scopes) - set(SCOPES):
            got = ", ".join(scopes) or "none"
            raise ValueError(f"keys: scopes must be some of {', '.join(SCOPES)}, got {got}.")
        asked = Key("", tenant, scopes, name=name, judge=judge, expires=expires)
        with self._changing() as (keys, salt):
            return _made(asked, keys, salt)

    def rotate(self, identifier: str, *, grace: float = 0.0) -> tuple[Key, str]:
        """Replace a key by a new one; the old one works for `grace` more seconds."""
        with self._changing() as (keys, salt):
            old = _known(keys, identifier)
            made = _made(old, keys, salt)
            if grace > 0:
                ends = time.time() + grace
                keys[old.id] = replace(old, expires=min(ends, old.expires or ends))
            else:
                del keys[old.id]
            return made

    def revoke(self, identifier: str, tenant: str | None = None) -> Key:
        """Forget a key, of the given tenant only."""
        with self._changing() as (keys, _):
            found = _known(keys, identifier, tenant)
            del keys[found.id]
            return found

    # -- the file ------------------------------------------------------------------------------

    def look(self) -> bool:
        """Read the file again if it has changed; whether requests need a key."""
        try:
            found = os.stat(self.path)
        except FileNotFoundError:
            if self.path.is_symlink():  # what it names is gone, or not there yet
                self._needed = True
            if self._stamp is not None:
                with self._lock:
                    self._stamp, self._keys = None, {}
            return self._needed
        self._needed = True
        stamp = (found.st_mtime_ns, found.st_size, found.st_ino)
        if stamp != self._stamp:
            with self._lock:
                self._salt, self._keys = _read(self.path)
                self._stamp = stamp
        return True

    @contextmanager
    def _changing(self) -> Iterator[tuple[dict[str, Key], str]]:
        """Yield all keys, to be changed, and write them back."""
        make_folder(self.path.parent)
        with FileLock(f"{self.path}.lock", mode=0o600):
            salt = secrets.token_hex(32)
            keys: dict[str, Key] = {}
            if self.path.exists():
                salt, keys = _read(self.path)
            yield keys, salt
            now = time.time()
            kept = [asdict(key) for key in keys.values() if (key.expires or now + 1) > now]
            with replacing(self.path) as temporary:
                temporary.chmod(0o600)
                text = json.dumps({"version": 1, "salt": salt, "keys": kept}, indent=1)
                temporary.write_text(text, encoding="utf-8")
            self.path.chmod(0o600)
        self.look()


def described(key: Key) -> dict[str, Any]:
    """What may be shown of a key."""
    found = asdict(key)
    del found["hash"]
    return {**found, "scopes": ", ".join(key.scopes)}


def bearer(header: bytes | None) -> str | None:
    """Token of an Authorization header."""
    if header is None:
        return None
    scheme, _, token = header.decode("latin-1").partition(" ")
    return token.strip() if scheme.lower() == "bearer" and token.strip() else None


# -- who may call what -----------------------------------------------------------------------------


class Auth:
    """Admits callers by their keys or, without keys, whoever is on this machine.

    Nothing of a request is read, stored or waited for before that.
    """

    def __init__(self, settings: Settings, keys: Keys) -> None:
        self.keys = keys
        self._known = Rates(settings.rate, settings.burst)
        self._wrong = Rates(settings.wrong_rate, MAX_WRONG_BURST)
        self._pages = Rates(settings.page_rate, MAX_PAGE_BURST)
        self._signs = Rates(settings.page_rate, MAX_PAGE_BURST)
        #: whether keys are needed; None until the file is looked at in this turn of the loop
        self._needed: bool | None = None

    def admit(self, call: "Call") -> None:
        """Admit a call if its key is for the endpoint; otherwise 401, 403 or 429."""
        endpoint = call.endpoint
        key = self.identify(call)
        place = call.path.get("tenant") if endpoint.place == "tenant" else None
        if endpoint.place == "any":
            place = key.tenant
        if not key.allows(place, endpoint.scopes or ()):
            raise Problem(403, f"the key must be for {' or '.join(endpoint.scopes or ())} here.")
        self._known.check(key.id)

    def identify(self, call: "Call") -> Key:
        """Find the caller's key, of any tenant; otherwise 401, 403 or 429."""
        if self._needed is None:  # one look for all requests of this turn
            try:
                self._needed = self.keys.look()
            except (ValueError, OSError) as error:
                journal.note(logging.ERROR, "keys cannot be read", reason=str(error))
                raise Problem(503, "keys cannot be read.", retry_after=5) from None
            asyncio.get_running_loop().call_soon(setattr, self, "_needed", None)
        if self._needed:
            token = bearer(call.headers.get(b"authorization"))
            key = None if token is None else self.keys.known(token)
        else:
            _check_local(call)
            key = LOCAL_OWNER
        if key is None:
            self._wrong.check(call.address, stranger=True)
            raise Problem(
                401,
                "a known key must be sent: Authorization: Bearer sk_…",
                headers={"www-authenticate": "Bearer"},
            )
        call.connection.known(key.id)
        call.key = key
        call.details["key"] = key.id
        return key

    def visitor(self, call: "Call") -> None:
        """Count a request for a page, which needs no key; 429 beyond the rate."""
        self._pages.check(call.address, stranger=True)

    async def pace(self, call: "Call") -> None:
        """Hold up floods of requests that need no key and are never refused.

        The first on a connection is answered at once, so whoever looks after a service is.
        """
        if call.connection.n_requests > 1 and self._signs.take(call.address):
            await asyncio.sleep(STRANGERS_WAIT)


def _check_local(call: "Call") -> None:
    """Without keys, refuse proxies, other machines' names, and pages of other sites."""
    headers = call.headers
    # nginx adds no header unless told to, but speaks HTTP/1.0 then.
    if call.scope["http_version"] == "1.0" or any(map(FORWARDING_HEADER.fullmatch, headers)):
        raise Problem(403, "without keys, requests must not come through a proxy; make a key.")
    server = call.scope["server"]
    port = None if server is None else server[1]
    own = _is_own(headers.get(b"host", b""), headers.get(b"origin"), port)
    if not own or headers.get(b"sec-fetch-site", b"none") not in OWN_SITE:
        raise Problem(403, "without keys, requests must come from this machine and this site.")


@lru_cache(maxsize=16)
def _is_own(host: bytes, origin: bytes | None, port: int | None) -> bool:
    """Whether a request is from a program on this machine, or from a page of this service."""
    if set(host) & set(b"/@?#\\"):
        return False
    try:
        asked = urlsplit(f"//{host.decode('latin-1')}")
        own = asked.hostname in LOOPBACK_NAMES and (asked.port or 80) == port
    except ValueError:  # an incomplete address, or no port
        return False
    return own and (origin is None or origin.partition(b"://")[2] == host)


# -- the file --------------------------------------------------------------------------------------


def _made(like: Key, keys: dict[str, Key], salt: str) -> tuple[Key, str]:
    """A new key among others, and its token."""
    identifier, secret = secrets.token_hex(6), secrets.token_urlsafe(32)
    created = datetime.now(UTC).isoformat(timespec="seconds")
    made = replace(like, id=identifier, hash=_hash(secret, salt), created=created)
    keys[identifier] = made
    return made, f"{TOKEN_PREFIX}_{identifier}_{secret}"


def _known(keys: dict[str, Key], identifier: str, tenant: str | None = None) -> Key:
    found = keys.get(identifier)
    if found is None or tenant not in (None, found.tenant):
        raise KeyError(identifier)
    return found


def _hash(secret: str, salt: str) -> str:
    return hashlib.blake2b(
        secret.encode("utf-8", "surrogatepass"), key=bytes.fromhex(salt), digest_size=32
    ).hexdigest()


def _read(path: Path) -> tuple[str, dict[str, Key]]:
    try:
        found: Any = json.loads(path.read_text(encoding="utf-8"))
        if found["version"] != 1 or len(bytes.fromhex(found["salt"])) != 32:
            raise ValueError("an unknown version or salt")
        keys = msgspec.convert(found["keys"], list[Key])
        for key in keys:
            if len(bytes.fromhex(key.hash)) != 32 or not set(key.scopes) <= set(SCOPES):
                raise ValueError(f"the key {key.id} is damaged")
    except (ValueError, KeyError, TypeError, RecursionError, msgspec.MsgspecError) as error:
        raise ValueError(
            f"{path}: keys must be written by `similia keys`, got {error}; restore the file, or "
            "remove it and make new keys."
        ) from error
    return found["salt"], {key.id: key for key in keys}
