"""What an adapter of low rank loses against the full learner, on users who each see it their way.

    python -m experiments.adapters

20 Newsgroups, MiniLM vectors. A user has put the 20 groups into five shelves of four, at random,
and calls two messages close if they are on one shelf: no user agrees with another, nor with the base.
Triplets are drawn from messages of the training half; P@10 is over messages of the test half.
Appends rows to results/adapters and writes reports/adapters.md.
"""

import time

import numpy as np

from experiments.rows import HERE, append_rows, as_text, read_rows, select, versions
from experiments.summary import markdown_table
from similia import OASIS, FactoredAROMA
from similia.adapters import Adapters
from similia.datasets import load_newsgroups_embeddings
from similia.retrieval import evaluate

RANKS = (4, 8, 16, 32, 64)
STEPS = (100, 300, 1000, 3000)
USERS = 10
QUERIES, ITEMS = 500, 4000


def contenders():
    """Name -> function from nothing to (learn, scorer)."""

    def full(learner):
        return lambda X, triplets: learner.learn(X, triplets), lambda: learner

    def small(rank):
        adapters = Adapters(rank=rank)
        return lambda X, triplets: adapters.learn(0, X, triplets), lambda: adapters.of(0)

    made = {f"adapter, rank {rank}": (lambda r=rank: small(r)) for rank in RANKS}
    return {
        **made,
        "OASIS": lambda: full(OASIS()),
        "FactoredAROMA": lambda: full(FactoredAROMA()),
    }


def triplets_of(shelf, n, rng):
    """Draw (query, one of its shelf, one of another) uniformly."""
    rows = []
    while len(rows) < n:
        query, a, b = rng.integers(len(shelf), size=3)
        if shelf[query] == shelf[a] != shelf[b]:
            rows.append((query, a, b))
    return np.array(rows)


def user_rows(data, user):
    rng = np.random.default_rng(user)
    shelf = rng.permutation(np.repeat(np.arange(5), 4))[data.y]
    train, test = np.flatnonzero(data.train), rng.permutation(np.flatnonzero(~data.train))
    X = data.X[train]
    stream = triplets_of(shelf[train], max(STEPS), rng)
    Z, labels = data.X[test[:ITEMS]], shelf[test[:ITEMS]]

    def precision(scorer):
        both = (labels[:QUERIES], labels)
        result = evaluate(
            scorer, Z[:QUERIES], Z, labels=both, k=10, measures=["precision"], exclude_self=True
        )
        return result.means["precision@10"]

    yield "base", 0, precision("cosine"), 0.0
    for name, make in contenders().items():
        learn, scorer = make()
        seconds, done = 0.0, 0
        for step in STEPS:
            start = time.perf_counter()
            learn(X, stream[done:step])
            seconds += time.perf_counter() - start
            done = step
            yield name, step, precision(scorer()), seconds


def main():
    data = load_newsgroups_embeddings("minilm")
    folder = HERE / "results" / "adapters"
    fixed = {
        "stage": "run",
        "problem": "newsgroups_shelves",
        "options": as_text({"shelves": 5}),
        "parameters": "{}",
        "queries": QUERIES,
        "score": "inner_product",
        "measure": "precision@10",
        "versions": versions(),
        "note": "",
    }
    known = {row["seed"] for row in read_rows(folder)} if folder.exists() else set()
    for user in range(USERS):
        if user in known:
            continue
        rows = [
            {**fixed, "contender": c, "seed": user, "step": s, "value": v, "seconds": f"{t:.4f}"}
            for c, s, v, t in user_rows(data, user)
        ]
        append_rows(folder / "newsgroups_shelves.csv", rows)
    (HERE / "reports" / "adapters.md").write_text(report(read_rows(folder)))


def report(rows):
    users = sorted({row["seed"] for row in rows})
    base = np.mean([row["value"] for row in select(rows, contender="base")])
    lines = []
    for name in contenders():
        cells = [name]
        for step in STEPS:
            values = [
                next(r["value"] for r in select(rows, contender=n, step=step, seed=user))
                for n in (name, "OASIS")
                for user in users
            ]
            ours, full = np.split(np.array(values), 2)
            gap = ours - full
            error = gap.std(ddof=1) / np.sqrt(len(gap)) if len(gap) > 1 else 0.0
            cells.append(
                f"{ours.mean():.3f}"
                if name == "OASIS"
                else f"{ours.mean():.3f} ({gap.mean():+.4f} ± {error:.4f})"
            )
        lines.append(cells)
    table = markdown_table(["", *(f"{step:,}" for step in STEPS)], lines)
    return (
        "# Adapters of low rank against the full learner\n\n"
        "Made by `python -m experiments.adapters`. 20 Newsgroups, MiniLM vectors (384); each of "
        f"{len(users)} users has put the 20 groups on five shelves at random. P@10 over {ITEMS:,} "
        f"messages of the test half, {QUERIES} of them queries, after so many judgements of "
        "messages of the training half; in brackets the difference to the full OASIS, with its "
        f"standard error over users. The base (cosine) has {base:.3f}.\n\n{table}\n"
    )


if __name__ == "__main__":
    main()
