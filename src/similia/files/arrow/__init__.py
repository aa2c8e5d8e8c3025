"""Everything that needs pyarrow: tables, and fast parsing of CSV and JSON lines."""

from importlib import import_module

from similia.exceptions import MissingExtraError

try:
    import_module("pyarrow")
except ImportError as error:
    raise MissingExtraError("similia.files.arrow", "pyarrow", "io") from error
