"""Tables that are small on the disk and huge in memory are refused before they are unpacked."""

import numpy as np
import pytest

from similia.feedback import FeedbackFile, copy_rows
from similia.files import Ids, read_vectors
from similia.files.source import Source
from similia.files.unpacked import arrow_batches

pa = pytest.importorskip("pyarrow")
ipc = pytest.importorskip("pyarrow.ipc")
parquet = pytest.importorskip("pyarrow.parquet")

#: values of a bomb; above what a small file may take, in every type below
MANY = 80_000_000
#: bytes of Arrow's own memory that refusing one may take
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


def write_arrow(path, table, compression="zstd"):
    options = ipc.IpcWriteOptions(compression=compression)
    with ipc.new_file(path, table.schema, options=options) as file:
        file.write_table(table)


def zeros(n, dtype=np.float32):
    return pa.array(np.zeros(n, dtype))


def vectors(n=MANY // 100, width=100):
    return pa.table({"vector": pa.FixedSizeListArray.from_arrays(zeros(n * width), width)})


def uneven(n=MANY):
    """Two vectors, of which the second is huge."""
    offsets = pa.array([0, 2, n], pa.int32())
    return pa.table({"vector": pa.ListArray.from_arrays(offsets, zeros(n))})


def numbers():
    return pa.table(dict.fromkeys(("query", "better", "worse"), zeros(MANY // 2, np.int64)))


def refuse(call, pool):
    counting = pool()
    with pytest.raises(ValueError, match=r"must take at most \d+ bytes of memory at a time, got"):
        call()
    assert counting.max_memory() < ROOM


def feedback(path):
    return lambda: list(FeedbackFile(path, "triplets", Ids(None, 4)))


@pytest.mark.parametrize(
    ("make", "compression"), [(vectors, "zstd"), (vectors, "lz4"), (uneven, "zstd")]
)
def test_compressed_arrow_vectors(make, compression, tmp_path, pool):
    path = tmp_path / "bomb.arrow"
    write_arrow(path, make(), compression)
    assert path.stat().st_size < 2_000_000
    refuse(lambda: read_vectors(path), pool)


def test_compressed_arrow_feedback(tmp_path, pool):
    path = tmp_path / "bomb.arrow"
    write_arrow(path, numbers())
    refuse(feedback(path), pool)


def test_a_compressed_dictionary(tmp_path, pool):
    path = tmp_path / "bomb.arrow"
    text = pa.DictionaryArray.from_arrays(
        pa.array([0, 0], pa.int8()), pa.array(["a" * (MANY + MANY // 4)])
    )
    write_arrow(path, pa.table(dict.fromkeys(("query", "better", "worse"), text)))
    refuse(feedback(path), pool)


def test_parquet_lists_that_are_packed_as_repetitions(tmp_path, pool):
    path = tmp_path / "bomb.parquet"
    parquet.write_table(uneven(MANY // 3), path)
    assert path.stat().st_size < 100_000
    refuse(lambda: read_vectors(path), pool)


def forge_footer(path, size):
    """Let the footer of a file say that its columns are small once unpacked."""
    raw = path.read_bytes()
    end = len(raw) - 8
    start = end - int.from_bytes(raw[end : end + 4], "little")
    footer, before = raw[start:end], varint(2 * size)
    assert before in footer
    footer = footer.replace(before, varint(2))
    path.write_bytes(raw[:start] + footer + len(footer).to_bytes(4, "little") + b"PAR1")


def varint(n):
    found = bytearray()
    while n > 127:
        found.append(n & 127 | 128)
        n >>= 7
    return bytes([*found, n])


def test_parquet_pages_that_the_footer_is_silent_about(tmp_path, pool):
    path = tmp_path / "bomb.parquet"
    texts = pa.table(
        dict.fromkeys(("query", "better", "worse"), pa.array(["a" * (MANY + MANY // 4)]))
    )
    options = {"use_dictionary": False, "write_statistics": False, "compression": "zstd"}
    parquet.write_table(texts, path, **options)
    column = parquet.ParquetFile(path).metadata.row_group(0).column(0)
    forge_footer(path, column.total_uncompressed_size)
    assert parquet.ParquetFile(path).metadata.row_group(0).column(0).total_uncompressed_size < 9
    refuse(feedback(path), pool)


def test_parquet_texts_that_share_their_beginnings(tmp_path, pool):
    path = tmp_path / "bomb.parquet"
    texts = pa.array([f"{'a' * 1_000_000}{i}" for i in range(110)])
    table = pa.table(dict.fromkeys(("query", "better", "worse"), texts))
    names = dict.fromkeys(table.schema.names, "DELTA_BYTE_ARRAY")
    parquet.write_table(table, path, use_dictionary=False, column_encoding=names)
    assert path.stat().st_size < 1_000_000
    refuse(feedback(path), pool)


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


def test_a_long_text_that_many_rows_repeat_is_copied_in_parts(tmp_path, pool):
    path, output = tmp_path / "texts.parquet", tmp_path / "copy.parquet"
    text = pa.DictionaryArray.from_arrays(
        pa.array(np.arange(400, dtype=np.int32) % 2), pa.array(["a" * 1_000_000, "b"])
    )
    lists = pa.ListArray.from_arrays(pa.array(np.arange(401), pa.int32()), text)
    table = pa.table({"query": np.arange(400), "shown": lists, "note": text})
    parquet.write_table(table, path, store_schema=False)
    counting = pool()
    copy_rows(path, np.arange(1, 400, 2), output)  # rows are numbered from 1
    assert counting.max_memory() < 4 * ROOM
    found = parquet.read_table(output)
    assert found.schema == parquet.read_schema(path)
    assert found.column("query").to_pylist() == list(range(0, 400, 2))
    assert found.column("note").to_pylist()[-1] == "a" * 1_000_000


def test_views_that_overlap(tmp_path, pool):
    path = tmp_path / "bomb.arrow"
    letters, n = b"a" * 1_000_000, 400
    view = np.zeros(n, np.dtype([("n", "<i4"), ("head", "S4"), ("buffer", "<i4"), ("at", "<i4")]))
    view["n"] = len(letters) - np.arange(n)
    view["head"] = b"aaaa"
    buffers = [None, pa.py_buffer(view.tobytes()), pa.py_buffer(letters)]
    try:
        texts = pa.Array.from_buffers(pa.string_view(), n, buffers)
    except ValueError:
        pytest.skip("this version of pyarrow makes no views from buffers")
    with ipc.new_file(path, pa.schema([(k, texts.type) for k in "qbw"])) as file:
        file.write_batch(pa.record_batch([texts] * 3, names=list("qbw")))
    columns = {"query": "q", "better": "b", "worse": "w"}
    refuse(lambda: list(FeedbackFile(path, "triplets", Ids(None, 4), columns=columns)), pool)


@pytest.mark.parametrize("compression", [None, "zstd", "lz4"])
@pytest.mark.parametrize("size", [1, 7, 1000])
def test_rows_and_bytes_of_arrow_files_are_those_of_their_batches(compression, size, tmp_path):
    path = tmp_path / "some.arrow"
    texts = pa.array(["one", "two", None] * 333).dictionary_encode()
    table = pa.table({"a": np.arange(999), "b": texts, "c": [[1.0, 2.0]] * 999})
    options = ipc.IpcWriteOptions(compression=compression)
    with ipc.new_file(path, table.schema, options=options) as file:
        file.write_table(table, max_chunksize=size)
    with pa.memory_map(str(path)) as source:
        file = ipc.open_file(source)
        expected = [file.get_batch(i) for i in range(file.num_record_batches)]
    found, dictionaries = arrow_batches(path)
    assert [batch.rows for batch in found] == [batch.num_rows for batch in expected]
    assert dictionaries <= 64
    if compression is None:
        assert all(batch.size == 0 for batch in found)
    elif size == 1000:  # smaller ones are stored as they are
        numbers = 999 * (8 + 4 + 2 * 8)
        assert numbers <= found[0].size <= numbers + 8 * 999 + 1024
