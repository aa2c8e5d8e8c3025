"""The compilation cache: used when it can be, never a reason to fail."""

import os
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import similia
from similia.linalg.compiled import KEPT, imported_files, sweep

PROGRAM = """
import warnings
warnings.simplefilter("always")
from similia.linalg.compiled import compiled
import sys; sys.path.insert(0, {folder!r})
from loop import double
print({call})
"""
LOOP = "from similia.linalg.compiled import compiled\n@compiled\ndef double(x):\n    return 2 * x\n"


@pytest.fixture
def run(tmp_path):
    (tmp_path / "loop.py").write_text(LOOP)
    cache = tmp_path / "cache"

    def run(call="double(21)", cache_folder=cache):
        environment = {
            **os.environ,
            "NUMBA_CACHE_DIR": str(cache_folder),
            "PYTHONDONTWRITEBYTECODE": "1",
        }
        program = PROGRAM.format(folder=str(tmp_path), call=call)
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
    without = run(cache_folder=tmp_path / "file" / "cache")
    assert without.stdout == "42\n", without.stderr


def test_code_for_other_types_is_replaced_with_a_warning(run):
    """Two processes that compile at the same time can give two results one name."""
    run()
    run("double(0.5)")
    first, second = files(run.cache, "nbc")
    first.write_bytes(second.read_bytes())
    damaged = run()
    assert damaged.stdout == "42\n", damaged.stderr
    assert "could not read the compilation cache" in damaged.stderr
    mended = run()
    assert (mended.stdout, mended.stderr) == ("42\n", "")


def test_a_cache_that_can_be_neither_read_nor_removed_is_done_without(run):
    run()
    (index,) = files(run.cache, "nbi")
    index.unlink()
    index.mkdir()
    (index / "file").touch()
    index.parent.chmod(0o500)  # a superuser can remove it all the same
    try:
        assert run().stdout == "42\n"
    finally:
        if index.parent.exists():
            index.parent.chmod(0o700)


def test_a_change_in_a_called_file_is_noticed_without_deleting_anything(tmp_path):
    """In a copy of the package: `unit_step` calls `scale`, which is in another file."""
    package = Path(similia.__file__).parent
    copy = tmp_path / "similia"
    ignored = shutil.ignore_patterns("__pycache__", "datasets")
    shutil.copytree(package, copy, ignore=ignored)
    head = "from similia.linalg.compiled import compiled\n"
    called, caller = copy / "linalg" / "called.py", copy / "updates" / "caller.py"
    called.write_text(head + "@compiled\ndef scale(x):\n    return 2 * x\n")
    caller.write_text(
        head + "from similia.linalg.called import scale\n"
        "@compiled\ndef unit_step():\n    return scale(1)\n"
    )
    program = (
        "from similia.updates.caller import unit_step\n"
        "print(unit_step(), sum(unit_step.stats.cache_hits.values()))"
    )

    def result():
        environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
        environment.pop("NUMBA_CACHE_DIR", None)
        command = [sys.executable, "-c", program]
        return subprocess.check_output(command, env=environment, text=True)

    assert (result(), result()) == ("2 0\n", "2 1\n")
    called.write_text(called.read_text().replace("2 * x", "3 * x"))
    assert (result(), result()) == ("3 0\n", "3 1\n")


def test_a_module_depends_on_all_that_it_imports_and_on_nothing_else():
    package = Path(similia.__file__).parent
    files = {str(f.relative_to(package)) for f in imported_files(package / "updates" / "aroma.py")}
    assert {"updates/aroma.py", "linalg/downdates.py", "linalg/bound.py"} < files
    assert "updates/pola.py" not in files


def test_old_folders_are_swept_and_others_left_alone(tmp_path):
    for age in range(KEPT + 2):
        folder = tmp_path / f"linalg.blas.py-{age:016x}"
        folder.mkdir()
        (folder / "code.nbc").touch()
        os.utime(folder, (1e9 - age, 1e9 - age))
    others = {"linalg.blas.py-notes", f"updates.blas.py-{0:016x}"}
    for name in others:
        (tmp_path / name).mkdir()
    sweep(tmp_path / f"linalg.blas.py-{0:016x}")
    kept = {f"linalg.blas.py-{age:016x}" for age in range(KEPT)}
    assert {folder.name for folder in tmp_path.iterdir()} == kept | others


def test_a_users_own_numba_functions_are_cached_where_they_would_be_without_us(tmp_path):
    (tmp_path / "own.py").write_text(
        "import similia.linalg.bound\nfrom numba import njit\n"
        "@njit(cache=True)\ndef own(x):\n    return x\n"
    )
    program = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); from own import own; own(1)"
    environment = {**os.environ, "NUMBA_CACHE_DIR": ""}
    subprocess.run([sys.executable, "-c", program], env=environment, check=True)
    assert [path.name.split("-")[0] for path in (tmp_path / "__pycache__").glob("*.nbi")] == [
        "own.own"
    ]


def test_first_compilations_are_logged(run):
    program = (
        "import logging; logging.basicConfig(level='INFO')\n"
        "from similia.losses import LOSSES\nprint(LOSSES['squared'].value(3.0))"
    )
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(run.cache)}
    command = [sys.executable, "-c", program]
    first, second = (
        subprocess.run(command, env=environment, capture_output=True, text=True) for _ in range(2)
    )
    assert "INFO:similia:compiling _fill for the first time" in first.stderr
    assert (second.stdout, second.stderr) == ("1.0\n", "")


def test_many_processes_may_compile_the_same_at_the_same_time(run):
    with ThreadPoolExecutor(4) as pool:
        done = list(pool.map(run, ["double(21)", "double(21.0)", "double(21)", "double(21.0)"]))
    assert [one.stdout for one in done] == ["42\n", "42.0\n"] * 2
    assert run("double(21.0)").stdout == "42.0\n"
