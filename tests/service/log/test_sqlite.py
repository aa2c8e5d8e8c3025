"""What is particular to logs in SQLite files: versions, damage, disks."""

import shutil
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import apsw
import pytest

from similia.service.errors import Damaged, Full, NotFound, Unavailable
from similia.service.log.rows import GENESIS, Entry, first_link
from similia.service.log.sqlite import (
    LOG_FILE,
    SQLITE_MIGRATIONS,
    check_version,
    read_sqlite,
    sqlite_log,
    write_log,
)
from similia.service.tenants.upkeep import copy_log


def check_log(path):
    with closing(read_sqlite(path)) as log:
        return log.check()


def entry(number):
    return Entry("triplet", b"body %d" % number, f"id-{number}", "q")


@pytest.fixture
def folder(tmp_path):
    """Folder of a log with twenty rows."""
    log = sqlite_log(tmp_path / "log")
    log.append([entry(i) for i in range(20)])
    log.close()
    return tmp_path / "log"


def changed(folder, *statements):
    connection = apsw.Connection(str(folder / LOG_FILE))
    for statement in statements:
        connection.execute(statement)
    connection.close()


def test_an_sqlite_that_loses_commits_is_refused():
    check_version("3.51.3")
    check_version("3.54.0")
    for bad in ("3.51.2", "3.40.1", "3.7.0"):
        with pytest.raises(Unavailable, match=bad):
            check_version(bad)


def test_every_commit_is_synchronous(folder):
    log = sqlite_log(folder)
    assert log.writer.database._connection.pragma("synchronous") == 2
    assert log.writer.database._connection.pragma("journal_mode") == "wal"
    log.close()


def test_a_log_of_the_first_version_migrates(tmp_path, folder):
    rows = list(hashed_as_then(_rows_of(folder)))
    old = tmp_path / "old"
    old.mkdir()
    connection = apsw.Connection(str(old / LOG_FILE))
    connection.execute(SQLITE_MIGRATIONS[0])
    connection.pragma("application_id", 0x73696D69)
    connection.pragma("user_version", 1)
    connection.executemany("INSERT INTO rows VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", rows)
    connection.close()
    log = sqlite_log(old)
    assert log.writer.database._connection.pragma("user_version") == len(SQLITE_MIGRATIONS) == 3
    assert list(log.rows()) == rows
    assert log.append([entry(3), entry(77)]) == [(4, True), (21, False)]
    assert log.check().rows == 21
    log.close()
    changed(old, "UPDATE rows SET judge = 'x' WHERE seq = 7")
    with pytest.raises(Damaged, match="row 7 "):
        check_log(old / LOG_FILE)


def hashed_as_then(rows):
    """Rows as earlier versions wrote them."""
    previous = GENESIS
    for row in rows:
        previous = first_link(previous, row.seq, row.time, Entry(*row[2:8]))
        yield row._replace(hash=previous)


def _rows_of(folder):
    log = sqlite_log(folder)
    yield from log.rows()
    log.close()


def test_a_log_of_a_later_version_is_refused(folder):
    changed(folder, "PRAGMA user_version = 99")
    with pytest.raises(Damaged, match="upgrade similia"):
        sqlite_log(folder)
    with pytest.raises(Damaged, match="upgrade similia"):
        check_log(folder / LOG_FILE)


def test_a_foreign_database_is_refused(tmp_path):
    changed(tmp_path, "CREATE TABLE mine (x)")
    with pytest.raises(Damaged, match="another SQLite file"):
        sqlite_log(tmp_path)
    (tmp_path / LOG_FILE).write_bytes(b"no database at all" * 100)
    with pytest.raises(Damaged, match="damaged"):
        sqlite_log(tmp_path)
    with pytest.raises(NotFound):
        check_log(tmp_path / "nowhere")


@pytest.mark.parametrize(
    ("change", "row"),
    [
        ("UPDATE rows SET body = x'00' WHERE seq = 7", 7),
        ("UPDATE rows SET time = time + 1 WHERE seq = 7", 7),
        ("UPDATE rows SET id = 'x' WHERE seq = 7", 7),
        ("UPDATE rows SET judge = 'x' WHERE seq = 20", 20),
        ("UPDATE rows SET hash = zeroblob(32) WHERE seq = 7", 7),
        ("DELETE FROM rows WHERE seq = 7", 7),
        ("DELETE FROM rows WHERE seq = 1", 1),
    ],
)
def test_a_check_finds_whatever_was_changed(folder, change, row):
    assert check_log(folder / LOG_FILE).rows == 20
    changed(folder, change)
    with pytest.raises(Damaged, match=f"row {row} "):
        check_log(folder / LOG_FILE)


def test_a_check_finds_rows_that_were_swapped(folder):
    changed(
        folder,
        "UPDATE rows SET seq = 100 WHERE seq = 5",
        "UPDATE rows SET seq = 5 WHERE seq = 6",
        "UPDATE rows SET seq = 6 WHERE seq = 100",
    )
    with pytest.raises(Damaged, match="row 5 "):
        check_log(folder / LOG_FILE)


def test_a_restored_backup_continues(folder, tmp_path):
    with closing(read_sqlite(folder / LOG_FILE)) as log:
        write_log(tmp_path / "copy.sqlite", log.rows())
    shutil.rmtree(folder)
    folder.mkdir()
    shutil.copy(tmp_path / "copy.sqlite", folder / LOG_FILE)
    log = sqlite_log(folder)
    assert log.append([entry(3), entry(99)]) == [(4, True), (21, False)]
    assert log.check().rows == 21
    log.close()


def test_a_failed_backup_leaves_no_file(folder, tmp_path):
    (tmp_path / "copy.sqlite").write_text("before")
    changed(folder, "PRAGMA user_version = 99")
    with pytest.raises(Damaged):
        copy_log(tmp_path, "log", tmp_path / "copy.sqlite")
    assert (tmp_path / "copy.sqlite").read_text() == "before"
    assert not list(tmp_path.glob(".copy*"))


def test_a_full_disk_says_so_and_nothing_is_lost(tmp_path):
    log = sqlite_log(tmp_path / "log")
    log.append([entry(1)])
    connection = log.writer.database._connection
    connection.pragma("max_page_count", connection.pragma("page_count") + 2)
    big = Entry("put", bytes(100_000))
    with pytest.raises(Full, match="make room"):
        log.append([entry(2), big])
    assert log.last == 1
    # Room was made: the writer connects anew by itself.
    assert log.append([entry(2), big]) == [(2, False), (3, False)]
    assert log.append([entry(1)]) == [(1, True)]
    assert log.check().rows == 3
    log.close()


class _Failing(apsw.VFS):
    """A disk whose files cannot be written or flushed while `broken` says so."""

    def __init__(self):
        self.broken = None
        super().__init__("failing", "")

    def xOpen(self, name, flags):
        return _File(self, name, flags)


class _File(apsw.VFSFile):
    def __init__(self, disk, name, flags):
        self._disk = disk
        super().__init__("", name, flags)

    def xWrite(self, data, offset):
        if self._disk.broken == "write":
            raise apsw.FullError("no room")
        super().xWrite(data, offset)

    def xSync(self, flags):
        if self._disk.broken == "sync":
            raise apsw.IOError("flushing failed")
        super().xSync(flags)


@pytest.fixture
def disk(monkeypatch):
    disk = _Failing()
    original = apsw.Connection

    def through(path, flags=6, **options):
        return original(path, flags=flags, vfs="failing", **options)

    monkeypatch.setattr(apsw, "Connection", through)
    yield disk
    monkeypatch.undo()
    disk.unregister()


@pytest.mark.parametrize(("broken", "error"), [("write", Full), ("sync", Unavailable)])
def test_what_was_not_flushed_is_not_acknowledged_and_recovers(tmp_path, disk, broken, error):
    log = sqlite_log(tmp_path / "log")
    seen = []
    log.subscribe(seen.extend)
    log.append([entry(1)])
    for _ in range(3):
        disk.broken = broken
        with pytest.raises(error):
            log.append([entry(2), entry(3)])
        disk.broken = None
    again = log.append([entry(2), entry(3)])
    assert [place.seq for place in again] == [2, 3]
    log.append([entry(4)])
    log.stop()
    # Listeners see each row once, whether or not a failed commit left something.
    assert [row.seq for row in seen] == [1, 2, 3, 4]
    assert log.check().rows == 4
    log.close()
    log = sqlite_log(tmp_path / "log")
    assert log.check().rows == 4
    log.close()


def test_a_disk_that_became_read_only_is_reported(folder):
    log = sqlite_log(folder)
    log.writer.database._connection.pragma("query_only", True)
    with pytest.raises(Unavailable, match="cannot be written"):
        log.append([entry(99)])
    assert log.append([entry(99)]) == [(21, False)]
    log.close()


def test_a_log_is_free_once_any_thread_has_closed_it(folder):
    with ThreadPoolExecutor(1) as another:
        log = another.submit(sqlite_log, folder).result()
        with pytest.raises(Unavailable, match="must be free"):
            sqlite_log(folder)
        log.close()
    sqlite_log(folder).close()
