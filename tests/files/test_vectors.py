import io
import json
import sys
import zipfile

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import feather, parquet
from scipy import sparse

from similia.exceptions import BadRowError, MissingExtraError
from similia.files import BadRows, limits, read_vectors, write_vectors

DENSE = [".npy", ".npz", ".safetensors", ".parquet", ".arrow", ".jsonl"]
SPARSE = [".npz", ".svmlight"]
NAMES = {
    "none": None,
    "integers": np.array([30, 10, 20]),
    "texts": np.array(["b", 'ü, "x"', "a"], dtype=object),
}


@pytest.mark.parametrize("suffix", DENSE)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("names", NAMES)
def test_what_is_written_is_read(suffix, dtype, names, tmp_path, rng):
    X = rng.normal(size=(3, 4)).astype(dtype)
    write_vectors(tmp_path / f"v{suffix}", X, NAMES[names])
    found = read_vectors(tmp_path / f"v{suffix}")
    kept = np.float32 if suffix == ".jsonl" else dtype
    assert found.X.dtype == kept
    np.testing.assert_array_equal(found.X, X.astype(kept))
    if names == "none" and suffix != ".jsonl":
        assert found.ids.values is None
    else:
        expected = NAMES[names] if names != "none" else np.arange(3)
        assert found.ids.values.tolist() == expected.tolist()


@pytest.mark.parametrize("suffix", SPARSE)
@pytest.mark.parametrize("names", NAMES)
def test_sparse_vectors_stay_sparse(suffix, names, tmp_path, rng):
    X = sparse.csr_array(rng.normal(size=(3, 5)) * (rng.random((3, 5)) < 0.5) + np.eye(3, 5, k=2))
    write_vectors(tmp_path / f"v{suffix}", X, NAMES[names])
    found = read_vectors(tmp_path / f"v{suffix}")
    np.testing.assert_allclose(found.X.toarray(), X.toarray(), rtol=1e-12)
    assert sparse.issparse(found.X)
    if names != "none":
        assert found.ids.values.tolist() == NAMES[names].tolist()


def test_npy_is_mapped_and_not_read(tmp_path):
    np.save(tmp_path / "v.npy", np.eye(3))
    assert isinstance(read_vectors(tmp_path / "v.npy").X, np.memmap)


@pytest.mark.parametrize("dtype", ["float16", "int8", "uint32"])
def test_other_numbers_become_floats(dtype, tmp_path):
    np.save(tmp_path / "v.npy", np.eye(3, dtype=dtype))
    assert read_vectors(tmp_path / "v.npy").X.dtype == (
        np.float32 if dtype == "float16" else np.float64
    )


@given(st.lists(st.floats(width=32, allow_nan=False, allow_infinity=False), min_size=1))
def test_json_keeps_every_single_precision_number(tmp_path_factory, values):
    path = tmp_path_factory.mktemp("v") / "v.jsonl"
    X = np.array([values], dtype=np.float32)
    write_vectors(path, X)
    np.testing.assert_array_equal(read_vectors(path).X, X)


def test_columns_of_tables_may_be_lists_or_numbers(tmp_path, rng):
    X = rng.normal(size=(3, 2)).astype("float32")
    lists = pa.table({"name": ["a", "b", "c"], "embedding": X.tolist()})
    parquet.write_table(lists, tmp_path / "lists.parquet")
    found = read_vectors(tmp_path / "lists.parquet", id_column="name")
    np.testing.assert_allclose(found.X, X, rtol=1e-7)
    assert found.ids.row("c") == 2
    numbers = pa.table({"id": [7, 8, 9], "x": X[:, 0], "y": X[:, 1], "text": ["p", "q", "r"]})
    feather.write_feather(numbers, tmp_path / "numbers.feather", compression="uncompressed")
    found = read_vectors(tmp_path / "numbers.feather")
    np.testing.assert_array_equal(found.X, X)
    assert found.ids.row(9) == 2


def test_large_tables_are_read_in_batches(tmp_path, rng, monkeypatch):
    monkeypatch.setattr(limits, "BATCH_NUMBERS", 10)
    X = rng.normal(size=(50, 3))
    write_vectors(tmp_path / "v.parquet", X, np.arange(50) * 2)
    found = read_vectors(tmp_path / "v.parquet")
    np.testing.assert_array_equal(found.X, X)
    assert found.ids.values.tolist() == list(range(0, 100, 2))


def test_ids_from_a_file_come_first(tmp_path):
    np.save(tmp_path / "v.npy", np.eye(3))
    (tmp_path / "v.npy.ids").write_text("p\nq\nr\n")
    assert read_vectors(tmp_path / "v.npy").ids.row("q") == 1
    (tmp_path / "other.txt").write_text("5\n6\n7\n")
    assert read_vectors(tmp_path / "v.npy", ids=tmp_path / "other.txt").ids.row(7) == 2
    np.save(tmp_path / "ids.npy", np.array(["k", "l", "m"]))
    assert read_vectors(tmp_path / "v.npy", ids=tmp_path / "ids.npy").ids.row("m") == 2


def lines(*entries):
    return "".join(e if isinstance(e, str) else json.dumps(e) + "\n" for e in entries)


BAD_LINES = lines(
    {"id": "a", "vector": [1, 2]},
    "junk\n",
    {"id": "b", "vector": [1, 2, 3]},
    {"id": "c", "vector": [1, None]},
    {"id": "d", "vector": [1, float("nan")]},
    {"vector": [1, 2]},
    {"id": "e"},
    "[1, 2]\n",
    {"id": "f", "vector": [3, 4]},
)


def test_bad_vectors_are_named_counted_and_skipped(tmp_path):
    path = tmp_path / "v.jsonl"
    path.write_text(BAD_LINES)
    bad = BadRows("skip")
    found = read_vectors(path, bad_rows=bad)
    assert found.X.tolist() == [[1, 2], [3, 4]]
    assert found.ids.row("f") == 1
    assert bad.n == 7
    assert [row.number for row in bad.first] == list(range(2, 9))
    with pytest.raises(BadRowError, match="row 2: not valid JSON"):
        read_vectors(path)


def test_bad_vectors_without_ids_are_never_skipped(tmp_path):
    path = tmp_path / "v.jsonl"
    path.write_text(lines({"vector": [1]}, {"vector": []}))
    with pytest.raises(ValueError, match=r"row 2.*cannot be skipped"):
        read_vectors(path, bad_rows=BadRows("skip"))


def test_bad_vectors_of_tables_are_skipped(tmp_path):
    table = pa.table({"id": [1, 2, 3, 4], "vector": [[1.0, 2.0], [1.0], None, [np.nan, 1.0]]})
    parquet.write_table(table, tmp_path / "v.parquet")
    bad = BadRows("skip")
    found = read_vectors(tmp_path / "v.parquet", bad_rows=bad)
    assert found.X.tolist() == [[1, 2]]
    assert [row.number for row in bad.first] == [2, 3, 4]
    with pytest.raises(BadRowError, match="row 2: not a vector of finite numbers of length 2"):
        read_vectors(tmp_path / "v.parquet")


def test_standard_streams_are_json_lines(monkeypatch, capsys):
    write_vectors("-", np.eye(2), ["p", "q"])
    text = capsys.readouterr().out
    assert json.loads(text.splitlines()[1]) == {"id": "q", "vector": [0.0, 1.0]}
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
    found = read_vectors("-")
    assert found.X.tolist() == [[1, 0], [0, 1]]
    assert found.ids.row("q") == 1


@pytest.mark.parametrize(
    ("name", "contents", "message"),
    [
        ("v.txt", b"", "ends in one of .npy"),
        ("v", b"", "got no suffix"),
        ("v.npy", b"junk", "could not be read"),
        ("v.npz", b"junk", "could not be read"),
        ("v.safetensors", b"junk", "could not be read"),
        ("v.parquet", b"junk", "could not be read"),
        ("v.arrow", b"junk", "could not be read"),
        ("v.svmlight", b"junk", "could not be read"),
        ("v.jsonl", b"", "at least one, got none"),
    ],
)
def test_damaged_and_foreign_files_are_explained(name, contents, message, tmp_path):
    (tmp_path / name).write_bytes(contents)
    with pytest.raises(ValueError, match=message):
        read_vectors(tmp_path / name)


def test_pickles_are_never_opened(tmp_path):
    np.save(tmp_path / "v.npy", np.array([{}], dtype=object), allow_pickle=True)
    with pytest.raises(ValueError, match="could not be read"):
        read_vectors(tmp_path / "v.npy")


@pytest.mark.parametrize("ids", [["a", "a"], ["a"], [1.5, 2.5], ["a", 1]])
def test_ids_are_one_for_each_row_and_different(ids, tmp_path):
    with pytest.raises(ValueError, match="ids must be"):
        write_vectors(tmp_path / "v.parquet", np.eye(2), np.array(ids, dtype=object))
    assert not list(tmp_path.iterdir())


def test_a_write_that_fails_leaves_the_old_file(tmp_path):
    path = tmp_path / "v.npy"
    write_vectors(path, np.eye(2))
    with pytest.raises(ValueError, match="one line"):
        write_vectors(path, np.zeros((2, 2)), ["a", "b\nc"])
    np.testing.assert_array_equal(np.load(path), np.eye(2))
    assert [p.name for p in tmp_path.iterdir()] == ["v.npy"]


def test_without_pyarrow_tables_name_the_extra(tmp_path, monkeypatch):
    (tmp_path / "v.parquet").touch()
    for module in list(sys.modules):
        if module in ("pyarrow", "similia.files.tables", "similia.files.vector_tables"):
            monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(MissingExtraError, match=r"similia\[io\]"):
        read_vectors(tmp_path / "v.parquet")


def test_a_small_archive_does_not_unfold_into_much_memory(tmp_path):
    dense, sparse_path = tmp_path / "zeros.npz", tmp_path / "sparse.npz"
    np.savez_compressed(dense, vectors=np.zeros((2000, 20000)))
    empty = sparse.csr_array((80_000_000, 3))
    sparse.save_npz(sparse_path, empty)
    for path in (dense, sparse_path):
        with pytest.raises(ValueError, match=f"^{path}: vectors must take at most"):
            read_vectors(path)
    assert read_vectors(dense, max_bytes=10**9).X.shape == (2000, 20000)
    with pytest.raises(ValueError, match="must take at most 1000 bytes"):
        read_vectors(dense, max_bytes=1000)


def test_an_array_of_an_archive_that_claims_more_than_it_has_is_refused(tmp_path):
    path, raw = tmp_path / "short.npz", io.BytesIO()
    np.lib.format.write_array_header_1_0(
        raw, {"shape": (10**6, 10**6), "fortran_order": False, "descr": "<f8"}
    )
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("vectors.npy", raw.getvalue())
    with pytest.raises(ValueError, match="must take at most"):
        read_vectors(path)


def test_a_table_of_repeated_rows_does_not_unfold_into_much_memory(tmp_path):
    path = tmp_path / "ones.parquet"
    ones = pa.array(np.ones(20_000_000))
    parquet.write_table(pa.table(dict.fromkeys("abc", ones)), path)
    with pytest.raises(ValueError, match=f"^{path}: vectors must take at most"):
        read_vectors(path)


def test_a_few_lines_do_not_ask_for_many_features(tmp_path):
    path = tmp_path / "few.svmlight"
    path.write_text("1 1:1\n0 30000:1\n1 2:1\n")
    with pytest.raises(ValueError, match=f"^{path}: vectors must have at most"):
        read_vectors(path)
    assert read_vectors(path, max_bytes=10**6).X.shape == (3, 30000)
    sparse.save_npz(path.with_suffix(".npz"), sparse.csr_array((3, 10**12)))
    with pytest.raises(ValueError, match="vectors must have at most"):
        read_vectors(path.with_suffix(".npz"))
