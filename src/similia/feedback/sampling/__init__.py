"""Labels or grades to index tuples: seeded, streaming, vectorized."""

from similia.feedback.sampling.labels import (
    PAIR_SAMPLERS,
    TRIPLET_SAMPLERS,
    BalancedPairs,
    BalancedTriplets,
    HardTriplets,
    UniformPairs,
    UniformTriplets,
)
from similia.feedback.sampling.relevance import RelevanceTriplets

__all__ = [
    "PAIR_SAMPLERS",
    "TRIPLET_SAMPLERS",
    "BalancedPairs",
    "BalancedTriplets",
    "HardTriplets",
    "RelevanceTriplets",
    "UniformPairs",
    "UniformTriplets",
]
