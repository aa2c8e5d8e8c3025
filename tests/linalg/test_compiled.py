"""The compilation cache: used when it can be, never a reason to fail."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import warnings
warnings.simplefilter("always")
from similia.linalg.compiled import compiled
import sys; sys.path.insert(0, {folder!r})
from loop import double
print(double(21))
"""
LOOP = "from similia.linalg.compiled import compiled\n@compiled\ndef double(x):\n    return 2 * x\n"


@pytest.fixture
def run(tmp_path):
    (tmp_path / "loop.py").write_text(LOOP)
    cache = tmp_path / "cache"

    def run(cache_folder=cache):
        environment = {
            **os.environ,
            "NUMBA_CACHE_DIR": str(cache_folder),
            "PYTHONDONTWRITEBYTECODE": "1",
        }
        program = PROGRAM.format(folder=str(tmp_path))
        return subprocess.run(
            [sys.executable, "-c", program],
            env=environment,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    run.cache = cache
    return run


def files(folder: Path, ending: str):
    return sorted(folder.rglob(f"*.{ending}"))


def test_the_result_is_cached_and_found_again(run):
    assert run().stdout == "42\n"
    written = {path: path.stat().st_mtime_ns for path in files(run.cache, "nb?")}
    assert written
    again = run()
    assert (again.stdout, again.stderr) == ("42\n", "")
    assert {path: path.stat().st_mtime_ns for path in files(run.cache, "nb?")} == written


@pytest.mark.parametrize(
    ("ending", "content"),
    [("nbi", b""), ("nbi", b"garbage"), ("nbc", None)],
    ids=["empty index", "garbage for an index", "truncated code"],
)
def test_a_damaged_cache_is_replaced_with_a_warning(run, ending, content):
    run()
    for path in files(run.cache, ending):
        path.write_bytes(path.read_bytes()[:-10] if content is None else content)
    damaged = run()
    assert damaged.stdout == "42\n", damaged.stderr
    assert "could not read the compilation cache" in damaged.stderr
    mended = run()
    assert (mended.stdout, mended.stderr) == ("42\n", "")


def test_a_cache_folder_that_cannot_be_made_is_done_without(run, tmp_path):
    (tmp_path / "file").write_text("not a folder")
    without = run(tmp_path / "file" / "cache")
    assert without.stdout == "42\n", without.stderr
