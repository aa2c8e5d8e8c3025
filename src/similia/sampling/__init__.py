"""Labels or grades to index tuples: seeded, streaming, vectorized."""

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
    "HardTriplets",
    "RelevanceTriplets",
    "UniformPairs",
    "UniformTriplets",
]
