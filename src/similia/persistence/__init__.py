"""Learners to and from one safetensors file; nothing in it is ever executed."""

from similia.persistence.model import ModelInfo, describe, load, save

__all__ = ["ModelInfo", "describe", "load", "save"]
