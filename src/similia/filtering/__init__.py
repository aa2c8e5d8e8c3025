"""Online filtering: is a document relevant? Predict, be told, learn; one after another."""

from similia.filtering.contenders import ClassifierFilter, NearestLabelFilter
from similia.filtering.relevance import RelevanceFilter
from similia.filtering.result import FilteringResult

__all__ = ["ClassifierFilter", "FilteringResult", "NearestLabelFilter", "RelevanceFilter"]
