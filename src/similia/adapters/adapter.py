"""What one user has taught: a matrix of low rank beside the shared one."""

from typing import Any

import numpy as np

from similia.contract import Array
from similia.updates.low_rank import compressed, low_rank_pass

#: terms that space is made for at first; it doubles up to the rank
FIRST = 2


class Adapter:
    """ΔW = BᵀKC of at most `rank` terms, and the moment BᵀNC from which its average follows.

    Each update adds a term. When all are in use they are merged: exactly, if ΔW (and, with
    averaging, the moment) needs fewer directions than that, as when queries come again; else the
    strongest three quarters of the directions remain.
    """

    __slots__ = ("B", "C", "K", "N", "n_merges", "n_seen", "n_updates", "used")

    def __init__(self, m: int, n: int, dtype: Any) -> None:
        self.B: Array = np.zeros((0, m), dtype)
        self.C: Array = np.zeros((0, n), dtype)
        self.K: Array = np.zeros((0, 0), dtype)
        self.N: Array = np.zeros((0, 0), dtype)
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
            self.hold(self.B, self.C, (self.K, self.N), min(rank, max(FIRST, 2 * len(self.B))))
            return
        self.n_merges += 1
        keep = rank - max(1, rank // 4)
        if average:
            B, C, cores = compressed(self.B, self.C, (self.K, self.N), keep)
        else:
            B, C, (K,) = compressed(self.B, self.C, (self.K,), keep)
            cores = (K, np.zeros_like(K))
        self.used = len(B)
        self.hold(B, C, cores, rank)

    def hold(self, B: Array, C: Array, cores: Any, size: int) -> None:
        """Hold these terms, with room for `size`."""
        self.B, self.C = _padded(B, (size, B.shape[1])), _padded(C, (size, C.shape[1]))
        self.K, self.N = (_padded(core, (size, size)) for core in cores)

    def core(self, average: bool) -> Array:
        """Give the core of the last ΔW, or of the mean of all of them."""
        K, N = self.K[: self.used, : self.used], self.N[: self.used, : self.used]
        return K - N / (self.n_seen + 1) if average else K

    def moved(self, Q: Array, average: bool) -> Array:
        """Give ΔWᵀq for each query."""
        B, C = self.B[: self.used], self.C[: self.used]
        return np.asarray(((Q @ B.T) @ self.core(average)) @ C)


def _padded(M: Array, shape: tuple[int, int]) -> Array:
    padded = np.zeros(shape, M.dtype)
    padded[: M.shape[0], : M.shape[1]] = M
    return padded
