"""Limits of files."""

#: bytes of text read at a time: thousands of lines, whose values stay in the processor's cache
TEXT_BLOCK_BYTES = 2**18
#: bytes of the longest line; one that never ends would fill the memory
MAX_LINE_BYTES = 2**26
#: rows of a table held at a time
BATCH_ROWS = 2**16
#: bytes of a column of Parquet read at a time, of which a group of rows may have many
PARQUET_BUFFER_BYTES = 2**20
#: numbers of vectors from a table held at a time beside the result, at most 32 MB
BATCH_NUMBERS = 2**22
#: vectors written as lines of JSON at a time
JSON_VECTORS = 2**10
#: bad rows remembered in full, enough to see the cause; all are counted
BAD_ROWS_KEPT = 20
#: bytes of memory that reading a file may take for each of its bytes, and beside that: ordinary
#: compression stays far below, and a file that does not is an attack
UNPACKED_RATIO, UNPACKED_BYTES = 64, 2**28
#: bytes of memory for a value of a list in Parquet: a number and two levels of nesting
LIST_VALUE_BYTES = 12
#: features that sparse vectors may have for each byte of their file, and beside that: learners
#: keep a row and a column of a matrix for each
FEATURES_PER_BYTE, FEATURES = 16, 4096


def check_unpacked(
    name: object, what: str, wanted: int, size: int, allowed: int | None = None
) -> None:
    """Refuse a small file that would unpack into much memory, unless allowed."""
    limit = UNPACKED_RATIO * size + UNPACKED_BYTES if allowed is None else allowed
    if wanted > limit:
        way = "allow more with max_bytes, or store it without compression"
        if what == "feedback":
            way = "store it in batches of fewer rows, or without compression"
        raise ValueError(
            f"{name}: {what} must take at most {limit} bytes of memory at a time, got {wanted}; "
            f"if the file is trusted, {way}."
        )
