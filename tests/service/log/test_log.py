"""What a log promises, on every database."""

import threading
import time
from contextlib import closing

import pytest
from msgspec.structs import astuple

from similia.service.errors import Conflict, Unavailable
from similia.service.log.rows import Entry


def entry(number, body=None, **more):
    return Entry("triplet", body or b"body %d" % number, f"id-{number}", "q", **more)


@pytest.fixture
def log(open_log):
    log = open_log()
    yield log
    log.close()


def test_rows_come_back_as_they_were_appended(log):
    log.append([entry(1, judge="ann"), Entry("put", b"\0\xff")])
    first, second = log.rows()
    assert (first.seq, first.kind, first.body, first.id) == (1, "triplet", b"body 1", "id-1")
    assert (first.query, first.judge, first.target) == ("q", "ann", None)
    assert (second.seq, second.kind, second.body, second.id) == (2, "put", b"\0\xff", None)
    assert log.last == 2


def test_the_same_id_and_body_is_a_duplicate(log):
    assert log.append([entry(1), entry(2)]) == [(1, False), (2, False)]
    assert log.append([entry(2), entry(3), entry(3)]) == [(2, True), (3, False), (3, True)]
    assert log.last == 3


def test_the_same_id_with_another_body_is_a_conflict_and_nothing_of_the_batch_is_stored(log):
    log.append([entry(1)])
    with pytest.raises(Conflict, match="id-1") as caught:
        log.append([entry(2), entry(1, b"other")])
    assert list(caught.value.rows) == [1]
    with pytest.raises(Conflict):
        log.append([entry(4), entry(4, b"other")])
    assert log.last == 1
    assert log.append([entry(2)]) == [(2, False)]


def test_rows_without_ids_are_never_duplicates(log):
    assert log.append([Entry("put", b"x"), Entry("put", b"x")]) == [(1, False), (2, False)]


def test_batches_of_many_threads_are_in_one_order_without_gaps(log):
    seen, answers = [], {}
    log.subscribe(seen.extend)

    def client(number):
        answers[number] = [
            log.append([entry(100 * number + i), entry(100 * number + i + 50)]) for i in range(10)
        ]

    threads = [threading.Thread(target=client, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    log.stop()
    assert [row.seq for row in seen] == list(range(1, 161))
    assert seen == list(log.rows())
    given = {place.seq for batches in answers.values() for batch in batches for place in batch}
    assert given == set(range(1, 161))
    for batch in answers[3]:
        assert batch[1].seq == batch[0].seq + 1


def test_a_log_continues_after_it_was_closed(open_log):
    log = open_log()
    log.append([entry(1), entry(2)])
    head = log.check()
    log.close()
    log = open_log()
    assert (log.last, log.check()) == (2, head)
    assert log.append([entry(2), entry(3)]) == [(2, True), (3, False)]
    assert log.check().rows == 3
    log.close()


def test_a_closing_log_takes_nothing_more(open_log):
    log = open_log()
    log.close()
    with pytest.raises(Unavailable, match="closing"):
        log.append([entry(1)])


def test_only_one_writer_has_a_log(open_log):
    log = open_log()
    with pytest.raises(Unavailable, match="another process"):
        open_log()
    log.close()
    open_log().close()


def test_times_never_decrease_though_the_clock_does(log, monkeypatch):
    now = [5_000_000_000_000]
    monkeypatch.setattr(time, "time_ns", lambda: now[0])
    for step in (0, 10_000_000, -3_000_000_000_000, 5_000_000, 4_000_000_000_000):
        now[0] += step
        log.append([Entry("put", b"x")])
    times = [row.time for row in log.rows()]
    assert times == sorted(times)
    assert log.at(times[1]) == 4  # the rows that were written while the clock was behind
    assert log.at(times[0] - 1) == 0
    assert log.at(times[-1]) == log.at(times[-1] + 10) == 5


def test_rows_can_be_found(log):
    log.append([entry(1), entry(2), Entry("put", b"x")])
    log.append([Entry("retraction", b"r", target=2), Entry("retraction", b"s", target=2)])
    log.append([Entry("triplet", b"y", "other", "q2", "ann")])
    assert log.find("id-2").seq == 2
    assert log.find("id-9") is None
    assert log.row(3).kind == "put"
    assert log.row(99) is None
    assert log.retracted() == {2: 4}
    assert [(row.seq, gone) for row, gone in log.search(0, 10)] == [
        (1, False),
        (2, True),
        (6, False),
    ]
    assert [row.seq for row, _ in log.search(1, 1)] == [2]
    assert [row.seq for row, _ in log.search(0, 10, query="q")] == [1, 2]
    assert [row.seq for row, _ in log.search(0, 10, judge="ann")] == [6]
    assert [row.seq for row in log.rows(others=True)] == [3, 4, 5]
    assert [row.seq for row in log.rows(1, 3)] == [2, 3]
    for part in ((), (1, 3)):
        told = [(row.seq, row.body, row.query, row.target) for row in log.rows(*part)]
        assert list(map(astuple, log.learner_rows(*part))) == told
    assert log.counts() == (3, 2)
    assert list(log.days().values()) == [3]


def test_a_backup_is_a_log_in_one_state_of_the_original(log, tmp_path):
    from similia.service.log.sqlite import read_sqlite, write_log

    log.append([entry(i) for i in range(50)])
    stop = threading.Event()

    def write():
        number = 1000
        while not stop.is_set():
            log.append([entry(number)])
            number += 1

    writer = threading.Thread(target=write)
    writer.start()
    try:
        write_log(tmp_path / "copy.sqlite", log.rows())
    finally:
        stop.set()
        writer.join()
    with closing(read_sqlite(tmp_path / "copy.sqlite")) as copy:
        found = copy.check()
    assert 50 <= found.rows <= log.last
    assert log.row(found.rows).hash.hex() == found.head
    assert [path.name for path in tmp_path.glob("copy*")] == ["copy.sqlite"]
