"""Feedback under other names, in other formats, and from tables in memory."""

import json

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pyarrow import parquet

from similia.feedback import FeedbackFile, classes_in, joined, kind_of, read_run
from similia.files import BadRows, Ids, Source, spooled

N = 20
PLAIN = Ids(None, N)
GRADES = [[0, 3, 2.0], [0, 4, 0.0], [7, 5, 1.0]]


def read(given, kind="grades", ids=PLAIN, items=None, **options):
    return joined(list(FeedbackFile(given, kind, ids, items, **options)))


def assert_grades(found):
    np.testing.assert_array_equal(found.tuples, np.array(GRADES)[:, :2])
    np.testing.assert_array_equal(found.values, np.array(GRADES)[:, 2])


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("f.tsv", "query-id\tcorpus-id\tscore\n0\t3\t2\n0\t4\t0\n7\t5\t1\n"),
        ("f.tsv", "query\titem\trelevance\n0\t3\t2\n0\t4\t0\n7\t5\t1\n"),
        ("f.csv", "query-id,corpus-id,score,split\n0,3,2,x\n0,4,0,x\n7,5,1,x\n"),
        ("f.qrels", "0 0 3 2\n0 0 4 0\n7 0 5 1\n"),
        ("f.txt", "0\t0\t3\t2\n0\t0\t4\t0\n7\t0\t5\t1\n"),
        ("f.trec", "0   0  3 \t2 \n 0 0 4 0\r\n7 0 5 1"),
        (
            "f.jsonl",
            '{"query-id": 0, "corpus-id": 3, "score": 2}\n'
            '{"query-id": 0, "corpus-id": 4, "score": 0}\n'
            '{"query-id": "7", "corpus-id": 5, "score": 1}\n',
        ),
    ],
)
def test_standard_forms_are_known_by_themselves(name, text, tmp_path):
    (tmp_path / name).write_bytes(text.encode())
    assert kind_of(tmp_path / name) == "grades"
    assert_grades(read(tmp_path / name))


def test_a_beir_folder_is_its_one_file_of_qrels(tmp_path):
    (tmp_path / "qrels").mkdir()
    test = tmp_path / "qrels" / "test.tsv"
    test.write_text("query-id\tcorpus-id\tscore\n0\t3\t2\n0\t4\t0\n7\t5\t1\n")
    assert_grades(read(tmp_path))
    (tmp_path / "qrels" / "train.tsv").write_text("query-id\tcorpus-id\tscore\n")
    with pytest.raises(ValueError, match=r"got qrels/test.tsv, qrels/train.tsv; name the file"):
        read(tmp_path)
    assert_grades(read(test))


@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".jsonl", ".parquet"])
def test_columns_can_have_any_names(suffix, tmp_path):
    path = tmp_path / f"f{suffix}"
    names = ["grade", "q", "doc", "query"]  # a column that has our name for another one
    rows = [[value, a, b, "x"] for a, b, value in GRADES]
    if suffix == ".jsonl":
        path.write_text("".join(json.dumps(dict(zip(names, r, strict=True))) + "\n" for r in rows))
    elif suffix == ".parquet":
        parquet.write_table(pa.table(dict(zip(names, zip(*rows, strict=True), strict=True))), path)
    else:
        pd.DataFrame(rows, columns=names).to_csv(path, index=False, sep=",\t"[suffix == ".tsv"])
    columns = {"query": "q", "item": "doc", "relevance": "grade"}
    assert_grades(read(path, columns=columns))
    assert kind_of(Source(path, columns)) == "grades"
    with pytest.raises(ValueError, match=r"columns must be among '.*', got 'docs'"):
        read(path, columns={**columns, "item": "docs"})


def test_headers_of_csv_may_have_capitals(tmp_path):
    (tmp_path / "f.csv").write_text("Q,Doc,Grade\n0,3,2\n0,4,0\n7,5,1\n")
    columns = {"query": "Q", "item": "DOC", "relevance": "grade"}
    assert_grades(read(tmp_path / "f.csv", columns=columns))


def test_dotted_names_lead_into_json(tmp_path):
    path = tmp_path / "f.jsonl"
    lines = [{"ask": {"q": a}, "doc": {"id": {"n": b}}, "v": value} for a, b, value in GRADES]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert_grades(read(path, columns={"query": "ask.q", "item": "doc.id.n", "relevance": "v"}))


class OnlyArrow:
    """A table of a library that we have never heard of."""

    def __init__(self, table):
        self.table = table

    def __arrow_c_stream__(self, requested_schema=None):
        return self.table.__arrow_c_stream__(requested_schema)


@pytest.mark.parametrize("form", [pd.DataFrame, pa.table, dict, lambda d: OnlyArrow(pa.table(d))])
@pytest.mark.parametrize("ids", [PLAIN, Ids([f"n{i}" for i in range(N)], N)])
def test_tables_in_memory_are_read_by_column_names(form, ids):
    triplets = np.array([[0, 1, 2], [3, 4, 5]])
    named = [ids.names(column) for column in triplets.T]
    given = form({"worse": named[2], "note": ["x", "y"], "better": named[1], "query": named[0]})
    assert kind_of(given) == "triplets"
    np.testing.assert_array_equal(read(given, "triplets", ids).tuples, triplets)
    with pytest.raises(ValueError, match="feedback: feedback must have the columns a,b,label"):
        read(given, "pairs", ids)


def test_a_gap_in_a_table_is_a_bad_row():
    frame = pd.DataFrame({"a": [0, 1, 2], "b": [3.0, None, 5.0], "label": [1.0, -1.0, None]})
    bad = BadRows("skip")
    found = read(frame, "pairs", bad_rows=bad)
    assert found.tuples.tolist() == [[0, 3]]
    assert [row.number for row in bad.first] == [2, 3]


def test_what_is_no_table_is_refused():
    with pytest.raises(ValueError, match="must be a path, or a table with named columns, got int"):
        read(3)
    with pytest.raises(ValueError, match="feedback must be in a file, got DataFrame"):
        Source(pd.DataFrame()).path  # noqa: B018


def test_classes_of_a_table():
    frame = pd.DataFrame({"row": [0, 1, 2], "label": ["b", "a", "b"]})
    assert classes_in(frame, PLAIN).tolist() == ["a", "b"]


def test_a_source_keeps_its_columns_when_it_is_copied(tmp_path):
    source = Source(tmp_path / "f.csv", {"query": "q"})
    with spooled(source) as copy:
        assert copy.columns == {"query": "q"}


@pytest.mark.parametrize("name", ["position", "weight"])
@pytest.mark.parametrize("columns", ["query,item,relevance", "query,better,worse"])
def test_columns_that_change_the_meaning_are_not_ignored_in_silence(columns, name, tmp_path):
    (tmp_path / "f.csv").write_text(f"{columns},{name}\n0,1,2,3\n0,2,1,3\n")
    with pytest.warns(UserWarning, match=rf"f.csv: the column {name} is not used beside {columns}"):
        read(tmp_path / "f.csv", "triplets")


def test_a_run_is_ordered_by_its_scores(tmp_path):
    path = tmp_path / "bm25.run"
    path.write_text("7 Q0 3 1 0.5 x\n7 Q0 4 2 0.9 x\n0 Q0 5 1 -1.5 x\n7 Q0 6 3 0.5 x\n")
    run = read_run(path, PLAIN)
    assert run.query.tolist() == [0, 7, 7, 7]
    assert run.item.tolist() == [5, 4, 3, 6]
    assert run.position.tolist() == [1, 1, 2, 3]
    with pytest.raises(ValueError, match="feedback must have the columns query,better,worse"):
        read(path, "triplets")
    path.write_text("7 Q0 3\n")
    with pytest.raises(ValueError, match="4 fields, as qrels do, or 6, as runs do, got 3"):
        read_run(path, PLAIN)


def test_columns_understood_by_other_names_are_told_from_the_columns(tmp_path):
    path = tmp_path / "log.csv"
    path.write_text("search_term,clicked\nred lamp,1\n")
    said = r"got 'search_term,clicked' \(query is search_term, click is clicked\); name yours"
    with pytest.raises(ValueError, match=said):
        read(path, "lists")
