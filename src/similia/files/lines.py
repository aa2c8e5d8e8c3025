"""Text files in blocks of whole lines: flat memory, whatever the size, from a file or a pipe."""

import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import IO, NamedTuple

#: bytes read at a time
BLOCK = 2**22
#: the longest line that is accepted
LONGEST = 2**26

BYTE_ORDER_MARK = b"\xef\xbb\xbf"


class LineBlock(NamedTuple):
    """Whole lines, and the number of the first one, from 1."""

    number: int
    data: bytes

    @property
    def n_lines(self) -> int:
        """How many lines these are, the empty ones included."""
        return self.data.count(b"\n") + (not self.data.endswith(b"\n"))

    def lines(self) -> Iterator[tuple[int, bytes]]:
        """Yield the number and the contents of each line that is not blank."""
        for number, line in enumerate(self.data.split(b"\n"), start=self.number):
            if line.strip():
                yield number, line


def opened(path: Path | str) -> AbstractContextManager[IO[bytes]]:
    """Open a file for reading bytes; ``-`` is standard input, which stays open."""
    return nullcontext(sys.stdin.buffer) if str(path) == "-" else open(path, "rb")


@contextmanager
def spooled(path: Path | str) -> Iterator[Path]:
    """Give a path that can be read more than once: of standard input, a copy on the disk."""
    if str(path) != "-":
        yield Path(path)
        return
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "feedback"
        with open(copy, "wb") as file:
            shutil.copyfileobj(sys.stdin.buffer, file)
        with open(copy, "rb") as file:
            head = file.read(1024).removeprefix(BYTE_ORDER_MARK).lstrip()
        yield copy.rename(copy.with_suffix(".jsonl" if head.startswith(b"{") else ".csv"))


def line_blocks(file: IO[bytes], source: str, size: int = BLOCK) -> Iterator[LineBlock]:
    """Yield a file in blocks that end where a line ends, without a byte order mark."""
    number, pieces, held = 1, [], 0
    first = True
    while data := file.read(size):
        if first:
            data = data.removeprefix(BYTE_ORDER_MARK)
            first = False
        end = data.rfind(b"\n") + 1
        if not end:
            pieces.append(data)
            held += len(data)
            if held > LONGEST:
                raise ValueError(
                    f"{source}: lines must be of at most {LONGEST} bytes, got a longer one in row "
                    f"{number}."
                )
            continue
        block = LineBlock(number, b"".join([*pieces, data[:end]]))
        pieces, held = [data[end:]], len(data) - end
        number += block.data.count(b"\n")
        yield block
    rest = b"".join(pieces)
    if rest:
        yield LineBlock(number, rest)
