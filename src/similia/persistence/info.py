"""What a model file says of itself, without reading its tensors."""

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from similia.persistence.encoding import decode
from similia.persistence.header import PathLike, damaged, read_document


@dataclass(frozen=True)
class ModelInfo:
    """What the header of a model file says.

    Attributes
    ----------
    class_name : str
    format : int
        Version of the file format.
    parameters, attributes : dict
        Parameters and learnt attributes; arrays of numbers are given in words.
    tensors : dict
        Shape and dtype of each array of numbers, in words.
    versions : dict
        Libraries that the file was written with.
    """

    class_name: str
    format: int
    parameters: dict[str, Any]
    attributes: dict[str, Any]
    tensors: dict[str, str]
    versions: dict[str, str]

    def to_dict(self) -> dict[str, Any]:
        """Give the fields by name, ready for JSON."""
        return asdict(self)


def describe(path: PathLike) -> ModelInfo:
    """Read the header of a model file only: no tensor is touched, however large.

    Raises
    ------
    ModelFileError
        As `load`, for what the header shows.
    """
    document = read_document(path)
    try:
        tensors = {name: _words(entry) for name, entry in document["tensors"].items()}
        return ModelInfo(
            class_name=document["class"],
            format=document["format"],
            parameters=_plain_values(document["parameters"], tensors),
            attributes=_plain_values(document["attributes"], tensors),
            tensors=tensors,
            versions=document["versions"],
        )
    except Exception as error:  # whatever the contents provoke, the file is at fault
        raise damaged(path, f"the header is not readable ({error})") from error


def _words(entry: dict[str, Any]) -> str:
    return f"{' x '.join(map(str, entry['shape'])) or 'single'} {entry['dtype']}"


def _plain_values(encoded: dict[str, Any], tensors: dict[str, Any]) -> dict[str, Any]:
    """Decode with the words of each tensor in its place."""
    return {name: _plain(decode(value, dict(tensors))) for name, value in encoded.items()}


def _plain(value: Any) -> Any:
    return value.tolist() if isinstance(value, np.ndarray | np.generic) else value
