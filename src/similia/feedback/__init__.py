"""What people say: lists shown, clicks, triplets, pairs, grades; in memory and in files."""

from similia.feedback.feedback_file import FeedbackFile, classes_in, copy_rows, kind_of
from similia.feedback.impressions import Impressions
from similia.feedback.judgements import Judgements, in_chunks, joined, triplets_of_grades
from similia.feedback.lists import ImpressionsFile, read_impressions
from similia.feedback.runs import Run, read_run
from similia.feedback.ubi import UbiLog

__all__ = [
    "FeedbackFile",
    "Impressions",
    "ImpressionsFile",
    "Judgements",
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
