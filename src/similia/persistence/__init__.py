"""Learners to and from one safetensors file; nothing in it is ever executed."""

from similia.persistence.info import ModelInfo, describe
from similia.persistence.model import load, save

__all__ = ["ModelInfo", "describe", "load", "save"]
