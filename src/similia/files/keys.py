"""Keys: ids that only say which rows belong together, as 64-bit numbers.

An integer is its own key, a text is hashed, many at a time. The same id has the same key in every
file and every run.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from similia.files.rows import RowError

_FIRST, _SECOND = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBF58476D1CE4E5B9)
_SHIFT = np.uint64(29)
_BOUND = 2**63


def key(raw: object) -> int:
    """Key of one id."""
    if isinstance(raw, bool) or not isinstance(raw, str | int):
        raise RowError("not an id", f" {raw!r:.80}")
    if isinstance(raw, int):
        return raw if -_BOUND <= raw < _BOUND else hash(raw)
    return int(keys_of_texts([raw])[0])


def keys_of_texts(texts: Sequence[str]) -> NDArray[np.int64]:
    """Keys of texts."""
    encoded = [text.encode("utf-8", "surrogatepass") for text in texts]
    ends = np.cumsum([0, *map(len, encoded)])
    return keys_of_bytes(np.frombuffer(b"".join(encoded), np.uint8), ends)


def keys_of_bytes(data: NDArray[np.uint8], ends: NDArray[np.int64]) -> NDArray[np.int64]:
    """Keys of texts in UTF-8: text i is data[ends[i]:ends[i + 1]]; texts of one length at once."""
    starts, lengths = ends[:-1], np.diff(ends)
    found = np.empty(len(lengths), np.uint64)
    for length in np.unique(lengths).tolist():
        same = lengths == length
        if same.all():
            rows = data[ends[0] : ends[-1]].reshape(len(lengths), length)
        else:
            rows = data[starts[same][:, None] + np.arange(length)]
        found[same] = _hashes(rows)
    return found.view(np.int64)


def _hashes(rows: NDArray[np.uint8]) -> NDArray[np.uint64]:
    """Hash each row, eight bytes after eight: h <- mix(h ⊕ mix(word))."""
    n, length = rows.shape
    words = np.zeros((n, -(-length // 8) * 8), np.uint8)
    words[:, :length] = rows
    found = np.full(n, length, np.uint64)
    for word in words.view("<u8").T:
        found = _mixed(found ^ _mixed(word.astype(np.uint64) * _FIRST) * _SECOND)
    return found


def _mixed(values: NDArray[np.uint64]) -> NDArray[np.uint64]:
    values = (values ^ (values >> _SHIFT)) * _SECOND
    return values ^ (values >> np.uint64(32))
