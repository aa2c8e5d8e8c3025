"""One safetensors file with a sealed document: written whole or not at all, checked when read.

A safetensors file is eight bytes of length, a JSON header, and the bytes of the tensors. The
document is a JSON string in the header's metadata. Its last entry is the SHA-256 of the length and
the whole header, computed with zeros in its own place.

In the document plain values are themselves; values that JSON would blur are objects that name their
kind: ``{"tensor": name}``, ``{"strings": [...], "dtype": ...}``,
``{"number": 0.5, "dtype": "float32"}``, ``{"tuple": [...]}``, ``{"list": [...]}`` and
``{"dict": {...}}``.
"""

import hashlib
import json
import math
import os
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, TypeAlias, TypeVar

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from similia import __version__
from similia.exceptions import ModelFileError
from similia.safety.whole import replacing

if TYPE_CHECKING:
    from similia.contract import Array

T = TypeVar("T")
PathLike: TypeAlias = str | os.PathLike[str]
Tensors: TypeAlias = "dict[str, Array]"
#: a value as JSON has it
Json: TypeAlias = Any
#: parameters or learnt attributes by name
Named: TypeAlias = dict[str, Any]
Document: TypeAlias = dict[str, Json]

REALS = ("bool", *(f"{sign}int{8 * n}" for sign in ("", "u") for n in (1, 2, 4, 8)))
REALS += ("float16", "float32", "float64")
#: complex numbers are stored as pairs of real ones
PARTS = {"complex64": "float32", "complex128": "float64"}
#: characters of a fixed-width string
MAX_WIDTH = 65_536
#: largest number of judgements, features or items: exact in double precision, too
MAX_COUNT = 2**53
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

# -- values --------------------------------------------------------------------------------------


def encode(name: str, value: object, tensors: Tensors) -> Json:
    """Return `value` as JSON; add arrays of numbers to `tensors` under `name`."""
    if value is None or type(value) in (bool, str):
        return value
    if type(value) is int and -(2**63) <= value < 2**64:
        return value
    if type(value) is float and math.isfinite(value):
        return value
    if isinstance(value, np.str_):
        return str(value)
    if isinstance(value, np.generic) and value.dtype.name in REALS and np.isfinite(value):
        return {"number": value.item(), "dtype": value.dtype.name}
    if isinstance(value, tuple | list) and type(value) in (tuple, list):
        parts = [encode(f"{name}.{i}", part, tensors) for i, part in enumerate(value)]
        return {type(value).__name__: parts}
    if type(value) is dict and all(type(key) is str for key in value):
        return {"dict": {key: encode(f"{name}.{key}", v, tensors) for key, v in value.items()}}
    if isinstance(value, np.ndarray) and value.dtype.name in (*REALS, *PARTS):
        if not np.isfinite(value).all():
            raise ValueError(f"save: {name} must be finite, but it contains NaN or infinity.")
        tensors[name] = value
        return {"tensor": name}
    if isinstance(value, np.ndarray):
        dtype = value.dtype
        is_text = dtype.kind == "U" and dtype.itemsize <= 4 * MAX_WIDTH
        is_text = is_text or (dtype.kind == "O" and all(type(v) is str for v in value))
        if value.ndim != 1 or not is_text:
            raise ValueError(
                f"save: {name} must be an array of numbers of at most 64 bits or a vector of "
                f"strings, got shape {value.shape} and dtype {dtype}."
            )
        strings = value.tolist()
        width = "object" if dtype.kind == "O" else dtype.str[1:]
        if not _spares_memory(strings, dtype):
            raise ValueError(f"save: {name} must be strings of similar lengths; use dtype=object.")
        return {"strings": strings, "dtype": width}
    shown = (
        f"{value!r:.80}" if isinstance(value, int | float | np.generic) else type(value).__name__
    )
    words = "None, a finite number of 64 bits, a string, or an array, tuple, list or dictionary of"
    words += " these"
    parameter = name.removeprefix("parameter.")
    advice = f"; call learner.set_params({parameter}=...) with one of these before saving"
    raise ValueError(
        f"save: {parameter} must be {words}, got {shown}{advice if parameter != name else ''}."
    )


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
        if not _spares_memory(strings, np.dtype(dtype)):
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


def _spares_memory(strings: list[str], dtype: np.dtype[Any]) -> bool:
    """Whether an array of strings takes only a moderate multiple of their letters."""
    return len(strings) * dtype.itemsize <= 256 * sum(len(text) + 3 for text in strings) + 4096


def decode_all(encoded: Mapping[str, Json], tensors: dict[str, T]) -> Named:
    """Decode a value for each name."""
    return {name: decode(value, tensors) for name, value in encoded.items()}


def stored(array: "Array") -> "tuple[Array, dict[str, Json]]":
    """The array as the file has it (contiguous, little-endian, real), and its entry."""
    tensor = np.array(array, order="C", copy=None, subok=False)
    if array.dtype.name in PARTS:
        tensor = tensor.astype(array.dtype.newbyteorder("="), copy=False)
        tensor = tensor[..., None].view(PARTS[array.dtype.name])
    tensor = tensor.astype(tensor.dtype.newbyteorder("<"), copy=False)
    dtype, shape = array.dtype.name, list(array.shape)
    sha = hashlib.sha256(f"{dtype} {shape}".encode())
    sha.update(tensor.reshape(-1).view(np.uint8).data)
    return tensor, {"dtype": dtype, "shape": shape, "sha256": sha.hexdigest()}


def restored(tensor: "Array", dtype: str, shape: list[int]) -> "Array":
    """New array of that dtype and shape, from the tensor of `stored`."""
    expected, parts = ([*shape, 2], PARTS[dtype]) if dtype in PARTS else (shape, dtype)
    if list(tensor.shape) != expected or tensor.dtype.name != parts or parts not in REALS:
        raise ValueError(f"a tensor of shape {tensor.shape} and dtype {tensor.dtype}")
    array = np.array(tensor, order="C")
    return array.view(dtype)[..., 0] if dtype in PARTS else array


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
        "tensors": {n: entry for n, (_, entry) in arrays.items()},
        "versions": {"similia": __version__, **{n: version(n) for n in LIBRARIES}},
        "header_sha256": UNSEALED,
    }
    metadata = {KEY: json.dumps(document, separators=(",", ":"), allow_nan=False)}
    if not target.parent.is_dir():
        raise FileNotFoundError(f"save: the folder {target.parent} does not exist; make it first.")
    try:
        with replacing(target) as temporary:
            save_file({n: tensor for n, (tensor, _) in arrays.items()}, temporary, metadata)
            with open(temporary, "r+b") as file:
                seal(file)
    except SafetensorError as error:
        raise OSError(f"save: {target} could not be written: {error}.") from error


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
        document = json.loads(json.loads(raw[8:])["__metadata__"][KEY])
    except KeyError:
        raise ModelFileError(
            f"{path} is a safetensors file, but no model of similia; {advice}"
        ) from None
    except (ValueError, TypeError, RecursionError):
        document = None
    if not isinstance(document, dict):
        raise damaged(path, "the header is not readable")
    if type(document.get("format")) is int and document["format"] > FORMAT:
        raise ModelFileError(
            f"{path} has format {document['format']}, but this version of similia reads formats "
            f"up to {FORMAT}; upgrade similia, or save the model again with this version."
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
    """Error for a file that is ours but not as it was written."""
    return ModelFileError(
        f"{path} is damaged: {reason}; restore the file from a copy, or save the model again."
    )


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
            tensors[name] = _read_tensor(file, name, entry)
    return tensors


def _read_tensor(file: Any, name: str, entry: Json) -> "Array":
    tensor = restored(file.get_tensor(name), entry["dtype"], entry["shape"])
    if stored(tensor)[1] != entry:
        raise ValueError(f"the tensor {name} does not match its checksum")
    encode(name, tensor, {})  # refuses values that `save` would refuse, such as NaN
    return tensor


def read_some(path: PathLike, document: Document, names: Sequence[str]) -> Tensors:
    """Read a few tensors of the file with this document, and none of the others."""
    try:
        with safe_open(path, framework="np") as file:
            return {name: _read_tensor(file, name, document["tensors"][name]) for name in names}
    except OSError:
        raise
    except Exception as error:  # whatever the contents cause, the file is at fault
        raise damaged(path, f"{error}".rstrip(".") or type(error).__name__) from error
