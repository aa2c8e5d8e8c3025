"""Many small adapters over one similarity: one for each user or tenant."""

from similia.adapters.adapters import Adapters, UserSimilarity
from similia.adapters.loading import load_adapters

__all__ = ["Adapters", "UserSimilarity", "load_adapters"]
