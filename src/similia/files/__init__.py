"""Vectors and judgements from files: many formats, ids, flat memory, every bad row named."""

from similia.files.feedback import FeedbackFile, classes_in, copy_rows, kind_of
from similia.files.grades import triplets_of_grades
from similia.files.pieces import Judgements, in_chunks, joined, spooled
from similia.files.rows import BadRow, BadRows, Ids, RowError
from similia.files.vectors import VectorFile, read_rows, read_vectors, write_vectors

__all__ = [
    "BadRow",
    "BadRows",
    "FeedbackFile",
    "Ids",
    "Judgements",
    "RowError",
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
