"""Views of queries and items from files."""

import csv
import json

import numpy as np
import pytest
from scipy import sparse

from similia import BM25
from similia.files import Ids, VectorFile, ViewFiles

TITLES = ["red shoes", "blue, old hat", "", "red hat"]


@pytest.fixture
def items():
    return VectorFile(np.eye(4), Ids(["a", "b", "c", "d"], 4))


@pytest.fixture
def folder(tmp_path):
    rows = [(name, title, n) for name, title, n in zip("abcd", TITLES, range(4), strict=True)]
    text = "".join(f'{name},"{title}",{n}\n' for name, title, n in reversed(rows))
    (tmp_path / "table.csv").write_text(f"id,title,price\n{text}")
    lines = [{"id": n, "text": t, "price": p, "other": [p, 1.0]} for n, t, p in reversed(rows)]
    (tmp_path / "table.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    (tmp_path / "lines.txt").write_text("".join(f"{title}\n" for title in TITLES))
    np.save(tmp_path / "price.npy", np.arange(4.0))
    return tmp_path


@pytest.mark.parametrize("name", ["table.csv", "table.jsonl", "price.npy"])
def test_a_field_is_read_from_any_table_and_matched_by_id(name, folder, items):
    X = ViewFiles({"price": folder / name}).of_items(items).X
    assert list(X) == ["vectors", "price"]
    np.testing.assert_array_equal(X["price"].ravel(), np.arange(4))


def test_a_column_of_lists_is_a_view_of_vectors(folder, items):
    X = ViewFiles({"other": folder / "table.jsonl"}).of_items(items).X
    np.testing.assert_array_equal(X["other"], np.column_stack([np.arange(4), np.ones(4)]))


@pytest.mark.parametrize("name", ["table.csv", "table.jsonl", "lines.txt"])
def test_texts_become_bm25_of_the_items(name, folder, items):
    (folder / "queries.txt").write_text("hat\nred red\n")
    texts, query_texts = {"title": folder / name}, {"title": folder / "queries.txt"}
    files = ViewFiles(texts=texts, query_texts=query_texts)
    queries = VectorFile(np.eye(2, 4), Ids(None, 2))
    Q, Z = files.of_both(queries, items)
    bm25 = BM25().fit(TITLES)
    np.testing.assert_array_equal(Z.X["title"].toarray(), bm25.items(TITLES).toarray())
    np.testing.assert_array_equal(
        Q.X["title"].toarray(), bm25.queries(["hat", "red red"]).toarray()
    )
    alone = ViewFiles(texts=texts, query_texts=query_texts).of_queries(queries).X
    np.testing.assert_array_equal(alone["title"].toarray(), Q.X["title"].toarray())


def test_words_count_in_queries_and_weigh_in_items_even_if_these_are_the_same(folder, items):
    files = ViewFiles({"price": folder / "price.npy"}, texts={"title": folder / "lines.txt"})
    Q, Z = files.of_both(items, None)
    assert Q.are_the_rows_of(Z)
    assert list(Q.X) == ["vectors", "title"]
    assert sparse.issparse(Z.X["title"])
    assert set(np.unique(Q.X["title"].toarray())) == {0, 1}
    assert ViewFiles({"price": folder / "price.npy"}).of_both(items, None)[1] is None


def test_without_views_nothing_changes(items):
    assert ViewFiles().of_both(items, None) == (items, None)


@pytest.mark.parametrize(
    ("views", "texts", "message"),
    [
        ({"cost": "table.csv"}, {}, "must have the column cost, got 'id,title,price'"),
        ({"short": "short.npy"}, {}, "rows must be as many as vectors, 4, got 3"),
        ({"price": "few.csv"}, {}, "ids must include those of the vectors, got unknown id"),
        ({"title": "table.csv"}, {}, "title holds texts"),
        ({"x": "price.npy"}, {"x": "lines.txt"}, "views must have different names, got x"),
        ({"vectors": "price.npy"}, {}, "views must have different names, got vectors"),
        ({}, {"t": "table.csv"}, "must have the column t or text"),
        ({"price": "twice.csv"}, {}, "ids must be different"),
    ],
)
def test_bad_views_are_explained(views, texts, message, folder, items):
    np.save(folder / "short.npy", np.arange(3.0))
    (folder / "few.csv").write_text("id,price\na,1\nb,2\n")
    (folder / "twice.csv").write_text("id,price\na,1\na,2\n")
    with pytest.raises(ValueError, match=message):
        ViewFiles(
            {name: folder / path for name, path in views.items()},
            texts={name: folder / path for name, path in texts.items()},
        ).of_items(items)


def test_views_of_queries_need_items(folder, items):
    with pytest.raises(ValueError, match="must be left out unless items are given"):
        ViewFiles(queries={"price": folder / "price.npy"}).of_both(items, None)
    with pytest.raises(ValueError, match="texts of the items must be given"):
        ViewFiles(query_texts={"title": folder / "lines.txt"})


@pytest.mark.parametrize("suffix", [".csv", ".jsonl", ".parquet"])
def test_a_table_without_the_column_of_a_view_says_what_it_has(suffix, folder, items):
    path = _table(folder / f"t{suffix}", id=list("abcd"), title=TITLES, embedding=[[1.0, 2.0]] * 4)
    with pytest.raises(ValueError, match=r"have the column price, got 'id,title,embedding'"):
        ViewFiles({"price": path}).of_items(items)


@pytest.mark.parametrize("suffix", [".csv", ".jsonl", ".parquet"])
def test_texts_as_a_view_are_told_where_they_belong(suffix, folder, items):
    path = _table(folder / f"t{suffix}", id=list("abcd"), title=TITLES, price=[1.0, 2.0, 3.0, 4.0])
    with pytest.raises(ValueError, match=r"title holds texts.*--text title=FILE"):
        ViewFiles({"title": path}).of_items(items)


@pytest.mark.parametrize("suffix", [".jsonl", ".parquet"])
def test_ids_and_vectors_alone_need_no_column_of_the_name(suffix, folder, items):
    path = _table(folder / f"t{suffix}", id=list("abcd"), vector=[[1.0, 2.0]] * 4)
    assert ViewFiles({"image": path}).of_items(items).X["image"].shape == (4, 2)


def _table(path, **columns):
    if path.suffix == ".parquet":
        pa = pytest.importorskip("pyarrow")
        from pyarrow import parquet

        parquet.write_table(pa.table(columns), path)
    else:
        rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
        with open(path, "w", newline="") as file:
            if path.suffix == ".csv":
                writer = csv.DictWriter(file, list(columns))
                writer.writeheader()
                writer.writerows(rows)
            else:
                file.writelines(json.dumps(row) + "\n" for row in rows)
    return path
