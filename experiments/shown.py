"""What it costs to learn from clicks without what was shown: ``python -m experiments.shown``.

People search Cranfield and SciFact, see the ten best by sentence vectors, and click. Blend, whose
base are the words, learns from the true lists, or from the clicks alone with what its base would
have shown (`similia learn --shown base:10`). nDCG@10 of the queries that were asked, and of others.
"""

import numpy as np

from experiments.datasets.retrieval_sets import load_retrieval
from similia import BM25, Blend, Views, evaluate, learn_file
from similia.files import Ids, VectorFile

SEARCHES, SEEDS = 1000, 5


def run(name: str, seed: int) -> np.ndarray:
    """Rows start, true lists, clicks alone; columns queries asked, and others."""
    found, rng = load_retrieval(name), np.random.default_rng(seed)
    bm25 = BM25().fit(found.doc_texts)
    words = bm25.queries(found.query_texts), bm25.items(found.doc_texts)
    lengths = np.log1p([len(text) for text in found.doc_texts])
    X = VectorFile(Views(words=words[0], vectors=found.queries), Ids(None, len(found.queries)))
    Z = VectorFile(
        Views(words=words[1], vectors=found.docs, length=lengths), Ids(None, len(found.docs))
    )
    order = rng.permutation(len(found.queries))
    asked, others = order[: len(order) // 2][:150], order[len(order) // 2 :][:150]
    best = np.argsort(-(found.queries @ found.docs.T), axis=1)[:, :10]
    rows: dict[str, list[int]] = {n: [] for n in ("query", "item", "click", "position", "visit")}
    for visit, query in enumerate(rng.choice(asked, SEARCHES)):
        for place, item in enumerate(best[query], 1):
            likes = 0.7 if found.relevance[query, item] > 0 else 0.07
            click = int(rng.random() < likes / place**0.5)
            for column, value in zip(rows, (query, item, click, place, visit), strict=True):
                rows[column].append(int(value))
    log = {name: np.array(values) for name, values in rows.items()}
    clicked = log["click"] == 1
    clicks = {name: log[name][clicked] for name in ("query", "item", "visit")}
    true = learn_file(Blend(), X, log, items=Z).model
    alone = learn_file(Blend(), X, clicks, items=Z, shown=10).model
    marks = []
    for model in (true.start(), true, alone):
        marks.append([])
        for some in (asked, others):
            measured = evaluate(model, X.X[some], Z.X, relevance=found.relevance[some])
            marks[-1].append(float(measured.judged("ndcg@10").mean()))
    return np.array(marks)


def main() -> None:
    """Print means over seeds, with half of a 95 % interval of the cost."""
    for name in ("cranfield", "scifact"):
        found = np.array([run(name, seed) for seed in range(SEEDS)])
        for column, queries in enumerate(("asked", "others")):
            start, true, alone = found[:, :, column].mean(axis=0)
            costs = found[:, 1, column] - found[:, 2, column]
            half = 2.78 * costs.std(ddof=1) / SEEDS**0.5
            print(
                f"{name}, queries {queries}: start {start:.3f}, true lists {true:.3f}, "
                f"clicks alone {alone:.3f}; cost {costs.mean():+.3f} ± {half:.3f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
