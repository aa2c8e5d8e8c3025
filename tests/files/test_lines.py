"""Blocks of lines, and the order in which their rows are read and told of."""

import io
import os
import threading

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from similia.exceptions import BadRowError
from similia.feedback import FeedbackFile
from similia.files import BadRows, Ids, limits
from similia.files.lines import BYTE_ORDER_MARK, blocks, fields_of
from similia.files.rows import RowError

IDS = Ids(None, 1000)


@pytest.fixture
def small(monkeypatch):
    """Blocks of a few lines."""
    monkeypatch.setattr(limits, "BLOCK_BYTES", 64)


def written(path, n=400, wrong=()):
    lines = [f"{i},{(i + 1) % 1000},{(i + 2) % 1000}" for i in range(n)]
    for place in wrong:
        lines[place] = f"{place},nobody,0"
    path.write_text("query,better,worse\n" + "\n".join(lines) + "\n")
    return path


@given(st.binary(max_size=200), st.integers(1, 50))
def test_blocks_are_the_whole_file_and_end_with_lines(data, size):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(limits, "BLOCK_BYTES", size)
        found = list(blocks(io.BytesIO(data), "f"))
    assert b"".join(block.data for block in found) == data.removeprefix(BYTE_ORDER_MARK)
    assert all(block.data.endswith(b"\n") for block in found[:-1])
    number = 1
    for block in found:
        assert block.number == number
        number += block.data.count(b"\n")


def test_endless_lines_are_refused(monkeypatch):
    monkeypatch.setattr(limits, "BLOCK_BYTES", 10)
    monkeypatch.setattr(limits, "MAX_LINE_BYTES", 100)
    with pytest.raises(ValueError, match="at most 100 bytes, got a longer one in row 2"):
        list(blocks(io.BytesIO(b"\n" + b"x" * 1000), "f"))


@pytest.mark.parametrize(
    ("line", "fields"),
    [
        ("a,b", ["a", "b"]),
        ('"a,b",c', ["a,b", "c"]),
        ('"a""b",', ['a"b', ""]),
        ("", [""]),
        (",", ["", ""]),
    ],
)
def test_quoted_fields_may_hold_delimiters_and_quotes(line, fields):
    assert fields_of(line, ",") == fields


@pytest.mark.parametrize("line", ['"a,b', '"a"b,c', "a\rb,c"])
def test_broken_quotes_and_line_ends_spoil_a_line(line):
    with pytest.raises(RowError, match="not valid CSV"):
        fields_of(line, ",")


def test_bad_rows_are_told_in_order(tmp_path, small):
    wrong = [0, 1, 57, 200, 201, 399]
    path = written(tmp_path / "f.csv", wrong=wrong)
    told = []
    found = FeedbackFile(path, "triplets", IDS, bad_rows=BadRows("skip", told.append))
    rows = np.concatenate([part.tuples[:, 0] for part in found])
    assert [row.number for row in told] == [place + 2 for place in wrong]
    assert rows.tolist() == [i for i in range(400) if i not in wrong]


def test_rows_before_a_bad_one_come_before_its_error(tmp_path, small):
    reading = iter(FeedbackFile(written(tmp_path / "f.csv", wrong=[57, 200]), "triplets", IDS))
    kept = []
    while len(kept) < 57:
        kept += next(reading).tuples[:, 0].tolist()
    assert kept == list(range(57))
    with pytest.raises(BadRowError, match="row 59: unknown id 'nobody' in column better"):
        next(reading)


def test_the_position_is_that_of_the_rows_in_use(tmp_path, small):
    path = written(tmp_path / "f.csv")
    file = FeedbackFile(path, "triplets", IDS)
    lines, used = path.read_bytes().splitlines(keepends=True), 1
    for part in file:
        used += len(part.tuples)
        assert file.position == sum(map(len, lines[:used]))
    assert file.position == file.size == path.stat().st_size


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes here")
def test_rows_from_a_pipe_do_not_wait_for_later_ones(tmp_path, small):
    lines = written(tmp_path / "f.csv").read_bytes().splitlines(keepends=True)
    pipe, more = tmp_path / "pipe.csv", threading.Event()
    os.mkfifo(pipe)

    def write():
        with open(pipe, "wb", buffering=0) as file:
            file.write(b"".join(lines[:100]))
            more.wait(30)
            file.write(b"".join(lines[100:]))

    writer = threading.Thread(target=write)
    writer.start()
    try:
        reading = iter(FeedbackFile(pipe, "triplets", IDS))
        first = next(reading)  # there long before the last lines are
        assert not more.is_set()
        more.set()
        rows = [first, *reading]
    finally:
        more.set()
        writer.join()
    assert np.concatenate([part.tuples[:, 0] for part in rows]).tolist() == list(range(400))
