"""Margin losses of arrays, by the number of the loss; see `similia.losses`."""

from cython cimport floating

LOGISTIC, HINGE, SQUARED = range(3)
VALUE, SLOPE, CURVATURE = range(3)


def fill_losses(int which, int code, const floating[::1] x, floating[::1] out):
    """Set `out` to values, slopes or curvatures."""
    cdef Py_ssize_t i
    with nogil:
        for i in range(x.shape[0]):
            if which == 0:
                out[i] = <floating>loss_value(code, x[i])
            elif which == 1:
                out[i] = <floating>loss_slope(code, x[i])
            else:
                out[i] = <floating>loss_curvature(code, x[i])
