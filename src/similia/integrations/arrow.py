"""Arrow: a column of vectors and a matrix that share memory.

For tensors there is nothing to adapt: learners take whatever NumPy can read in place (PyTorch, JAX,
CuPy's copies on the host), and ``torch.from_dlpack(learner.query_vectors(X))`` takes what they
return, both without a copy.
"""

from typing import Any

import numpy as np

from similia.contract import Array
from similia.exceptions import MissingExtraError

try:
    import pyarrow as pa
except ImportError as error:
    raise MissingExtraError("similia.integrations.arrow", "pyarrow", "io") from error


def vectors_of(column: Any) -> Array:
    """Matrix over the memory of an Arrow column of fixed-size lists of floats, read-only.

    Parameters
    ----------
    column : pyarrow.Array, or anything with ``__arrow_c_array__``
        Type ``fixed_size_list<float or double>[d]``, without nulls. A column in several chunks is
        not one piece of memory: pass ``column.combine_chunks()``, which copies once.
    """
    if isinstance(column, pa.ChunkedArray) and column.num_chunks == 1:
        column = column.chunk(0)
    if not isinstance(column, pa.Array) and hasattr(column, "__arrow_c_array__"):
        column = pa.array(column)
    if not isinstance(column, pa.FixedSizeListArray):
        kind = getattr(column, "type", type(column).__name__)
        raise ValueError(
            f"vectors_of: column must be one array of fixed-size lists, got {kind}; join chunks by "
            "combine_chunks() and cast lists to pyarrow.list_(pyarrow.float32(), d)."
        )
    values = column.flatten() if column.null_count == 0 else None
    if values is None or values.null_count:
        raise ValueError("vectors_of: column must have no nulls; fill or drop them.")
    if values.type not in (pa.float32(), pa.float64()):
        raise ValueError(f"vectors_of: column must hold floats or doubles, got {values.type}.")
    found: Array = values.to_numpy(zero_copy_only=True)
    return found.reshape(len(column), column.type.list_size)


def column_of(vectors: Array) -> Any:
    """Arrow column of fixed-size lists over the memory of a matrix in C order."""
    vectors = np.asarray(vectors)
    if vectors.ndim != 2 or vectors.dtype not in (np.float32, np.float64):
        raise ValueError(
            "column_of: vectors must be a matrix in single or double precision, got shape "
            f"{vectors.shape} of {vectors.dtype}."
        )
    if not vectors.flags.c_contiguous:
        raise ValueError(
            "column_of: vectors must be in C order; pass np.ascontiguousarray(vectors)."
        )
    return pa.FixedSizeListArray.from_arrays(pa.array(vectors.reshape(-1)), vectors.shape[1])
