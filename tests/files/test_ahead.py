"""Pieces parsed ahead: what comes out does not depend on it."""

import os
import threading

import numpy as np
import pytest

from similia.exceptions import BadRowError
from similia.feedback import FeedbackFile
from similia.files import BadRows, Ids, ahead, pieces, source

IDS = Ids(None, 1000)
READERS = {"a": IDS}


class Numbered:
    """A piece that knows its number, and when it is parsed."""

    def __init__(self, number, parsed, wait=None):
        self.number, self.parsed, self.wait = number, parsed, wait

    def raw_columns(self, columns):
        assert columns is READERS
        if self.wait is not None:
            assert self.wait.wait(30)
        self.parsed.add(self.number)
        return [np.array([self.number])]


@pytest.fixture
def small(monkeypatch):
    """Blocks of a few lines, all of them for Arrow."""
    monkeypatch.setattr(
        source, "text_pieces", lambda file, name: pieces.text_pieces(file, name, 64)
    )
    monkeypatch.setattr(source, "BLOCK", 64)
    monkeypatch.setattr(pieces, "TINY_TEXT", 0)
    monkeypatch.setattr(pieces, "SMALL_TEXT", 16)


def written(path, n=400, wrong=()):
    lines = [f"{i},{(i + 1) % 1000},{(i + 2) % 1000}" for i in range(n)]
    for place in wrong:
        lines[place] = f"{place},nobody,0"
    path.write_text("query,better,worse\n" + "\n".join(lines) + "\n")
    return path


def threads():
    return {t for t in threading.enumerate() if t.name.startswith("similia-parse")}


def test_pieces_come_in_their_order_whichever_is_parsed_first():
    parsed, first = set(), threading.Event()
    given = [(READERS, Numbered(i, parsed, None if i else first), i) for i in range(9)]
    found = []
    for columns, piece, end in _releasing(ahead.parsed_ahead(given), first):
        assert columns is READERS
        assert piece.number == end
        found.append(int(piece.raw_columns({})[0][0]))
    assert found == list(range(9))
    assert parsed == set(range(9))


def _releasing(parts, event):
    for part in parts:
        event.set()
        yield part


def test_no_more_than_a_few_pieces_are_held():
    begun = []

    def given():
        for number in range(20):
            begun.append(number)
            yield READERS, Numbered(number, set()), number

    for used, _ in enumerate(ahead.parsed_ahead(given())):
        assert len(begun) <= used + 1 + ahead.AHEAD


def test_an_error_comes_after_the_pieces_before_it():
    def given():
        for number in range(2):
            yield READERS, Numbered(number, set()), number
        raise ValueError("a line without end")

    parts = ahead.parsed_ahead(given())
    assert [next(parts)[1].number, next(parts)[1].number] == [0, 1]
    with pytest.raises(ValueError, match="without end"):
        next(parts)


def test_an_error_of_parsing_is_raised_with_its_piece():
    class Broken(Numbered):
        def raw_columns(self, columns):
            raise RuntimeError("broken")

    parts = ahead.parsed_ahead([(READERS, Numbered(0, set()), 0), (READERS, Broken(1, set()), 1)])
    assert next(parts)[1].raw_columns({})[0].tolist() == [0]
    broken = next(parts)[1]
    with pytest.raises(RuntimeError, match="broken"):
        broken.raw_columns({})


def test_threads_end_with_the_reading(tmp_path, small):
    file = FeedbackFile(written(tmp_path / "f.csv"), "triplets", IDS)
    before = threads()
    reading = iter(file)
    next(reading)
    begun = threads() - before
    assert begun
    reading.close()
    for thread in begun:
        thread.join(60)
    assert not any(thread.is_alive() for thread in begun)


def test_a_reading_that_is_given_up_waits_for_no_thread():
    parsing = threading.Event()
    given = [(READERS, Numbered(i, set(), None if i == 0 else parsing), i) for i in range(9)]
    reading = ahead.parsed_ahead(given)
    next(reading)
    closing = threading.Thread(target=reading.close)
    closing.start()
    closing.join(10)
    waited = closing.is_alive()
    parsing.set()
    closing.join()
    assert not waited


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
