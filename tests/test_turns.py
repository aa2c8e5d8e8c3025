"""A learner beside threads: whoever learns, saves, copies or reads it takes turns."""

import copy
import os
import pickle
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

from similia import OASIS, Blend, FactoredAROMA, load, save
from similia.persistence import saving
from similia.safety.turns import Turns

N, WIDTH = 60, 40
COPIES = {
    "save": lambda learner, path: (save(learner, path), load(path))[1],
    "pickle": lambda learner, _: pickle.loads(pickle.dumps(learner)),
    "deepcopy": lambda learner, _: copy.deepcopy(learner),
}
LEARNERS = {
    "OASIS": lambda: OASIS(C=0.1),
    "FactoredAROMA": FactoredAROMA,
    "Blend": Blend,
}


@pytest.fixture(scope="module")
def problem():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N, WIDTH))
    return X, np.array([rng.choice(N, 3, replace=False) for _ in range(2000)])


def same(a, b):
    a, b = a.get_state(), b.get_state()
    assert set(a) == set(b)
    for name, value in a.items():
        np.testing.assert_array_equal(value, b[name], err_msg=name)


@pytest.mark.parametrize("how", COPIES)
@pytest.mark.parametrize("kind", LEARNERS)
def test_a_copy_beside_a_learning_thread_is_the_state_before_or_after(kind, how, problem, tmp_path):
    X, triplets = problem
    pieces = np.array_split(triplets, 50)
    learner, twin = LEARNERS[kind](), LEARNERS[kind]()
    learner.learn(X, pieces[0])
    copies, learning = [], threading.Event()

    def teach():
        learning.set()
        for piece in pieces[1:]:
            learner.learn(X, piece)

    thread = threading.Thread(target=teach)
    thread.start()
    learning.wait()
    for _ in range(8):
        copies.append(COPIES[how](learner, tmp_path / "model.safetensors"))
    thread.join()
    for piece in pieces:
        twin.learn(X, piece)
        for one in copies:
            if one.n_seen_ == twin.n_seen_:
                same(one, twin)
    ends = np.cumsum([len(piece) for piece in pieces])
    assert {one.n_seen_ for one in copies} <= set(ends.tolist())
    same(learner, twin)


@pytest.mark.parametrize("kind", LEARNERS)
def test_threads_that_learn_take_turns(kind, problem):
    X, triplets = problem
    learner = LEARNERS[kind]()
    errors = []

    def teach(part):
        try:
            for piece in np.array_split(part, 20):
                learner.learn(X, piece)
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=teach, args=[part]) for part in np.array_split(triplets, 4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert learner.n_seen_ == len(triplets)


def test_a_copy_shares_nothing_and_learns_on_alike(problem):
    X, triplets = problem
    for make in LEARNERS.values():
        learner = make().learn(X, triplets[:500])
        for copied in (copy.deepcopy(learner), pickle.loads(pickle.dumps(learner))):
            before = copy.deepcopy(learner)
            copied.learn(X, triplets[500:600])
            same(learner, before)
            same(copied, before.learn(X, triplets[500:600]))


# -- turns ---------------------------------------------------------------------------------------


def run(*tasks):
    """Run tasks in threads until all have ended."""
    threads = [threading.Thread(target=task) for task in tasks]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not any(thread.is_alive() for thread in threads)


def held(turn):
    """A thread that holds a turn, and the event that ends it."""
    there, go = threading.Event(), threading.Event()

    def hold():
        with turn():
            there.set()
            assert go.wait(60)

    thread = threading.Thread(target=hold)
    thread.start()
    assert there.wait(60)
    return thread, go


def until(happened):
    for _ in range(6000):
        if happened():
            return
        time.sleep(0.01)
    raise AssertionError("did not happen")


def test_readers_read_at_the_same_time():
    turns, together = Turns(), threading.Barrier(3, timeout=60)

    def read():
        with turns.reading():
            together.wait()

    run(read, read, read)


def test_a_reader_may_read_again_while_somebody_waits_to_change():
    turns, changed = Turns(), []

    def change():
        with turns.changing():
            changed.append(True)

    with turns.reading():
        thread = threading.Thread(target=change)
        thread.start()
        until(lambda: turns._writer is not None)
        with turns.reading():
            assert not changed
    thread.join(60)
    assert changed


def test_whoever_changes_may_read_and_change():
    turns = Turns()
    with turns.changing(), turns.reading(), turns.changing():
        pass
    run(lambda: held(turns.changing)[1].set())


def test_readers_that_change_take_turns():
    turns, together, state = Turns(), threading.Barrier(2, timeout=60), [0]

    def both():
        with turns.reading():
            together.wait()
            for _ in range(100):
                with turns.changing():
                    before = state[0]
                    time.sleep(0)
                    state[0] = before + 1

    run(both, both)
    assert state == [200]


def test_nobody_waits_for_ever():
    turns, counts = Turns(), {"read": 0, "changed": 0}

    def read():
        while counts["changed"] < 20:
            with turns.reading():
                counts["read"] += 1
                time.sleep(0.001)

    def change():
        while counts["changed"] < 20 or counts["read"] < 20:
            with turns.changing():
                counts["changed"] += 1
                time.sleep(0.001)

    run(change, read, read, read)
    assert min(counts.values()) >= 20


@pytest.mark.parametrize(("holds", "waits"), [("reading", "changing"), ("changing", "reading")])
def test_whoever_is_interrupted_while_waiting_leaves_nothing_behind(holds, waits):
    turns = Turns()
    thread, go = held(getattr(turns, holds))
    wait = turns._wait_until

    def interrupted(happened):
        raise KeyboardInterrupt

    turns._wait_until = interrupted
    with pytest.raises(KeyboardInterrupt), getattr(turns, waits)():
        pass
    turns._wait_until = wait
    go.set()
    thread.join(60)
    for turn in (turns.reading, turns.changing):
        other, end = held(turn)
        end.set()
        other.join(60)
    assert (turns._reading, turns._waiting, turns._writer) == (set(), set(), None)


FORKED = """
import os, sys, threading
import numpy as np
from similia import OASIS
from similia.safety.turns import turns_of
learner, X = OASIS(), np.eye(3)
learner.learn(X, [[0, 1, 2]])
held, done = threading.Event(), threading.Event()
def hold():
    with turns_of(learner).changing():
        held.set()
        done.wait()
thread = threading.Thread(target=hold)
thread.start()
held.wait()
child = os.fork()
if not child:
    learner.learn(X, [[0, 1, 2]])
    os._exit(learner.n_seen_)
code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
done.set()
thread.join()
sys.exit(code != 2)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_process_does_not_wait_for_threads_that_it_does_not_have():
    subprocess.run([sys.executable, "-W", "ignore", "-c", FORKED], check=True, timeout=300)


@pytest.mark.parametrize("what", ["a tensor", "the document"])
def test_a_file_is_only_replaced_by_one_that_was_read_back(what, problem, tmp_path, monkeypatch):
    path = tmp_path / "model.safetensors"
    save(OASIS().learn(problem[0], problem[1][:10]), path)
    before = path.read_bytes()
    write = saving.save_file

    def damaged(tensors, target, metadata):
        if what == "a tensor":
            tensors = {name: tensor + tensor.dtype.type(1) for name, tensor in tensors.items()}
        else:
            metadata = {name: f"{text} " for name, text in metadata.items()}
        write(tensors, target, metadata)

    monkeypatch.setattr(saving, "save_file", damaged)
    with pytest.raises(OSError, match="read back"):
        save(OASIS().learn(problem[0], problem[1][:20]), path)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]
