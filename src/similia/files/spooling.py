"""Arrays, tables and collections of Dask and Ray, written to one file in blocks of flat memory."""

import hashlib
import os
import secrets
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from similia.contract import Array
from similia.files import limits
from similia.files.locations import FETCHED
from similia.safety.whole import make_folder, replacing

if TYPE_CHECKING:
    from similia.files.vector_tables import VectorTable

#: what can be spooled, in words
SPOOLED = (
    "a NumPy array, a table of pandas, polars or Arrow, an array or table of Dask, or a dataset of "
    "Ray"
)


def is_spooled(given: Any) -> bool:
    """Whether something in memory, or of Dask or Ray, can be written block by block."""
    return isinstance(given, np.ndarray | dict) or any(
        hasattr(given, name) for name in ("__arrow_c_stream__", "npartitions", "iter_batches")
    )


def spool(given: Any, folder: Path) -> Path:
    """Write an array to .npy or a table to .arrow, once, in a file named by its content."""
    make_folder(folder)
    is_array = isinstance(given, np.ndarray) or hasattr(given, "numblocks")
    suffix = ".npy" if is_array else ".arrow"
    temporary = folder / f"{FETCHED}{secrets.token_hex(8)}.part{suffix}"
    try:
        (_write_array if is_array else _write_tables)(temporary, given)
        with open(temporary, "rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()[:16]
            os.fsync(file.fileno())
        kept = folder / f"{FETCHED}{digest}{suffix}"
        if not kept.exists():
            os.replace(temporary, kept)
        return kept
    finally:
        temporary.unlink(missing_ok=True)


def _write_array(path: Path, given: Any) -> None:
    """Write an array of NumPy or Dask; of the latter, one row of chunks is in memory at a time."""
    if not isinstance(given, np.ndarray):
        given = given.compute_chunk_sizes() if np.isnan(given.shape[0]) else given
        given = given.rechunk({1: -1}) if given.ndim == 2 else given
    whole = isinstance(given, np.ndarray)
    blocks = [given] if whole else (given.blocks[i].compute() for i in range(given.numblocks[0]))
    with open(path, "wb") as file:
        write_header(file, given.shape, given.dtype)
        for block in blocks:
            for start in range(0, len(block), limits.BATCH_ROWS):
                part = np.ascontiguousarray(block[start : start + limits.BATCH_ROWS])
                file.write(part.data.cast("B"))


def write_header(file: Any, shape: tuple[int, ...], dtype: Any) -> None:
    """Write the header of a .npy file in row order."""
    described = {"descr": np.lib.format.dtype_to_descr(np.dtype(dtype)), "fortran_order": False}
    np.lib.format.write_array_header_2_0(file, described | {"shape": tuple(map(int, shape))})


def _tables_of(given: Any) -> Iterator[Any]:
    """Yield the blocks of a table or collection in their order."""
    if hasattr(given, "npartitions"):
        return (given.partitions[i].compute() for i in range(given.npartitions))
    if hasattr(given, "iter_batches"):
        return iter(given.iter_batches(batch_format="pyarrow", batch_size=limits.BATCH_ROWS))
    return iter(given if isinstance(given, list) else [given])


def _write_tables(path: Path, given: Any) -> None:
    from pyarrow import ipc

    from similia.files.tables import Frame

    tables = (Frame(table).table for table in _tables_of(given))
    first = next(tables)
    with ipc.new_file(str(path), first.schema) as file:
        for table in chain([first], tables):
            file.write_table(table.cast(first.schema), max_chunksize=limits.BATCH_ROWS)


# -- vectors in tables -----------------------------------------------------------------------------


def vectors_of_tables(tables: Sequence["VectorTable"], target: Path) -> Path | None:
    """Write the vectors of tables, one after the other, to .npy; return the file of the ids."""
    shape = (sum(table.shape[0] for table in tables), tables[0].shape[1])
    dtype = np.result_type(*(table.dtype for table in tables))
    with replacing(target) as temporary, open(temporary, "wb") as file:
        write_header(file, shape, dtype)

        def names() -> Iterator[Array | list[Any] | None]:
            for table in tables:
                for block, own in table.blocks_with_ids():
                    if block.shape[1] != shape[1]:
                        raise ValueError(
                            f"{table.table.name}: vectors must have {shape[1]} numbers, as those "
                            f"of {tables[0].table.name}, got {block.shape[1]}."
                        )
                    file.write(block.astype(dtype, copy=False).data.cast("B"))
                    yield own

        return _write_ids(names(), target, shape[0])


def _write_ids(names: Iterable[Array | list[Any] | None], beside: Path, n: int) -> Path | None:
    """Write ids as they come: integers to .npy, texts to lines; None if they number the rows."""
    integers, row = np.empty(0, np.int64), 0
    lines = beside.with_suffix(".ids.txt")
    found: set[str] = set()
    with open(lines, "w", encoding="utf-8") as file:
        for own in names:
            if own is None:
                continue
            values = np.asarray(own, object if isinstance(own[0], str) else None)
            found.add("integers" if values.dtype.kind in "iu" else "texts")
            if values.dtype.kind in "iu":
                if not row:  # beyond int64 there are ids, too
                    integers = np.empty(n, np.uint64 if values.dtype == np.uint64 else np.int64)
                if (values.dtype == np.uint64) != (integers.dtype == np.uint64):
                    raise ValueError(f"{beside}: ids must be all signed or all unsigned, got both.")
                integers[row : row + len(values)] = values
                row += len(values)
            else:
                file.writelines(f"{value}\n" for value in values.tolist())
    if found == {"texts"}:
        return lines
    lines.unlink()
    if not found or (row == n and np.array_equal(integers, np.arange(n))):
        return None
    if len(found) > 1:
        raise ValueError(f"{beside}: ids must be all integers or all strings, got both.")
    kept = beside.with_suffix(".ids.npy")
    with replacing(kept) as temporary, open(temporary, "wb") as file:
        np.save(file, integers[:row])
    return kept
