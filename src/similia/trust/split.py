"""Which queries are kept for judging: decided by their names, so that a stream keeps the split."""

import hashlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

from similia.validation import Rule, between, check_parameters

seed_number = Rule(
    "an integer of at least 0",
    lambda v: not isinstance(v, bool) and isinstance(v, int | np.integer) and bool(v >= 0),
)


def held_out(queries: Any, share: float = 0.3, seed: int = 0) -> NDArray[np.bool_]:
    """Give for each judgement whether its query is held out.

    A query is held out if a hash of its name and the seed, read as a number between 0 and 1, falls
    below `share`. So all judgements of a query lie on one side, today and whenever more arrive, and
    a larger share holds out more queries and none fewer.

    Parameters
    ----------
    queries : array of shape (n_judgements,)
        Name of the query of each judgement: integers or strings.
    share : float between 0 and 1
        Share of the queries, roughly, that is held out.
    seed : int
        Another seed splits otherwise.

    Returns
    -------
    mask : array of shape (n_judgements,)

    Examples
    --------
    >>> held_out(["a", "b", "a", "c"], share=0.5).tolist()
    [False, False, False, True]
    """
    rules = {"share": between(0, 1), "seed": seed_number}
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
    digest = hashlib.blake2b(f"{seed}\n{name}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") / 2**64
