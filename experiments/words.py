"""What words add to vectors before any feedback: ``python -m experiments.words``.

Sentence vectors alone, the start of both with words as 512 numbers (as in a service), and with BM25
(as in `similia learn`). nDCG@10 on at most 200 queries of each set.
"""

import numpy as np

from experiments.datasets.retrieval_sets import load_retrieval
from similia import BM25, Blend, Views, evaluate
from similia.contract import Matrix
from similia.tabular.words import WordVectors

QUERIES, MEASURED = 200, 2000


def run(name: str) -> list[float]:
    """nDCG@10 of vectors, of vectors and words, and of vectors and BM25."""
    found = load_retrieval(name)
    some = np.random.default_rng(0).permutation(len(found.queries))[:QUERIES]
    items = np.linspace(0, len(found.docs) - 1, min(MEASURED, len(found.docs))).astype(int)
    sides: list[dict[str, tuple[Matrix, Matrix]]] = [{}]
    for words in (WordVectors.fit(found.doc_texts), BM25().fit(found.doc_texts)):
        asked = words.queries(found.query_texts)[some]
        sides.append({"words": (asked, words.items(found.doc_texts))})
    marks = []
    for more in sides:
        views = {"vectors": (found.queries[some], found.docs), **more}
        X = Views(**{view: asked for view, (asked, _) in views.items()})
        Z = Views(**{view: rows for view, (_, rows) in views.items()})
        blend = Blend()
        blend.begin(X, Views(**{view: rows[items] for view, (_, rows) in views.items()}))
        measured = evaluate(blend, X, Z, relevance=found.relevance[some])
        marks.append(float(measured.judged("ndcg@10").mean()))
    return marks


def main() -> None:
    """Print a line for each set."""
    for name in ("cranfield", "nfcorpus", "cisi", "scifact"):
        vectors, words, bm25 = run(name)
        print(f"{name}: vectors {vectors:.3f}, with words {words:.3f}, with BM25 {bm25:.3f}")


if __name__ == "__main__":
    main()
