"""The same on Ray, on this machine; slow to start, so only in `make clusters`."""

import os
import socket
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from similia.cli.main import app
from similia.distributed import engines, evaluate_parts, learning
from similia.distributed.engines import engine_named
from similia.distributed.folders import WorkFolder
from similia.distributed.tasks import run_all
from similia.files import read_vectors
from similia.trust import evaluate_file
from tests.distributed.hostile import (
    KillingTheConnection,
    KillingTheDriver,
    Unlucky,
    Writing,
)
from tests.distributed.test_learning import learnt

if "SIMILIA_TEST_CLUSTERS" not in os.environ:
    pytest.skip("`make clusters` runs it", allow_module_level=True)
ray = pytest.importorskip("ray")
pytestmark = pytest.mark.filterwarnings("ignore")


@contextmanager
def started(n_workers):
    ray.init(num_cpus=n_workers, include_dashboard=False, log_to_driver=False)
    try:
        yield "ray"
    finally:
        ray.shutdown()


@pytest.fixture
def running():
    with started(2) as engine:
        yield engine


def test_workers_that_die_hang_or_lack_memory_change_no_bit(problem, inline, running, monkeypatch):
    expected = learnt(problem, inline)
    monkeypatch.setattr(learning, "LearnShare", Unlucky)
    options = {"work": problem.folder / "work", "patience": 20.0}
    assert learnt(problem, running, "again", **options) == expected
    for fate in ("die", "hang", "take_all_memory"):
        assert (problem.folder / "work" / f"{fate}.happened").exists()


def test_an_evaluation_is_that_of_one_machine(problem, running):
    model = problem.learner().learn(problem.X, problem.triplets[:50])
    scorers = {"plain": "cosine", "own": model}
    expected = evaluate_file(scorers, read_vectors(problem.vectors), problem.feedback)
    work = problem.folder / "work"
    found = evaluate_parts(scorers, problem.vectors, problem.feedback, executor=running, work=work)
    for name, own in found.items():
        for measure, values in own.per_query.items():
            np.testing.assert_array_equal(values, expected[name].per_query[measure])


def test_a_killed_driver_goes_on_from_what_is_finished(problem, inline, running, monkeypatch):
    """The first driver has a cluster of its own, which dies with it."""
    expected = learnt(problem, inline)
    problem.let_a_driver_be_killed("ray")
    monkeypatch.setattr(learning, "LearnShare", KillingTheDriver)
    assert learnt(problem, running, "again", work=problem.folder / "work") == expected


def test_an_error_of_a_task_is_raised(tmp_path, running):
    with pytest.raises(ValueError, match="the task itself is wrong"):
        run_all([Writing("wrong", "fail")], WorkFolder(tmp_path), engine_named(running))


def test_a_cluster_of_one_worker_survives_its_hanging(tmp_path, patient):
    tasks = [Writing("task-0", "hang"), Writing("task-1", "die"), Writing("task-2", "memory")]
    with started(1) as engine:
        records = run_all(tasks, WorkFolder(tmp_path), engine_named(engine), patience=patient)
    assert [record["wrote"] for record in records] == [task.name for task in tasks]


# -- clients of a Ray elsewhere --------------------------------------------------------------------


@contextmanager
def a_head(**environment):
    """A head of Ray as an administrator starts it; its address for clients."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port = one.getsockname()[1]
    ray_command = str(Path(sys.executable).with_name("ray"))
    words = [ray_command, "start", "--head", "--block", "--port=0", "--num-cpus=2"]
    words += [f"--ray-client-server-port={port}", "--include-dashboard=false"]
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(sys.path),
        "RAY_AUTH_MODE": "disabled",  # whatever tokens this machine has
        **environment,
    }
    with tempfile.TemporaryDirectory(prefix="ray", ignore_cleanup_errors=True) as folder:
        words += ["--disable-usage-stats", f"--temp-dir={folder}"]
        head = subprocess.Popen(words, env=environment, stdout=subprocess.DEVNULL)
        try:
            yield f"ray://127.0.0.1:{port}"
        finally:
            head.terminate()  # it ends what it has started
            head.wait(300)  # which takes a while on a busy machine


@pytest.fixture(scope="module")
def head():
    with a_head() as address:
        yield address


def test_commands_run_through_a_client(problem, inline, head):
    expected, output = learnt(problem, inline), problem.output("again")
    given = (problem.vectors, problem.feedback)
    words = ["learn", *given, "--learner", "OASIS", "-o", output, "--shares", 4]
    found = CliRunner().invoke(app, [*map(str, words), "--executor", head])
    assert found.exit_code == 0, found.output
    assert output.read_bytes() == expected
    words = [str(word) for word in ("evaluate", output, *given, "--json")]
    alone, parted = (
        CliRunner().invoke(app, [*words, *more]) for more in ([], ["--executor", head])
    )
    assert (alone.exit_code, parted.stdout) == (0, alone.stdout)
    assert not ray.is_initialized()


def test_a_client_survives_workers_that_die_or_lack_memory(tmp_path, head, patient):
    tasks = [Writing("task-0", "hang"), Writing("task-1", "die"), Writing("task-2", "memory")]
    records = run_all(tasks, WorkFolder(tmp_path), engine_named(head), patience=patient)
    assert [record["wrote"] for record in records] == [task.name for task in tasks]


def test_a_lost_connection_is_opened_again(problem, inline, head, monkeypatch):
    """What serves the client is killed, and with it all that its tasks have begun."""
    expected = learnt(problem, inline)
    monkeypatch.setattr(learning, "LearnShare", KillingTheConnection)
    opened, connect = [], ray.init

    def noted(*args, **options):
        before = set(_servers())
        connect(*args, **options)
        opened.extend(set(_servers()) - before)
        (problem.folder / "server.pid").write_text(str(opened[-1]))

    monkeypatch.setattr(ray, "init", noted)
    assert learnt(problem, head, "again", work=problem.folder / "work") == expected
    assert (problem.folder / "work" / "cut.happened").exists()
    assert len(opened) == 2


def test_a_head_that_asks_for_a_token_gets_it_or_the_error_says_how(tmp_path, monkeypatch):
    token = {"RAY_AUTH_TOKEN": "0123456789abcdef" * 3}
    command = [sys.executable, "-m", "tests.distributed.ray_client"]
    with a_head(**token, RAY_AUTH_MODE="token") as address:
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        environment |= {"HOME": str(tmp_path)}  # without a token of its own
        environment.pop("RAY_AUTH_MODE", None)  # as set where this process found a token
        command += [address, str(tmp_path)]
        run = partial(subprocess.run, text=True, timeout=600, capture_output=True)
        found = run([*command, "4"], env=environment | token)
        assert found.stdout.endswith("task-0\n"), found.stderr
        (tmp_path / "task-0.json").unlink()
        found = run([*command, "1"], env=environment)
        assert found.returncode == 1
        assert "set RAY_AUTH_MODE=token" in found.stderr


def _servers():
    """Processes that serve one client each."""
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            words = (folder / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if b"--mode=specific-server" in words and b"python" in words[0]:
            yield int(folder.name)


def test_a_head_that_serves_nobody_is_named(tmp_path, monkeypatch):
    """As on a busy machine: the head gives up on the process that should serve the client."""
    monkeypatch.setattr(engines, "CALLS", 2)
    calls, address = [], "ray://127.0.0.1:10001"

    def giving_up(*arguments, **options):
        calls.append(arguments)
        raise ConnectionAbortedError(
            "Initialization failure from server:\nnobody serves this client"
        )

    monkeypatch.setattr(ray, "init", giving_up)
    named = f"a Ray that answers, got {address}: nobody serves this client"
    with pytest.raises(ConnectionError, match=named):
        run_all([Writing("task")], WorkFolder(tmp_path), engine_named(address))
    assert len(calls) == 2
