from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

from threadpoolctl import threadpool_info

from similia.linalg.threads import LARGE, threads_for


def blas_threads():
    return sorted(pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas")


def test_small_matrices_use_one_thread_and_large_ones_are_left_alone():
    before = blas_threads()
    with threads_for(10):
        assert set(blas_threads()) == {1}
    with threads_for(LARGE):
        assert blas_threads() == before
    assert blas_threads() == before


def test_overlapping_users_leave_the_number_as_it_was():
    before, together = blas_threads(), Barrier(4)

    def use(_):
        together.wait(timeout=30)
        with threads_for(10):
            together.wait(timeout=30)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(use, range(4)))
    assert blas_threads() == before
