"""Learners to and from one safetensors file; nothing in it is ever executed.

Modules are imported when first used: a look at a header needs no learner.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from similia.persistence.description import ModelInfo, describe, read_shares
    from similia.persistence.loading import load
    from similia.persistence.saving import save

__all__ = ["ModelInfo", "describe", "load", "read_shares", "save"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'similia.persistence' has no attribute {name!r}")
    module = {"load": "loading", "save": "saving"}.get(name, "description")
    return getattr(import_module(f"similia.persistence.{module}"), name)
