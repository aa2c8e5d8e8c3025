import numpy as np

from similia.linalg.prefetch import prefetch_row


def test_asking_for_a_row_changes_nothing():
    for dtype in ("float32", "float64"):
        A = np.arange(12, dtype=dtype).reshape(3, 4)
        before = A.copy()
        for i in range(3):
            prefetch_row(A, i)
        np.testing.assert_array_equal(A, before)
