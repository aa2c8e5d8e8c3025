"""Online filtering: predict whether a document is relevant, then learn its label."""

from similia.filtering.protocol import FilteringResult, OnlineFilter
from similia.filtering.relevance import RelevanceFilter

__all__ = ["FilteringResult", "OnlineFilter", "RelevanceFilter"]
