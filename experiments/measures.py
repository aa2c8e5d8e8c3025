"""What is measured: name -> function of (contender, problem, task, full), named by the problem.

Each yields (test points, score, measure, value); a score says how the points were ranked. What
contenders are tuned by is better when it is larger. Whoever learns never measures itself.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.neighbors import NearestNeighbors

from experiments.contenders.kernels import squared_distances
from experiments.problems import Problem
from similia import evaluate
from similia.filtering import FilteringResult

RANKED = ("precision", "map")
TRACED = (1, 10)  # cut-offs of a ranking at steps that are not measured in full
RESAMPLES = 1000
Values = Iterator[tuple[int, str, str, float]]


def retrieval(contender: Any, problem: Problem, task: Any, full: bool) -> Values:
    """Rank the other test points for each: over the first queries always, over all if full."""
    items, y = _dense(problem.X_test), problem.y_test
    few = min(task.queries, len(items))
    n = len(items) if full else few
    for score, scorer in contender.scorers().items():
        result = evaluate(
            scorer,
            items[:n],
            items,
            labels=(y[:n], y),
            exclude_self=True,
            k=task.cuts if full else TRACED,
            measures=RANKED,
        )
        for measure, values in result.per_query.items():
            yield n, score, measure, float(np.nanmean(values))
            if n > few and measure in ("map", *(f"precision@{k}" for k in TRACED)):
                yield few, score, measure, float(np.nanmean(values[:few]))


def search(contender: Any, problem: Problem, task: Any, full: bool) -> Values:
    """Rank all items for unseen queries; say how far above the base, with the bootstrap's error."""
    Q, Z, relevant = problem.X_test
    k = max(task.cuts)
    results = [
        evaluate(scorer, Q, Z, **relevant, k=k, measures=("ndcg", "precision"))
        for scorer in (contender.scorers()["inner_product"], "inner_product")
    ]
    for measure in (f"ndcg@{k}", f"precision@{k}"):
        ours, base = (result.judged(measure) for result in results)
        yield len(ours), "inner_product", measure, float(ours.mean())
        if task.stage == "tune":
            continue
        rng = np.random.default_rng(0)
        means = (ours - base)[rng.integers(len(ours), size=(RESAMPLES, len(ours)))].mean(axis=1)
        yield len(ours), "inner_product", f"{measure} gain", float((ours - base).mean())
        yield len(ours), "inner_product", f"{measure} gain error", float(means.std())
    for name, seconds in contender.timings.items():
        yield len(Q), "", f"{name} seconds", seconds


def neighbors(contender: Any, problem: Problem, task: Any, full: bool) -> Values:
    """Classify test points by a vote of their k nearest training points, for each k of the cuts."""
    for score, scorer in contender.scorers().items():
        if scorer.geometry != "l2":
            continue
        given = (scorer.item_vectors(problem.X_train), scorer.query_vectors(problem.X_test))
        nearest = nearest_rows(*given, max(task.cuts))
        for k in task.cuts:
            right = majority(problem.y_train[nearest[:, :k]]) == problem.y_test
            yield len(right), score, f"accuracy@{k}", float(right.mean())
            if task.stage == "run":
                plain = majority(problem.y_train[_euclidean(problem, max(task.cuts))[:, :k]])
                yield from _paired(score, f"@{k}", right, plain == problem.y_test)


#: the last problem, and the nearest training points of its test points before learning
_EUCLIDEAN: dict[str, Any] = {}


def _euclidean(problem: Problem, k: int) -> Any:
    known = _EUCLIDEAN
    if known.get("problem") is not problem or known["nearest"].shape[1] < k:
        nearest = nearest_rows(problem.X_train, problem.X_test, k)
        known.update(problem=problem, nearest=nearest)
    return known["nearest"]


def _paired(score: str, at: str, right: Any, plain: Any) -> Values:
    """Count the points that only one of two is right about: ours, and the Euclidean distance."""
    yield len(right), score, f"gained{at}", float((right & ~plain).sum())
    yield len(right), score, f"lost{at}", float((~right & plain).sum())


def voting(contender: Any, problem: Problem, task: Any, full: bool) -> Values:
    """Classify test points by k votes, with k chosen on points that no contender has seen.

    The database is the training points, or those of them that are no queries. Of equally good k the
    smallest is taken.
    """
    held = problem.context
    items, labels = problem.X_train[held.n_queries :], problem.y_train[held.n_queries :]
    for score, scorer in contender.scorers().items():
        if scorer.geometry != "l2":
            continue
        vectors = scorer.item_vectors(items)
        right = []
        for X, y in ((held.X, held.y), (problem.X_test, problem.y_test)):
            nearest = nearest_rows(vectors, scorer.query_vectors(X), max(task.cuts))
            right.append([(majority(labels[nearest[:, :k]]) == y).mean() for k in task.cuts])
        best = int(np.argmax(right[0]))
        n = len(problem.y_test)
        yield n, score, "accuracy", float(right[1][best])
        yield n, score, "chosen_k", float(task.cuts[best])
        for k, value in zip(task.cuts, right[1], strict=True):
            yield n, score, f"accuracy@{k}", float(value)


def filtering(contender: Any, problem: Problem, task: Any, full: bool) -> Values:
    """Count what was said of the test part, in its order, before the truth was known."""
    result = FilteringResult(contender.predicted, problem.y_test)
    values = {
        "balanced_accuracy": 1 - result.equalized_error,
        "false_positive_rate": result.false_positive_rate,
        "false_negative_rate": result.false_negative_rate,
    }
    for measure, value in values.items():
        yield len(problem.y_test), "stream", measure, value


def kernel(contender: Any, problem: Problem, task: Any, full: bool) -> Values:
    """Classify the test half by its nearest of the training half, and all leaving one out."""
    train, test = problem.X_train, problem.X_test
    squares = squared_distances(contender.kernel)
    nearest = squares[np.ix_(test, train)].argmin(axis=1)
    yield len(test), "l2", "error", float((problem.y_train[nearest] != problem.y_test).mean())
    y = np.empty(len(squares), dtype=problem.y_train.dtype)
    y[train], y[test] = problem.y_train, problem.y_test
    np.fill_diagonal(squares, np.inf)
    yield len(y), "l2", "error_loo", float((y[squares.argmin(axis=1)] != y).mean())
    for name, value in contender.quantities().items():
        yield len(y), "theory", name, value


def triplets(contender: Any, problem: Problem, task: Any, full: bool) -> Values:
    """Count the test triplets (a, b, c) with a closer to b than to c."""
    a, b, c = problem.X_test.T
    squares = contender.distances
    yield len(a), "l2", "satisfied", float((squares[a, b] < squares[a, c]).mean())


def state(contender: Any, problem: Problem, task: Any, full: bool) -> Values:
    """Compare density matrices by fidelity (tr √(√ρ σ √ρ))² and trace distance ‖ρ - σ‖₁/2."""
    true, found = problem.X_test, contender.state
    values, vectors = np.linalg.eigh(true)
    root = (vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.conj().T
    inner = np.linalg.eigvalsh(root @ found @ root)
    yield 1, "", "fidelity", float(np.sqrt(np.maximum(inner, 0.0)).sum() ** 2)
    yield 1, "", "trace_distance", float(0.5 * np.abs(np.linalg.eigvalsh(true - found)).sum())


def classes(contender: Any, problem: Problem, task: Any, full: bool) -> Values:
    """Count the test points whose class has the highest score, or one of the five highest."""
    for name, value in contender.quantities().items():
        yield len(problem.y_test), "theory", name, value
    found = contender.scores(problem.X_test)
    if found is None:
        return
    known, scores = found
    best = known[np.argsort(-scores, axis=1)[:, :5]]
    right = best == problem.y_test[:, None]
    yield len(right), "scores", "top1", float(right[:, 0].mean())
    yield len(right), "scores", "top5", float(right.any(axis=1).mean())


def nearest_rows(items: Any, queries: Any, k: int) -> Any:
    """Rows of the k items nearest to each query, by exact search in chunks."""
    search = NearestNeighbors(n_neighbors=k, algorithm="brute").fit(items)
    return search.kneighbors(queries, return_distance=False)


def majority(votes: Any) -> Any:
    """Most frequent label of each row; the smallest of several, as in scikit-learn."""
    labels = np.unique(votes)
    counts = np.stack([(votes == label).sum(axis=1) for label in labels], axis=1)
    return labels[counts.argmax(axis=1)]


def _dense(X: Any) -> Any:
    """Test points as an array: ranking all by all is one matrix product."""
    return X.toarray() if sparse.issparse(X) else X


MEASURES = {
    "retrieval": retrieval,
    "search": search,
    "neighbors": neighbors,
    "voting": voting,
    "filtering": filtering,
    "kernel": kernel,
    "triplets": triplets,
    "state": state,
    "classes": classes,
}
