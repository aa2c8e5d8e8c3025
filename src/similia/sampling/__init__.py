"""Labels or judgements to index tuples: seeded, streaming, vectorized."""

from similia.sampling.feedback import FeedbackReport, MajorityVote, feedback_report, majority
from similia.sampling.labels import (
    PAIR_SAMPLERS,
    TRIPLET_SAMPLERS,
    BalancedPairs,
    BalancedTriplets,
    HardTriplets,
    UniformPairs,
    UniformTriplets,
)
from similia.sampling.relevance import RelevanceTriplets

__all__ = [
    "PAIR_SAMPLERS",
    "TRIPLET_SAMPLERS",
    "BalancedPairs",
    "BalancedTriplets",
    "FeedbackReport",
    "HardTriplets",
    "MajorityVote",
    "RelevanceTriplets",
    "UniformPairs",
    "UniformTriplets",
    "feedback_report",
    "majority",
]
