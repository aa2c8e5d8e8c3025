"""Online filtering: is a document relevant? Predict, be told, learn; one after another."""

from similia.filtering.protocol import FilteringResult, OnlineFilter
from similia.filtering.relevance import RelevanceFilter

__all__ = ["FilteringResult", "OnlineFilter", "RelevanceFilter"]
