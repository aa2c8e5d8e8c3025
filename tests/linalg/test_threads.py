import importlib
import os
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier, get_ident

import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from similia.linalg import threads
from similia.linalg.threads import side_by_side, single_blas_thread


@pytest.fixture
def three_processors(monkeypatch):
    """As many helping threads as three processors would have, whatever this machine has."""
    monkeypatch.setattr(threads, "processors", lambda: 3)
    threads._pool.cache_clear()
    yield
    threads._pool.cache_clear()


@pytest.fixture(autouse=True)
def blas_of_two_threads():
    """Tests run beside each other with one; these are about more."""
    with threadpool_limits(2, user_api="blas"):
        yield


def blas_threads():
    """Threads of the libraries that our products run in; faiss brings one of its own."""
    ours = [pool for pool in threadpool_info() if pool["user_api"] == "blas"]
    return sorted(pool["num_threads"] for pool in ours if "faiss" not in pool["filepath"])


def test_the_blas_has_one_thread_within_and_its_own_number_after():
    importlib.import_module("scipy.linalg")  # which brings a BLAS of its own
    before = blas_threads()
    with single_blas_thread():
        assert set(blas_threads()) == {1}
    assert blas_threads() == before


def test_any_thread_may_hold_the_blas_to_one():
    def used():
        with single_blas_thread():
            return blas_threads()

    before = blas_threads()
    assert set(used()) == {1}
    with ThreadPoolExecutor(1) as pool:  # threadpoolctl would go on obeying the first thread
        assert set(pool.submit(used).result()) == {1}
    assert blas_threads() == before


def test_overlapping_users_leave_the_number_as_it_was():
    before, together = blas_threads(), Barrier(4)

    def use(_):
        together.wait(timeout=30)
        with single_blas_thread():
            together.wait(timeout=30)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(use, range(4)))
    assert blas_threads() == before


@pytest.mark.parametrize("n", [0, 1, 2, 50])
def test_every_task_is_done_once(three_processors, n):
    done = []
    side_by_side([lambda i=i: done.append(i) for i in range(n)])
    assert sorted(done) == list(range(n))


def test_tasks_run_side_by_side(three_processors):
    together = Barrier(3)
    side_by_side([lambda: together.wait(timeout=30)] * 3)


def test_a_process_among_others_does_its_tasks_one_after_another(three_processors):
    seen = []
    with threads.one_processor():
        threads.side_by_side([lambda: seen.append(get_ident())] * 9)
    assert seen == [get_ident()] * 9


def test_an_error_in_any_task_is_raised_after_all_have_ended(three_processors):
    done = []

    def fail():
        raise ZeroDivisionError("once")

    with pytest.raises(ZeroDivisionError, match="once"):
        side_by_side([fail, *[lambda i=i: done.append(i) for i in range(20)]])
    assert len(done) == 20


def test_many_callers_at_once_get_their_own_results(three_processors):
    def call(i):
        out = []
        side_by_side([lambda j=j: out.append((i, j)) for j in range(20)])
        return sorted(out) == [(i, j) for j in range(20)]

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(call, range(50)))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_process_has_helpers_of_its_own(three_processors):
    side_by_side([int] * 4)
    child = os.fork()
    if child == 0:
        names = []
        together = Barrier(2)

        def note():
            together.wait(timeout=30)
            names.append(threading.current_thread().name)

        side_by_side([note, note])
        os._exit(0 if any(name.startswith("similia") for name in names) else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_process_forked_while_another_thread_takes_the_blas_does_not_wait_for_ever():
    done = threading.Event()

    def use():
        while not done.is_set():
            with single_blas_thread():
                pass

    user = threading.Thread(target=use)
    user.start()
    try:
        for _ in range(50):
            child = os.fork()
            if child == 0:
                signal.alarm(30)
                with single_blas_thread():
                    side_by_side([int] * 4)
                os._exit(0)
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    finally:
        done.set()
        user.join()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_task_may_fork_and_share_out_tasks_in_both_processes(three_processors):
    children = []

    def fork():
        children.append(os.fork())
        if children[0] == 0:
            signal.alarm(30)
        side_by_side([int] * 4)

    side_by_side([fork])
    side_by_side([int] * 4)
    if children[0] == 0:
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(children[0], 0)[1]) == 0


FORKS = """
import os, threading
import numpy as np
from similia.linalg.blas import products

done, A, B = threading.Event(), *np.random.default_rng(0).random((2, 600, 600))

def multiply():
    while not done.is_set():
        products((A, B))

threads = [threading.Thread(target=multiply) for _ in range(2)]
for thread in threads:
    thread.start()
for _ in range(60):
    child = os.fork()
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)
done.set()
for thread in threads:
    thread.join()
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_fork_amid_products_of_other_threads_returns():
    subprocess.run([sys.executable, "-W", "ignore", "-c", FORKS], check=True, timeout=300)


def test_products_leave_the_number_of_threads_as_it_was():
    before, within = blas_threads(), []
    side_by_side([lambda: within.extend(blas_threads())])
    assert set(within) == {1}
    assert blas_threads() == before
