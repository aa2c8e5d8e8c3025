"""Several processes promote into one folder, and nothing is lost."""

import os
import subprocess
import sys
import threading
from contextlib import ExitStack

import numpy as np

from similia.trust import Promotion
from similia.trust.generations import LOCK_FILE, Generations

HOLDER = """
import sys, time
from similia.trust.generations import Generations
with Generations(sys.argv[1]).changing():
    print("held", flush=True)
    sys.stdin.readline()
"""

CHALLENGER = """
import sys
import numpy as np
from similia import OASIS
from similia.trust import Promotion

folder, n = sys.argv[1], int(sys.argv[2])
rng = np.random.default_rng(0)
X = rng.normal(size=(80, 6))
rows = rng.integers(80, size=(600, 3))
rows = rows[(rows[:, 1] != rows[:, 2])]
sign = np.array([1, 1, 1, -1, -1, -1])
swap = ((X[rows[:, 0]] * sign) * (X[rows[:, 1]] - X[rows[:, 2]])).sum(1) < 0
rows[swap] = rows[swap][:, [0, 2, 1]]
promotion = Promotion(folder, base="inner_product")
print("ready", flush=True)
sys.stdin.readline()
for some in range(1, n + 1):
    outcome = promotion.run(OASIS(), X, rows[: 150 * some])
    print(int(outcome.promoted), outcome.generation, flush=True)
"""


def started(program, *arguments):
    return subprocess.Popen(
        [sys.executable, "-c", program, *map(str, arguments)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
    )


def test_promotions_of_several_processes_follow_each_other(tmp_path):
    """Each knows an empty folder at first; every event goes on from the one before."""
    folder = tmp_path / "generations"
    told = []
    with ExitStack() as stack:
        processes = [stack.enter_context(started(CHALLENGER, folder, 3)) for _ in range(3)]
        for process in processes:
            stack.callback(process.kill)
            assert process.stdout.readline() == "ready\n"
        for process in processes:
            process.stdin.write("\n")
            process.stdin.flush()
        for process in processes:  # each may have to compile first, on a busy machine
            output, _ = process.communicate(timeout=600)
            assert process.returncode == 0
            told += [tuple(map(int, line.split())) for line in output.splitlines()]
    promotion = Promotion(folder)
    events = promotion.history
    assert len(events) == len(told) == 9
    current = 0
    for event in events:
        assert event["from"] == current
        current = event["to"]
    promoted = [event["to"] for event in events if event["event"] == "promotion"]
    assert promoted == list(range(1, len(promoted) + 1))
    assert sorted(number for was_promoted, number in told if was_promoted) == promoted
    assert promotion.current == current >= 1
    for number in promoted:
        assert promotion._generations.load(number).n_seen_ > 0
    kept = {path.name for path in folder.iterdir()}
    assert len(kept - {LOCK_FILE}) == len(promoted) + 1


def test_a_process_that_dies_leaves_no_lock(tmp_path):
    with started(HOLDER, tmp_path) as process:
        assert process.stdout.readline() == "held\n"
        process.kill()
        process.wait()
        assert (tmp_path / LOCK_FILE).exists()
        with Generations(tmp_path).changing():
            pass


def test_whoever_comes_second_waits(tmp_path):
    done = []

    def second():
        with Generations(tmp_path).changing():
            done.append("second")

    with started(HOLDER, tmp_path) as process:
        assert process.stdout.readline() == "held\n"
        waiting = threading.Thread(target=second)
        waiting.start()
        waiting.join(0.2)
        done.append("first")
        process.communicate("\n")
        waiting.join(60)
    assert done == ["first", "second"]


def test_threads_wait_for_each_other_too(tmp_path):
    inside, most = 0, 0

    def count():
        nonlocal inside, most
        for _ in range(50):
            with Generations(tmp_path).changing():
                inside += 1
                most = max(most, inside)
                inside -= 1

    threads = [threading.Thread(target=count) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == 1
    assert [path.name for path in tmp_path.iterdir()] == [LOCK_FILE]


def test_rollback_returns_from_what_is_in_use_now(rng, tmp_path):
    from similia import OASIS

    model = OASIS().learn(rng.normal(size=(5, 3)), [[0, 1, 2]])
    ours, theirs = Promotion(tmp_path), Promotion(tmp_path)
    for _ in range(2):
        with theirs._generations.changing():
            theirs._generations.promote(model, {})
    assert (ours.current, ours.rollback(), ours.current) == (0, 1, 1)
    assert np.array_equal(ours.champion().W_, model.W_)
