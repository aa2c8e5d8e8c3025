"""Teach an existing similarity from feedback, one judgement at a time.

Learners are imported when first used, so that ``import similia`` is instant.
"""

from typing import Any

from similia.registry import ALL_LEARNERS, learner_class

__version__ = "0.2.0"

_FUNCTIONS = {
    "BM25": "similia.text",
    "Impressions": "similia.feedback.impressions",
    "Views": "similia.views",
    "ConstraintOracle": "similia.constraints.oracle",
    "DefiniteBoost": "similia.constraints.definite_boost",
    "DistanceConstraints": "similia.constraints.pairs",
    "MatrixConstraints": "similia.constraints.sets",
    "RankOneConstraints": "similia.constraints.sets",
    "minimize_max_constraint": "similia.constraints.min_max",
    "FeedbackFile": "similia.feedback",
    "ImpressionsFile": "similia.feedback",
    "Source": "similia.files",
    "UbiLog": "similia.feedback",
    "click_preferences": "similia.feedback.clicks",
    "click_rates": "similia.feedback.clicks",
    "estimate_propensities": "similia.feedback.clicks",
    "learn_file": "similia.stream",
    "evaluate_parts": "similia.distributed",
    "export_items": "similia.distributed",
    "index_shards": "similia.distributed",
    "learn_shares": "similia.distributed",
    "search_ranges": "similia.distributed",
    "search_shards": "similia.distributed",
    "read_run": "similia.feedback",
    "read_vectors": "similia.files",
    "write_vectors": "similia.files",
    "JudgedTransformer": "similia.model_selection",
    "JudgementEstimator": "similia.model_selection",
    "load": "similia.persistence",
    "save": "similia.persistence",
    "compare": "similia.retrieval",
    "compare_all": "similia.retrieval",
    "evaluate": "similia.retrieval",
    "scaled_like": "similia.retrieval",
    "feedback_report": "similia.stream",
    "RelevanceFilter": "similia.filtering",
    "TextReranker": "similia.integrations.reranking",
    "Adapters": "similia.adapters",
    "Interleaving": "similia.trust",
    "Promotion": "similia.trust",
    "build_index": "similia.index",
    "open_index": "similia.index",
}

__all__ = ["__version__", *ALL_LEARNERS, *_FUNCTIONS]


def __getattr__(name: str) -> Any:
    if name in ALL_LEARNERS:
        return learner_class(name)
    if name in _FUNCTIONS:
        from importlib import import_module

        return getattr(import_module(_FUNCTIONS[name]), name)
    raise AttributeError(f"module 'similia' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
