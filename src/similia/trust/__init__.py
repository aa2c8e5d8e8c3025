"""Whether to trust what was learnt: exams, evidence, promotion, interleaving, calibration.

Modules are imported when first used: a look at a history needs no learner.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from similia.trust.agreement import (
        ACCURACY,
        pairs_as_triplets,
        triplet_evaluation,
        triplet_margins,
    )
    from similia.trust.calibrating import (
        Calibration,
        calibration,
        calibration_of,
        calibration_on,
        chosen_scale,
    )
    from similia.trust.evaluation import (
        Adaptation,
        Contestant,
        contest,
        evaluate_file,
        evaluate_model,
        order_evaluations,
    )
    from similia.trust.exam import Split, held_out
    from similia.trust.from_files import promote_file, split_file
    from similia.trust.interleaving import Interleaving, Preference, team_draft
    from similia.trust.outcome import Outcome
    from similia.trust.promotion import Promotion

_NAMES = {
    "agreement": ("ACCURACY", "pairs_as_triplets", "triplet_evaluation", "triplet_margins"),
    "calibrating": (
        "Calibration",
        "calibration",
        "calibration_of",
        "calibration_on",
        "chosen_scale",
    ),
    "evaluation": (
        "Adaptation",
        "Contestant",
        "contest",
        "evaluate_file",
        "evaluate_model",
        "order_evaluations",
    ),
    "exam": ("Split", "held_out"),
    "from_files": ("promote_file", "split_file"),
    "interleaving": ("Interleaving", "Preference", "team_draft"),
    "outcome": ("Outcome",),
    "promotion": ("Promotion",),
}
_MODULES = {name: module for module, names in _NAMES.items() for name in names}
__all__ = [
    "ACCURACY",
    "Adaptation",
    "Calibration",
    "Contestant",
    "Interleaving",
    "Outcome",
    "Preference",
    "Promotion",
    "Split",
    "calibration",
    "calibration_of",
    "calibration_on",
    "chosen_scale",
    "contest",
    "evaluate_file",
    "evaluate_model",
    "held_out",
    "order_evaluations",
    "pairs_as_triplets",
    "promote_file",
    "split_file",
    "team_draft",
    "triplet_evaluation",
    "triplet_margins",
]


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module 'similia.trust' has no attribute {name!r}")
    return getattr(import_module(f"similia.trust.{_MODULES[name]}"), name)
