"""Labels or judgements to index tuples: seeded, streaming, vectorised."""

from similia.sampling.feedback import FeedbackReport, MajorityVote, feedback_report, majority
from similia.sampling.pairs import PAIR_SAMPLERS, BalancedPairs, PairSampler, UniformPairs
from similia.sampling.relevance import RelevanceTriplets
from similia.sampling.triplets import (
    TRIPLET_SAMPLERS,
    BalancedTriplets,
    HardTriplets,
    Score,
    TripletSampler,
    UniformTriplets,
)

__all__ = [
    "PAIR_SAMPLERS",
    "TRIPLET_SAMPLERS",
    "BalancedPairs",
    "BalancedTriplets",
    "FeedbackReport",
    "HardTriplets",
    "MajorityVote",
    "PairSampler",
    "RelevanceTriplets",
    "Score",
    "TripletSampler",
    "UniformPairs",
    "UniformTriplets",
    "feedback_report",
    "majority",
]
