"""Tables: row numbers, and files that are small on the disk and huge in memory."""

import numpy as np
import pytest

from similia.feedback import FeedbackFile, copy_rows
from similia.files import Ids, Source, read_vectors
from similia.files.tables import Table

pa = pytest.importorskip("pyarrow")
from pyarrow import ipc, parquet  # noqa: E402

#: values of lists above what a small file may take
MANY = 27_000_000
#: bytes of Arrow's own memory that refusing them may take
ROOM = 2**26
#: pools must outlive what was allocated from them
POOLS = []


@pytest.fixture
def pool():
    """Puts a pool to use that counts what Arrow allocates from then on."""
    before = pa.default_memory_pool()

    def counting():
        POOLS.append(pa.proxy_memory_pool(before))
        pa.set_memory_pool(POOLS[-1])
        return POOLS[-1]

    yield counting
    pa.set_memory_pool(before)


def refuse(call, pool):
    counting = pool()
    with pytest.raises(ValueError, match=r"must take at most \d+ bytes of memory at a time, got"):
        call()
    assert counting.max_memory() < ROOM


def test_parquet_lists_that_are_packed_as_repetitions(tmp_path, pool):
    path = tmp_path / "bomb.parquet"
    zeros = pa.array(np.zeros(MANY, np.float32))
    lists = pa.ListArray.from_arrays(pa.array([0, 2, MANY], pa.int32()), zeros)
    parquet.write_table(pa.table({"vector": lists}), path)
    assert path.stat().st_size < 100_000
    refuse(lambda: read_vectors(path), pool)


def test_parquet_texts_that_are_long_once_unpacked(tmp_path, pool):
    path = tmp_path / "bomb.parquet"
    names = ("query", "better", "worse")
    texts = pa.table(dict.fromkeys(names, pa.array(["a" * 100_000_000])))
    options = {"use_dictionary": False, "write_statistics": False, "compression": "zstd"}
    parquet.write_table(texts, path, **options)
    assert path.stat().st_size < 100_000
    refuse(lambda: list(FeedbackFile(path, "triplets", Ids(None, 4))), pool)


def test_a_long_text_that_lists_repeat_is_held_once(tmp_path, pool):
    path = tmp_path / "lists.parquet"
    text = pa.DictionaryArray.from_arrays(
        pa.array(np.zeros(2000, np.int32)), pa.array(["a" * 1_000_000])
    )
    lists = pa.ListArray.from_arrays(pa.array([0, 1000, 2000], pa.int32()), text)
    parquet.write_table(pa.table({"query": ["a", "b"], "shown": lists}), path, store_schema=False)
    counting = pool()
    (columns,) = Source(path).table().columns(["query", "shown"])
    assert [len(row) for row in columns[1]] == [1000, 1000]
    assert counting.max_memory() < ROOM


@pytest.mark.parametrize("suffix", [".parquet", ".arrow"])
def test_chosen_rows_are_copied_with_every_column(suffix, tmp_path):
    path, output = tmp_path / f"some{suffix}", tmp_path / f"copy{suffix}"
    notes = pa.array(["one", "two", None, "one"] * 100).dictionary_encode()
    table = pa.table({"query": np.arange(400), "note": notes, "shown": [[1.5, 2.5]] * 400})
    write(path, table, 70)
    copy_rows(path, np.arange(1, 400, 2), output)  # rows are numbered from 1
    found = Table(output)
    assert found.schema == table.schema
    batches = pa.Table.from_batches(list(found.batches(["query", "note"])))
    assert batches.column("query").to_pylist() == list(range(0, 400, 2))
    assert batches.column("note").to_pylist() == ["one", None] * 100


@pytest.mark.parametrize("compression", [None, "zstd", "lz4"])
@pytest.mark.parametrize("size", [1, 7, 1000])
def test_rows_of_arrow_files_are_those_of_their_batches(compression, size, tmp_path):
    path = tmp_path / "some.arrow"
    texts = pa.array(["one", "two", None] * 333).dictionary_encode()
    table = pa.table({"a": [[1.0, 2.0]] * 999, "b": texts, "c": np.arange(999)})
    write(path, table, size, compression)
    found = Table(path)
    starts = [found.first_row(range(part, part + 1)) for part in found.parts()]
    assert found.n_rows == 999
    assert starts == list(range(0, 999, size))


def write(path, table, size, compression=None):
    if path.suffix == ".parquet":
        parquet.write_table(table, path, row_group_size=size)
        return
    options = ipc.IpcWriteOptions(compression=compression)
    with ipc.new_file(path, table.schema, options=options) as file:
        file.write_table(table, max_chunksize=size)
