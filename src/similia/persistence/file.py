"""One safetensors file with a sealed document: written whole or not at all, checked when read.

A safetensors file is eight bytes of length, a JSON header, and the bytes of the tensors. The
document is a JSON string in the header's metadata. Its last entry is the SHA-256 of the length and
the whole header, computed with zeros in its own place.
"""

import hashlib
import json
import os
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import IO, TypeAlias, TypeVar

from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from similia import __version__
from similia.contract import Array
from similia.durable import replacing
from similia.exceptions import ModelFileError
from similia.persistence.encoding import (
    Json,
    Named,
    Tensors,
    decode_all,
    digest,
    encode,
    restored,
    stored,
)

T = TypeVar("T")
PathLike: TypeAlias = str | os.PathLike[str]
Document: TypeAlias = dict[str, Json]

FORMAT = 1
KEY = "similia"
LIBRARIES = ("numpy", "scipy", "scikit-learn", "numba")
UNSEALED = "0" * 64
#: quotes are escaped within the document's string, so no text of a user can imitate this mark
MARK = rb"\"header_sha256\":\""
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


# -- writing -----------------------------------------------------------------------------------


def write(path: PathLike, name: str, parameters: Named, attributes: Named) -> None:
    """Write an object of class `name` to one file, replacing any that exists."""
    target = Path(os.path.realpath(path))
    if target.exists() and not target.is_file():  # /dev/null would be replaced by a file
        kind = "folder" if target.is_dir() else "device or pipe"
        raise ValueError(f"save: path must be a file, got the {kind} {path}.")
    tensors: Tensors = {}
    encoded = {n: encode(n, v, tensors) for n, v in attributes.items()}
    settings = {n: encode(f"parameter.{n}", v, tensors) for n, v in parameters.items()}
    arrays = {n: stored(array) for n, array in tensors.items()}
    document = {
        "format": FORMAT,
        "class": name,
        "parameters": settings,
        "attributes": encoded,
        "tensors": {n: _entry(tensors[n], array) for n, array in arrays.items()},
        "versions": {"similia": __version__, **{n: version(n) for n in LIBRARIES}},
        "header_sha256": UNSEALED,
    }
    metadata = {KEY: json.dumps(document, separators=(",", ":"), allow_nan=False)}
    if not target.parent.is_dir():
        raise FileNotFoundError(f"save: the folder {target.parent} does not exist; make it first.")
    try:
        with replacing(target) as temporary:
            save_file(arrays, temporary, metadata=metadata)
            with open(temporary, "r+b") as file:
                seal(file)
    except SafetensorError as error:
        raise OSError(f"save: {target} could not be written: {error}.") from error


def _entry(array: Array, tensor: Array) -> dict[str, Json]:
    dtype, shape = array.dtype.name, list(array.shape)
    return {"dtype": dtype, "shape": shape, "sha256": digest(tensor, dtype, shape)}


def seal(file: IO[bytes]) -> None:
    """Write the SHA-256 of the header into the header of a newly written file."""
    raw = file.read(8)
    raw += file.read(int.from_bytes(raw, "little"))
    file.seek(raw.index(MARK) + len(MARK))
    file.write(hashlib.sha256(raw).hexdigest().encode())


# -- reading the header ------------------------------------------------------------------------


def read_document(path: PathLike) -> Document:
    """Read the header alone; return the document if it is intact and of a known format."""
    if Path(path).is_dir():
        raise ModelFileError(f"{path} is a folder, not a model file; pass the file inside it.")
    with open(path, "rb") as file:
        raw = _raw_header(path, file)
    document = _parsed(path, raw)
    if type(document.get("format")) is int and document["format"] > FORMAT:
        raise ModelFileError(
            f"{path} has format {document['format']}, but this version of similia reads formats "
            f"up to {FORMAT}; upgrade similia, or save the model again with this version."
        )
    _check_seal(path, raw)
    wrong = [name for name, kind in ENTRIES.items() if type(document.get(name)) is not kind]
    if wrong or set(document) != set(ENTRIES) or document["format"] < 1:
        raise damaged(path, f"the header has no valid {', '.join(wrong) or 'list of entries'}")
    return document


def read_document_of(path: PathLike, name: str, words: str) -> Document:
    """Read the header of a file that must contain a `name`."""
    document = read_document(path)
    if document["class"] != name:
        raise ModelFileError(
            f"{path} holds a {document['class']!r:.80} and no {words}; pass a file written by "
            f"{name}.save."
        )
    return document


def damaged(path: PathLike, reason: str) -> ModelFileError:
    """Error for a file that is ours but not as it was written."""
    return ModelFileError(
        f"{path} is damaged: {reason}; restore the file from a copy, or save the model again."
    )


def _raw_header(path: PathLike, file: IO[bytes]) -> bytes:
    size = os.fstat(file.fileno()).st_size
    if size == 0:
        raise damaged(path, "the file is empty")
    raw = file.read(9)
    length = int.from_bytes(raw[:8], "little")
    if len(raw) < 9 or raw[8:] != b"{" or not 2 <= length <= MAX_HEADER:
        raise ModelFileError(
            f"{path} is not a model file, or its first bytes are damaged; "
            "pass a file written by similia.save."
        )
    if 8 + length > size:
        raise damaged(path, f"it ends inside its header, after {size} bytes")
    return raw + file.read(length - 1)


def _parsed(path: PathLike, raw: bytes) -> Document:
    try:
        metadata = json.loads(raw[8:])["__metadata__"]
        document = json.loads(metadata[KEY])
    except KeyError:
        raise ModelFileError(
            f"{path} is a safetensors file, but no model of similia; "
            "pass a file written by similia.save."
        ) from None
    except (ValueError, TypeError, RecursionError):
        document = None
    if not isinstance(document, dict):
        raise damaged(path, "the header is not readable")
    return document


def _check_seal(path: PathLike, raw: bytes) -> None:
    start = raw.find(MARK) + len(MARK)
    end = start + len(UNSEALED)
    expected = hashlib.sha256(raw[:start] + UNSEALED.encode() + raw[end:]).hexdigest().encode()
    if raw.count(MARK) != 1 or raw[start:end] != expected:
        raise damaged(path, "the header does not match its checksum")


# -- reading the contents ----------------------------------------------------------------------


def rebuilt(path: PathLike, document: Document, make: Callable[[Named, Named], T]) -> T:
    """make(parameters, attributes) of the file with this document, once all checksums match."""
    try:
        tensors = _read_tensors(path, document["tensors"])
        parameters = decode_all(document["parameters"], tensors)
        attributes = decode_all(document["attributes"], tensors)
        if tensors:
            raise ValueError(f"the tensor {min(tensors)} belongs to nothing")
        return make(parameters, attributes)
    except OSError:
        raise
    except Exception as error:  # whatever the contents cause, the file is at fault
        reason = f"{error}".rstrip(".") or type(error).__name__
        raise damaged(path, reason) from error


def _read_tensors(path: PathLike, entries: dict[str, Json]) -> Tensors:
    tensors: Tensors = {}
    with safe_open(path, framework="np") as file:
        if set(file.keys()) != set(entries):
            difference = min(set(file.keys()) ^ set(entries))
            raise ValueError(f"the tensor {difference} is missing or unknown")
        for name, entry in entries.items():
            dtype, shape = entry["dtype"], entry["shape"]
            tensor = file.get_tensor(name)
            if digest(stored(tensor), dtype, shape) != entry["sha256"]:
                raise ValueError(f"the tensor {name} does not match its checksum")
            tensors[name] = restored(tensor, dtype, shape)
            encode(name, tensors[name], {})  # refuses values that `save` would refuse, such as NaN
    return tensors
