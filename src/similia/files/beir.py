"""BEIR data sets whose queries and corpus have been embedded."""

from pathlib import Path
from typing import NamedTuple

from similia.files.columns import each
from similia.files.ids import Ids, as_integers
from similia.files.rows import RowError
from similia.files.source import Source
from similia.files.vectors import VectorFile, read_vectors

#: formats in which vectors may lie beside the texts
BEIR_SUFFIXES = (".npy", ".npz", ".safetensors", ".parquet", ".arrow")


class BeirFolder(NamedTuple):
    """Vectors of queries and corpus under their ids, and the file of grades."""

    queries: VectorFile
    corpus: VectorFile
    qrels: Path


def read_beir(folder: Path | str, split: str = "test") -> BeirFolder:
    """Read a folder of BEIR whose texts have been embedded.

    Parameters
    ----------
    folder : path
        With ``queries.jsonl`` and ``corpus.jsonl``, whose ``_id`` are the ids; ``queries`` and
        ``corpus`` as .npy, .npz, .safetensors, .parquet or .arrow, one vector per line of the
        texts, in their order; and ``qrels/<split>.tsv`` or ``qrels.tsv``.
    split : str
        Which file of grades.
    """
    folder = Path(folder)
    found = [folder / "qrels" / f"{split}.tsv", folder / "qrels.tsv"]
    qrels = next((path for path in found if path.exists()), None)
    if qrels is None:
        raise ValueError(f"{folder}: grades must be in qrels/{split}.tsv or qrels.tsv, got none.")
    return BeirFolder(_side(folder, "queries"), _side(folder, "corpus"), qrels)


def _side(folder: Path, name: str) -> VectorFile:
    """Vectors of the queries or the corpus, under the ids of their texts."""
    possible = [folder / f"{name}{suffix}" for suffix in BEIR_SUFFIXES]
    present = [path for path in possible if path.exists()]
    if len(present) != 1:
        raise ValueError(
            f"{folder}: vectors of the {name} must be in one of "
            f"{', '.join(path.name for path in possible)}, got "
            f"{', '.join(path.name for path in present) or 'none'}; embed the lines of "
            f"{name}.jsonl in their order."
        )
    X, texts = read_vectors(present[0]).X, folder / f"{name}.jsonl"
    (found,) = Source(texts, what="texts").read({"_id": each(_name, object)})
    numbers = as_integers(found.tolist())
    ids = found if numbers is None else numbers
    if len(ids) != X.shape[0]:
        raise ValueError(
            f"{present[0]}: vectors must be one per line of {texts.name}, got {X.shape[0]} for "
            f"{len(ids)} lines."
        )
    try:
        return VectorFile(X, Ids(ids, len(ids)))
    except ValueError as error:
        raise ValueError(f"{texts}: {error}") from None


def _name(raw: object) -> str:
    if isinstance(raw, bool) or not isinstance(raw, str | int):
        raise RowError("not an id", f" {raw!r:.80}")
    return str(raw)
