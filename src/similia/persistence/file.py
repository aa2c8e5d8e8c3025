"""One safetensors file with a sealed document: written whole or not at all, checked when read."""

import os
import secrets
import stat
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any, TypeVar

from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from similia import __version__
from similia.exceptions import ModelFileError
from similia.persistence import header
from similia.persistence.encoding import Tensors, decode, digest, encode, restored, stored
from similia.persistence.header import PathLike

T = TypeVar("T")

LIBRARIES = ("numpy", "scipy", "scikit-learn", "numba")


def write(
    path: PathLike, name: str, parameters: dict[str, Any], attributes: dict[str, Any]
) -> None:
    """Write what is called `name` to one file, in place of any that is there."""
    if Path(path).is_dir():
        raise ValueError(f"save: path must be a file, got the folder {path}.")
    if Path(path).exists() and not Path(path).is_file():  # /dev/null would be replaced by a file
        raise ValueError(f"save: path must be a file, got the device or pipe {path}.")
    tensors: Tensors = {}
    encoded = {n: encode(n, v, tensors) for n, v in attributes.items()}
    settings = {n: encode(f"parameter.{n}", v, tensors) for n, v in parameters.items()}
    arrays = {n: stored(array) for n, array in tensors.items()}
    document = {
        "format": header.FORMAT,
        "class": name,
        "parameters": settings,
        "attributes": encoded,
        "tensors": {n: _entry(tensors[n], array) for n, array in arrays.items()},
        "versions": {"similia": __version__, **{n: version(n) for n in LIBRARIES}},
    }
    _write(arrays, header.metadata_of(document), Path(os.path.realpath(path)))


def _entry(array: Any, tensor: Any) -> dict[str, Any]:
    dtype, shape = array.dtype.name, list(array.shape)
    return {"dtype": dtype, "shape": shape, "sha256": digest(tensor, dtype, shape)}


def _write(arrays: Tensors, metadata: dict[str, str], path: Path) -> None:
    if not path.parent.is_dir():
        raise FileNotFoundError(f"save: the folder {path.parent} does not exist; make it first.")
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}.tmp")
    try:
        temporary.touch(exist_ok=False)
        mode = stat.S_IMODE((path if path.exists() else temporary).stat().st_mode)
        save_file(arrays, temporary, metadata=metadata)
        temporary.chmod(mode)  # safetensors makes files that only their owner reads
        with open(temporary, "r+b") as file:
            header.seal(file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except SafetensorError as error:
        raise OSError(f"save: {path} could not be written: {error}.") from error
    finally:
        temporary.unlink(missing_ok=True)
    _flush_folder(path.parent)


def _flush_folder(folder: Path) -> None:
    if os.name != "posix":  # elsewhere a folder cannot be opened, and renaming is durable
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def document_of(path: PathLike, name: str, words: str) -> dict[str, Any]:
    """Give the document of a file that must hold what is called `name`."""
    document = header.read_document(path)
    if document["class"] != name:
        raise ModelFileError(
            f"{path} holds a {document['class']!r:.80} and no {words}; give a file that "
            f"{name}.save has written."
        )
    return document


def made(path: PathLike, document: dict[str, Any], make: Callable[..., T]) -> T:
    """Give make(parameters, attributes) of the file whose document this is, once all is checked."""
    try:
        return make(*_parts(path, document))
    except OSError:
        raise
    except Exception as error:  # whatever the contents provoke, the file is at fault
        reason = f"{error}".rstrip(".") or type(error).__name__
        raise header.damaged(path, reason) from error


def _parts(path: PathLike, document: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    tensors = _read_tensors(path, document["tensors"])
    parameters = {n: decode(v, tensors) for n, v in document["parameters"].items()}
    attributes = {n: decode(v, tensors) for n, v in document["attributes"].items()}
    if tensors:
        raise ValueError(f"the tensor {min(tensors)} belongs to nothing")
    return parameters, attributes


def _read_tensors(path: PathLike, entries: dict[str, Any]) -> Tensors:
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
            encode(name, tensors[name], {})  # refuses what could not have been saved, such as NaN
    return tensors
