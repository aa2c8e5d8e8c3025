"""A batch that cannot be stored fails alone, whatever is committed with it."""

import threading

import pytest

from similia.service.errors import Invalid, Unavailable
from similia.service.log.rows import Entry
from tests.service.conftest import until


@pytest.fixture
def log(open_log):
    made = open_log()
    yield made
    made.close()


def together(log, batches):
    """Answers to batches that are committed as one."""
    answers, inside, go = {}, threading.Event(), threading.Event()
    insert = log.writer.database.insert

    def slowly(rows):
        inside.set()
        assert go.wait(60)
        return insert(rows)

    def append(number, batch):
        try:
            answers[number] = log.append(batch)
        except (Invalid, Unavailable) as error:
            answers[number] = error

    log.writer.database.insert = slowly
    first = threading.Thread(target=append, args=(-1, [Entry("triplet", b"first", "first", "q")]))
    first.start()
    assert inside.wait(60)
    threads = [threading.Thread(target=append, args=each) for each in enumerate(batches)]
    for thread in threads:
        thread.start()
    while len(log.writer._waiting) < len(batches):
        pass
    go.set()
    log.writer.database.insert = insert
    for thread in (first, *threads):
        thread.join()
    return answers


BAD = {
    "number": Entry("triplet", b"bad", "bad", "q", target=2**70),
    "surrogate": Entry("triplet", b"bad", "bad", "\ud800"),
}


@pytest.mark.parametrize("bad", BAD.values(), ids=BAD)
def test_a_row_that_cannot_be_stored_fails_alone(log, bad):
    heard = []
    log.subscribe(lambda rows: heard.extend(rows))
    good = [[Entry("triplet", b"%d" % i, f"g{i}", "q")] for i in range(4)]
    answers = together(log, [*good[:2], [bad], *good[2:]])
    assert isinstance(answers[2], Invalid)
    stored = {answers[i][0].seq for i in (-1, 0, 1, 3, 4)}
    assert stored == {1, 2, 3, 4, 5}
    until(lambda: len(heard) == 5)  # listeners are told after those who wait for an answer
    assert [row.seq for row in heard] == [1, 2, 3, 4, 5]
    assert log.check().rows == log.last == 5
    assert log.append(good[0])[0].duplicate


def test_a_batch_with_such_a_row_is_not_stored_at_all(log):
    with pytest.raises(Invalid):
        log.append([Entry("triplet", b"good", "good", "q"), BAD["number"]])
    assert log.last == 0
    assert log.append([Entry("triplet", b"good", "good", "q")])[0].seq == 1


def test_texts_that_postgresql_does_not_take_are_refused(server, name):
    from similia.service.log.postgres import postgres_log

    log = postgres_log(server.url, name)
    try:
        good = [[Entry("triplet", b"%d" % i, f"g{i}", "q")] for i in range(2)]
        wide = "".join(chr(0x4E00 + i * 7919 % 20000) for i in range(3000))
        for bad in (Entry("triplet", b"b", "b", "a\0b"), Entry("triplet", b"b", "b", wide)):
            answers = together(log, [good.pop(), [bad]])
            assert isinstance(answers[1], Invalid), answers[1]
            assert answers[0][0].seq
    finally:
        log.close()
