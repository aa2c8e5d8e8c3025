"""Files that were cut, changed or are no files: an error in words, never a crash."""

import tracemalloc
from contextlib import suppress

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import feather, parquet
from safetensors import SafetensorError
from scipy import sparse

from similia.feedback import FeedbackFile
from similia.files import Ids, read_vectors, write_vectors

SUFFIXES = [".npy", ".npz", ".safetensors", ".parquet", ".arrow", ".jsonl", ".svmlight"]


def whole(path, rng):
    """Write vectors with names, and give the bytes."""
    X, names = rng.normal(size=(30, 4)).astype("float32"), [f"{i:03}" for i in range(30)]
    if path.suffix == ".npz":
        sparse.save_npz(path, sparse.csr_array(X))  # compressed, so that zlib reads it too
    elif path.suffix == ".arrow":
        table = pa.table({"id": names, "vector": X.tolist()})  # with offsets, which can be wrong
        feather.write_feather(table, path, compression="uncompressed")
    else:
        write_vectors(path, X, names)
    return path.read_bytes()


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_changed_bytes_are_read_or_refused_in_words(suffix, tmp_path, rng):
    path = tmp_path / f"v{suffix}"
    data = np.frombuffer(whole(path, rng), dtype=np.uint8)
    for _ in range(60):
        changed = data.copy()
        changed[rng.integers(len(data), size=3)] = rng.integers(256, size=3)
        path.write_bytes(changed.tobytes())
        with suppress(ValueError, OSError, MemoryError):  # and nothing else
            read_vectors(path)


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_cut_file_names_itself(suffix, tmp_path, rng):
    path = tmp_path / f"v{suffix}"
    data = whole(path, rng)
    for length in (0, 1, 7, len(data) // 2):
        path.write_bytes(data[:length])
        with pytest.raises(ValueError, match=path.name):
            read_vectors(path)


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_folder_and_a_missing_file_are_told_apart(suffix, tmp_path):
    path = tmp_path / f"v{suffix}"
    with pytest.raises(FileNotFoundError, match=path.name):
        read_vectors(path)
    path.mkdir()
    with pytest.raises(ValueError, match="got a folder"):
        read_vectors(path)


@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (3,)])
def test_vectors_are_at_least_one_number(shape, tmp_path):
    np.save(tmp_path / "v.npy", np.empty(shape))
    with pytest.raises(ValueError, match="vectors must be a matrix of numbers, at least one"):
        read_vectors(tmp_path / "v.npy")


def test_lists_without_numbers_are_no_vectors(tmp_path):
    lists = pa.array([[], None], pa.list_(pa.float32()))
    parquet.write_table(pa.table({"vector": lists}), tmp_path / "v.parquet")
    with pytest.raises(ValueError, match="at least one, got none"):
        read_vectors(tmp_path / "v.parquet")


def test_columns_of_one_name_are_refused(tmp_path):
    names = ["query", "better", "worse", "query"]
    parquet.write_table(pa.table([pa.array([1])] * 4, names=names), tmp_path / "f.parquet")
    with pytest.raises(ValueError, match="different names"):
        list(FeedbackFile(tmp_path / "f.parquet", "triplets", Ids(None, 3)))


def test_ids_of_a_file_that_is_replaced_are_not_kept(tmp_path):
    path = tmp_path / "v.npy"
    write_vectors(path, np.eye(2), ["old", "older"])
    write_vectors(path, np.eye(2))
    assert read_vectors(path).ids.values is None


@pytest.mark.parametrize(
    ("suffix", "writer", "error"),
    [
        (".npy", "np.save", OSError(28, "No space left on device")),
        (".safetensors", "save_file", SafetensorError("No space left on device")),
    ],
)
def test_a_full_disk_is_said_and_leaves_the_old_file(suffix, writer, error, tmp_path, monkeypatch):
    def full(*args, **options):
        raise error

    path = tmp_path / f"v{suffix}"
    write_vectors(path, np.eye(2))
    before = path.read_bytes()
    monkeypatch.setattr(f"similia.files.writing.{writer}", full)
    with pytest.raises(OSError, match=rf"v{suffix} could not be written: No space left on device."):
        write_vectors(path, np.zeros((2, 2)))
    assert path.read_bytes() == before
    assert [found.name for found in tmp_path.iterdir()] == [path.name]


@pytest.mark.parametrize("suffix", [".npy", ".parquet", ".jsonl", ".svmlight"])
@pytest.mark.parametrize(
    "X", [np.ones(3), np.ones((2, 0)), np.eye(2) + 1j, np.eye(2, dtype=object)]
)
def test_what_could_not_be_read_is_not_written(suffix, X, tmp_path):
    with pytest.raises(ValueError, match="vectors must be a matrix of numbers"):
        write_vectors(tmp_path / f"v{suffix}", X)
    assert not list(tmp_path.iterdir())


def test_lists_are_written_as_matrices(tmp_path):
    write_vectors(tmp_path / "v.npy", [[1.0, 2.0]])
    assert read_vectors(tmp_path / "v.npy").X.tolist() == [[1.0, 2.0]]


def test_long_repeats_of_an_id_take_no_memory(tmp_path):
    path, n = tmp_path / "X.parquet", 20_000
    ids = pa.DictionaryArray.from_arrays(np.zeros(n, np.int32), ["x" * 50_000])
    table = pa.table({"id": ids, "better": ids, "worse": ids, "a": np.ones(n), "b": np.zeros(n)})
    parquet.write_table(table, path, store_schema=False)  # read back as plain texts
    assert path.stat().st_size < 1_000_000
    tracemalloc.start()
    try:
        with pytest.raises(ValueError, match="ids must be different"):
            read_vectors(path)
        with pytest.raises(ValueError, match="unknown id"):
            list(FeedbackFile(path, "triplets", Ids([0], 1), columns={"query": "id"}))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 50_000_000


def test_one_long_id_does_not_lengthen_the_others():
    tracemalloc.start()
    try:
        ids = Ids(["x" * 1_000_000, *map(str, range(2000))], 2001)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert ids.row("1999") == 2000
    assert peak < 10_000_000
