"""Read adapters that were saved: everything is checked and nothing in it is ever executed."""

from typing import Any

import numpy as np

from similia.adapters.adapter import Adapter
from similia.adapters.adapters import Adapters
from similia.adapters.storage import NAME
from similia.contract import Array
from similia.persistence import file
from similia.persistence.file import PathLike
from similia.similarity.prior import check_prior


def load_adapters(path: PathLike) -> Adapters:
    """Give the adapters that were saved, which go on as if they had never been saved.

    Parameters
    ----------
    path : path
        A file that `Adapters.save` has written.

    Returns
    -------
    Adapters

    Raises
    ------
    ModelFileError
        If the file is damaged, foreign, or of a newer format.
    """
    return file.rebuilt(path, file.read_document_of(path, NAME, "adapters"), _adapters)


def _adapters(parameters: dict[str, Any], attributes: dict[str, Any]) -> Adapters:
    adapters = Adapters(**parameters)
    if attributes["shape"] is None:
        return adapters
    m, n = attributes["shape"]
    check_prior("Adapters", adapters.prior, m, n)
    if attributes["dtype"] not in ("float32", "float64"):
        raise ValueError("the precision is unknown")
    adapters._set_start((m, n), attributes["dtype"], float(attributes["prior_scale"]))
    users, counts = attributes["users"].tolist(), attributes["counts"]
    used = counts[:, 0]
    total, cores = int(used.sum()), int((used**2).sum())
    shapes = {"B": (total, m), "C": (total, n), "K": (cores,), "N": (cores,)}
    for name, shape in shapes.items():
        if attributes[name].shape != shape or attributes[name].dtype != adapters.dtype_:
            raise ValueError(f"{name} is of shape {attributes[name].shape}, not {shape}")
    if len(set(users)) != len(counts) or (counts < 0).any() or (used > adapters.rank).any():
        raise ValueError("the users and their counts do not fit together")
    ends, core_ends = np.cumsum(used), np.cumsum(used**2)
    for user, count, end, core_end in zip(users, counts.tolist(), ends, core_ends, strict=True):
        size = count[0]
        adapter = Adapter(m, n, adapters.dtype_)
        rows, core = slice(end - size, end), slice(core_end - size**2, core_end)
        square: list[Array] = [attributes[x][core].reshape(size, size) for x in "KN"]
        adapter.hold(attributes["B"][rows], attributes["C"][rows], square, size)
        adapter.used, adapter.n_seen, adapter.n_updates, adapter.n_merges = count
        adapters._adapters[user] = adapter
    return adapters
