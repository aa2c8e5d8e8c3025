"""Logs of what was shown and clicked."""

import json
from datetime import UTC, datetime
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from similia.exceptions import BadRowError
from similia.feedback import FeedbackFile, joined, read_impressions
from similia.files import BadRows, Ids, limits

N = 20
PLAIN = Ids(None, N)

LOG = """impression,query,item,click,position,weight
s1,0,3,0,1,2
s1,0,4,1,2,1
s2,0,3,true,1,1
s2,0,5,False,4,1
s3,7,6,0,1,0.5
"""


def test_a_log_becomes_lists(tmp_path):
    (tmp_path / "log.csv").write_text(LOG)
    found = read_impressions(tmp_path / "log.csv", PLAIN)
    assert found.queries.tolist() == [0, 0, 7]
    assert found.starts.tolist() == [0, 2, 4, 5]
    assert found.items.tolist() == [3, 4, 3, 5, 6]
    assert found.gains.tolist() == [0, 1, 1, 0, 0]
    assert found.weights.tolist() == [2, 1, 0.5]
    np.testing.assert_allclose(np.exp(found.nuisance["position"]), [1, 2, 1, 4, 1])
    assert not found.trusted.any()


@pytest.mark.parametrize("key", ["number", "text", "visit", "none"])
@settings(max_examples=60)
@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(1, 5)), min_size=1, max_size=12),
    st.sampled_from([1, 7, 40, 2**20]),
)
def test_lists_do_not_depend_on_how_the_file_was_read(tmp_path_factory, key, lists, size):
    """Whatever the blocks, successive rows of one key are one list."""
    rng = np.random.default_rng(0)
    rows = []
    for number, (query, length) in enumerate(lists):
        name = {"number": number, "text": f"s{number}", "visit": number // 2}.get(key)
        row = {"query": query} if name is None else {KEYS[key]: name, "query": query}
        rows += [{**row, "item": int(rng.integers(N)), "click": j % 2} for j in range(length)]
    folder = tmp_path_factory.mktemp("log")
    (folder / "log.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    pd.DataFrame(rows).to_csv(folder / "log.csv", index=False)
    keys = [tuple(v for k, v in row.items() if k not in ("item", "click")) for row in rows]
    starts = [i for i in range(len(rows)) if i == 0 or keys[i] != keys[i - 1]]
    wanted = [*starts, len(rows)]
    clicks = [
        i
        for a, b in pairwise(wanted)
        for i in range(a, b)
        if rows[i]["click"] and not all(row["click"] for row in rows[a:b])
    ]
    for name in ("log.csv", "log.jsonl"):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(limits, "BLOCK_BYTES", size)
            found = read_impressions(folder / name, PLAIN)
            triplets = list(FeedbackFile(folder / name, "triplets", PLAIN))
        assert found.starts.tolist() == wanted
        assert found.items.tolist() == [row["item"] for row in rows]
        numbers = [number for part in triplets for number in part.numbers.tolist()]
        assert numbers == [i + (2 if name == "log.csv" else 1) for i in clicks]


KEYS = {"number": "impression", "text": "impression", "visit": "visit"}


def test_an_impression_that_comes_back_is_refused(tmp_path):
    (tmp_path / "log.csv").write_text("impression,query,item,click\ns1,0,3,0\ns2,0,4,1\ns1,0,3,1\n")
    with pytest.raises(ValueError, match=r"must follow one another, got .* row 4; sort the log"):
        read_impressions(tmp_path / "log.csv", PLAIN)


def test_a_second_query_in_an_impression_is_a_bad_row(tmp_path):
    (tmp_path / "log.csv").write_text(
        "impression,query,item,click\ns1,0,3,0\ns1,1,4,1\ns1,0,5,1\ns2,1,4,1\n"
    )
    bad = BadRows("skip")
    found = read_impressions(tmp_path / "log.csv", PLAIN, bad_rows=bad)
    assert found.starts.tolist() == [0, 2, 3]
    assert found.items.tolist() == [3, 5, 4]
    assert [(row.number, row.reason) for row in bad.first] == [
        (3, "another query in the same impression")
    ]
    with pytest.raises(BadRowError, match="row 3: another query"):
        read_impressions(tmp_path / "log.csv", PLAIN)


@pytest.mark.parametrize(
    ("column", "value", "reason"),
    [
        ("click", -1, "not at least 0"),
        ("click", "yes", "not a number"),
        ("position", 0, "not at least 1"),
        ("weight", -2, "not at least 0"),
        ("item", 99, "unknown id"),
    ],
)
def test_bad_values_are_named(column, value, reason, tmp_path):
    row = {"query": 0, "item": 1, "click": 1, "position": 1, "weight": 1}
    rows = pd.DataFrame([row, {**row, column: value}, row]).astype({column: object})
    rows.to_csv(tmp_path / "log.csv", index=False)
    bad = BadRows("skip")
    assert len(read_impressions(tmp_path / "log.csv", PLAIN, bad_rows=bad).items) == 2
    assert [row.number for row in bad.first] == [3]
    assert bad.first[0].reason.startswith(reason)
    assert bad.first[0].reason.endswith(f"in column {column}")


@pytest.mark.parametrize(
    "time",
    ["2026-01-02T03:04:05Z", "2026-01-02T03:04:05", "2026-01-02T04:04:05+01:00", "1767323045"],
)
def test_times_are_utc_unless_a_zone_is_named(time, tmp_path):
    (tmp_path / "log.csv").write_text(f"query,item,click,timestamp\n0,1,1,{time}\n")
    found = read_impressions(tmp_path / "log.csv", PLAIN, times=True)
    assert found.times.tolist() == [datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC).timestamp()]
    assert read_impressions(tmp_path / "log.csv", PLAIN).times.size == 0


def test_times_of_a_table():
    frame = pd.DataFrame({"query": [0], "item": [1], "click": [True]})
    frame["timestamp"] = pd.Timestamp("2026-01-02T03:04:05", tz="UTC")
    found = read_impressions(frame, PLAIN, times=True)
    assert found.times.tolist() == [1767323045.0]
    assert found.gains.tolist() == [1.0]


def test_a_log_needs_its_columns():
    with pytest.raises(
        ValueError, match="a log must have the columns query,item,click, got 'query'"
    ):
        read_impressions({"query": [1]}, PLAIN)
    assert len(read_impressions({"query": [], "item": [], "click": []}, PLAIN)) == 0


def test_only_asked_queries_are_kept():
    log = {"query": [0, 0, 1, 1, 2], "item": [1, 2, 3, 4, 5], "click": [0, 1, 0, 1, 1]}
    kept = read_impressions(log, PLAIN, keep=lambda rows: rows != 1)
    assert kept.queries.tolist() == [0, 2]
    assert kept.items.tolist() == [1, 2, 5]


def test_one_click_is_one_triplet_and_nothing_shown_is_none(tmp_path):
    (tmp_path / "log.csv").write_text(
        "impression,query,item,click,position\n"
        "a,0,1,0,1\na,0,2,0,2\na,0,3,1,3\na,0,4,0,4\n"  # one click among four
        "b,0,5,1,1\n"  # a click and nothing else shown
        "c,0,6,1,1\nc,0,7,1,2\nc,0,8,0,3\n"  # two clicks
    )
    with pytest.warns(UserWarning, match="position is not used beside query,item,click when trip"):
        found = joined(list(FeedbackFile(tmp_path / "log.csv", "triplets", PLAIN)))
    assert found.tuples[:, 1].tolist() == [3, 6, 7]
    assert found.tuples[0, 2] in (1, 2, 4)
    assert found.numbers.tolist() == [4, 7, 8]
    above = joined(list(FeedbackFile(tmp_path / "log.csv", "triplets", PLAIN, clicks="skip-above")))
    assert above.tuples[:, 1].tolist() == [3]
    assert above.tuples[0, 2] in (1, 2)
    with pytest.raises(ValueError, match="FeedbackFile: clicks must be one of 'clicked'"):
        FeedbackFile(tmp_path / "log.csv", "triplets", PLAIN, clicks="all")
