"""Which queries are held out for judging: decided by name, so the same today and tomorrow."""

import hashlib
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from similia.validation import between, check_parameters, non_negative_integer


def held_out(queries: ArrayLike, share: float = 0.3, seed: int = 0) -> NDArray[np.bool_]:
    """Mask of the judgements whose query is held out.

    A query is held out if a hash of its name and the seed, read as a number between 0 and 1, falls
    below `share`. So all judgements of a query lie on one side, now and when more arrive, and a
    larger share holds out the same queries and more.

    Parameters
    ----------
    queries : array of shape (n_judgements,)
        Name of the query of each judgement: integers or strings.
    share : float between 0 and 1
        Approximate share of the queries to hold out.
    seed : int
        A different seed holds out different queries.

    Examples
    --------
    >>> held_out(["a", "b", "a", "d"], share=0.5).tolist()
    [False, False, False, True]
    """
    rules = {"share": between(0, 1), "seed": non_negative_integer}
    check_parameters("held_out", rules, {"share": share, "seed": seed})
    given = np.asarray(queries)
    if given.ndim != 1 or given.dtype.kind not in "iuUO":
        raise ValueError(
            "held_out: queries must be a list of integers or strings, "
            f"got shape {given.shape} and dtype {given.dtype}."
        )
    if given.dtype.kind == "O" and not all(isinstance(name, str | int) for name in given):
        raise ValueError("held_out: queries must be integers or strings, got something else.")
    # Integers and the strings that show them are the same name, as in a file.
    names, place = np.unique(given.astype(np.str_), return_inverse=True)
    below = np.array([_place(name, seed) < share for name in names.tolist()], dtype=bool)
    return below[place]


def _place(name: str, seed: int) -> float:
    """Hash of a name and a seed, between 0 and 1."""
    digest = hashlib.blake2b(f"{seed}\n{name}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") / 2**64


class Split(NamedTuple):
    """A split recorded before learning, and the judgements it holds out.

    The digest recognizes the held-out judgements, of which there are `n_held_out`.
    """

    share: float
    seed: int
    n_queries: int
    n_held_out: int
    sha256: str

    def check_same(self, share: float, seed: int, folder: Path) -> None:
        """Refuse another split than this one, which is recorded in the folder."""
        if (share, seed) != (self.share, self.seed):
            raise ValueError(
                f"Promotion: share and seed must be {self.share:g} and {self.seed}, as recorded in "
                f"{folder}, got {share:g} and {seed}; "
                "its models may have learnt from queries that another split holds out."
            )

    def __str__(self) -> str:
        return (
            f"Held out {self.n_held_out} judgements of {self.n_queries} queries "
            f"(share {self.share:g}, seed {self.seed})."
        )
