"""Blend: a similarity as a sum of views, of what is remembered of pairs, and of W."""

from similia.similarity.blend.blend import Blend

__all__ = ["Blend"]
