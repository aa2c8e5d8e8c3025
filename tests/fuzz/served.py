"""Attacks on a service: its log and snapshots on the disk, and requests."""

import atexit
import contextlib
import json
import shutil
import socket
import sqlite3
import tempfile
from functools import cache
from pathlib import Path

import httpx
import msgspec
from typer.testing import CliRunner

from similia.cli.main import app
from similia.service.engine import fold, snapshots
from similia.service.errors import ServiceError
from similia.service.http.app import ENDPOINTS, Service
from similia.service.http.keys import SCOPES, Keys
from similia.service.http.pages import Images
from similia.service.log.rows import GENESIS, Entry, link
from similia.service.log.sqlite import LOG_FILE
from similia.service.settings import Settings
from similia.service.tenants.tenant import Tenant
from tests.fuzz import hostile
from tests.fuzz.targets import Broken, check_command, check_finite, forge, refused
from tests.service.conftest import Running, some_items, triplet
from tests.service.problems import filled, judgement, query

COLUMNS = ("seq", "time", "kind", "body", "id", "query", "judge", "target", "hash")
#: requests of one case
REQUESTS = 20
#: answers of a service that works, and of one that says what it lacks
ANSWERS = {*range(200, 300), 400, 401, 403, 404, 405, 409, 413, 415, 422, 429, 503}


@cache
def store():
    """A folder with the log and the snapshots of a tenant."""
    folder = Path(tempfile.mkdtemp())
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    snapshots.EVERY, fold.LISTS_PER_BLOCK = 1, 16
    tenant = filled(folder)
    for start in range(0, 60, 20):
        tenant.feedback([judgement(i) for i in range(start, start + 20)])
        tenant.rank(query(0), min_seq=tenant.log.last, timeout=300)  # compiles
    tenant.close()
    return folder


def rewrite_log(rng, path):
    """Change a row, or its JSON; often with hashes that fit."""
    connection = sqlite3.connect(path)
    number = int(rng.integers(1, 62))
    (body,) = connection.execute("SELECT body FROM rows WHERE seq = ?", (number,)).fetchone()
    column = hostile.pick(rng, ["body"] * 8 + [name for name in COLUMNS if name != "body"])
    value = packed(hostile.damaged_tree(rng, msgspec.msgpack.decode(body)))
    if column != "body":
        value = hostile.pick(rng, [0, -1, 2**62, "", "x" * 999, b"\xff", None, "\x1b[2J", "clicks"])
    try:
        with connection:
            connection.execute(f"UPDATE rows SET {column} = ? WHERE seq = ?", (value, number))
    except sqlite3.Error:  # a value that the schema refuses
        pass
    if rng.random() < 0.8:
        previous = GENESIS
        rows = connection.execute(f"SELECT {', '.join(COLUMNS)} FROM rows ORDER BY seq").fetchall()
        for seq, time, kind, body, id, asked, judge, target, _ in rows:
            previous = link(previous, seq, time, Entry(kind, body, id, asked, judge, target))
            with connection:
                connection.execute("UPDATE rows SET hash = ? WHERE seq = ?", (previous, seq))
    connection.close()


def packed(tree):
    try:
        return msgspec.msgpack.encode(tree)
    except (OverflowError, ValueError):  # an integer beyond what it can hold
        return b"\xc1"


def stores(rng, folder):
    place = folder / "store"
    shutil.copytree(store(), place)
    log = place / "acme" / LOG_FILE
    way = rng.integers(4)
    if way == 0:
        log.write_bytes(hostile.damaged_bytes(rng, log.read_bytes()))
    elif way == 1:
        victim = hostile.pick(rng, sorted((place / "acme" / "snapshots").glob("*")))
        forge(rng, victim, victim)
    else:
        rewrite_log(rng, log)
    check_command("log", CliRunner().invoke(app, ["log", "check", "--store", str(place)]))
    tenant = told(lambda: Tenant.open(place, "acme"))
    if tenant is None:
        return
    try:
        told(lambda: tenant.rank(query(1), min_seq=tenant.log.last, timeout=60))
        told(lambda: tenant.feedback([judgement(99)]))
        told(lambda: tenant.rank(query(2), min_seq=tenant.log.last, timeout=60))
        learner = tenant.learner.live.learner
        if learner is not None:
            check_finite("a served learner", learner.get_state())
    finally:
        told(tenant.close)


def told(call):
    """Result of a call, or None if it raised a documented error."""
    try:
        return refused(call)
    except ServiceError:
        return None


# -- requests --------------------------------------------------------------------------------------


@cache
def client():
    """A client with all rights, of a service that lasts as long as this process."""
    folder = tempfile.mkdtemp()
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    _, token = Keys(Path(folder) / "keys.json").add("*", SCOPES)
    service = Service(Settings(store=folder, port=0, rate=0.0, wrong_rate=0.0, timeout=60.0))
    running = Running(service)
    running.__enter__()
    service.tenants.get("default").put_items(some_items())
    headers = {"Authorization": f"Bearer {token}"}
    return httpx.Client(base_url=running.url, timeout=110, headers=headers)


BODIES = [
    triplet(),
    {"judgements": [triplet(1, 2, 3), triplet(2, 3, 4)]},
    {"query": {"item": "i1"}, "k": 5},
    {"kind": "clicks", "query": {"item": "i1"}, "shown": ["i1", "i2"], "clicked": ["i2"]},
    {"items": [{"id": "i1", "vectors": {"vectors": [0.5] * 8}, "text": "one"}]},
    {"id": "new", "vectors": {"vectors": [1.0] * 8}, "fields": {"price": 1}},
    {"query": {"vectors": {"vectors": [1.0] * 8}}, "k": 3, "min_seq": 1},
]
PLACES = [
    "i1",
    "default",
    "x",
    "..",
    "%2e%2e%2f",
    "0",
    "-1",
    "\x1b[2J",
    "9" * 40,
    "%00",
    "a" * 3000,
]


def requests(rng, folder):
    for _ in range(REQUESTS):
        endpoint = hostile.pick(rng, ENDPOINTS)
        path = endpoint.path.replace("{tenant}", "default")
        while "{" in path:
            start, end = path.index("{"), path.index("}")
            path = path[:start] + hostile.pick(rng, PLACES) + path[end + 1 :]
        body = json.dumps(hostile.damaged_tree(rng, hostile.pick(rng, BODIES))).encode()
        if rng.random() < 0.3:
            body = hostile.damaged_bytes(rng, body)
        headers = {"content-type": hostile.pick(rng, ["application/json"] * 5 + ["text/csv", "x"])}
        ask(endpoint.method, path, body, headers, rng)
    found = client().get("/v1/default/items/none")
    if found.status_code != 404:
        raise Broken(f"the service is gone: {found.status_code} {found.text[:300]}")


def ask(method, path, body, headers, rng):
    options = {"headers": headers, "params": {}}
    for name in ("k", "limit", "after", "n", "min_seq", "wait"):
        if rng.random() < 0.15:
            options["params"][name] = str(hostile.pick(rng, hostile.VALUES))[:100]
    if method.upper() not in ("GET", "HEAD"):
        options["content"] = body
    try:
        found = client().request(method, path, **options)
    except httpx.InvalidURL:
        return
    if found.status_code not in ANSWERS:
        raise Broken(f"{method} {path} answers {found.status_code}: {found.text[:300]}")


# -- pages -----------------------------------------------------------------------------------------

SECRET = b"never to be sent"
#: what a page may answer: a file, a part of it, none, or why not
SHOWN = {100, 200, 206, 304, 400, 403, 404, 405, 413, 414, 416, 421, 431}
NAMES = ["/", "/images/i1.png", "/images/i1", "/assets/page.js", "/docs", "/docs/", "/openapi.json"]
NAMES += ["/images/../secret.png", "/images/%2e%2e/secret.png", "/images/..%2fsecret.png"]
NAMES += [
    "/images//secret.png",
    "/images/%2fetc%2fpasswd",
    "/assets/../app.py",
    "/images/i1.png%00",
]
NAMES += [
    "/images/inside/../../secret.png",
    "/assets/%2e%2e/%2e%2e/app.py",
    "*",
    "http://x/",
    "//x",
]
HEADERS = [
    ("range", "bytes=" + ",".join(f"{n}-{n + 9}" for n in range(0, 3000, 2))),
    ("range", "bytes=0-,0-,0-"),
    ("range", "bytes=-1"),
    ("range", "bytes=9999999999999999999999-"),
    ("range", "bytes=5-1,x"),
    ("if-none-match", "*"),
    ("host", "evil.example"),
    ("origin", "http://evil.example"),
    ("content-length", "-1"),
    ("content-length", "99999999999999999999"),
    ("transfer-encoding", "chunked"),
    ("x", "y" * 70_000),
    ("upgrade", "websocket"),
    ("expect", "100-continue"),
    ("cookie", "\x00"),
]


@cache
def shown():
    """Address of a service without keys, whose page shows pictures of a folder."""
    folder = Path(tempfile.mkdtemp())
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    pictures = folder / "pictures"
    (pictures / "inside").mkdir(parents=True)
    for path in (pictures / "i1.png", pictures / "inside" / "i2.png"):
        path.write_bytes(bytes(range(256)) * 20)
    (folder / "secret.png").write_bytes(SECRET)
    (pictures / "i3.png").symlink_to(folder / "secret.png")
    settings = Settings(store=str(folder / "store"), port=0, rate=0.0, wrong_rate=0.0)
    running = Running(Service(settings, images=Images(pictures)))
    running.__enter__()
    return "127.0.0.1", running.port


def answer(raw, whole=True):
    """All that the service sends back for a request; for one that may lack its end, at once."""
    received = b""
    with socket.create_connection(shown(), timeout=100) as connection:
        try:
            connection.sendall(raw)
            if not whole:
                with contextlib.suppress(OSError):  # the service has hung up
                    connection.shutdown(socket.SHUT_WR)
            while part := connection.recv(65536):
                received += part
        except ConnectionError:  # it may hang up on nonsense
            pass
    return received


def pages(rng, folder):
    for _ in range(REQUESTS):
        path = hostile.pick(rng, [*NAMES, "/images/i3.png"])
        method = hostile.pick(rng, ["GET", "GET", "GET", "HEAD", "POST", "TRACE", "X" * 99])
        headers = {"host": f"127.0.0.1:{shown()[1]}", "connection": "close"}
        for _ in range(rng.integers(3)):
            name, value = hostile.pick(rng, HEADERS)
            headers[name] = value
        lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        raw = f"{method} {path} HTTP/1.1\r\n{lines}\r\n".encode("latin-1")
        whole = rng.random() < 0.8
        found = answer(raw if whole else hostile.damaged_bytes(rng, raw), whole)
        status = int(found[9:12]) if found else 400
        if status not in SHOWN:
            raise Broken(f"{raw[:200]!r} is answered by {found[:200]!r}")
        if SECRET in found or b"root:" in found:
            raise Broken(f"{raw[:200]!r} reads a file from elsewhere")
    sound = (
        f"GET /images/i1.png HTTP/1.1\r\nhost: 127.0.0.1:{shown()[1]}\r\nconnection: close\r\n\r\n"
    )
    if not answer(sound.encode()).startswith(b"HTTP/1.1 200"):
        raise Broken("the page is gone")
