"""Keys: hashed, scoped, changed while a service runs; and every route with every wrong key."""

import itertools
import json
import socket
import stat
import time

import httpx
import pytest

from similia.service.http.app import ENDPOINTS, Service
from similia.service.http.keys import EVERY, SCOPES, Keys, bearer
from similia.service.settings import Settings
from tests.service.conftest import PATIENCE, Running, some_items, until

FILE = {"version": 1, "salt": "00" * 32}
KEY = {"id": "a", "tenant": "*", "scopes": ["admin"], "hash": "00" * 32}

#: the last one shares the items of the first
TENANTS = ("one", "two", "team")
CLOSED = [endpoint for endpoint in ENDPOINTS if endpoint.scopes is not None]


def name_of(endpoint):
    return f"{endpoint.method} {endpoint.path}"


@pytest.fixture
def keys(tmp_path):
    return Keys(tmp_path / "keys.json")


def test_a_key_is_found_by_its_token_alone(keys):
    key, token = keys.add("one", ("read",), name="reader")
    assert keys.find(token) == key
    for wrong in ("", "sk", token[:-1], token + "x", token.replace("sk", "ks"), f"sk_{key.id}_"):
        assert keys.find(wrong) is None
    assert keys.find("x" * 10**6) is None


def test_secrets_are_not_in_the_file_and_only_its_owner_reads_it(keys):
    _, token = keys.add("one", ("read",))
    text = keys.path.read_text()
    assert token.split("_", 2)[2] not in text
    assert stat.S_IMODE(keys.path.stat().st_mode) == 0o600


def test_another_process_sees_changes_at_once(keys):
    other = Keys(keys.path)
    assert not other.needed
    key, token = keys.add("one", ("read",))
    until(lambda: other.needed and other.find(token))
    keys.revoke(key.id)
    until(lambda: other.find(token) is None)
    assert other.needed  # no keys left lets nobody in


@pytest.mark.parametrize("left", [0, 1])
def test_a_file_without_keys_lets_nobody_in(start, tmp_path, left):
    """Whether the last one was revoked, or none was ever made: nobody is the owner."""
    keys = Keys(tmp_path / "store" / "keys.json")
    made, token = keys.add("default", ("admin",))
    if not left:
        keys.revoke(made.id)
    running = start()
    statuses = []
    for headers in ({}, {"authorization": f"Bearer {token}"}):
        answer = httpx.get(f"{running.url}/v1/default/status", headers=headers, timeout=PATIENCE)
        statuses.append(answer.status_code)
    assert statuses == [401, 200 if left else 401]


def test_a_removed_file_locks_everybody_out(keys):
    _, token = keys.add("one", ("read",))
    assert keys.find(token)
    keys.path.unlink()
    until(lambda: keys.find(token) is None)
    assert keys.needed


def test_a_rotated_key_works_for_its_grace(keys):
    old, old_token = keys.add("one", ("read", "feedback"), judge="ann")
    new, new_token = keys.rotate(old.id, grace=3600)
    assert keys.find(old_token).expires > time.time()
    assert (new.tenant, new.scopes, new.judge) == (old.tenant, old.scopes, old.judge)
    newest, _ = keys.rotate(new.id)
    assert keys.find(new_token) is None
    assert {key.id for key in keys.list()} == {old.id, newest.id}


def test_an_expired_key_is_unknown_and_goes_with_the_next_change(keys):
    _, token = keys.add("one", ("read",), expires=time.time() - 1)
    assert keys.find(token) is None
    keys.add("one", ("read",))
    assert len(keys.list()) == 1


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{}",
        '{"version": 2, "salt": "", "keys": []}',
        "[1]",
        "[" * 100_000,
        *(
            json.dumps(FILE | {"keys": [KEY | wrong]})
            for wrong in ({"id": [1]}, {"expires": "never"}, {"tenant": 1}, {"scopes": "admin"})
        ),
        json.dumps(FILE | {"keys": {"a": 1}}),
    ],
)
def test_a_damaged_file_is_an_error_that_says_what_to_do(keys, text):
    keys.path.write_text(text)
    with pytest.raises(ValueError, match="keys must be written by `similia keys`"):
        keys.list()


def test_wrong_scopes_are_refused(keys):
    with pytest.raises(ValueError, match="scopes must be some of read, feedback, admin, got root"):
        keys.add("one", ("root",))
    with pytest.raises(KeyError):
        keys.rotate("nobody")


def test_only_bearer_headers_hold_keys():
    assert bearer(b"Bearer sk_a_b") == "sk_a_b"
    for header in (None, b"", b"Basic sk_a_b", b"Bearer", b"Bearer  "):
        assert bearer(header) is None


# -- over HTTP -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def fort(tmp_path_factory):
    """A service with two tenants, one that shares the items of the first, and keys of all kinds."""
    folder = tmp_path_factory.mktemp("fort")
    keys = Keys(folder / "keys.json")
    tokens = {(tenant, s): keys.add(tenant, (s,))[1] for tenant in TENANTS for s in SCOPES}
    tokens["all"] = keys.add(EVERY, ("admin",))[1]
    tokens["expired"] = keys.add("one", SCOPES, expires=time.time() + 0.001)[1]
    revoked, tokens["revoked"] = keys.add("one", SCOPES)
    keys.revoke(revoked.id)
    options = {"rate": 0.0, "wrong_rate": 0.0, "warm_up": "never"}
    made = Service(Settings(store=str(folder), port=0, tenant="one", **options))
    with (
        Running(made) as running,
        httpx.Client(base_url=running.url, timeout=PATIENCE) as client,
    ):
        made.create("two")
        for tenant in ("one", "two"):
            made.tenants.get(tenant).put_items(some_items())
        made.create("team", shares="one")
        client.tokens, client.service = tokens, made
        yield client


def ask(client, endpoint, token, tenant="one"):
    path = endpoint.path.replace("{tenant}", tenant).replace("{id}", "i1")
    headers = {"authorization": f"Bearer {token}"} if token else {}
    body = {"json": {}} if endpoint.body is not None else {}
    return client.request(endpoint.method, path, headers=headers, **body)


@pytest.mark.parametrize("endpoint", CLOSED, ids=name_of)
def test_no_route_answers_a_wrong_key(fort, endpoint):
    unknown = "sk_000000000000_" + "A" * 43
    for token in (None, "", unknown, "x", fort.tokens["expired"], fort.tokens["revoked"]):
        answer = ask(fort, endpoint, token)
        assert answer.status_code == 401
        assert answer.headers["www-authenticate"] == "Bearer"
    for scope in SCOPES:
        answer = ask(fort, endpoint, fort.tokens["one", scope])
        here = endpoint.place != "service"
        allowed = here and (scope in endpoint.scopes or scope == "admin")
        assert (answer.status_code != 403) == allowed, scope


@pytest.mark.parametrize("endpoint", [e for e in CLOSED if e.place != "any"], ids=name_of)
def test_tenants_cannot_see_each_other_nor_whether_they_exist(fort, endpoint):
    """Neither those that share items, nor those whose items they share."""
    for own, scope in itertools.product(TENANTS, SCOPES):
        token = fort.tokens[own, scope]
        others = [tenant for tenant in (*TENANTS, "nobody") if tenant != own]
        answers = [ask(fort, endpoint, token, tenant) for tenant in others]
        for answer in answers:
            assert answer.status_code == 403
        assert len({answer.json()["error"] for answer in answers}) == 1


def test_a_team_sees_the_items_that_it_ranks_and_nothing_else_of_their_owner(fort):
    owner = {"authorization": f"Bearer {fort.tokens['one', 'admin']}"}
    team = {"authorization": f"Bearer {fort.tokens['team', 'admin']}"}
    body = {"kind": "triplet", "query": {"item": "i0"}, "better": "i5", "worse": "i2"}
    stored = fort.post("/v1/one/feedback", headers=owner, json=body).json()["results"][0]
    assert fort.get("/v1/team/items/i5", headers=team).json()["id"] == "i5"
    assert fort.post("/v1/team/rank", headers=team, json={"query": {"item": "i0"}}).is_success
    assert fort.get("/v1/team/feedback", headers=team).json() == {"judgements": []}
    assert fort.post(f"/v1/team/feedback/{stored['id']}/retract", headers=team).status_code == 404
    theirs = {key.id for key in fort.service.keys.list("one")}
    listed = fort.get("/v1/team/keys", headers=team).json()["keys"]
    assert not theirs & {key["id"] for key in listed}
    status = fort.get("/v1/team/status", headers=team).json()
    assert (status["judgements"], status["shares"]) == (0, "one")
    assert status["items"] == fort.service.tenants.get("one").n_items


def test_a_key_lists_its_own_tenant_only(fort):
    for who, seen in ((("one", "read"), ["one"]), ("all", ["one", "team", "two"])):
        headers = {"authorization": f"Bearer {fort.tokens[who]}"}
        assert fort.get("/v1", headers=headers).json() == {"tenants": seen}


def test_an_owner_invites_a_judge_who_signs_and_takes_back_only_their_own(fort):
    owner = {"authorization": f"Bearer {fort.tokens['one', 'admin']}"}
    made = fort.post("/v1/one/keys", headers=owner, json={"judge": "ann", "name": "invited"})
    ann = {"authorization": f"Bearer {made.json()['key']}"}
    body = {"kind": "triplet", "query": {"item": "i0"}, "better": "i3", "worse": "i2"}
    stored = fort.post("/v1/one/feedback", headers=ann, json=body).json()["results"][0]
    logged = fort.get("/v1/one/feedback?judge=ann", headers=owner).json()["judgements"]
    assert [row["record"]["id"] for row in logged] == [stored["id"]]
    for wrong in ({"judge": "bob"}, {"trusted": True}):
        assert fort.post("/v1/one/feedback", headers=ann, json=body | wrong).status_code == 403
    other = fort.post("/v1/one/feedback", headers=owner, json=body | {"judge": "bob"}).json()
    taken = f"/v1/one/feedback/{other['results'][0]['id']}/retract"
    assert fort.post(taken, headers=ann).status_code == 403
    assert fort.post(f"/v1/one/feedback/{stored['id']}/retract", headers=ann).status_code == 200
    assert fort.get("/v1/one/status", headers=ann).status_code == 200
    assert fort.post("/v1/one/rank", headers=ann, json={"query": {"item": "i0"}}).status_code == 403
    listed = fort.get("/v1/one/keys", headers=owner).json()["keys"]
    assert made.json()["id"] in {key["id"] for key in listed}
    assert "hash" not in json.dumps(listed)
    gone = fort.delete(f"/v1/one/keys/{made.json()['id']}", headers=owner)
    assert gone.status_code == 200
    assert fort.get("/v1/one/status", headers=ann).status_code == 401


def test_a_key_without_a_judge_takes_back_feedback_but_no_exams(fort):
    """Whoever could take back what speaks against a model would choose its exam."""
    owner = {"authorization": f"Bearer {fort.tokens['one', 'admin']}"}
    key = {"authorization": f"Bearer {fort.tokens['one', 'feedback']}"}
    body = {"kind": "triplet", "query": {"item": "i0"}, "better": "i3", "worse": "i2"}

    def stored(headers, **changes):
        answer = fort.post("/v1/one/feedback", headers=headers, json=body | changes)
        return f"/v1/one/feedback/{answer.json()['results'][0]['id']}/retract"

    exam = stored(owner, source="exam")
    assert fort.post(exam, headers=key).status_code == 403
    assert fort.post(exam, headers=owner).status_code == 200
    others = stored(owner, judge="bob")
    assert fort.post(others, headers=key).status_code == 200
    sheet = fort.get("/v1/one/next?n=5&judge=eve", headers=key).json()["questions"]
    ours = fort.get("/v1/one/next?n=5&judge=bob", headers=owner).json()["questions"]
    for questions, judge, status in ((sheet, "eve", 200), (ours, "bob", 403)):
        for each in questions:
            answer = {
                "query": each["query"],
                "better": each["left"],
                "worse": each["right"],
                "judge": judge,
                "question": each["id"],
                "source": each["source"],
            }
            taken = stored(key, **answer)
            assert fort.post(taken, headers=key).status_code == status


@pytest.mark.parametrize("wrong", [{"name": "a\0"}, {"judge": "\0"}])
def test_names_of_keys_can_be_stored_with_what_they_send(fort, wrong):
    owner = {"authorization": f"Bearer {fort.tokens['one', 'admin']}"}
    assert fort.post("/v1/one/keys", headers=owner, json=wrong).status_code == 422


def test_an_owner_cannot_revoke_keys_of_others(fort):
    owner = {"authorization": f"Bearer {fort.tokens['two', 'admin']}"}
    theirs = fort.service.keys.list("one")[0].id
    assert fort.delete(f"/v1/two/keys/{theirs}", headers=owner).status_code == 404


def test_damaged_keys_let_nobody_in(start, tmp_path):
    running = start()
    store = tmp_path / "store"
    _, token = Keys(store / "keys.json").add("default", ("admin",))
    headers = {"authorization": f"Bearer {token}"}
    address = f"{running.url}/v1/default/status"
    until(lambda: httpx.get(address).status_code == 401)
    assert httpx.get(address, headers=headers).status_code == 200
    (store / "keys.json").write_text("{")
    until(lambda: httpx.get(address, headers=headers).status_code == 503)


def test_without_keys_only_loopback_is_served(tmp_path):
    for host in ("0.0.0.0", "::", "192.0.2.1", "example.org"):
        with pytest.raises(ValueError, match="host must be a loopback address without keys"):
            Service(Settings(store=str(tmp_path), host=host))
    Keys(tmp_path / "keys.json").add("default", ("admin",))
    Service(Settings(store=str(tmp_path), host="0.0.0.0")).close()


def test_without_keys_other_sites_get_nothing(http):
    """A page elsewhere can make a browser send requests here, also under another name for here."""
    port = http.running.port
    good = {"host": f"localhost:{port}", "origin": f"http://localhost:{port}"}
    assert http.get("/v1/default/status", headers=good).status_code == 200
    for wrong in (
        {"origin": "http://evil.example"},
        {"origin": "null"},
        {"host": f"evil.example:{port}"},
        {"host": "127.0.0.1@evil.example"},
        {"host": "[::1"},
        {"host": ""},
        {"host": "localhost"},  # as a proxy may say it
        {"host": f"localhost:{port + 1}"},
        {"x-forwarded-for": "192.0.2.1"},
        {"x-forwarded-proto": "https"},
        {"forwarded": "for=192.0.2.1"},
        {"x-real-ip": "192.0.2.1"},
        {"via": "1.1 proxy"},
        {"x-forwarded": "for=192.0.2.1"},
        {"x-original-forwarded-for": "192.0.2.1"},
        {"x_forwarded_for": "192.0.2.1"},
        {"true-client-ip": "192.0.2.1"},
        {"cf-connecting-ip": "192.0.2.1"},
        {"cdn-loop": "cdn"},
        {"x-original-url": "/"},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
    ):
        assert http.get("/v1/default/status", headers=good | wrong).status_code == 403
    for site in ("same-origin", "none"):
        fetched = http.get("/v1/default/status", headers=good | {"sec-fetch-site": site})
        assert fetched.status_code == 200


def test_without_keys_a_proxy_that_adds_nothing_is_known_by_its_version(http):
    """nginx, unless told otherwise: HTTP/1.0, and the name and port of the service in `Host`."""
    port = http.running.port
    for version, status in ((b"1.0", b"403"), (b"1.1", b"200")):
        with socket.create_connection(("127.0.0.1", port), PATIENCE) as connection:
            line = b"GET /v1/default/status HTTP/%s\r\n" % version
            connection.sendall(line + b"Host: 127.0.0.1:%d\r\nConnection: close\r\n\r\n" % port)
            assert connection.recv(12)[9:] == status


def test_a_link_to_a_file_of_keys_that_is_gone_lets_nobody_in(tmp_path):
    """As where a secret was not mounted."""
    link = tmp_path / "keys.json"
    link.symlink_to(tmp_path / "gone")
    assert Keys(link).needed


def test_requests_with_a_wrong_method_have_the_rate_of_pages(start):
    running = start(page_rate=0.001)
    running.service.auth._pages.burst = 2.0
    with httpx.Client(base_url=running.url, timeout=PATIENCE) as client:
        statuses = [client.patch("/livez").status_code for _ in range(3)]
    assert statuses == [405, 405, 429]


def test_wrong_keys_are_slowed_down(start, tmp_path):
    Keys(tmp_path / "store" / "keys.json").add("default", ("admin",))
    running = start(wrong_rate=0.001)
    with httpx.Client(base_url=running.url, timeout=PATIENCE) as client:
        statuses = [client.get("/v1/default/status").status_code for _ in range(22)]
    assert statuses[0] == 401
    assert statuses[-1] == 429
    assert httpx.get(f"{running.url}/livez", timeout=PATIENCE).status_code == 200


def test_a_key_has_a_rate(start):
    running = start(rate=0.001, burst=3)
    with httpx.Client(base_url=running.url, timeout=PATIENCE) as client:
        answers = [client.get("/v1/default/status") for _ in range(5)]
        assert [a.status_code for a in answers] == [200, 200, 200, 429, 429]
        assert int(answers[-1].headers["retry-after"]) >= 1
        assert client.get("/livez").status_code == 200
