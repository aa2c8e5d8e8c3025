"""``similia judge``: one person, one folder, one command."""

import signal
import subprocess
import sys
import threading

import httpx
import numpy as np
import pytest
from typer.testing import CliRunner

from similia.cli.main import app
from similia.service.http import journal
from tests.service.conftest import PATIENCE, until


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Six items with texts."""
    monkeypatch.chdir(tmp_path)
    # A command run in this process writes its journal to a stream that is closed afterwards.
    monkeypatch.setattr(journal.logger, "handlers", list(journal.logger.handlers))
    np.save("items.npy", np.random.default_rng(0).normal(size=(6, 4)).astype(np.float32))
    (tmp_path / "texts.txt").write_text("".join(f"shoe {i}\n" for i in range(6)))
    return tmp_path


class Judging:
    """The command in a process of its own."""

    def __init__(self, *words):
        self.process = subprocess.Popen(
            [sys.executable, "-m", "similia.cli.main", "judge", *words, "--no-browser"],
            stderr=subprocess.PIPE,
            text=True,
        )
        self.said = []
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()

    def _read(self):
        for line in self.process.stderr:
            self.said.append(line)

    def __enter__(self):
        until(lambda: self.said or self.process.poll() is not None)
        assert self.process.poll() is None, self.said
        url = self.said[0].split()[2].rstrip(";")
        self.client = httpx.Client(base_url=url, timeout=PATIENCE)
        until(lambda: self.client.get("/readyz").is_success)
        return self

    def __exit__(self, *_):
        self.client.close()
        self.process.send_signal(signal.SIGINT)
        try:
            self.process.wait(PATIENCE)
        finally:
            self.process.kill()
            self.reader.join(PATIENCE)
            self.process.stderr.close()


def test_it_starts_asks_takes_answers_stops_and_goes_on(folder):
    with Judging("items.npy", "--texts", "texts.txt") as first:
        assert "judgements are kept in judged-items" in first.said[0]
        assert "<title>similia</title>" in first.client.get("/").text
        asked = first.client.get("/v1/default/judging/questions?n=1").json()["questions"][0]
        assert asked["left"]["text"].startswith("shoe ")
        answer = {"id": "a", "query": asked["query"], "answer": "left"}
        answer |= {side: asked[side]["id"] for side in ("left", "right")}
        stored = first.client.post("/v1/default/judging/answers", json=answer)
        assert stored.status_code == 200, stored.text
    assert first.process.returncode == 0
    with Judging("items.npy", "--texts", "texts.txt") as again:
        asked = again.client.get("/v1/default/judging/questions?n=1").json()
        assert asked["judge"]["answers"] == 1
    assert (folder / "judged-items").is_dir()


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["nothing.npy"], "nothing.npy must be a file that exists"),
        (["items.npy", "--texts", "nothing.txt"], "nothing.txt must be a file that exists"),
        (["items.npy", "--query-texts", "texts.txt"], "--query-texts must come with --queries"),
        (["items.npy", "--images", "nothing"], "images: folder must be one that exists"),
        (["items.npy", "--texts", "short.txt"], "short.txt: "),
        (["nan.npy"], "nan.npy: vectors must be finite"),
    ],
)
def test_what_is_wrong_with_its_files_is_told(folder, words, sentence):
    (folder / "short.txt").write_text("one shoe\n")
    np.save("nan.npy", np.full((3, 4), np.nan, np.float32))
    command = ["judge", *words, "--store", "store", "--no-browser"]
    found = CliRunner().invoke(app, command, prog_name="similia")
    assert found.exit_code == 1, found.output
    assert sentence in found.stderr
    assert "Traceback" not in found.output
