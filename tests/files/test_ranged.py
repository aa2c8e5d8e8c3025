"""Ranges of rows of tables: the same vectors and ids as of the whole, from no more of the file."""

import numpy as np
import pytest

from similia.exceptions import BadRowError
from similia.files import read_vectors
from similia.files.vectors import is_ranged, open_rows

pa = pytest.importorskip("pyarrow")
from pyarrow import ipc, parquet  # noqa: E402

N, D, GROUP = 230, 3, 50
RANGES = [(0, 230), (0, 1), (49, 50), (50, 100), (49, 101), (120, 121), (200, 230), (229, 230)]


def columns(X, form, names):
    lists = {"fixed": pa.list_(pa.float32(), D), "lists": pa.list_(pa.float64())}
    found = {}
    if names is not None:
        found["id"] = pa.array(names)
    if form == "numbers":
        return found | {f"x{place}": pa.array(X[:, place]) for place in range(D)}
    return found | {"vector": pa.array(X.tolist(), lists[form])}


def write(path, X, form="fixed", names=None):
    table = pa.table(columns(X, form, names))
    if path.suffix == ".parquet":
        parquet.write_table(table, path, row_group_size=GROUP)
    else:
        with ipc.new_file(str(path), table.schema) as file:
            file.write_table(table, max_chunksize=GROUP)
    return path


@pytest.mark.parametrize("suffix", [".parquet", ".arrow"])
@pytest.mark.parametrize("form", ["fixed", "lists", "numbers"])
@pytest.mark.parametrize("names", ["none", "numbers", "texts", "large"])
def test_a_range_is_that_of_the_whole(suffix, form, names, tmp_path, rng):
    ids = {
        "none": None,
        "numbers": rng.permutation(N),
        "texts": [f"item-{row % 7}-{row}" for row in range(N)],
        "large": np.arange(N, dtype=np.uint64) + np.uint64(2**64 - N),
    }[names]
    path = write(tmp_path / f"items{suffix}", rng.normal(size=(N, D)).astype("f4"), form, ids)
    whole = read_vectors(path)
    chosen = np.unique(rng.integers(N, size=40))
    rows = open_rows(path)
    assert rows.shape == whole.X.shape
    for start, stop in RANGES:
        np.testing.assert_array_equal(rows.read(start, stop), whole.X[start:stop])
        assert rows.read(start, stop).dtype == whole.X.dtype
        assert rows.names(start, stop) == whole.ids.names(range(start, stop))
    assert rows.ids().names() == whole.ids.names()
    np.testing.assert_array_equal(rows.take(chosen), whole.X[chosen])


@pytest.mark.parametrize("suffix", [".parquet", ".arrow"])
def test_other_groups_of_rows_are_not_read(suffix, tmp_path, rng):
    path = write(tmp_path / f"items{suffix}", rng.normal(size=(N, D)).astype("f4"), "lists")
    whole, data = read_vectors(path).X, bytearray(path.read_bytes())
    if suffix == ".parquet":
        group = parquet.ParquetFile(path).metadata.row_group(1).column(0)
        start = group.dictionary_page_offset or group.data_page_offset
        data[start : start + group.total_compressed_size] = bytes(group.total_compressed_size)
    else:  # ends of the lists of the second batch
        ends = np.arange(0, D * GROUP + 1, D, dtype="<i4").tobytes()
        place = data.index(ends, data.index(ends) + 1)
        data[place : place + 40] = b"\xff" * 40
    path.write_bytes(data)
    with pytest.raises(ValueError, match="items"):
        read_vectors(path)
    rows = open_rows(path, width=D)
    np.testing.assert_array_equal(rows.read(100, 230), whole[100:])
    np.testing.assert_array_equal(rows.take(np.array([3, 160])), whole[[3, 160]])
    with pytest.raises(ValueError, match="items"):
        rows.read(99, 230)


@pytest.mark.parametrize("bad", [[1.0], [1.0, 2.0, np.nan], None])
def test_a_bad_row_is_named_as_in_the_whole(bad, tmp_path, rng):
    values = rng.normal(size=(N, D)).tolist()
    values[130] = bad
    path = tmp_path / "items.parquet"
    parquet.write_table(pa.table({"vector": values}), path, row_group_size=GROUP)
    with pytest.raises(BadRowError) as expected:
        read_vectors(path)
    rows = open_rows(path)
    rows.read(0, 130)
    for wanted in (lambda: rows.read(110, 140), lambda: rows.take(np.array([5, 130]))):
        with pytest.raises(BadRowError) as found:
            wanted()
        assert str(found.value) == str(expected.value)


def test_ids_in_a_file_of_their_own(tmp_path, rng):
    path = write(tmp_path / "items.parquet", rng.normal(size=(N, D)).astype("f4"))
    (tmp_path / "items.parquet.ids").write_text("".join(f"a{row}\n" for row in range(N)))
    (tmp_path / "others.txt").write_text("".join(f"b{row}\n" for row in range(N)))
    rows = open_rows(path)
    assert rows.names(70, 72) == ["a70", "a71"]
    rows = open_rows(path, ids=str(tmp_path / "others.txt"))
    assert rows.names(70, 72) == ["b70", "b71"]


def test_repeated_ids_and_empty_tables_are_refused(tmp_path):
    path = write(tmp_path / "items.parquet", np.ones((N, D), "f4"), names=[0] * N)
    with pytest.raises(ValueError, match="must be different"):
        open_rows(path).ids()
    write(path, np.ones((0, D), "f4"), "numbers")
    with pytest.raises(ValueError, match="at least one row"):
        open_rows(path)


def test_only_tables_have_ranges():
    assert is_ranged("a/b.parquet")
    assert is_ranged("a/b.feather")
    assert is_ranged("file:///a/b.arrow")
    assert not is_ranged("a/b.npy")
