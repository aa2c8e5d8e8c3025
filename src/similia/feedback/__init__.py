"""Feedback in memory and in files: lists shown, clicks, triplets, pairs and grades."""

from similia.feedback.feedback_file import (
    FeedbackFile,
    ImpressionsFile,
    classes_in,
    copy_rows,
    kind_of,
    read_impressions,
)
from similia.feedback.grades import RelevanceTriplets, triplets_of_grades
from similia.feedback.impressions import Impressions
from similia.feedback.judgements import Judgements, in_chunks, joined
from similia.feedback.rankings import Run, read_run
from similia.feedback.ubi import UbiLog

__all__ = [
    "FeedbackFile",
    "Impressions",
    "ImpressionsFile",
    "Judgements",
    "RelevanceTriplets",
    "Run",
    "UbiLog",
    "classes_in",
    "copy_rows",
    "in_chunks",
    "joined",
    "kind_of",
    "read_impressions",
    "read_run",
    "triplets_of_grades",
]
