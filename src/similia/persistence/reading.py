"""Read and check files of `similia.persistence.saving`."""

import hashlib
import json
import math
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import numpy as np
from safetensors import safe_open

from similia.exceptions import ModelFileError
from similia.persistence.saving import (
    COMPLEX_PARTS,
    FILE_FORMAT,
    MARK,
    MAX_WIDTH,
    METADATA_KEY,
    REALS,
    UNSEALED,
    Json,
    Named,
    PathLike,
    Tensors,
    encode,
    spares_memory,
    stored,
)

if TYPE_CHECKING:
    from similia.contract import Array

T = TypeVar("T")
Document: TypeAlias = dict[str, Json]

#: the limit of safetensors itself
MAX_HEADER = 100_000_000

ENTRIES = {
    "format": int,
    "class": str,
    "parameters": dict,
    "attributes": dict,
    "tensors": dict,
    "versions": dict,
    "header_sha256": str,
}

# -- values --------------------------------------------------------------------------------------


def decode(encoded: Json, tensors: dict[str, T]) -> Any:
    """Return the value that was encoded; remove the tensors that it uses from `tensors`."""
    if not isinstance(encoded, dict):
        if isinstance(encoded, list):
            raise ValueError("a bare list stands where a value should be")
        return _plain_number(encoded) if type(encoded) in (int, float) else encoded
    if set(encoded) == {"tensor"}:
        return tensors.pop(encoded["tensor"])
    if set(encoded) == {"strings", "dtype"}:
        strings, dtype = encoded["strings"], encoded["dtype"]
        if not all(isinstance(text, str) for text in strings):
            raise ValueError("an array of strings that contains something else")
        if dtype != "object" and not (dtype[0] == "U" and 0 <= int(dtype[1:]) <= MAX_WIDTH):
            raise ValueError(f"an array of strings of dtype {dtype!r}")
        if not spares_memory(strings, np.dtype(dtype)):
            raise ValueError(f"{len(strings)} short strings with room for {dtype[1:]} letters each")
        return np.array(strings, dtype=dtype)
    if set(encoded) == {"number", "dtype"} and encoded["dtype"] in REALS:
        dtype, number = np.dtype(encoded["dtype"]), _plain_number(encoded["number"])
        if dtype.kind == "f" and not abs(number) <= float(np.finfo(dtype).max):
            raise ValueError(f"the number {number} of dtype {dtype}")
        return dtype.type(number)
    for kind in (tuple, list):
        if set(encoded) == {kind.__name__}:
            return kind(decode(part, tensors) for part in encoded[kind.__name__])
    if set(encoded) == {"dict"}:
        return decode_all(encoded["dict"], tensors)
    raise ValueError(f"a value of unknown kind, with the entries {sorted(encoded)}")


def _plain_number(number: Json) -> Json:
    """The number, unless it is infinite, NaN or too large for 64 bits."""
    if not (math.isfinite(number) if isinstance(number, float) else -(2**63) <= number < 2**64):
        raise ValueError(f"the number {number!r:.40}")
    return number


def decode_all(encoded: Mapping[str, Json], tensors: dict[str, T]) -> Named:
    """Decode a value for each name."""
    return {name: decode(value, tensors) for name, value in encoded.items()}


def restored(tensor: "Array", dtype: str, shape: list[int]) -> "Array":
    """New array of that dtype and shape, from the tensor of `stored`."""
    expected, parts = (
        ([*shape, 2], COMPLEX_PARTS[dtype]) if dtype in COMPLEX_PARTS else (shape, dtype)
    )
    if list(tensor.shape) != expected or tensor.dtype.name != parts or parts not in REALS:
        raise ValueError(f"a tensor of shape {tensor.shape} and dtype {tensor.dtype}")
    array = np.array(tensor, order="C")
    return array.view(dtype)[..., 0] if dtype in COMPLEX_PARTS else array


# -- reading the header ------------------------------------------------------------------------


def read_document(path: PathLike) -> Document:
    """Read the header alone; return the document if it is intact and of a known format."""
    if Path(path).is_dir():
        raise ModelFileError(f"{path} is a folder, not a model file; pass the file inside it.")
    advice = "pass a file written by similia.save."
    with open(path, "rb") as file:
        size, raw = os.fstat(file.fileno()).st_size, file.read(9)
        length = int.from_bytes(raw[:8], "little")
        if size == 0:
            raise damaged(path, "the file is empty")
        if len(raw) < 9 or raw[8:] != b"{" or not 2 <= length <= MAX_HEADER:
            raise ModelFileError(
                f"{path} is not a model file, or its first bytes are damaged; {advice}"
            )
        if 8 + length > size:
            raise damaged(path, f"it ends inside its header, after {size} bytes")
        raw += file.read(length - 1)
    try:
        document = json.loads(json.loads(raw[8:])["__metadata__"][METADATA_KEY])
    except KeyError:
        raise ModelFileError(
            f"{path} is a safetensors file, but no model of similia; {advice}"
        ) from None
    except (ValueError, TypeError, RecursionError):
        document = None
    if not isinstance(document, dict):
        raise damaged(path, "the header is not readable")
    if type(document.get("format")) is int and document["format"] > FILE_FORMAT:
        raise ModelFileError(
            f"{path} has format {document['format']}, but this version of similia reads formats "
            f"up to {FILE_FORMAT}; upgrade similia, or save the model again with this version."
        )
    start = raw.find(MARK) + len(MARK)
    end = start + len(UNSEALED)
    expected = hashlib.sha256(raw[:start] + UNSEALED.encode() + raw[end:]).hexdigest().encode()
    if raw.count(MARK) != 1 or raw[start:end] != expected:
        raise damaged(path, "the header does not match its checksum")
    wrong = [name for name, kind in ENTRIES.items() if type(document.get(name)) is not kind]
    if wrong or set(document) != set(ENTRIES) or document["format"] < 1:
        raise damaged(path, f"the header has no valid {', '.join(wrong) or 'list of entries'}")
    return document


def read_document_of(path: PathLike, name: str, words: str) -> Document:
    """Read the header of a file that must contain a `name`."""
    document = read_document(path)
    if document["class"] != name:
        raise ModelFileError(
            f"{path} is of class {document['class']!r:.80} and no {words}; pass a file written by "
            f"{name}.save."
        )
    return document


def damaged(path: PathLike, reason: str) -> ModelFileError:
    """Error for a damaged file of ours."""
    return ModelFileError(
        f"{path} is damaged: {reason}; restore the file from a copy, or save the model again."
    )


# -- reading the contents ----------------------------------------------------------------------


def rebuilt(path: PathLike, document: Document, make: Callable[[Named, Named], T]) -> T:
    """Call make(parameters, attributes) once all checksums of the file match."""
    try:
        tensors = _read_tensors(path, document["tensors"])
        parameters = decode_all(document["parameters"], tensors)
        attributes = decode_all(document["attributes"], tensors)
        if tensors:
            raise ValueError(f"the tensor {min(tensors)} belongs to nothing")
        return make(parameters, attributes)
    except OSError:
        raise
    except Exception as error:  # any error here means that the file is damaged
        reason = f"{error}".rstrip(".") or type(error).__name__
        raise damaged(path, reason) from error


def _read_tensors(path: PathLike, entries: dict[str, Json]) -> Tensors:
    tensors: Tensors = {}
    with safe_open(path, framework="np") as file:
        if set(file.keys()) != set(entries):
            difference = min(set(file.keys()) ^ set(entries))
            raise ValueError(f"the tensor {difference} is missing or unknown")
        for name, entry in entries.items():
            tensors[name] = _read_tensor(file, name, entry)
    return tensors


def _read_tensor(file: Any, name: str, entry: Json) -> "Array":
    tensor = restored(file.get_tensor(name), entry["dtype"], entry["shape"])
    if stored(tensor)[1] != entry:
        raise ValueError(f"the tensor {name} does not match its checksum")
    encode(name, tensor, {})  # raises for values that `save` would refuse, such as NaN
    return tensor


def read_some(path: PathLike, document: Document, names: Sequence[str]) -> Tensors:
    """Read only the named tensors of the file with this document."""
    try:
        with safe_open(path, framework="np") as file:
            return {name: _read_tensor(file, name, document["tensors"][name]) for name in names}
    except OSError:
        raise
    except Exception as error:  # any error here means that the file is damaged
        raise damaged(path, f"{error}".rstrip(".") or type(error).__name__) from error
