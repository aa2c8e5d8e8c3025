"""Save and load a learner."""

import os
import secrets
import stat
from importlib.metadata import version
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from similia import __version__
from similia.exceptions import ModelFileError
from similia.persistence import header
from similia.persistence.consistency import check_consistency
from similia.persistence.encoding import Tensors, decode, digest, encode, restored, stored
from similia.persistence.header import PathLike
from similia.registry import ALL_LEARNERS, LEARNERS, learner_class

LIBRARIES = ("numpy", "scipy", "scikit-learn", "numba")


def save(learner: Any, path: PathLike) -> None:
    """Write a learner to one safetensors file, in place of any that is there.

    The file is complete or not there at all: it is written under another name in the same folder,
    flushed to the disk and renamed. After an error, an old file is as it was.

    Parameters
    ----------
    learner : fitted learner
        One of `similia.registry.ALL_LEARNERS`. A function as parameter (a sampler of your own) or a
        RandomState cannot be saved, which is said before anything is written.
    path : path
        By custom it ends in ``.safetensors``.
    """
    name = type(learner).__name__
    if name not in ALL_LEARNERS or type(learner) is not learner_class(name):
        raise ValueError(f"save: learner must be one of {', '.join(ALL_LEARNERS)}, got {name}.")
    if Path(path).is_dir():
        raise ValueError(f"save: path must be a file, got the folder {path}.")
    tensors: Tensors = {}
    attributes = {n: encode(n, v, tensors) for n, v in learner.get_state().items()}
    parameters = {
        n: encode(f"parameter.{n}", v, tensors) for n, v in learner.get_params(deep=False).items()
    }
    arrays = {n: stored(array) for n, array in tensors.items()}
    document = {
        "format": header.FORMAT,
        "class": name,
        "parameters": parameters,
        "attributes": attributes,
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


def load(path: PathLike) -> Any:
    """Give the learner that was saved, which goes on as if it had never been saved.

    Everything is checked and nothing is executed: checksums of the header and of each tensor, the
    class against the list of public learners, parameters against their rules, shapes against each
    other.

    Raises
    ------
    ModelFileError
        If the file is damaged, foreign, or of a newer format.
    """
    document = header.read_document(path)
    name = document["class"]
    if name not in ALL_LEARNERS:
        raise ModelFileError(
            f"{path} holds a {name!r:.80}, which is none of {', '.join(ALL_LEARNERS)}; "
            "upgrade similia if a newer version has it."
        )
    try:
        return _learner(learner_class(name), document, _read_tensors(path, document["tensors"]))
    except OSError:
        raise
    except Exception as error:  # whatever the contents provoke, the file is at fault
        reason = f"{error}".rstrip(".") or type(error).__name__
        raise header.damaged(path, reason) from error


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


def _learner(cls: Any, document: dict[str, Any], tensors: Tensors) -> Any:
    parameters = {n: decode(v, tensors) for n, v in document["parameters"].items()}
    state = {n: decode(v, tensors) for n, v in document["attributes"].items()}
    if tensors:
        raise ValueError(f"the tensor {min(tensors)} belongs to nothing")
    learner = cls(**parameters).set_state(state)
    if document["class"] in LEARNERS:  # the others check what they are given themselves
        check_consistency(learner)
    return learner
