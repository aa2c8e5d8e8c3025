"""Many small adapters over one similarity: one per user or tenant."""

from similia.adapters.adapters import Adapters, UserSimilarity, load_adapters

__all__ = ["Adapters", "UserSimilarity", "load_adapters"]
