"""Ranking measures by their definitions: sort everything, then loop."""

from math import log2, nan


def ranking(scores, excluded=-1):
    """Item indices, best first; equal scores by index."""
    items = [i for i in range(len(scores)) if i != excluded]
    return sorted(items, key=lambda i: (-scores[i], i))


def relevant_ranks(scores, items, excluded=-1):
    """Ranks of the relevant items, increasing, and which of `items` each belongs to."""
    place = {i: p + 1 for p, i in enumerate(ranking(scores, excluded))}
    found = sorted((place[j], r) for r, j in enumerate(items) if j != excluded)
    return [rank for rank, _ in found], [r for _, r in found]


def ranked_grades(scores, grades, excluded=-1):
    return [grades[i] for i in ranking(scores, excluded)]


def precision_at_k(ranked, k):
    return sum(g > 0 for g in ranked[:k]) / k


def recall_at_k(ranked, k):
    return sum(g > 0 for g in ranked[:k]) / sum(g > 0 for g in ranked)


def r_precision(ranked):
    return precision_at_k(ranked, sum(g > 0 for g in ranked))


def reciprocal_rank(ranked):
    return next(1 / (p + 1) for p, g in enumerate(ranked) if g > 0)


def average_precision(ranked):
    precisions = [precision_at_k(ranked, p + 1) for p, g in enumerate(ranked) if g > 0]
    return sum(precisions) / len(precisions)


def dcg_at_k(ranked, k, gain):
    return sum(gain(g) / log2(p + 2) for p, g in enumerate(ranked[:k]))


def ndcg_at_k(ranked, k, gain=lambda g: g):
    return dcg_at_k(ranked, k, gain) / dcg_at_k(sorted(ranked, reverse=True), k, gain)


def measures(scores, grades, ks, excluded=-1, gain=lambda g: g):
    """Every measure of one query, by the names that `evaluate` gives them."""
    ranked = ranked_grades(scores, grades, excluded)
    values = {}
    values.update({f"precision@{k}": lambda k=k: precision_at_k(ranked, k) for k in ks})
    values.update({f"recall@{k}": lambda k=k: recall_at_k(ranked, k) for k in ks})
    values.update({f"ndcg@{k}": lambda k=k: ndcg_at_k(ranked, k, gain) for k in ks})
    values["map"] = lambda: average_precision(ranked)
    values["mrr"] = lambda: reciprocal_rank(ranked)
    values["r_precision"] = lambda: r_precision(ranked)
    judged = any(g > 0 for g in ranked)
    return {name: value() if judged else nan for name, value in values.items()}
