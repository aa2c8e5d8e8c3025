"""Small search collections: queries, documents and the judgements between them."""

import gzip
import json
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from experiments.datasets.fetch import dequantized, fetch, read_npz
from similia.contract import Indices
from similia.validation import check_parameters, none, one_of

VECTORS = {"minilm": "minilm384.npz", "glove": "glove100.npz"}
#: code in the file -> grade; a code that is not here is an error, and 0 is not stored
GRADES = {
    "cranfield": {1: 4, 2: 3, 3: 2, 4: 1, -1: 0},
    "cisi": {1: 1},
    "scifact": {1: 1},
    "nfcorpus": {1: 1, 2: 2},
}


@dataclass(frozen=True)
class RetrievalSet:
    """A search collection.

    queries (m, d) and docs (n, d) are float32 vectors or None, query_ids (m,) and doc_ids (n,) the
    names of their rows, relevance (m, n) a csr_array of grades; larger is better and absent is not
    relevant. Texts are read on first use.
    """

    name: str
    queries: NDArray[np.float32] | None
    docs: NDArray[np.float32] | None
    query_ids: NDArray[np.str_]
    doc_ids: NDArray[np.str_]
    relevance: sparse.csr_array

    @cached_property
    def query_texts(self) -> list[str]:
        """The m queries."""
        return [record["text"] for record in _records(self.name, "queries.jsonl")]

    @cached_property
    def doc_titles(self) -> list[str]:
        """Titles of the n documents."""
        return [record["title"] for record in self._corpus]

    @cached_property
    def doc_texts(self) -> list[str]:
        """Texts of the n documents; in Cranfield they begin with the title."""
        return [record["text"] for record in self._corpus]

    @cached_property
    def _corpus(self) -> list[dict[str, str]]:
        return _records(self.name, "corpus.jsonl.gz")


def load_retrieval(name: str, *, vectors: str | None = "minilm") -> RetrievalSet:
    """Load a search collection.

    ========= ========= ======= ========== ===========================
    name      documents queries judgements queries with a relevant one
    ========= ========= ======= ========== ===========================
    cranfield 1,400     225     1,837      225
    cisi      1,460     112     3,114      76
    scifact   5,183     1,109   1,258      1,109
    nfcorpus  3,395     2,886   122,409    2,886
    ========= ========= ======= ========== ===========================

    Parameters
    ----------
    name : {"cranfield", "cisi", "scifact", "nfcorpus"}
        Aeronautics, library science, claims about science, or nutrition.
    vectors : {"minilm", "glove"} or None
        Vectors of queries and documents: 384 dimensions of all-MiniLM-L6-v2, unit length, or 100 of
        mean GloVe 6B; None for no vectors.

    Notes
    -----
    Cranfield judges in codes, of which 1 is best. They become grades: 1 (complete answer) → 4,
    2 (high relevance) → 3, 3 (useful) → 2, 4 (minimum interest) → 1. The code -1, once for each
    query and without a stated meaning, counts as not relevant, which leaves 1,612 relevant pairs.
    CISI and SciFact know relevant (1) and not, NFCorpus has grades 1 and 2. Two Cranfield documents
    have no text. NFCorpus lacks 238 documents, and its texts have no stop words and no punctuation.
    """
    rules = {"name": one_of(*GRADES), "vectors": one_of(*VECTORS) | none}
    check_parameters("load_retrieval", rules, locals())
    queries = docs = None
    if vectors is None:
        query_ids, doc_ids = _ids(name, "queries.jsonl"), _ids(name, "corpus.jsonl.gz")
    else:
        Q, D, query_ids, doc_ids = read_npz(
            f"retrieval/{name}/{VECTORS[vectors]}", "queries", "docs", "query_ids", "doc_ids"
        )
        queries, docs = dequantized(Q), dequantized(D)
    relevance = _relevance(name, query_ids, doc_ids)
    return RetrievalSet(name, queries, docs, query_ids, doc_ids, relevance)


def _records(name: str, part: str) -> list[dict[str, str]]:
    path = fetch(f"retrieval/{name}/{part}")
    opened = gzip.open if part.endswith(".gz") else open
    with opened(path, "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def _ids(name: str, part: str) -> NDArray[np.str_]:
    return np.array([record["_id"] for record in _records(name, part)])


def _relevance(
    name: str, query_ids: NDArray[np.str_], doc_ids: NDArray[np.str_]
) -> sparse.csr_array:
    """Grades (m, n) from the judgements; columns of the file: query, document, code."""
    path = fetch(f"retrieval/{name}/qrels.tsv")
    judged = np.loadtxt(path, dtype=np.str_, delimiter="\t", skiprows=1, ndmin=2, encoding="utf-8")
    grades = np.array([GRADES[name][int(code)] for code in judged[:, 2]], dtype=np.int8)
    places = (_positions(judged[:, 0], query_ids), _positions(judged[:, 1], doc_ids))
    relevance = sparse.csr_array((grades, places), shape=(len(query_ids), len(doc_ids)))
    relevance.eliminate_zeros()
    return relevance


def _positions(wanted: NDArray[np.str_], ids: NDArray[np.str_]) -> Indices:
    place = {name: row for row, name in enumerate(ids.tolist())}
    return np.array([place[name] for name in wanted.tolist()], dtype=np.intp)
