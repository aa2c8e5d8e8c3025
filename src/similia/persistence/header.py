"""The header of a model file: a JSON document, sealed by its own SHA-256.

A safetensors file is eight bytes of length, a JSON header, and the tensors' bytes. The document is
one string of the header's metadata. Its last entry is the SHA-256 of the length and the whole
header, taken with zeros in its own place.
"""

import hashlib
import json
import os
from pathlib import Path
from typing import IO, Any

from similia.exceptions import ModelFileError

PathLike = str | os.PathLike[str]

FORMAT = 1
KEY = "similia"
UNSEALED = "0" * 64
#: quotes are escaped here, as they stand in a string; so no text of a user can imitate it
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


def metadata_of(document: dict[str, Any]) -> dict[str, str]:
    """Give the document as metadata of a safetensors file that is still to be sealed."""
    text = {**document, "header_sha256": UNSEALED}
    return {KEY: json.dumps(text, separators=(",", ":"), allow_nan=False)}


def seal(file: IO[bytes]) -> None:
    """Write the SHA-256 of the header into the header of a newly written file."""
    raw = file.read(8)
    raw += file.read(int.from_bytes(raw, "little"))
    file.seek(raw.index(MARK) + len(MARK))
    file.write(hashlib.sha256(raw).hexdigest().encode())


def read_document(path: PathLike) -> dict[str, Any]:
    """Read the header alone, and give the document if it is whole and of a known format."""
    if Path(path).is_dir():
        raise ModelFileError(f"{path} is a folder, not a model file; give the file inside it.")
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


def damaged(path: PathLike, reason: str) -> ModelFileError:
    """Give the error for a file that is ours but not as it was written."""
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
            "give a file that similia.save has written."
        )
    if 8 + length > size:
        raise damaged(path, f"it ends inside its header, after {size} bytes")
    return raw + file.read(length - 1)


def _parsed(path: PathLike, raw: bytes) -> dict[str, Any]:
    try:
        metadata = json.loads(raw[8:])["__metadata__"]
        document = json.loads(metadata[KEY])
    except KeyError:
        raise ModelFileError(
            f"{path} is a safetensors file, but no model of similia; "
            "give a file that similia.save has written."
        ) from None
    except (ValueError, TypeError, RecursionError):
        document = None
    if not isinstance(document, dict):
        raise damaged(path, "the header is not readable")
    return document


def _check_seal(path: PathLike, raw: bytes) -> None:
    start = raw.find(MARK) + len(MARK)
    zeroed = raw[:start] + UNSEALED.encode() + raw[start + len(UNSEALED) :]
    if raw.count(MARK) != 1 or raw[start : start + len(UNSEALED)] != _sha256(zeroed):
        raise damaged(path, "the header does not match its checksum")


def _sha256(raw: bytes) -> bytes:
    return hashlib.sha256(raw).hexdigest().encode()
