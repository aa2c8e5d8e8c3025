"""Logs of OpenSearch's User Behavior Insights."""

import json

import numpy as np
import pyarrow as pa
import pytest

from similia.exceptions import BadRowError
from similia.feedback import UbiLog
from similia.feedback import ubi as store
from similia.feedback.clicks import click_preferences
from similia.files import BadRows, Ids, limits

TEXTS = Ids(["red shoe", "blue hat"], 2)
ITEMS = Ids(["A-1", "B-2", "C-3", "D-4"], 4)


def query(number, hits, text="red shoe"):
    return {
        "query_id": f"s{number}",
        "user_query": text,
        "client_id": "c",
        "timestamp": "2026-01-01T00:00:00Z",
        "query_attributes": {"page": 1},
        "query_response_hit_ids": hits,
    }


def event(number, item, action="click", ordinal=None, version="1.3.0", second=1):
    position = {"xy": {"x": 1.5, "y": 2}}
    if ordinal is not None:
        position = {"ordinal": ordinal if version == "1.3.0" else {"index": ordinal}}
    return {
        "action_name": action,
        "query_id": f"s{number}",
        "timestamp": f"2026-01-01T00:00:{second:02}Z",
        "event_attributes": {"object": {"object_id": item}, "position": position},
    }


#: events that are about no item of a search
OTHERS = [
    {"action_name": "login", "timestamp": "2026-01-01T00:00:00Z"},
    {
        "action_name": "page_exit",
        "query_id": "s1",
        "timestamp": "2026-01-01T00:00:00",
        "event_attributes": {"position": {}, "object": {"idle": 5}},
    },
]


@pytest.fixture
def log(tmp_path):
    def make(queries, events, wrapped=False, ids=TEXTS, items=ITEMS, **options):
        for name, rows in (("queries", queries), ("events", events)):
            lines = [{"_index": f"ubi_{name}", "_source": row} if wrapped else row for row in rows]
            (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(x) + "\n" for x in lines))
        return UbiLog(tmp_path / "queries.jsonl", tmp_path / "events.jsonl", ids, items, **options)

    return make


def only(batches):
    (found,) = batches
    return found


@pytest.mark.parametrize("version", ["1.0.0", "1.3.0"])
@pytest.mark.parametrize("wrapped", [False, True])
def test_hits_and_clicks_become_lists(log, version, wrapped):
    queries = [query(1, ["A-1", "B-2", "C-3"]), query(2, ["D-4", "A-1"], "blue hat")]
    events = [*OTHERS, event(1, "B-2", ordinal=2, version=version), event(2, "D-4", "hover")]
    found = log(queries, events, wrapped)
    lists = only(found)
    assert lists.queries.tolist() == [0, 1]
    assert lists.starts.tolist() == [0, 3, 5]
    assert lists.items.tolist() == [0, 1, 2, 3, 0]
    assert lists.gains.tolist() == [0, 1, 0, 0, 0]
    np.testing.assert_allclose(np.exp(lists.nuisance["position"]), [1, 2, 3, 1, 2])
    assert found.counts["searches"] == found.counts["lists"] == 2


@pytest.mark.parametrize("version", ["1.0.0", "1.3.0"])
def test_impression_events_say_what_was_seen(log, version):
    """Of ten hits, only what was on the screen can have been passed over."""
    queries = [query(1, ["A-1", "B-2", "C-3", "D-4"])]
    shown = [event(1, item, "impression", n, version) for n, item in ((2, "B-2"), (1, "A-1"))]
    lists = only(log(queries, [*shown, event(1, "B-2", "click", 2, version)]))
    assert lists.items.tolist() == [0, 1]
    assert lists.gains.tolist() == [0, 1]
    np.testing.assert_allclose(np.exp(lists.nuisance["position"]), [1, 2])


@pytest.mark.parametrize("hits", [None, []])
def test_without_an_impression_there_is_no_negative(log, hits):
    found = log([query(1, hits), query(2, ["A-1", "B-2"])], [event(1, "A-1"), event(2, "D-4")])
    assert len(click_preferences(only(found)).triplets) == 0
    assert found.counts["searches without a list"] == 1
    assert found.counts["clicks on what was not shown"] == 2


def test_hits_may_be_missing_altogether(log):
    queries = [{k: v for k, v in query(1, []).items() if k != "query_response_hit_ids"}]
    lists = only(log(queries, [event(1, "A-1", "impression", 1), event(1, "C-3", "purchase", 2)]))
    assert lists.items.tolist() == [0, 2]
    assert lists.gains.tolist() == [0, 1]


def test_repeated_events_count_once_and_the_highest_gain_counts(log):
    events = [event(1, "A-1")] * 3 + [event(1, "B-2"), event(1, "B-2", "purchase")]
    gains = {"click": 1.0, "purchase": 5.0}
    assert only(log([query(1, ["A-1", "B-2"])], events, gains=gains)).gains.tolist() == [1, 5]
    only_sold = log([query(1, ["A-1", "B-2"])], events, gains={"purchase": 1.0})
    assert only(only_sold).gains.tolist() == [0, 1]


def test_only_so_many_hits_count_as_shown(log):
    assert only(log([query(1, ["A-1", "B-2", "C-3"])], [], depth=2)).items.tolist() == [0, 1]
    with pytest.raises(ValueError, match="UbiLog: depth must be None or a positive integer, got 0"):
        log([query(1, ["A-1"])], [], depth=0)


def test_the_last_click_is_known_by_its_time(log):
    events = [event(1, "C-3", second=3), event(1, "B-2", second=9)]
    lists = only(log([query(1, ["A-1", "B-2", "C-3"])], events, times=True))
    assert click_preferences(lists, "last-click").triplets.tolist() == [[0, 1, 0]]


def test_ids_may_be_numbers_and_queries_searches(log):
    queries = [{**query(1, ["10", "11"]), "query_id": "s1"}]
    lists = only(
        log(queries, [event(1, 11)], ids=Ids(["s1"], 1), items=Ids([11, 10], 2), query="query_id")
    )
    assert lists.items.tolist() == [1, 0]
    assert lists.gains.tolist() == [0, 1]


def test_what_has_no_vector_is_a_bad_row_and_only_that_is_left_out(log):
    queries = [query(1, ["A-1", "gone", "B-2"]), query(2, ["A-1"], "unknown text")]
    bad = BadRows("skip")
    lists = only(log(queries, [event(1, "B-2"), event(1, "gone")], bad_rows=bad))
    assert lists.items.tolist() == [0, 1]
    np.testing.assert_allclose(np.exp(lists.nuisance["position"]), [1, 3])
    assert dict(bad.counts) == {
        "unknown id in column event_attributes.object.object_id": 1,
        "unknown id in column query_response_hit_ids": 1,
        "unknown id in column user_query": 1,
    }
    with pytest.raises(BadRowError, match="unknown id in column"):
        list(log(queries, []))


def test_a_place_counts_from_one(log):
    events = [event(1, "A-1", "impression", 1), event(1, "B-2", "impression", 0)]
    with pytest.raises(BadRowError, match="row 2: not at least 1: 0 in column ordinal"):
        list(log([query(1, None)], events))


def test_damaged_lines_are_named(log, tmp_path):
    found = log([query(1, ["A-1", "B-2"])], [event(1, "A-1")], bad_rows=BadRows("skip"))
    with open(tmp_path / "queries.jsonl", "a") as file:
        file.write('{"query_id": \n{"query_id": "s9", "query_response_hit_ids": "A-1"}\n')
    assert len(only(found)) == 1
    assert [row.number for row in found.bad_rows.first] == [2, 3]


def test_tables_with_nested_columns_are_logs_too(log):
    queries = [query(1, ["A-1", "B-2"]), query(2, None)]
    events = [event(1, "B-2", ordinal=2), event(2, "A-1", "impression", 3)]
    wanted = only(log(queries, events))
    found = only(UbiLog(pa.Table.from_pylist(queries), pa.Table.from_pylist(events), TEXTS, ITEMS))
    assert found.items.tolist() == wanted.items.tolist() == [0, 1, 0]
    assert found.gains.tolist() == wanted.gains.tolist() == [0, 1, 0]
    assert np.exp(found.nuisance["position"]).round().tolist() == [1, 2, 3]


def test_blocks_are_the_whole(log, monkeypatch, rng):
    names = [f"q{i}" for i in range(50)]
    queries = [
        query(i, [f"{ITEMS.names()[j]}" for j in rng.permutation(4)], names[i % 50])
        for i in range(300)
    ]
    events = [event(int(i), ITEMS.names()[int(j)]) for i, j in rng.integers(4, size=(200, 2))]
    found = log(queries, events, ids=Ids(names, 50))
    whole = only(found)
    monkeypatch.setattr(limits, "TEXT_BLOCK_BYTES", 500)
    parts = list(found)
    assert len(parts) > 10
    for name in ("queries", "items", "gains"):
        joined = np.concatenate([getattr(part, name) for part in parts])
        np.testing.assert_array_equal(joined, getattr(whole, name))


@pytest.fixture
def shuffled(log, rng):
    """Many searches in which some ids occur twice, and events in no order, some of them strays."""
    names = [f"q{i}" for i in range(50)]
    queries = [
        query(i % 280, [f"{ITEMS.names()[j]}" for j in rng.permutation(4)[: i % 5]], names[i % 50])
        for i in range(300)
    ]
    events = [
        event(int(i), ITEMS.names()[int(j)], str(rng.choice(["click", "impression", "hover"])), 1)
        for i, j in zip(rng.integers(310, size=900), rng.integers(4, size=900), strict=True)
    ]
    return lambda: log(queries, events, ids=Ids(names, 50), times=True)


def as_plain(found):
    parts = list(found)
    fields = ("queries", "items", "gains", "times")
    lists = {name: np.concatenate([getattr(part, name) for part in parts]) for name in fields}
    lengths = np.concatenate([np.diff(part.starts) for part in parts])
    places = np.concatenate([part.nuisance["position"] for part in parts])
    return {**lists, "lengths": lengths, "places": places}


@pytest.mark.parametrize("size", [1, 500])
def test_lists_do_not_depend_on_blocks_or_on_the_cache_of_events(shuffled, monkeypatch, size):
    whole = shuffled()
    wanted = as_plain(whole)
    monkeypatch.setattr(limits, "TEXT_BLOCK_BYTES", size)
    monkeypatch.setattr(store, "CACHE_KIB", 1)
    in_blocks = shuffled()
    for name, values in as_plain(in_blocks).items():
        np.testing.assert_array_equal(values, wanted[name], name)
    assert in_blocks.counts == whole.counts
    assert whole.counts["clicks on what was not shown"] > 0


def test_reading_may_stop_before_the_end(shuffled, monkeypatch):
    monkeypatch.setattr(limits, "TEXT_BLOCK_BYTES", 500)
    batches = iter(shuffled())
    assert len(next(batches))
    batches.close()


def test_a_hit_without_an_id_is_left_out_and_told(log):
    bad = BadRows("skip")
    found = log([query(1, ["A-1", None, "C-3"]), query(2, [None])], [event(1, "C-3")], bad_rows=bad)
    lists = only(found)
    assert lists.items.tolist() == [0, 2]
    assert lists.gains.tolist() == [0, 1]
    np.testing.assert_allclose(np.exp(lists.nuisance["position"]), [1, 3])
    assert [row.number for row in bad.first] == [1, 2]
    assert {row.reason for row in bad.first} == {"unknown id in column query_response_hit_ids"}
