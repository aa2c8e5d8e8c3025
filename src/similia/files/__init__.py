"""Vectors and judgements from files: many formats, ids, flat memory, every bad row named."""

from similia.files.bad_rows import BadRow, BadRows
from similia.files.feedback import FeedbackFile, classes_in, copy_rows, kind_of
from similia.files.ids import Ids
from similia.files.judgements import Judgements, in_chunks, joined, triplets_of_grades
from similia.files.pieces import spooled
from similia.files.vectors import VectorFile, read_rows, read_vectors, write_vectors

__all__ = [
    "BadRow",
    "BadRows",
    "FeedbackFile",
    "Ids",
    "Judgements",
    "VectorFile",
    "classes_in",
    "copy_rows",
    "in_chunks",
    "joined",
    "kind_of",
    "read_rows",
    "read_vectors",
    "spooled",
    "triplets_of_grades",
    "write_vectors",
]
