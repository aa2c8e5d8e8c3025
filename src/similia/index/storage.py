"""An index to one sealed file."""

from typing import TYPE_CHECKING

from similia.index.ids import stored_ids
from similia.persistence import file
from similia.persistence.file import PathLike

if TYPE_CHECKING:
    from similia.index.index import Index

NAME = "Index"
FROZEN = ("name", "fingerprint", "matrix", "probe", "image")


def save(index: "Index", path: PathLike) -> None:
    """Write the index to one file, whole or not at all."""
    frozen = index.frozen
    parameters = {
        "backend": index.name,
        "geometry": index.geometry,
        "dtype": index.dtype.name,
        "n_features": index.n_features,
        "options": dict(index.backend.options),
    }
    attributes = {
        "items": index.backend.tensors(),
        "ids": stored_ids(index.ids),
        "report": index.report.to_dict(),
        "metric": None if frozen is None else {name: getattr(frozen, name) for name in FROZEN},
    }
    file.write(path, NAME, parameters, attributes)
