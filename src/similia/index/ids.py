"""Ids of items: distinct integers or strings."""

import numpy as np
from numpy.typing import ArrayLike

from similia.contract import Array


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
    """Ids from the arrays of `stored_ids`."""
    if "ids" in tensors:
        return tensors["ids"]
    text, ends = tensors["id_bytes"].tobytes(), tensors["id_ends"].tolist()
    starts = [0, *ends[:-1]]
    return np.array([text[a:b].decode() for a, b in zip(starts, ends, strict=True)], np.str_)
