"""Open an index that was saved: everything is checked and nothing in it is ever executed."""

from dataclasses import fields
from typing import Any

import numpy as np

from similia.exceptions import ModelFileError
from similia.index.backends import BACKENDS, GEOMETRIES, backend_class
from similia.index.frozen import FrozenMetric
from similia.index.ids import refuse_repeats, restored_ids
from similia.index.index import Index
from similia.index.recall import BuildReport
from similia.index.sparse import PARTS
from similia.index.storage import FROZEN, NAME
from similia.persistence import file
from similia.persistence.file import PathLike


def open_index(path: PathLike) -> Index:
    """Open an index that was saved: all checksums are compared before anything is used.

    Parameters
    ----------
    path : path
        A file that `Index.save` has written.

    Returns
    -------
    Index

    Raises
    ------
    ModelFileError
        If the file is damaged, foreign, or of a newer format.
    MissingExtraError
        If the library that it was built with is not installed.
    """
    document = file.read_document_of(path, NAME, "index")
    backend = document["parameters"].get("backend")
    if backend not in BACKENDS:
        raise ModelFileError(
            f"{path} was built with {backend!r:.80}, which is none of {', '.join(BACKENDS)}; "
            "upgrade similia if a newer version has it."
        )
    backend_class("open_index", backend)  # a missing library is not the fault of the file
    return file.rebuilt(path, document, _index)


def _index(parameters: dict[str, Any], attributes: dict[str, Any]) -> Index:
    if parameters["geometry"] not in GEOMETRIES or parameters["dtype"] not in (
        "float32",
        "float64",
    ):
        raise ValueError("the geometry or the precision is unknown")
    is_sparse = set(attributes["items"]) == set(PARTS)
    implementation = backend_class("open_index", parameters["backend"], sparse=is_sparse)
    shape = (parameters["n_features"], parameters["geometry"], np.dtype(parameters["dtype"]))
    backend = implementation.restored(*shape, parameters["options"], attributes["items"])
    index = Index(parameters["backend"], backend, *shape[1:], shape[0])
    index.ids = restored_ids(attributes["ids"])
    refuse_repeats("ids", index.ids)
    if len(index.ids) != len(backend):
        raise ValueError(f"there are {len(index.ids)} ids for {len(backend)} items")
    report = attributes["report"]
    if set(report) != {field.name for field in fields(BuildReport)}:
        raise ValueError("the report of the build has other entries")
    index.report = BuildReport(**report)
    index._wanted = index.report.k
    if attributes["metric"] is not None:
        index.frozen = FrozenMetric(**{name: attributes["metric"][name] for name in FROZEN})
    return index
