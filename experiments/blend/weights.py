"""What weights of the views could do at most, had they been learnt from everything.

They are chosen on the very judgements that measure them: those of highest nDCG on a grid, and those
of greatest likelihood by honest judgements about the base's first items, as a log shows them.
"""

from collections.abc import Iterator
from itertools import product

import numpy as np
from scipy.optimize import minimize

from experiments.blend.clicks import Collection, collection, ndcg
from experiments.blend.searches import FOLDER
from experiments.rows import Row, append_rows, as_text, read_rows, versions
from experiments.summary import markdown_table
from similia import Blend
from similia.contract import Array, Indices

SETS = ("cranfield", "cisi", "scifact", "nfcorpus")
OPTIONS = as_text({"chosen on": "all queries"})
#: weights of tf-idf and of BM25, and of the length, where the base has 1 and all vary as much
GRID = tuple(product(np.arange(0, 1.51, 0.25), np.arange(0, 1.51, 0.25), (-0.3, 0, 0.2, 0.4, 0.6)))
BEST = f"best of {len(GRID)}"
#: how many of the base's first items are judged
DEPTHS = (20, 100, 300)
#: precision of the prior of weights, so that there is a maximum
PRIOR = 0.1


def run() -> None:
    """Append the rows of sets that have none."""
    done = {row["problem"] for row in read_rows(FOLDER) if row["options"] == OPTIONS}
    for name in SETS:
        if name not in done:
            append_rows(FOLDER / f"{name}.csv", list(_rows(collection(name))))
            print(name, "weights", flush=True)


def section(values: dict[tuple[str, str], float], titles: dict[str, str]) -> str:
    """Section of the report, from nDCG by set and by how weights were chosen."""
    ways = ["as they start", BEST, *map(_likeliest_of, DEPTHS)]
    lines = [
        [titles[name], f"{base:.3f}", *(f"{values[name, way] - base:+.3f}" for way in ways)]
        for name in SETS
        if (base := values.get((name, "base"))) is not None
    ]
    return (
        "## What weights of the views could do at most\n\n"
        "Gains on all queries, with weights chosen on the very judgements that measure them: the "
        f"best nDCG of {len(GRID)} weights, and the greatest likelihood of honest judgements about "
        "all of the base's first 20, 100 or 300 items. SciFact's 0.09 is more than weights have, "
        "so that memory and W must bring the rest. On Cranfield honest judgements about all that "
        "is shown say less about what ranks well among all items than the weights had to start "
        "with: weights move where such a log leads, and that is below 0.03.\n\n"
        f"{markdown_table(['set', 'base', *ways], lines)}\n"
    )


def _likeliest_of(depth: int) -> str:
    return f"likeliest, first {depth}"


def _rows(data: Collection) -> Iterator[Row]:
    rows = np.flatnonzero(data.relevant.any(axis=1))
    blend = Blend()
    blend.begin(data.queries, data.items)
    scores = np.stack([data.scores[name][rows] for name in blend.names_])
    scores /= blend.gaps_[:, None, None].astype(np.float32)
    relevant = data.relevant[rows]

    def gained(weights: Array) -> float:
        found = np.tensordot(np.asarray(weights, np.float32), scores, axes=1)
        return float(ndcg(found, relevant).mean())

    first = np.argsort(-scores[0], axis=1, kind="stable")[:, : max(DEPTHS)]
    spread = np.array([np.take_along_axis(s, first[:, :100], axis=1).std(axis=1) for s in scores])
    units = spread[0].mean() / np.maximum(spread[1:].mean(axis=1), 1e-12)
    found = {
        "base": gained([1, 0, 0, 0]),
        "as they start": gained(blend.weights_),
        BEST: max(gained(np.append(1, weights * units)) for weights in np.array(GRID)),
    }
    for depth in DEPTHS:
        found[_likeliest_of(depth)] = gained(_likeliest(scores, relevant, first[:, :depth]))
    for contender, value in found.items():
        yield {
            "stage": "run",
            "problem": data.name,
            "options": OPTIONS,
            "contender": contender,
            "parameters": "{}",
            "seed": 0,
            "step": 0,
            "queries": len(rows),
            "score": "inner_product",
            "measure": "ndcg@10 all",
            "value": f"{value:.6f}",
            "seconds": "0",
            "versions": versions(),
            "note": "",
        }


def _likeliest(scores: Array, relevant: Array, first: Indices) -> Array:
    """Weights for which each relevant item among the first is most likely chosen over others."""
    features = np.stack([np.take_along_axis(s, first, axis=1) for s in scores], axis=-1)
    features = features.astype(float) - features.mean(axis=1, keepdims=True)
    lists = [
        (x[chosen], x[~chosen])
        for x, chosen in zip(features, np.take_along_axis(relevant, first, axis=1), strict=True)
        if chosen.any() and not chosen.all()
    ]

    def loss(weights: Array) -> tuple[float, Array]:
        total, slope = PRIOR / 2 * weights @ weights, PRIOR * weights
        for chosen, others in lists:
            a, b = chosen @ weights, others @ weights
            top = max(a.max(), b.max())
            odds, rest = np.exp(a - top), np.exp(b - top)
            norms = odds + rest.sum()
            total += np.log(norms).sum() + top * len(a) - a.sum()
            share = odds / norms
            slope = slope + (rest @ others) * (1 / norms).sum() - (1 - share) @ chosen
        return total, slope

    found: Array = minimize(loss, np.zeros(features.shape[2]), jac=True, method="L-BFGS-B").x
    return found
