"""Values as JSON and tensors, and back, exactly.

Plain values are themselves in JSON; values that JSON would blur are objects that name their kind:
``{"tensor": name}``, ``{"strings": [...], "dtype": ...}``, ``{"number": 0.5, "dtype": "float32"}``,
``{"tuple": [...]}``, ``{"list": [...]}`` and ``{"dict": {...}}``.
"""

import hashlib
import math
from collections.abc import Mapping
from typing import Any, TypeAlias, TypeVar

import numpy as np

from similia.contract import Array

T = TypeVar("T")
Tensors: TypeAlias = dict[str, Array]
#: a value as JSON has it
Json: TypeAlias = Any
#: parameters or learnt attributes by name
Named: TypeAlias = dict[str, Any]

REALS = ("bool", *(f"{sign}int{8 * n}" for sign in ("", "u") for n in (1, 2, 4, 8)))
REALS += ("float16", "float32", "float64")
#: complex numbers are stored as pairs of real ones
PARTS = {"complex64": "float32", "complex128": "float64"}
#: characters of a fixed-width string; without a limit a small file could demand a lot of memory
MAX_WIDTH = 65_536


def encode(name: str, value: object, tensors: Tensors) -> Json:
    """Return `value` as JSON; add arrays of numbers to `tensors` under `name`."""
    if value is None or type(value) in (bool, int, str):
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
    if isinstance(value, np.ndarray):
        return _encode_array(name, value, tensors)
    shown = f"{value!r:.80}" if isinstance(value, float | np.generic) else type(value).__name__
    words = "None, a finite number, a string, or an array, tuple, list or dictionary of these"
    parameter = name.removeprefix("parameter.")
    advice = f"; call learner.set_params({parameter}=...) with one of these before saving"
    raise ValueError(
        f"save: {parameter} must be {words}, got {shown}{advice if parameter != name else ''}."
    )


def _encode_array(name: str, value: Array, tensors: Tensors) -> Json:
    dtype = value.dtype
    if dtype.name in REALS or dtype.name in PARTS:
        if not np.isfinite(value).all():
            raise ValueError(f"save: {name} must be finite, but it contains NaN or infinity.")
        tensors[name] = value
        return {"tensor": name}
    is_text = dtype.kind == "U" and dtype.itemsize <= 4 * MAX_WIDTH
    if value.ndim == 1 and (is_text or (dtype.kind == "O" and all(type(v) is str for v in value))):
        return {
            "strings": value.tolist(),
            "dtype": "object" if dtype.kind == "O" else dtype.str[1:],
        }
    raise ValueError(
        f"save: {name} must be an array of numbers of at most 64 bits or a vector of strings, "
        f"got shape {value.shape} and dtype {dtype}."
    )


def decode(encoded: Json, tensors: dict[str, T]) -> Any:
    """Return the value that was encoded; remove the tensors that it uses from `tensors`."""
    if not isinstance(encoded, dict):
        if isinstance(encoded, list):
            raise ValueError("a bare list stands where a value should be")
        return encoded
    if set(encoded) == {"tensor"}:
        return tensors.pop(encoded["tensor"])
    if set(encoded) == {"strings", "dtype"}:
        return _decode_strings(encoded["strings"], encoded["dtype"])
    if set(encoded) == {"number", "dtype"} and encoded["dtype"] in REALS:
        return np.dtype(encoded["dtype"]).type(encoded["number"])
    for kind in (tuple, list):
        if set(encoded) == {kind.__name__}:
            return kind(decode(part, tensors) for part in encoded[kind.__name__])
    if set(encoded) == {"dict"}:
        return decode_all(encoded["dict"], tensors)
    raise ValueError(f"a value of unknown kind, with the entries {sorted(encoded)}")


def decode_all(encoded: Mapping[str, Json], tensors: dict[str, T]) -> Named:
    """Decode a value for each name."""
    return {name: decode(value, tensors) for name, value in encoded.items()}


def _decode_strings(strings: Json, dtype: str) -> Array:
    if not all(isinstance(text, str) for text in strings):
        raise ValueError("an array of strings that contains something else")
    if dtype != "object" and not (dtype[0] == "U" and 0 <= int(dtype[1:]) <= MAX_WIDTH):
        raise ValueError(f"an array of strings of dtype {dtype!r}")
    return np.array(strings, dtype=dtype)


def stored(array: Array) -> Array:
    """The array as the file has it: contiguous, little-endian and real."""
    contiguous = np.array(array, order="C", copy=None, subok=False)
    if array.dtype.name in PARTS:
        parts = PARTS[array.dtype.name]
        contiguous = contiguous.astype(array.dtype.newbyteorder("="), copy=False)
        contiguous = contiguous[..., None].view(parts)
    return contiguous.astype(contiguous.dtype.newbyteorder("<"), copy=False)


def restored(tensor: Array, dtype: str, shape: list[int]) -> Array:
    """New array of that dtype and shape; the inverse of `stored`."""
    expected, parts = ([*shape, 2], PARTS[dtype]) if dtype in PARTS else (shape, dtype)
    if list(tensor.shape) != expected or tensor.dtype.name != parts or parts not in REALS:
        raise ValueError(f"a tensor of shape {tensor.shape} and dtype {tensor.dtype}")
    array = np.array(tensor, order="C")
    return array.view(dtype)[..., 0] if dtype in PARTS else array


def digest(tensor: Array, dtype: str, shape: list[int]) -> str:
    """SHA-256 of dtype, shape and bytes."""
    sha = hashlib.sha256(f"{dtype} {shape}".encode())
    sha.update(tensor.reshape(-1).view(np.uint8).data)
    return sha.hexdigest()
