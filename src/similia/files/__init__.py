"""Vectors and judgements from files: many formats, ids, flat memory, every bad row named."""

from similia.files.beir import BeirFolder, read_beir
from similia.files.feedback import FeedbackFile, classes_in, copy_rows, kind_of
from similia.files.judgements import Judgements, in_chunks, joined, triplets_of_grades
from similia.files.lists import ImpressionsFile, read_impressions
from similia.files.rows import BadRow, BadRows, Ids, RowError
from similia.files.runs import Run, read_run
from similia.files.source import FeedbackLike, Source, spooled
from similia.files.ubi import UbiLog
from similia.files.vectors import VectorFile, read_rows, read_vectors
from similia.files.views import ViewFiles, read_texts
from similia.files.writing import write_vectors

__all__ = [
    "BadRow",
    "BadRows",
    "BeirFolder",
    "FeedbackFile",
    "FeedbackLike",
    "Ids",
    "ImpressionsFile",
    "Judgements",
    "RowError",
    "Run",
    "Source",
    "UbiLog",
    "VectorFile",
    "ViewFiles",
    "classes_in",
    "copy_rows",
    "in_chunks",
    "joined",
    "kind_of",
    "read_beir",
    "read_impressions",
    "read_rows",
    "read_run",
    "read_texts",
    "read_vectors",
    "spooled",
    "triplets_of_grades",
    "write_vectors",
]
