"""Libraries of vectors use the processors that are free: within a task among others, one."""

import numpy as np
import pytest

from similia.index.backends import BACKENDS, Space, backend_class
from similia.linalg import threads

GIVEN = {"faiss": {"factory": "IVF4,Flat"}, "usearch": {}, "hnswlib": {}}


class Spy:
    """A library's own index; notes the threads that each call with vectors may use."""

    def __init__(self, native, allowed):
        self.native, self.allowed, self.seen = native, allowed, []

    def __len__(self):
        return len(self.native)

    def __getattr__(self, name):
        found = getattr(self.native, name)
        if name not in ("add", "add_items", "search", "knn_query", "reconstruct_n"):
            return found

        def called(*args, **options):
            self.seen.append(self.allowed(*args, **options))
            return found(*args, **options)

        return called


def allowed_by(backend):
    """Number of threads of a call, by its arguments or by the state of the library."""
    if backend == "usearch":
        return lambda *args, threads: threads
    if backend == "hnswlib":
        return lambda *args: args[2]
    faiss = pytest.importorskip("faiss")
    return lambda *args: faiss.omp_get_max_threads()


@pytest.fixture
def three_processors(monkeypatch):
    monkeypatch.setattr(threads, "processors", lambda: 3)
    try:
        import faiss
    except ImportError:
        yield
        return
    before = faiss.omp_get_max_threads()
    faiss.omp_set_num_threads(3)
    yield
    assert faiss.omp_get_max_threads() == 3
    faiss.omp_set_num_threads(before)


@pytest.mark.parametrize("backend", [name for name in BACKENDS if name != "exact"])
def test_a_task_among_others_uses_one_thread_of_a_library(backend, three_processors, rng):
    pytest.importorskip(backend)
    X = rng.normal(size=(200, 4)).astype(np.float32)
    space = Space(4, "inner_product", X.dtype)
    index = backend_class("test", backend)(space, **GIVEN[backend])
    index.add(X)
    spy = index.native = Spy(index.native, allowed_by(backend))
    index.search(X, 3)
    with threads.one_processor():
        index.add(X)
        index.search(X, 3)
        index.vectors()
    assert spy.seen[0] == 3
    assert set(spy.seen[1:]) == {1}
    assert len(spy.seen) >= 3
