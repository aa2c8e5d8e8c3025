"""Write objects to one safetensors file with a sealed document, whole or not at all.

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
from importlib.metadata import version
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, TypeAlias

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from similia import __version__
from similia.registry import ALL_LEARNERS, learner_class
from similia.safety.turns import one_state
from similia.safety.whole import replacing

if TYPE_CHECKING:
    from similia.contract import Array, Stateful

PathLike: TypeAlias = str | os.PathLike[str]
Tensors: TypeAlias = "dict[str, Array]"
#: a value as JSON has it
Json: TypeAlias = Any
#: parameters or learnt attributes by name
Named: TypeAlias = dict[str, Any]

REALS = ("bool", *(f"{sign}int{8 * n}" for sign in ("", "u") for n in (1, 2, 4, 8)))
REALS += ("float16", "float32", "float64")
#: complex numbers are stored as pairs of real ones
COMPLEX_PARTS = {"complex64": "float32", "complex128": "float64"}
#: characters of a fixed-width string
MAX_WIDTH = 65_536
FILE_FORMAT = 1
METADATA_KEY = "similia"
LIBRARIES = ("numpy", "scipy", "scikit-learn")
UNSEALED = "0" * 64
#: quotes are escaped within the document's string, so no text of a user can imitate this mark
MARK = rb"\"header_sha256\":\""


def save(learner: "Stateful", path: PathLike) -> None:
    """Write a learner to one safetensors file, replacing any that exists.

    The file is written under another name in the same folder, read back, flushed to disk and
    renamed: an error leaves an existing file as it was. A thread that teaches the learner waits.

    Parameters
    ----------
    learner : fitted learner
        One of `similia.registry.ALL_LEARNERS`. A parameter that is a function (a custom sampler) or
        a RandomState is refused before anything is written.
    path : path
        By convention it ends in ``.safetensors``.
    """
    name = type(learner).__name__
    if name not in ALL_LEARNERS or type(learner) is not learner_class(name):
        raise ValueError(f"save: learner must be one of {', '.join(ALL_LEARNERS)}, got {name}.")
    with one_state(learner):
        state, layout = learner.get_state(), getattr(learner, "layout_", None)
        if layout is not None:
            state = {**state, "layout_": layout.state()}
        if assumed := getattr(learner, "assumed_", ""):
            state = {**state, "assumed_": assumed}
        write(path, name, learner.get_params(deep=False), state)


def write(path: PathLike, name: str, parameters: Named, attributes: Named) -> None:
    """Write an object of class `name` to one file, replacing any that exists."""
    target = check_target(path)
    tensors: Tensors = {}
    encoded = {n: encode(n, v, tensors) for n, v in attributes.items()}
    settings = {n: encode(f"parameter.{n}", v, tensors) for n, v in parameters.items()}
    arrays = {n: stored(array) for n, array in tensors.items()}
    entries = {n: entry for n, (_, entry) in arrays.items()}
    document = {
        "format": FILE_FORMAT,
        "class": name,
        "parameters": settings,
        "attributes": encoded,
        "tensors": entries,
        "versions": {"similia": __version__, **{n: version(n) for n in LIBRARIES}},
        "header_sha256": UNSEALED,
    }
    metadata = {METADATA_KEY: json.dumps(document, separators=(",", ":"), allow_nan=False)}
    try:
        with replacing(target) as temporary:
            save_file({n: tensor for n, (tensor, _) in arrays.items()}, temporary, metadata)
            with open(temporary, "r+b") as file:
                seal(file)
            _read_back(temporary, metadata[METADATA_KEY], entries)
    except SafetensorError as error:
        raise OSError(f"save: {target} could not be written: {error}.") from error


def check_target(path: PathLike) -> Path:
    """Resolve the target; raise now what writing would raise later."""
    target = Path(os.path.realpath(path))
    if target.exists() and not target.is_file():  # /dev/null would be replaced by a file
        kind = "folder" if target.is_dir() else "device or pipe"
        raise ValueError(f"save: path must be a file, got the {kind} {path}.")
    if not target.parent.is_dir():
        raise FileNotFoundError(f"save: the folder {target.parent} does not exist; make it first.")
    if not os.access(target.parent, os.W_OK):
        raise PermissionError(f"save: the folder {target.parent} must be writable.")
    return target


def _read_back(path: Path, text: str, entries: dict[str, Json]) -> None:
    """Raise OSError unless a new file reads back as written."""
    with safe_open(path, framework="np") as file:
        whole = (
            len(file.metadata()[METADATA_KEY]) == len(text)
            and set(file.keys()) == set(entries)
            and all(digest(file.get_tensor(n), e) == e["sha256"] for n, e in entries.items())
        )
    if not whole:
        raise OSError("save: what was written could not be read back; the old file is kept.")


def seal(file: IO[bytes]) -> None:
    """Write the SHA-256 of the header into the header of a newly written file."""
    raw = file.read(8)
    raw += file.read(int.from_bytes(raw, "little"))
    file.seek(raw.index(MARK) + len(MARK))
    file.write(hashlib.sha256(raw).hexdigest().encode())


# -- values -----------------------------------------------------------------------------------


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
    if isinstance(value, np.ndarray) and value.dtype.name in (*REALS, *COMPLEX_PARTS):
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
        if not spares_memory(strings, dtype):
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


def spares_memory(strings: list[str], dtype: np.dtype[Any]) -> bool:
    """Whether padding wastes little memory in an array of strings."""
    return len(strings) * dtype.itemsize <= 256 * sum(len(text) + 3 for text in strings) + 4096


def stored(array: "Array") -> "tuple[Array, dict[str, Json]]":
    """The array as stored (contiguous, little-endian, real), and its entry."""
    tensor = np.array(array, order="C", copy=None, subok=False)
    if array.dtype.name in COMPLEX_PARTS:
        tensor = tensor.astype(array.dtype.newbyteorder("="), copy=False)
        tensor = tensor[..., None].view(COMPLEX_PARTS[array.dtype.name])
    tensor = tensor.astype(tensor.dtype.newbyteorder("<"), copy=False)
    entry: dict[str, Json] = {"dtype": array.dtype.name, "shape": list(array.shape)}
    return tensor, entry | {"sha256": digest(tensor, entry)}


def digest(tensor: "Array", entry: dict[str, Json]) -> str:
    """SHA-256 of an array's dtype and shape, and of the bytes of its tensor."""
    sha = hashlib.sha256(f"{entry['dtype']} {entry['shape']}".encode())
    sha.update(tensor.reshape(-1).view(np.uint8).data)
    return sha.hexdigest()
