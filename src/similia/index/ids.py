"""Ids of items: distinct integers or strings."""

import numpy as np
from numpy.typing import ArrayLike

from similia.contract import Array


def checked_ids(owner: str, ids: ArrayLike | None, n: int, start: int = 0) -> Array:
    """Ids of n items as int64 or strings; their numbers from `start` if None."""
    if ids is None:
        return np.arange(start, start + n)
    given = np.asarray(ids)
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
    refuse_repeats(owner, given)
    return given


def refuse_repeats(owner: str, ids: Array) -> None:
    """Raise the error for an id that two items share."""
    values, counts = np.unique(ids, return_counts=True)
    if (counts > 1).any():
        repeated = values[np.argmax(counts > 1)].item()
        raise ValueError(f"{owner}: ids must differ from each other, got {repeated!r} twice.")


def joined_ids(owner: str, ids: Array, more: Array) -> Array:
    """All ids; both parts must be of one kind."""
    if len(ids) and ids.dtype.kind != more.dtype.kind:
        words = {"i": "integers", "U": "strings"}
        raise ValueError(
            f"{owner}: ids must be {words[ids.dtype.kind]}, like those of the index, "
            f"got {words[more.dtype.kind]}."
        )
    joined = np.concatenate([ids, more])
    refuse_repeats(owner, joined)
    return joined


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
