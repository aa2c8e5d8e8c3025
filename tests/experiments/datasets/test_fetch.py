import gzip
import hashlib
import http.server
import io
import os
import socket
import sys
import threading

import numpy as np
import pooch
import pytest

from experiments.datasets import fetch as fetching
from experiments.datasets.fetch import (
    FILES,
    DataFile,
    DataNotFoundError,
    cache_folder,
    check_rows,
    dequantized,
    fetch,
    fetch_first,
    locate,
    read_npz,
)

CONTENT = bytes(range(256)) * 4096
SHA256 = hashlib.sha256(CONTENT).hexdigest()
PACKED = gzip.compress(CONTENT)


@pytest.fixture
def folders(tmp_path, monkeypatch):
    data, cache = tmp_path / "data", tmp_path / "cache"
    (data / "set").mkdir(parents=True)
    monkeypatch.setenv("SIMILIA_DATA", str(data))
    monkeypatch.setenv("SIMILIA_CACHE", str(cache))
    return data, cache


@pytest.fixture
def server():
    """A web server with a good file, one cut short, one that is not the file, and one in gzip."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            name = self.path.strip("/")
            if name == "none":
                self.send_error(404)
                return
            body = {
                "good": CONTENT,
                "short": CONTENT[:1000],
                "flipped": CONTENT[::-1],
                "packed": PACKED,
            }[name]
            self.send_response(200)
            self.send_header("Content-Length", str(len(CONTENT if name == "short" else body)))
            if name == "packed":
                self.send_header("Content-Encoding", "gzip")
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *args):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as running:
        thread = threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield f"http://127.0.0.1:{running.server_port}"
        running.shutdown()
        thread.join(timeout=5)


@pytest.fixture
def a_file(monkeypatch):
    """List a file, with its public copy, and return its path."""

    def listed(url=None, sha256=SHA256):
        monkeypatch.setitem(FILES, "set/file.bin", DataFile("It comes from a book.", sha256, url))
        return "set/file.bin"

    return listed


def test_the_data_folder_comes_before_the_cache(folders, a_file):
    data, cache = folders
    (cache / "set").mkdir(parents=True)
    for folder in folders:
        (folder / "set/file.bin").write_bytes(CONTENT)
    assert fetch(a_file()) == data / "set/file.bin"
    (data / "set/file.bin").unlink()
    assert fetch(a_file()) == cache / "set/file.bin"


def test_a_file_that_is_nowhere_is_named_with_variable_and_origin(folders, a_file):
    assert locate(a_file()) is None
    with pytest.raises(DataNotFoundError) as caught:
        fetch(a_file())
    message = str(caught.value)
    for part in ("set/file.bin", "Set SIMILIA_DATA", "It comes from a book.", str(folders[1])):
        assert part in message


def test_an_unset_variable_is_said_to_be_unset(folders, monkeypatch, a_file):
    monkeypatch.delenv("SIMILIA_DATA")
    with pytest.raises(DataNotFoundError, match=r"SIMILIA_DATA \(not set\)"):
        fetch(a_file())


@pytest.mark.parametrize("content", [CONTENT[:-1], CONTENT[:99] + b"!" + CONTENT[100:], b""])
@pytest.mark.parametrize("place", [0, 1], ids=["data", "cache"])
def test_a_damaged_file_is_refused_with_both_checksums_and_kept(
    folders, content, place, server, a_file
):
    path = folders[place] / "set/file.bin"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    with pytest.raises(ValueError, match="SHA-256 must be") as caught:
        fetch(a_file(f"{server}/good"))
    assert SHA256 in str(caught.value)
    assert hashlib.sha256(content).hexdigest() in str(caught.value)
    assert path.read_bytes() == content


def test_a_file_is_hashed_once_until_it_changes(folders, monkeypatch, a_file):
    path = folders[0] / "set/file.bin"
    path.write_bytes(CONTENT)
    hashed = []
    original = pooch.file_hash
    monkeypatch.setattr(pooch, "file_hash", lambda *args: hashed.append(1) or original(*args))
    fetch(a_file())
    fetch(a_file())
    assert len(hashed) == 1
    path.write_bytes(CONTENT[::-1])
    os.utime(path, ns=(0, 0))
    with pytest.raises(ValueError, match="SHA-256"):
        fetch(a_file())
    assert len(hashed) == 2


def test_a_download_lands_in_the_cache_and_is_not_repeated(folders, server, a_file):
    path = fetch(a_file(f"{server}/good"))
    assert path == folders[1] / "set/file.bin"
    assert path.read_bytes() == CONTENT
    assert fetch(a_file(f"{server}/none")) == path
    assert os.listdir(path.parent) == ["file.bin"]


def test_a_file_url_works_too(folders, tmp_path, a_file):
    (tmp_path / "source").write_bytes(CONTENT)
    assert fetch(a_file((tmp_path / "source").as_uri())).read_bytes() == CONTENT


def test_a_download_of_other_bytes_is_discarded_with_both_checksums(folders, server, a_file):
    with pytest.raises(ValueError, match="Deleted download") as caught:
        fetch(a_file(f"{server}/flipped"))
    assert SHA256 in str(caught.value)
    assert hashlib.sha256(CONTENT[::-1]).hexdigest() in str(caught.value)
    assert os.listdir(folders[1] / "set") == []


@pytest.mark.parametrize("name", ["short", "none"])
def test_a_download_that_fails_leaves_nothing(folders, server, name, a_file):
    with pytest.raises(DataNotFoundError, match=f"{server}/{name}"):
        fetch(a_file(f"{server}/{name}"))
    assert [path for path in folders[1].rglob("*") if path.is_file()] == []


def test_offline_the_error_names_the_address_and_the_variable(folders, a_file):
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{unused.getsockname()[1]}/file.bin"
    with pytest.raises(DataNotFoundError) as caught:
        fetch(a_file(url))
    assert url in str(caught.value)
    assert "Set SIMILIA_DATA" in str(caught.value)


def test_a_silent_server_is_not_waited_for_for_ever(folders, monkeypatch, a_file):
    monkeypatch.setattr(fetching, "TIMEOUT", 0.05)
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        with pytest.raises(DataNotFoundError, match="timed out"):
            fetch(a_file(f"http://127.0.0.1:{silent.getsockname()[1]}/"))


def test_bytes_that_a_server_calls_encoded_are_kept_as_they_are(folders, server, a_file):
    file = a_file(f"{server}/packed", sha256=hashlib.sha256(PACKED).hexdigest())
    assert fetch(file).read_bytes() == PACKED


def test_a_download_is_silent_in_a_pipe_and_shows_a_bar_at_a_terminal(
    folders, server, a_file, monkeypatch, capfd
):
    fetch(a_file(f"{server}/good"))
    assert capfd.readouterr() == ("", "")

    class Terminal(io.StringIO):
        def isatty(self):
            return True

    (folders[1] / "set/file.bin").unlink()
    screen = Terminal()
    monkeypatch.setattr(sys, "stderr", screen)
    fetch(a_file(f"{server}/good"))
    assert "good" in screen.getvalue()


def test_the_first_local_file_serves_and_else_the_last_is_downloaded(
    folders, server, a_file, monkeypatch
):
    monkeypatch.setitem(FILES, "set/prepared", DataFile("", hashlib.sha256(b"ready").hexdigest()))
    last = a_file(f"{server}/good")
    assert fetch_first("set/prepared", last) == (last, folders[1] / last)
    (folders[0] / "set/prepared").write_bytes(b"ready")
    assert fetch_first("set/prepared", last) == ("set/prepared", folders[0] / "set/prepared")


def test_every_listed_file_has_an_origin_and_a_checksum_or_rows_to_check():
    without = {path for path, file in FILES.items() if file.sha256 is None}
    assert without == {"uci/zip.train.gz", "uci/zip.test.gz", "uci/isolet.zip"}
    assert all(file.origin and (file.url or file.sha256) for file in FILES.values())


def test_a_file_without_a_published_checksum_is_fetched_as_it_is(folders, server, a_file):
    file = a_file(f"{server}/flipped", sha256=None)
    assert fetch(file).read_bytes() == CONTENT[::-1]
    assert fetch(file) == folders[1] / "set/file.bin"


def test_contents_are_compared_row_by_row_in_any_order(rng, tmp_path):
    rows = rng.integers(1000, size=(20, 3)).astype("<i2")
    sha256 = hashlib.sha256(b"".join(sorted(map(bytes, rows)))).hexdigest()
    check_rows(tmp_path / "file", sha256, rows)
    check_rows(tmp_path / "file", sha256, rows[::-1])
    rows[4, 2] += 1
    with pytest.raises(ValueError, match=r"the rows of .*file: SHA-256 must be .*remove that file"):
        check_rows(tmp_path / "file", sha256, rows)


def test_the_cache_folder_is_the_named_one_or_the_one_of_the_platform(monkeypatch, tmp_path):
    monkeypatch.setenv("SIMILIA_CACHE", str(tmp_path / "named"))
    assert cache_folder() == tmp_path / "named"
    monkeypatch.delenv("SIMILIA_CACHE")
    assert cache_folder() == pooch.os_cache("similia")
    if sys.platform == "linux":
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
        assert cache_folder() == tmp_path / "similia"
        monkeypatch.delenv("XDG_CACHE_HOME")
        assert cache_folder().parts[-2:] == (".cache", "similia")


def test_pickles_are_refused(folders, monkeypatch):
    path = folders[0] / "set/pickled.npz"
    np.savez(path, X=np.array([{}], dtype=object))
    file = DataFile("", hashlib.sha256(path.read_bytes()).hexdigest())
    monkeypatch.setitem(FILES, "set/pickled.npz", file)
    with pytest.raises(ValueError, match="allow_pickle"):
        read_npz("set/pickled.npz", "X")


def test_quantized_arrays_come_back_scaled_in_float32():
    X = np.array([[-128, 2], [127, -1]], dtype=np.int8)
    scale = np.array([0.5, 0.25], dtype=np.float32)
    assert dequantized(X, scale).tolist() == [[-64.0, 0.5], [63.5, -0.25]]
    assert dequantized(X, scale).dtype == np.float32
    assert X[0, 0] == -128
    half = np.array([[0.1]], dtype=np.float16)
    assert dequantized(half).tolist() == half.astype(np.float32).tolist()
