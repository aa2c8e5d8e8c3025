"""What the header of a model file says; no learner is imported."""

from dataclasses import asdict, dataclass

import numpy as np

from similia.exceptions import ModelFileError
from similia.persistence.reading import Document, damaged, decode_all, read_document, read_some
from similia.persistence.saving import Json, Named, PathLike
from similia.registry import ALL_LEARNERS


@dataclass(frozen=True)
class ModelInfo:
    """Contents of the header of a model file."""

    class_name: str
    #: version of the file format
    format: int
    #: parameters and learnt attributes; arrays of numbers by shape and dtype only
    parameters: Named
    attributes: Named
    #: shape and dtype of each array of numbers, in words
    tensors: dict[str, str]
    #: versions of the libraries that wrote the file
    versions: dict[str, str]

    def to_dict(self) -> dict[str, Json]:
        """Fields by name, ready for JSON."""
        return asdict(self)


def describe(path: PathLike) -> ModelInfo:
    """Read only the header of a model file: no tensor is touched, however large.

    Raises
    ------
    ModelFileError
        As `load`, for errors that the header shows.
    """
    document = read_document(path)
    try:
        tensors = {
            name: f"{' x '.join(map(str, entry['shape'])) or 'single'} {entry['dtype']}"
            for name, entry in document["tensors"].items()
        }
        return ModelInfo(
            class_name=document["class"],
            format=document["format"],
            parameters=_plain_values(document["parameters"], tensors),
            attributes=_plain_values(document["attributes"], tensors),
            tensors=tensors,
            versions=document["versions"],
        )
    except Exception as error:  # any error here means that the file is damaged
        raise damaged(path, f"the header is not readable ({error})") from error


def read_shares(path: PathLike) -> dict[str, dict[str, float]]:
    """View weights of a blend at the start and now, and the trust in its parts.

    Only what ranks is read, and no learner is imported.
    """
    document = read_document(path)
    names = "clicks_start_", "clicks_ranks_", "matrix_numbers_"
    start, ranks, numbers = read_some(path, document, names).values()
    try:
        views = decode_all({"names_": document["attributes"]["names_"]}, {})["names_"]
        trust, _, _, steepness, _, *learnt = ranks.tolist()
        weights = start + trust * (np.array(learnt) - start)
        return {
            "start": dict(zip(views, start.tolist(), strict=True)),
            "weights": dict(zip(views, weights.tolist(), strict=True)),
            "trust": {"clicks": trust, "W": float(numbers[4]) / steepness},
        }
    except Exception as error:  # any error here means that the file is damaged
        raise damaged(path, f"what ranks is not readable ({error})") from error


def learner_document(path: PathLike) -> Document:
    """Document of a file with a learner that this version knows."""
    document = read_document(path)
    name = document["class"]
    if name not in ALL_LEARNERS:
        raise ModelFileError(
            f"{path} is of class {name!r:.80}, which is none of {', '.join(ALL_LEARNERS)}; "
            "upgrade similia if a newer version has it."
        )
    return document


def _plain_values(encoded: dict[str, Json], tensors: dict[str, str]) -> Named:
    """Decode with words in place of tensors and lists in place of arrays."""
    values = decode_all(encoded, dict(tensors))
    arrays = (np.ndarray, np.generic)
    return {n: v.tolist() if isinstance(v, arrays) else v for n, v in values.items()}
