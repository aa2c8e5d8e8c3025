"""The commands around a service: settings, keys, feedback from files, checks and copies of logs."""

import json
import sqlite3

import numpy as np
import pytest
from typer.testing import CliRunner

from similia.cli.main import app
from similia.cli.serve import FOR_OPERATORS
from similia.service.http.app import Service
from similia.service.http.keys import Keys
from similia.service.settings import Settings, grouped_settings
from tests.service.conftest import Running, some_items, triplet


@pytest.fixture
def store(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("SIMILIA_KEY", raising=False)
    return tmp_path / "store"


def run(*words, code=0, **named):
    result = CliRunner().invoke(app, [str(word) for word in words], prog_name="similia", **named)
    assert result.exit_code == code, result.output
    return result


@pytest.fixture
def running(store):
    with Running(Service(Settings(store=str(store), port=0, rate=0.0, warm_up="never"))) as found:
        found.service.tenants.get("default").put_items(some_items())
        yield found


def test_settings_are_shown_with_where_they_come_from(store):
    (store.parent / "s.toml").write_text("port = 1\nburst = 7\n")
    shown = run(
        *("serve", "--config", "s.toml", "--port", "2", "--no-try-page", "--show-settings"),
        env={"SIMILIA_RATE": "9", "SIMILIA_EMBEDDER_KEY": "hush"},
    ).stdout
    assert "port = 2  # flag\n" in shown
    assert "try_page = False  # flag\n" in shown
    assert "burst = 7  # s.toml\n" in shown
    assert "rate = 9.0  # environment\n" in shown
    assert "host = '127.0.0.1'  # default\n" in shown
    assert "hush" not in shown


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--port", "70000"], "port must be an integer of at least 0 and at most 65535"),
        (["--host", "0.0.0.0"], "host must be a loopback address without keys"),
        (["--config", "nothing.toml"], "nothing.toml: No such file"),
        (["--embedder", "x"], "embedder must be a URL"),
    ],
)
def test_a_service_that_cannot_start_says_why(store, words, sentence):
    assert sentence in run("serve", "--store", store, *words, code=1).stderr


def test_a_taken_port_is_told(store, running):
    words = ("serve", "--store", store.parent / "other", "--port", running.port)
    assert "cannot be listened on" in run(*words, code=1).stderr


def test_keys_are_made_listed_rotated_and_revoked(store):
    token = run("keys", "add", "--store", store, "--scope", "read", "--name", "mine").stdout.strip()
    keys = Keys(store / "keys.json")
    key = keys.find(token)
    assert (key.scopes, key.name, key.tenant) == (("read",), "mine", "default")
    listed = json.loads(run("keys", "list", "--store", store, "--json").stdout)
    assert [row["id"] for row in listed] == [key.id]
    assert "hash" not in listed[0]
    assert key.id in run("keys", "list", "--store", store).stdout
    new = run("keys", "rotate", key.id, "--store", store, "--grace", "0").stdout.strip()
    assert keys.find(token) is None
    run("keys", "revoke", keys.find(new).id, "--store", store)
    assert keys.find(new) is None
    run("keys", "revoke", key.id, "--store", store, code=1)
    run("keys", "add", "--store", store, "--scope", "root", code=1)


def test_judgements_of_files_are_sent_once(store, running):
    csv = store.parent / "t.csv"
    csv.write_text("query,better,worse\n" + "i0,i1,i2\n" * 3 + "i3,i4,i5\n")
    words = ("feedback", csv, "--url", running.url, "--json", "--batch", "3", "--judge", "ann")
    first, second = (json.loads(run(*words).stdout) for _ in range(2))
    assert (first["judgements"], first["duplicates"]) == (4, 0)
    assert (second["judgements"], second["duplicates"]) == (4, 4)
    graded = store.parent / "g.tsv"
    graded.write_text("query\titem\trelevance\ni0\ti1\t2\ni6\ti7\t1\ni0\ti2\t0\n")
    assert "Sent 2 judgements, 0" in run("feedback", graded, "--url", running.url).stdout
    lines = json.dumps(triplet(7, 8, 9)) + "\n\n" + json.dumps(triplet(1, 2, 3, id="own")) + "\n"
    assert "Sent 2" in run("feedback", "-", "--url", running.url, input=lines).stdout
    assert running.service.tenants.get("default").status().judgements == 8


def test_a_log_of_lists_is_sent_as_learn_reads_it(store, running):
    log = store.parent / "log.csv"
    rows = [("i0", "i1", 0, 1), ("i0", "i2", 1, 2), ("i5", "i1", 1, 1), ("i5", "i3", 0, 2)]
    lines = [",".join(map(str, row)) for row in rows]
    log.write_text("\n".join(["query,product_id,clicked,rank", *lines, ""]))
    assert "Sent 2 judgements" in run("feedback", log, "--url", running.url).stdout
    tenant = running.service.tenants.get("default")
    first, second = (one.record for one in tenant.judgements(limit=2))
    assert (first.shown, first.clicked, first.positions) == (["i1", "i2"], ["i2"], [1, 2])
    assert second.query.item == "i5"


def test_searches_of_ubi_are_sent_with_their_events(store, running):
    queries, events = store.parent / "q.jsonl", store.parent / "e.jsonl"
    hits = ["i1", "i2", "i3"]
    queries.write_text(
        json.dumps({"query_id": "a", "user_query": "lamp", "query_response_hit_ids": hits}) + "\n"
    )
    clicked = {"object": {"object_id": "i2"}}
    event = {"query_id": "a", "action_name": "click", "event_attributes": clicked}
    events.write_text(json.dumps(event) + "\n")
    words = ("feedback", queries, "--events", events, "--url", running.url)
    # Typed queries need vectors: those of an embedder, which this service has not.
    assert "query" in run(*words, code=1).stderr


def test_judged_queries_are_uploaded_for_exams(store, running):
    judged = store.parent / "judged.csv"
    rows = [f"i{q},i{(q + n) % 12},{3 - n}" for q in range(9) for n in (1, 2, 3)]
    judged.write_text("\n".join(["query,item,relevance", *rows, ""]))
    found = json.loads(run("evaluate", judged, "--url", running.url, "--json").stdout)
    assert found["n_queries"] == 9
    assert found["means"]["live"] == found["means"]["base"]
    text = run("evaluate", judged, "--url", running.url).stdout
    assert "today's ranking" in text
    assert running.service.tenants.get("default").status().trust == {}
    words = ("evaluate", judged, judged, "--url", running.url)
    assert "judgements alone" in run(*words, code=2).stderr


@pytest.mark.parametrize(
    ("name", "text", "code", "sentence"),
    [
        ("t.csv", "query,better\na,b\n", 1, "must have the columns query,better,worse"),
        ("t.csv", "query,better,worse\ni0,i1,nobody\n", 1, "items must be ids of items"),
        (
            "g.csv",
            "query,item,relevance\ni0,i1,much\n",
            3,
            "row 2: not a number 'much' in column relevance",
        ),
        ("t.jsonl", "{}\n", 1, "must have the columns"),
        ("u.jsonl", '{"kind": "triplet"}\n', 3, "row 1: "),
        ("t.doc", "", 1, "must be in a file that ends in one of .csv, .tsv, .jsonl"),
    ],
)
def test_feedback_that_cannot_be_sent_is_told(store, running, name, text, code, sentence):
    (store.parent / name).write_text(text)
    assert sentence in run("feedback", name, "--url", running.url, code=code).stderr


def test_a_service_that_is_not_there_is_told(store, monkeypatch):
    monkeypatch.setattr(
        "similia.client.Client.__init__.__kwdefaults__", {"retries": 0, "timeout": 5}
    )
    (store.parent / "t.csv").write_text("query,better,worse\ni0,i1,i2\n")
    words = ("feedback", "t.csv", "--url", "http://127.0.0.1:9")
    assert "the service cannot be reached" in run(*words, code=1).stderr


def test_logs_are_checked_and_copied_while_the_service_runs(store, running):
    tenant = running.service.tenants.get("default")
    from similia.service.log.records import Query, Triplet

    tenant.feedback([Triplet(query=Query(item="i0"), better="i1", worse="i2")])
    found = json.loads(run("log", "check", "--store", store, "--json").stdout)
    assert [(row["tenant"], row["rows"]) for row in found] == [("default", tenant.status().seq)]
    copied = run("log", "backup", "copies", "--store", store).stdout
    assert found[0]["head"] in copied
    assert found[0]["head"] in run("log", "check", "--store", "copies").stdout
    with Running(Service(Settings(store="copies", port=0, warm_up="never"))) as again:
        assert again.service.tenants.get("default").status().judgements == 1
    run("log", "backup", store, "--store", store, code=1)
    run("log", "check", "--store", store, "--tenant", "nobody", code=1)
    run("log", "check", "--store", "nothing", code=1)


def test_a_log_that_was_tampered_with_is_found_out(store, running):
    run("log", "backup", "copies", "--store", store)
    with sqlite3.connect(store.parent / "copies" / "default" / "log.sqlite") as connection:
        connection.execute("UPDATE rows SET time = time + 1 WHERE seq = 2")
    connection.close()
    assert "2" in run("log", "check", "--store", "copies", code=1).stderr


def test_the_settings_of_the_command_line_are_the_list(store):
    from dataclasses import fields

    text = run("serve", "--help", env={"COLUMNS": "300"}).stdout
    groups = grouped_settings()
    for each in fields(Settings):
        shown = f"\n  --{each.name.replace('_', '-')} " in text
        assert shown == (groups[each.name] not in FOR_OPERATORS), each.name
    listed = run("serve", "--show-settings").stdout.splitlines()
    assert [line.split(" = ")[0] for line in listed] == [each.name for each in fields(Settings)]
    given = run("serve", "--max-body", "5000", "--show-settings").stdout
    assert "max_body = 5000  # flag" in given


def test_items_of_tables_are_served(store):
    from similia.files import write_vectors
    from similia.service.tenants.files import ItemFile

    write_vectors(store.parent / "items.jsonl", np.eye(3), ids=["a", "b", "c"])
    items = list(ItemFile(store.parent / "items.jsonl").items())
    assert [item.id for item in items] == ["a", "b", "c"]
    assert items[1].vectors == {"vectors": [0.0, 1.0, 0.0]}
