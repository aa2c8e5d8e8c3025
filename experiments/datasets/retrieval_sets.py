"""Small search collections: queries, documents and the judgements between them."""

import gzip
import json
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from experiments.datasets.fetch import DataFile, dequantized, fetch, read_npz
from similia.validation import check_parameters, none, one_of

_TEXTS = (
    "The collection in its original format is public at "
    "http://ir.dcs.gla.ac.uk/resources/test_collections/; this library does not read that format."
)
_VECTORS = (
    "The vectors were computed for this library from the collection at "
    "http://ir.dcs.gla.ac.uk/resources/test_collections/."
)
_SHA256 = {
    "cranfield": {
        "corpus.jsonl.gz": "6ae0a8f74a584fce375056efcf9eb1887bf35710acb5146cdbdd266081c5fd75",
        "queries.jsonl": "70914f4cee2b861959813356b008b8c61b78400e4de7e03193c3ea0cff72a63f",
        "qrels.tsv": "01f160f8a22710fec39069bb688fb153693eb56c94d05b55ec855a06c0a3f1f4",
        "minilm384.npz": "d4055ae76c338ae972387ef25ae747442a8a0eaf0511132206d12df0142a98f4",
        "glove100.npz": "aef98787ffeb1168205ca0d9f1d58ff085d4ba009380f1e87a273d466ad55dc1",
    },
    "cisi": {
        "corpus.jsonl.gz": "d5eb9d6246ed6616420e43d2dee007acfb94f25edaf5f21f3372f4e52a23cb0d",
        "queries.jsonl": "74a7e3671322e918fd5eb32437b6b32134ff9f13ec4748356fdcbca7953ce1db",
        "qrels.tsv": "5ff417257cd005a90a06ad42f0468c791fb862f38cd9b53cac9e516ffe675011",
        "minilm384.npz": "bf954969aae4b257922b8e623b939ea63719ef3c1c66dbc4ee12972a4b3b9056",
        "glove100.npz": "c3786ae96d452967740f76bc898a1339c17cf5bad5f8043815ff3eaa6d3c216f",
    },
}
FILES = {
    name: {
        part: DataFile(
            f"retrieval/{name}/{part}", digest, _VECTORS if part.endswith(".npz") else _TEXTS
        )
        for part, digest in parts.items()
    }
    for name, parts in _SHA256.items()
}
VECTORS = {"minilm": "minilm384.npz", "glove": "glove100.npz"}

# Code in the file -> grade; a code that is not here is an error, and 0 is not stored.
GRADES = {
    "cranfield": {1: 4, 2: 3, 3: 2, 4: 1, -1: 0},
    "cisi": {1: 1},
}


@dataclass(frozen=True)
class RetrievalSet:
    """A search collection.

    queries (m, d) and docs (n, d) are float32 vectors or None, query_ids (m,) and doc_ids (n,) the
    names of their rows, relevance (m, n) a csr_array of grades, larger is better and absent is not
    relevant. query_texts, doc_titles and doc_texts are read when first asked for.
    """

    name: str
    queries: NDArray[np.float32] | None
    docs: NDArray[np.float32] | None
    query_ids: NDArray[np.str_]
    doc_ids: NDArray[np.str_]
    relevance: Any

    @cached_property
    def query_texts(self) -> list[str]:
        """The m queries."""
        return [record["text"] for record in _records(self.name, "queries.jsonl")]

    @cached_property
    def doc_titles(self) -> list[str]:
        """The titles of the n documents."""
        return [record["title"] for record in self._corpus]

    @cached_property
    def doc_texts(self) -> list[str]:
        """The texts of the n documents; in Cranfield they begin with the title."""
        return [record["text"] for record in self._corpus]

    @cached_property
    def _corpus(self) -> list[dict[str, str]]:
        return _records(self.name, "corpus.jsonl.gz")


def load_retrieval(name: str, *, vectors: str | None = "minilm") -> RetrievalSet:
    """Load the Cranfield or the CISI collection.

    ========= ========= ======= ========== ===========================
    name      documents queries judgements queries with a relevant one
    ========= ========= ======= ========== ===========================
    cranfield 1,400     225     1,837      225
    cisi      1,460     112     3,114      76
    ========= ========= ======= ========== ===========================

    Parameters
    ----------
    name : {"cranfield", "cisi"}
        Aeronautics, or library science.
    vectors : {"minilm", "glove"} or None
        Vectors of queries and documents: 384 dimensions of all-MiniLM-L6-v2, unit length, or 100 of
        mean GloVe 6B; None to do without.

    Returns
    -------
    RetrievalSet

    Notes
    -----
    Cranfield judges in codes, of which 1 is best. They become grades: 1 (complete answer) → 4,
    2 (high relevance) → 3, 3 (useful) → 2, 4 (minimum interest) → 1. The code -1, once for each
    query and without a stated meaning, is taken as not relevant, which leaves 1,612 relevant pairs.
    CISI knows relevant (1) and not. Two Cranfield documents have no text.

    Licence: none stated, free research use. The original collections are public at Glasgow
    (http://ir.dcs.gla.ac.uk/resources/test_collections/); the files here, and the vectors above
    all, were made for this library and must be in ``SIMILIA_DATA``.

    References
    ----------
    C. Cleverdon, "The Cranfield tests on index language devices", Aslib Proceedings 19, 1967;
    CISI: the SMART project, Cornell University; N. Reimers, I. Gurevych, EMNLP 2019;
    J. Pennington, R. Socher, C. Manning, EMNLP 2014.
    """
    rules = {"name": one_of(*FILES), "vectors": one_of(*VECTORS) | none}
    check_parameters("load_retrieval", rules, {"name": name, "vectors": vectors})
    queries = docs = None
    if vectors is None:
        query_ids, doc_ids = _ids(name, "queries.jsonl"), _ids(name, "corpus.jsonl.gz")
    else:
        file = FILES[name][VECTORS[vectors]]
        Q, D, query_ids, doc_ids = read_npz(file, "queries", "docs", "query_ids", "doc_ids")
        queries, docs = dequantized(Q), dequantized(D)
    return RetrievalSet(
        name, queries, docs, query_ids, doc_ids, _relevance(name, query_ids, doc_ids)
    )


def _records(name: str, part: str) -> list[dict[str, str]]:
    path = fetch(FILES[name][part])
    opened = gzip.open if part.endswith(".gz") else open
    with opened(path, "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def _ids(name: str, part: str) -> NDArray[np.str_]:
    return np.array([record["_id"] for record in _records(name, part)])


def _relevance(name: str, query_ids: NDArray[np.str_], doc_ids: NDArray[np.str_]) -> Any:
    """Give grades (m, n) from the judgements; columns of the file: query, document, code."""
    path = fetch(FILES[name]["qrels.tsv"])
    judged = np.loadtxt(path, dtype=np.str_, delimiter="\t", skiprows=1, ndmin=2, encoding="utf-8")
    codes, code_of = np.unique(judged[:, 2].astype(np.int64), return_inverse=True)
    grades = np.array([GRADES[name][code] for code in codes.tolist()], dtype=np.int8)[code_of]
    shape = (len(query_ids), len(doc_ids))
    places = (_positions(judged[:, 0], query_ids), _positions(judged[:, 1], doc_ids))
    relevance = sparse.csr_array((grades, places), shape=shape)
    relevance.eliminate_zeros()
    return relevance


def _positions(wanted: NDArray[np.str_], ids: NDArray[np.str_]) -> NDArray[np.intp]:
    place = {name: row for row, name in enumerate(ids.tolist())}
    return np.array([place[name] for name in wanted.tolist()], dtype=np.intp)
