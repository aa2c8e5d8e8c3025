"""File formats: vectors in and out, tables in; flat memory, and every bad row named."""

from similia.files.beir import BeirFolder, read_beir
from similia.files.ids import Ids
from similia.files.rows import BadRow, BadRows, RowError
from similia.files.source import FeedbackLike, Source, spooled
from similia.files.vectors import VectorFile, read_rows, read_vectors
from similia.files.views import ViewFiles, read_texts
from similia.files.writing import write_vectors

__all__ = [
    "BadRow",
    "BadRows",
    "BeirFolder",
    "FeedbackLike",
    "Ids",
    "RowError",
    "Source",
    "VectorFile",
    "ViewFiles",
    "read_beir",
    "read_rows",
    "read_texts",
    "read_vectors",
    "spooled",
    "write_vectors",
]
