"""All adapters to one sealed file."""

from typing import TYPE_CHECKING, Any

import numpy as np

from similia.persistence import file
from similia.persistence.file import PathLike

if TYPE_CHECKING:
    from similia.adapters.adapters import Adapters

NAME = "Adapters"


def save(adapters: "Adapters", path: PathLike) -> None:
    """Write all adapters to one file: their terms one after the other."""
    attributes: dict[str, Any] = {"shape": None}
    if adapters.shape_ is not None:
        m, n = adapters.shape_
        every = [adapters[user] for user in adapters]
        used = [(a, slice(a.used)) for a in every]
        dtype = adapters.dtype_
        attributes = {
            "shape": [m, n],
            "dtype": dtype.name,
            "prior_scale": adapters.prior_scale_,
            "users": np.array(list(adapters), dtype=_kind(adapters)),
            "counts": np.array(
                [[a.used, a.n_seen, a.n_updates, a.n_merges] for a in every], np.int64
            ).reshape(-1, 4),
            "B": np.concatenate([np.zeros((0, m), dtype), *(a.B[s] for a, s in used)]),
            "C": np.concatenate([np.zeros((0, n), dtype), *(a.C[s] for a, s in used)]),
            "K": np.concatenate([np.zeros(0, dtype), *(a.K[s, s].ravel() for a, s in used)]),
            "N": np.concatenate([np.zeros(0, dtype), *(a.N[s, s].ravel() for a, s in used)]),
        }
    file.write(path, NAME, adapters.get_params(), attributes)


def _kind(adapters: "Adapters") -> Any:
    return object if isinstance(next(iter(adapters), 0), str) else np.int64
