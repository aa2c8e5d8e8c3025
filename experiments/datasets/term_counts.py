"""Term counts of a whole collection, made once and kept in the cache folder."""

import hashlib
import json
import warnings
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS

from experiments.datasets.fetch import cache_folder, replacing
from experiments.datasets.terms import TOKEN_PATTERN, count_terms


class Texts(NamedTuple):
    """Texts to be counted, and what is to be known about them without reading them again."""

    texts: list[str]
    about: Mapping[str, NDArray[Any]]


class TermCounts(NamedTuple):
    """Counts (n, n_terms) as csr_array, the terms, and arrays about the rows."""

    counts: Any
    terms: list[str]
    about: Mapping[str, NDArray[Any]]


def cached_counts(
    owner: str, folder: str, recipe: Mapping[str, Any], read: Callable[[], Texts]
) -> TermCounts:
    """Give the counts of the texts of `read`, from the cache if they are there.

    `recipe` says what the texts depend on; it is joined by what counting depends on.
    """
    whole = {
        "format": 1,
        "token_pattern": TOKEN_PATTERN,
        "stop_words": sorted(ENGLISH_STOP_WORDS),
        **recipe,
    }
    key = hashlib.sha256(json.dumps(whole, sort_keys=True).encode()).hexdigest()[:16]
    cached = cache_folder() / folder / f"counts-{key}.npz"
    if cached.is_file():
        return _read(owner, cached)
    texts, about = read()
    result = TermCounts(*count_terms(texts), about)
    try:
        _write(cached, result)
    except OSError as error:
        warnings.warn(
            f"{owner}: the term counts cannot be kept in {cached} ({error}) and "
            "will be made again; set SIMILIA_CACHE to a folder that can be written to.",
            stacklevel=4,
        )
    return result


def _write(path: Path, data: TermCounts) -> None:
    arrays: dict[str, Any] = {
        "data": data.counts.data,
        "indices": data.counts.indices,
        "indptr": data.counts.indptr,
        "terms": np.frombuffer("\n".join(data.terms).encode(), dtype=np.uint8),
        **data.about,
    }
    with replacing(path) as stream:
        np.savez(stream, **arrays)


def _read(owner: str, path: Path) -> TermCounts:
    try:
        with path.open("rb") as stream, np.load(stream, allow_pickle=False) as stored:
            arrays = dict(stored)
        csr = tuple(arrays.pop(name) for name in ("data", "indices", "indptr"))
        terms = arrays.pop("terms").tobytes().decode().split("\n")
        shape = (len(csr[2]) - 1, len(terms))
        return TermCounts(sparse.csr_array(csr, shape=shape), terms, arrays)
    except (zipfile.BadZipFile, KeyError, ValueError, EOFError) as error:
        raise ValueError(
            f"{owner}: the cached counts {path} are damaged ({error}). "
            "Remove that file to have them made again."
        ) from error
