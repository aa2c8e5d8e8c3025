"""Attacks through tables of vectors and of judgements: Parquet and Arrow, compressed or not."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from similia.feedback import FeedbackFile
from similia.files import Ids, read_vectors
from similia.registry import learner_class
from tests.fuzz import hostile
from tests.fuzz.targets import refused

#: large enough for a finding of memory, small enough to be written fast
MANY = 500_000_000


def column(rng, n):
    """Some column of n rows; often of an odd type, or huge once it is unpacked."""
    numbers = rng.integers(10, size=n)
    texts = [f"i{number}" for number in numbers]
    made = [
        lambda: pa.array(numbers),
        lambda: pa.array(numbers.astype(float)),
        lambda: pa.array(texts),
        lambda: pa.array(texts).dictionary_encode(),
        lambda: pa.array(texts, pa.string_view()),
        lambda: pa.array([[text] * 3 for text in texts]),
        lambda: pa.array([{"a": text} for text in texts]),
        lambda: pa.array([text.encode() for text in texts]),
        lambda: pa.array(numbers % 2 == 0),
        lambda: pa.nulls(n),
        lambda: pa.array([None, *texts[1:]]),
        lambda: pa.array(np.arange(n), pa.timestamp("us")),
        lambda: pa.array([text.ljust(20_000_000 // n) for text in texts]),
        lambda: pa.FixedSizeListArray.from_arrays(pa.array(rng.normal(size=3 * n)), 3),
        lambda: pa.array([[1.0, 2.0, hostile.pick(rng, [3.0, None, 1e300])]] * n),
    ]
    return hostile.pick(rng, made)()


def bomb(rng, n):
    """Lists of zeros, of which the last is huge."""
    many = hostile.pick(rng, [1_000_000, MANY // 8])
    zeros = pa.array(np.zeros(many, np.float32))
    ends = np.append(np.arange(n), many)
    return pa.table({"vector": pa.ListArray.from_arrays(pa.array(ends, pa.int32()), zeros)})


def write(rng, path, table):
    if path.suffix == ".parquet":
        options = {"compression": hostile.pick(rng, ["snappy", "zstd", "gzip", "none", "lz4"])}
        options["use_dictionary"] = bool(rng.integers(2))
        options["data_page_version"] = hostile.pick(rng, ["1.0", "2.0"])
        pq.write_table(table, path, row_group_size=int(rng.integers(1, 60)), **options)
        return
    options = pa.ipc.IpcWriteOptions(compression=hostile.pick(rng, [None, "zstd", "lz4"]))
    with pa.ipc.new_file(path, table.schema, options=options) as writer:
        writer.write_table(table, max_chunksize=int(rng.integers(1, 60)))


def tables(rng, folder):
    path = folder / f"table{hostile.pick(rng, ['.parquet', '.arrow', '.feather'])}"
    n = int(rng.integers(1, 40))
    vectors = rng.random() < 0.4
    if vectors and rng.random() < 0.1:
        table = bomb(rng, n)
    else:
        names = ("vector", "id") if vectors else ("query", "better", "worse", "shown")
        table = pa.table({name: column(rng, n) for name in names})
    try:
        write(rng, path, table)
    except (pa.ArrowException, OSError):  # not every type has a place in every format
        return
    if rng.random() < 0.6:
        path.write_bytes(hostile.damaged_bytes(rng, path.read_bytes()))
    if vectors:
        found = refused(lambda: read_vectors(path))
        if found is not None:
            refused(lambda: learner_class("OASIS")().learn(found.X, [[0, 1, 2]]))
        return
    ids = hostile.pick(rng, [Ids(None, 10), Ids([f"i{number}" for number in range(10)], 10)])
    kind = hostile.pick(rng, ["triplets", "pairs", "lists"])
    refused(lambda: list(FeedbackFile(path, kind, ids)))
