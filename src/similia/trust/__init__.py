"""Whether to trust what was learnt: champion against challenger, and calibrated uncertainty.

Modules are imported when first used: a look at a history needs no learner.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from similia.trust.calibrating import Calibration, calibration, calibration_of, chosen_scale
    from similia.trust.interleaving import Interleaving, Preference, team_draft
    from similia.trust.judging import pairs_as_triplets, triplet_evaluation, triplet_margins
    from similia.trust.outcome import Outcome
    from similia.trust.promotion import Promotion
    from similia.trust.split import Split, held_out

_MODULES = {
    "Calibration": "calibrating",
    "Interleaving": "interleaving",
    "Outcome": "outcome",
    "Preference": "interleaving",
    "Promotion": "promotion",
    "Split": "split",
    "calibration": "calibrating",
    "calibration_of": "calibrating",
    "chosen_scale": "calibrating",
    "held_out": "split",
    "pairs_as_triplets": "judging",
    "team_draft": "interleaving",
    "triplet_evaluation": "judging",
    "triplet_margins": "judging",
}
__all__ = [
    "Calibration",
    "Interleaving",
    "Outcome",
    "Preference",
    "Promotion",
    "Split",
    "calibration",
    "calibration_of",
    "chosen_scale",
    "held_out",
    "pairs_as_triplets",
    "team_draft",
    "triplet_evaluation",
    "triplet_margins",
]


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module 'similia.trust' has no attribute {name!r}")
    return getattr(import_module(f"similia.trust.{_MODULES[name]}"), name)
