import csv
import io
import json
import sys
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import parquet

from similia.exceptions import BadRowError
from similia.feedback import FeedbackFile, classes_in, in_chunks, joined, kind_of
from similia.files import BadRows, Ids, limits

N = 20
NAMED = Ids(np.array([f"n {i}" for i in range(N)], dtype=object), N)
PLAIN = Ids(None, N)


def read(path, kind="triplets", ids=PLAIN, items=None, **options):
    options.setdefault("bad_rows", BadRows("skip"))
    file = FeedbackFile(path, kind, ids, items, **options)
    parts = list(file)
    return (joined(parts) if parts else None), file.bad_rows


def write(path, names, rows):
    """Write rows in the format of the suffix."""
    if path.suffix == ".csv":
        with open(path, "w", newline="", encoding="utf-8") as file:
            csv.writer(file).writerows([names, *rows])
    elif path.suffix == ".jsonl":
        path.write_text("".join(json.dumps(dict(zip(names, r, strict=True))) + "\n" for r in rows))
    elif path.suffix == ".parquet":
        columns = list(zip(*rows, strict=True))
        parquet.write_table(pa.table(dict(zip(names, columns, strict=True))), path)
    else:
        np.save(path, np.array(rows))
    return path


@pytest.mark.parametrize("suffix", [".csv", ".jsonl", ".parquet", ".npy"])
@pytest.mark.parametrize("ids", [PLAIN, NAMED], ids=["numbers", "texts"])
def test_every_format_gives_the_same(suffix, ids, tmp_path, rng):
    if suffix == ".npy" and ids is NAMED:
        return  # a matrix of numbers has no texts
    rows = rng.integers(N, size=(50, 3))
    path = write(
        tmp_path / f"f{suffix}", ["query", "better", "worse"], [ids.names(row) for row in rows]
    )
    found, bad = read(path, ids=ids)
    np.testing.assert_array_equal(found.tuples, rows)
    assert found.values is None
    assert bad.n == 0
    start = 2 if suffix == ".csv" else 1
    np.testing.assert_array_equal(found.numbers, np.arange(start, start + 50))


@pytest.mark.parametrize("suffix", [".csv", ".jsonl", ".parquet", ".npy"])
@pytest.mark.parametrize(
    ("kind", "names"),
    [
        ("pairs", ["a", "b", "label"]),
        ("pairs", ["a", "b", "y"]),
        ("grades", ["query", "item", "relevance"]),
    ],
)
def test_values_are_read_beside_ids(suffix, kind, names, tmp_path, rng):
    rows = [[int(a), int(b), float(v)] for a, b, v in rng.integers(1, N, size=(9, 3))]
    found, _ = read(write(tmp_path / f"f{suffix}", names, rows), kind)
    np.testing.assert_array_equal(found.tuples, np.array(rows)[:, :2])
    np.testing.assert_array_equal(found.values, np.array(rows)[:, 2])


def test_items_have_ids_of_their_own(tmp_path):
    path = tmp_path / "f.csv"
    path.write_text("worse,note,query,better\ny,ignored,3,x\n")
    items = Ids(np.array(["x", "y"], dtype=object), 2)
    found, bad = read(path, ids=Ids(np.array([5, 3]), 2), items=items)
    assert found.tuples.tolist() == [[1, 0, 1]]
    assert bad.n == 0


@pytest.mark.parametrize("suffix", [".csv", ".jsonl", ".parquet"])
@pytest.mark.parametrize("labels", [["10", "9"], ["cat", "9"]])
def test_labels_are_numbered_in_order(suffix, labels, tmp_path):
    path = write(tmp_path / f"f{suffix}", ["row", "label"], [[i, labels[i % 2]] for i in range(6)])
    classes = classes_in(path, PLAIN)
    assert classes.tolist() == ([9, 10] if labels[0] == "10" else ["9", "cat"])
    found, _ = read(path, "labels", classes=classes)
    assert [str(c) for c in classes[found.values]] == labels * 3


BAD_CSV = b"""query,better,worse
0,1,2
0,1
0,1,2,3
0,1,99
0,x,2
0,,2
0,1,2.5
\xff,1,2

"0,1,2
"3",4, 5
6,7,8
"""
BAD_JSONL = b"""{"query": 0, "better": 1, "worse": 2}
{"query": 0, "better": 1}
{"query": 0, "better": 1, "worse": 2
{"query": 0, "better": 1, "worse": 99}
{"query": 0, "better": "x", "worse": 2}
{"query": 0, "better": null, "worse": 2}
{"query": 0, "better": 1, "worse": 2.5}
{"query": "\xff", "better": 1, "worse": 2}

[0, 1, 2]
{"query": "3", "better": 4, "worse": 5, "more": [1]}
{"query": 6, "better": 7, "worse": 8}
"""


@pytest.mark.parametrize(("name", "contents"), [("f.csv", BAD_CSV), ("f.jsonl", BAD_JSONL)])
def test_bad_rows_are_named_and_nothing_else_is_lost(name, contents, tmp_path):
    path = tmp_path / name
    path.write_bytes(contents)
    found, bad = read(path)
    assert found.tuples.tolist() == [[0, 1, 2], [3, 4, 5], [6, 7, 8]]
    first = 2 if name == "f.csv" else 1
    assert found.numbers.tolist() == [first, first + 10, first + 11]
    wrong = [first + i for i in (1, 2, 3, 4, 5, 6, 7, 9)]
    assert [row.number for row in bad.first] == wrong
    assert bad.n == sum(bad.counts.values()) == 8
    reasons = [row.reason for row in bad.first]
    assert reasons[2] == "unknown id 99 in column worse" or name == "f.csv"
    assert reasons[4].startswith("column better is missing")
    assert reasons[6].startswith("not valid UTF-8")
    with pytest.raises(BadRowError, match=rf"f\.\w+: row {wrong[0]}: "):
        read(path, bad_rows=BadRows("stop"))


@pytest.mark.parametrize("value", ["nan", "inf", "-inf", "abc", "", "1e999", "true"])
@pytest.mark.parametrize("suffix", [".csv", ".jsonl"])
def test_what_is_not_a_finite_number_is_bad(value, suffix, tmp_path):
    path = tmp_path / f"f{suffix}"
    rows = [[0, 1, "1"], [2, 3, value], [4, 5, "0.5"]]
    if suffix == ".csv":
        path.write_text("a,b,label\n" + "".join(f"{a},{b},{v}\n" for a, b, v in rows))
    else:
        numbers = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity", "": "null"}
        path.write_text(
            "".join(f'{{"a": {a}, "b": {b}, "label": {numbers.get(v, v)}}}\n' for a, b, v in rows)
        )
    found, bad = read(path, "pairs")
    assert found.values.tolist() == [1, 0.5]
    assert [row.number for row in bad.first] == [3 if suffix == ".csv" else 2]


def test_bad_rows_of_tables_and_arrays_are_named(tmp_path):
    table = {
        "query": [0, None, 2, 3],
        "better": ["1", "1", "x", "1"],
        "worse": [2.0, 2.0, 2.0, 3.5],
    }
    parquet.write_table(pa.table(table), tmp_path / "f.parquet")
    found, bad = read(tmp_path / "f.parquet")
    assert found.tuples.tolist() == [[0, 1, 2]]
    assert [(row.number, row.reason.split()[0]) for row in bad.first] == [
        (2, "column"),
        (3, "unknown"),
        (4, "unknown"),
    ]
    np.save(tmp_path / "f.npy", [[0, 1, 2], [0, 1, -1], [0.5, 1, 2], [3, 4, 5]])
    found, bad = read(tmp_path / "f.npy")
    assert found.tuples.tolist() == [[0, 1, 2], [3, 4, 5]]
    assert [row.number for row in bad.first] == [2, 3]


values = st.sampled_from(
    ["1", "2", "n 3", "99", "x", "", " 4", "5 ", "+6", "1.0", "nan", "ü", '"7"']
)
any_line = st.lists(values, min_size=1, max_size=4).map(",".join)


@settings(max_examples=150)
@given(
    st.lists(any_line | st.binary(max_size=8).filter(lambda b: b"\n" not in b), max_size=30),
    st.sampled_from(["\n", "\r\n"]),
    st.booleans(),
    st.sampled_from([PLAIN, NAMED]),
    st.sampled_from([7, 64, 2**20]),
)
def test_a_line_is_read_the_same_alone_and_among_others(
    tmp_path_factory, lines, end, last, ids, size
):
    """Whatever the lines, the blocks and the line ends."""
    path = tmp_path_factory.mktemp("f") / "f.csv"
    data = [line if isinstance(line, bytes) else line.encode() for line in ["a,b,label", *lines]]
    path.write_bytes(end.encode().join(data) + (end.encode() if last else b""))
    assert_read_alone_or_among_others(path, ids, size)


entries = st.dictionaries(
    st.sampled_from(["a", "b", "label", "more"]),
    st.integers(-1, 25) | st.sampled_from(["1", "n 2", "x", "", None, True, 1.0, 0.5, [1], {}]),
)
good = st.fixed_dictionaries(
    {"a": st.integers(0, N - 1), "b": st.integers(0, N - 1), "label": st.sampled_from([1, -1, 0.5])}
)


@settings(max_examples=150)
@given(
    st.lists((good | entries).map(json.dumps) | st.sampled_from(["", "{", "[]", " ", "{}{}"])),
    st.sampled_from([PLAIN, NAMED]),
    st.sampled_from([64, 2**20]),
)
def test_an_object_is_read_the_same_alone_and_among_others(tmp_path_factory, lines, ids, size):
    path = tmp_path_factory.mktemp("f") / "f.jsonl"
    first = json.dumps({"a": ids.names([0])[0], "b": ids.names([1])[0], "label": 1})
    path.write_text("\n".join([first, *lines]))
    assert_read_alone_or_among_others(path, ids, size)


def assert_read_alone_or_among_others(path, ids, size):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(limits, "BLOCK_BYTES", size)
        found, bad = read(path, "pairs", ids=ids)
        patch.setattr(limits, "BLOCK_BYTES", 1)
        alone, bad_alone = read(path, "pairs", ids=ids)
    assert bad.first == bad_alone.first
    assert bad.counts == bad_alone.counts
    assert (found is None) == (alone is None)
    if found is not None:
        np.testing.assert_array_equal(found.tuples, alone.tuples)
        np.testing.assert_array_equal(found.values, alone.values)
        np.testing.assert_array_equal(found.numbers, alone.numbers)


@given(st.lists(st.integers(0, 30), max_size=8), st.integers(1, 20))
def test_chunks_do_not_depend_on_batches(sizes, size):
    from similia.feedback import Judgements

    n = sum(sizes)
    rows = np.arange(3 * n).reshape(n, 3)
    whole = Judgements(rows, np.arange(n), np.arange(n))
    ends = np.cumsum([0, *sizes])
    batches = [whole.part(slice(a, b)) for a, b in pairwise(ends)]
    found = list(in_chunks(iter(batches), size))
    assert [len(part) for part in found] == [size] * (n // size) + [n % size] * (n % size > 0)
    if found:
        np.testing.assert_array_equal(joined(found).tuples, rows)
        np.testing.assert_array_equal(joined(found).values, np.arange(n))
    growing = [len(part) for part in in_chunks(iter(batches), size, 2)]
    assert growing == [len(part) for part in in_chunks(iter([whole]), size, 2)]
    assert sum(growing) == n
    assert all(a <= b <= size for a, b in pairwise(growing[:-1]))


def test_a_byte_order_mark_and_capitals_in_the_header_do_not_matter(tmp_path):
    (tmp_path / "f.csv").write_bytes(b"\xef\xbb\xbfQuery, Better ,WORSE\r\n1,2,3\r\n")
    found, bad = read(tmp_path / "f.csv")
    assert found.tuples.tolist() == [[1, 2, 3]]
    assert bad.n == 0


@pytest.mark.parametrize(
    ("name", "contents", "message"),
    [
        ("f.csv", "0,1,2\n", "worse or query,item,relevance or query,item,click, got '0,1,2'"),
        ("f.csv", "query,better,worse,worse\n", "different names"),
        ("f.csv", '"query,better\n', "the header is not valid CSV"),
        ("f.jsonl", '{"a": 1}\n', "must have the columns query,better,worse"),
        ("f.doc", "", "ends in one of .csv"),
        ("f.npy", "junk", "could not be read"),
        ("f.parquet", "junk", "could not be read"),
    ],
)
def test_files_that_are_no_feedback_are_explained(name, contents, message, tmp_path):
    (tmp_path / name).write_text(contents)
    with pytest.raises(ValueError, match=message):
        read(tmp_path / name)


@pytest.mark.parametrize(
    "contents", ["query,better,worse\n1,2,3\n", '{"query":1,"better":2,"worse":3}\n']
)
def test_standard_input_is_csv_or_json_lines(contents, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(contents.encode())))
    found, _ = read("-")
    assert found.tuples.tolist() == [[1, 2, 3]]


@pytest.mark.parametrize(
    ("header", "kind"),
    [
        ("query,item,relevance", "grades"),
        ("x,worse,query,better", "triplets"),
        ("a,b,label", "pairs"),
        ("a,b,y", "pairs"),
        ("label,row", "labels"),
    ],
)
def test_columns_tell_the_kind(header, kind, tmp_path):
    (tmp_path / "f.csv").write_text(header + "\n")
    assert kind_of(tmp_path / "f.csv") == kind
    entry = json.dumps(dict.fromkeys(header.split(","), 0))
    (tmp_path / "f.jsonl").write_text("junk\n" + entry)
    assert kind_of(tmp_path / "f.jsonl") == kind


def test_an_empty_file_holds_nothing(tmp_path):
    for name in ("f.csv", "f.jsonl"):
        (tmp_path / name).touch()
        assert read(tmp_path / name)[0] is None
        with pytest.raises(ValueError, match="at least one judgement"):
            kind_of(tmp_path / name)
    (tmp_path / "f.jsonl").write_text("junk\n")
    assert read(tmp_path / "f.jsonl")[1].n == 1


def test_only_asked_queries_are_kept(tmp_path, rng):
    rows = rng.integers(N, size=(50, 3))
    path = write(tmp_path / "f.csv", ["query", "better", "worse"], rows.tolist())
    found, _ = read(path, keep=lambda rows: rows % 2 == 0)
    np.testing.assert_array_equal(found.tuples, rows[rows[:, 0] % 2 == 0])


@pytest.mark.parametrize("suffix", [".csv", ".jsonl", ".parquet"])
def test_a_grade_below_zero_is_a_bad_row(suffix, tmp_path):
    rows = [[0, 1, 1.0], [0, 2, -1.0], [0, 3, 0.0]]
    path = write(tmp_path / f"f{suffix}", ["query", "item", "relevance"], rows)
    found, bad = read(path, "grades")
    assert found.values.tolist() == [1.0, 0.0]
    assert dict(bad.counts) == {"not at least 0 in column relevance": 1}


def test_labels_with_leading_zeros_stay_apart(tmp_path):
    path = write(tmp_path / "f.csv", ["row", "label"], [[0, "01"], [1, "1"], [2, "02"]])
    assert classes_in(path, PLAIN).tolist() == ["01", "02", "1"]


def test_a_number_with_too_many_digits_is_called_that(tmp_path):
    path = tmp_path / "f.jsonl"
    path.write_text('{"query": 1, "better": 2, "worse": 3}\n{"query": ' + "1" * 5000 + "}\n")
    _, bad = read(path)
    assert "too many digits" in bad.first[0].reason
