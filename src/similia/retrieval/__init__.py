"""Ranking quality of any scorer: exact top-k, measures, evaluation and comparison."""

from similia.retrieval.evaluate import evaluate
from similia.retrieval.evaluation import Comparison, Evaluation, compare, compare_all
from similia.retrieval.measures import (
    MEASURES,
    average_precision,
    ndcg_at_k,
    precision_at_k,
    r_precision,
    recall_at_k,
    reciprocal_rank,
)
from similia.retrieval.ranking import top_k
from similia.retrieval.ranks import relevant_ranks
from similia.retrieval.relevance import exponential_gain
from similia.retrieval.scale import Scaled, scaled_like

__all__ = [
    "MEASURES",
    "Comparison",
    "Evaluation",
    "Scaled",
    "average_precision",
    "compare",
    "compare_all",
    "evaluate",
    "exponential_gain",
    "ndcg_at_k",
    "precision_at_k",
    "r_precision",
    "recall_at_k",
    "reciprocal_rank",
    "relevant_ranks",
    "scaled_like",
    "top_k",
]
