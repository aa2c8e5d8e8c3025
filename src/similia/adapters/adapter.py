"""What one user has taught: a matrix of low rank added to the shared one."""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import DTypeLike

from similia.contract import Array, State
from similia.persistence.loading import MAX_COUNT
from similia.updates.low_rank import compressed, low_rank_pass

User = int | str

#: initial room for terms; it doubles up to the rank
FIRST_TERMS = 2


class Adapter:
    """ΔW = BᵀKC of at most `rank` terms, and the moment BᵀNC that yields its average.

    Each update adds a term. When all are in use they are merged: exactly, if ΔW (and, with
    averaging, the moment) spans fewer directions than that, as when queries recur; otherwise the
    strongest three quarters of the directions remain.
    """

    __slots__ = ("B", "C", "K", "N", "n_merges", "n_seen", "n_updates", "used")

    def __init__(self, m: int, n: int, dtype: DTypeLike) -> None:
        self.B: Array
        self.C: Array
        self.K, self.N, self.B, self.C = (np.zeros((0, size), dtype) for size in (0, 0, m, n))
        self.used = self.n_seen = self.n_updates = self.n_merges = 0

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays."""
        return self.B.nbytes + self.C.nbytes + self.K.nbytes + self.N.nbytes

    def learn(self, base: Array, Q: Array, P: Array, C: float, rank: int, average: bool) -> None:
        """Learn triplets of queries Q and differences P that score `base` without the adapter."""
        row = 0
        while True:
            self.used, updates, row = low_rank_pass(
                self.B, self.C, self.K, self.N, self.used, self.n_seen, row, base, Q, P, C
            )
            self.n_updates += updates
            if row == len(Q):
                break
            self._make_room(rank, average)
        self.n_seen += len(Q)

    def _make_room(self, rank: int, average: bool) -> None:
        if len(self.B) < rank:
            self._hold(
                self.B, self.C, (self.K, self.N), min(rank, max(FIRST_TERMS, 2 * len(self.B)))
            )
            return
        self.n_merges += 1
        keep = rank - max(1, rank // 4)
        B, C, cores = compressed(self.B, self.C, (self.K, self.N) if average else (self.K,), keep)
        self.used = len(B)
        self._hold(B, C, cores if average else (*cores, np.zeros_like(cores[0])), rank)

    def _hold(self, B: Array, C: Array, cores: Sequence[Array], size: int) -> None:
        """Hold these terms, with room for `size`."""
        self.B, self.C = _padded(B, (size, B.shape[1])), _padded(C, (size, C.shape[1]))
        self.K, self.N = (_padded(core, (size, size)) for core in cores)

    def moved(self, Q: Array, average: bool) -> Array:
        """ΔWᵀq for each query, with the last ΔW or the mean over the user's stream."""
        used = slice(self.used)
        core = self.K[used, used]
        if average:
            core = core - self.N[used, used] / (self.n_seen + 1)
        return np.asarray(((Q @ self.B[used].T) @ core) @ self.C[used])


def _padded(M: Array, shape: tuple[int, int]) -> Array:
    padded = np.zeros(shape, M.dtype)
    padded[: M.shape[0], : M.shape[1]] = M
    return padded


def packed(adapters: Mapping[User, Adapter], m: int, n: int, dtype: np.dtype) -> State:
    """All adapters in a few arrays, their terms concatenated."""
    used = [(a, slice(a.used)) for a in adapters.values()]
    kind = object if isinstance(next(iter(adapters), 0), str) else np.int64
    counts = [[a.used, a.n_seen, a.n_updates, a.n_merges] for a in adapters.values()]
    return {
        "users": np.array(list(adapters), dtype=kind),
        "counts": np.array(counts, np.int64).reshape(-1, 4),
        "B": np.concatenate([np.zeros((0, m), dtype), *(a.B[s] for a, s in used)]),
        "C": np.concatenate([np.zeros((0, n), dtype), *(a.C[s] for a, s in used)]),
        "K": np.concatenate([np.zeros(0, dtype), *(a.K[s, s].ravel() for a, s in used)]),
        "N": np.concatenate([np.zeros(0, dtype), *(a.N[s, s].ravel() for a, s in used)]),
    }


def unpacked(arrays: State, m: int, n: int, dtype: np.dtype, rank: int) -> dict[User, Adapter]:
    """Adapters from the arrays of `packed`, or ValueError if these contradict each other."""
    users, counts = arrays["users"].tolist(), arrays["counts"]
    used = counts[:, 0]
    if counts.shape[1] != 4 or counts.dtype != np.int64 or len(users) != len(counts):
        raise ValueError("the counts are not four for each user")
    if counts.size and not (counts.min() >= 0 and counts.max() < MAX_COUNT and used.max() <= rank):
        raise ValueError("the counts of users are impossible")
    total, cores = int(used.sum()), int((used**2).sum())
    shapes = {"B": (total, m), "C": (total, n), "K": (cores,), "N": (cores,)}
    for name, shape in shapes.items():
        if arrays[name].shape != shape or arrays[name].dtype != dtype:
            raise ValueError(f"{name} is of shape {arrays[name].shape}, not {shape}")
    if len(set(users)) != len(users):
        raise ValueError("a user occurs twice")
    adapters = {}
    ends, core_ends = np.cumsum(used), np.cumsum(used**2)
    for user, count, end, core_end in zip(users, counts.tolist(), ends, core_ends, strict=True):
        size = count[0]
        adapter = adapters[user] = Adapter(m, n, dtype)
        rows, core = slice(end - size, end), slice(core_end - size**2, core_end)
        square = [arrays[x][core].reshape(size, size) for x in "KN"]
        adapter._hold(arrays["B"][rows], arrays["C"][rows], square, size)
        adapter.used, adapter.n_seen, adapter.n_updates, adapter.n_merges = count
    return adapters
