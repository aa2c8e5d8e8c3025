"""Whether to trust what was learnt: champion against challenger, and calibrated uncertainty."""

from similia.trust.calibration import Calibration, calibration, calibration_of, chosen_scale
from similia.trust.interleaving import Interleaving, Preference, team_draft
from similia.trust.judging import pairs_as_triplets, triplet_evaluation, triplet_margins
from similia.trust.outcome import Outcome
from similia.trust.promotion import Promotion
from similia.trust.split import Split, held_out

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
