"""Ids of items: distinct integers or strings."""

import numpy as np
from numpy.typing import ArrayLike

from similia.contract import Array

#: bytes that ids of any lengths may take
MAX_ID_BYTES = 2**28


def joined_ids(owner: str, before: Array, ids: ArrayLike | None, n: int) -> Array:
    """Ids `before`, then those of n more items as int64 or strings; their numbers if None."""
    given = np.arange(len(before), len(before) + n) if ids is None else np.asarray(ids)
    if given.dtype.kind == "O" and all(isinstance(name, str) for name in given.ravel()):
        given = given.astype(np.str_)
    if given.shape != (n,) or given.dtype.kind not in "iuU":
        raise ValueError(
            f"{owner}: ids must be {n} integers or strings, one for each item, "
            f"got shape {given.shape} and dtype {given.dtype}."
        )
    if given.dtype.kind == "u" and given.size and given.max() > np.iinfo(np.int64).max:
        raise ValueError(f"{owner}: ids must be integers below 2**63, got {given.max()}.")
    given = given if given.dtype.kind == "U" else given.astype(np.int64)
    if len(before) and before.dtype.kind != given.dtype.kind:
        words = {"i": "integers", "U": "strings"}
        raise ValueError(
            f"{owner}: ids must be {words[before.dtype.kind]}, like those of the index, "
            f"got {words[given.dtype.kind]}."
        )
    joined = np.concatenate([before, given]) if len(before) else given
    refuse_repeats(owner, joined)
    return joined


def refuse_repeats(owner: str, ids: Array) -> None:
    """Raise the error for an id that two items share."""
    values, counts = np.unique(ids, return_counts=True)
    if (counts > 1).any():
        repeated = values[np.argmax(counts > 1)].item()
        raise ValueError(f"{owner}: ids must differ from each other, got {repeated!r} twice.")


def stored_ids(ids: Array) -> dict[str, Array]:
    """Ids as arrays of numbers: integers, or the bytes of all strings and their ends."""
    if ids.dtype.kind != "U":
        return {"ids": ids}
    encoded = [name.encode() for name in ids.tolist()]
    ends = np.cumsum([len(name) for name in encoded], dtype=np.int64)
    return {"id_bytes": np.frombuffer(b"".join(encoded), np.uint8), "id_ends": ends}


def restored_ids(tensors: dict[str, Array]) -> Array:
    """Ids from the arrays of `stored_ids`, or ValueError for other arrays."""
    arrays = tensors.get("ids"), tensors.get("id_ends"), tensors.get("id_bytes")
    kinds = [None if array is None else (array.ndim, array.dtype.name) for array in arrays]
    if kinds not in ([(1, "int64"), None, None], [None, (1, "int64"), (1, "uint8")]):
        raise ValueError("the ids are neither integers nor strings")
    if "ids" in tensors:
        return tensors["ids"]
    ends, text = tensors["id_ends"], tensors["id_bytes"].tobytes()
    lengths = np.diff(ends, prepend=0)
    if (lengths < 0).any() or ends[-1:].sum() != len(text):
        raise ValueError("the ids have impossible lengths")
    # An array of strings has room for the longest one everywhere.
    if 4 * len(ends) * int(lengths.max(initial=0)) > 64 * (ends.nbytes + len(text)) + MAX_ID_BYTES:
        raise ValueError("the longest id is too long for so many ids")
    starts = ends - lengths
    return np.array([text[a:b].decode() for a, b in zip(starts, ends, strict=True)], np.str_)
