"""From clicks to judgements: which item is preferred, how often it is clicked, what place does."""

from similia.feedback.clicks.preferences import RULES, Preferences, click_preferences
from similia.feedback.clicks.propensity import Correction, Propensities, estimate_propensities
from similia.feedback.clicks.rates import ClickRates, click_rates

__all__ = [
    "RULES",
    "ClickRates",
    "Correction",
    "Preferences",
    "Propensities",
    "click_preferences",
    "click_rates",
    "estimate_propensities",
]
