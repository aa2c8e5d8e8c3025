"""Vectors of texts by a model on this machine, kept beside the texts."""

import hashlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from similia.progress import progress
from similia.safety.whole import replacing
from similia.tabular.models import load_embedder

#: texts that are embedded at a time
AT_ONCE = 256


def embedded(model: str, texts: Sequence[str], path: Path | None = None) -> NDArray[np.float32]:
    """Vectors of texts, of unit length, by the model of a folder or of a name.

    With `path`, the file of the texts, vectors are kept in a file beside it, and only those of new
    texts are made; those made before an interruption are kept, too.
    """
    kept = None if path is None else path.with_name(f"{path.name}.vectors.npz")
    digests = [hashlib.sha256(f"{model}\0{text}".encode()).digest()[:16] for text in texts]
    known = {} if kept is None or not kept.exists() else _read(kept)
    new = {d: text for d, text in zip(digests, texts, strict=True) if d not in known}
    if new:
        try:
            _make(model, new, known)
        finally:
            if kept is not None:
                _write(kept, {d: known[d] for d in dict.fromkeys(digests) if d in known})
    return np.array([known[digest] for digest in digests], np.float32)


def _make(model: str, new: dict[bytes, str], known: dict[bytes, NDArray[np.float32]]) -> None:
    """Add vectors of new texts to those that are known."""
    embed, names = load_embedder(model), list(new)
    with progress(f"Embedding {len(new)} texts", len(new)) as advance:
        for start in range(0, len(names), AT_ONCE):
            some = names[start : start + AT_ONCE]
            vectors = np.asarray(embed([new[name] for name in some]), np.float32)
            lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
            known |= zip(some, vectors / np.where(lengths > 0, lengths, 1), strict=True)
            advance(len(some))


def _write(path: Path, known: dict[bytes, NDArray[np.float32]]) -> None:
    """Keep vectors of the present texts and model, and no others."""
    if not known:
        return
    rows = np.array([list(digest) for digest in known], np.uint8)
    with replacing(path) as temporary, open(temporary, "wb") as file:
        np.savez(file, texts=rows, vectors=np.array(list(known.values())))


def _read(path: Path) -> dict[bytes, NDArray[np.float32]]:
    """Vectors by the digests of their texts."""
    try:
        with np.load(path) as file:
            names, vectors = file["texts"], file["vectors"]
            return {bytes(name): row for name, row in zip(names, vectors, strict=True)}
    except Exception as error:  # whatever the contents cause, the file is at fault
        raise ValueError(f"{path}: vectors kept could not be read; delete it.") from error
