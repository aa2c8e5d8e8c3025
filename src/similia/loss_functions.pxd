"""Margin losses of a number, for compiled loops; see `similia.losses`."""

from cython cimport floating
from libc.math cimport copysign, exp, fabs, log, log1p

cdef enum:
    LOGISTIC_LOSS = 0
    HINGE_LOSS = 1


cdef inline double loss_value(int code, double x) noexcept nogil:
    """F(x): logistic ln(1 + e⁻ˣ); calibrated hinge max(0, -x) - ln(2 + |x|); squared ¼(1 - x)²."""
    if code == LOGISTIC_LOSS:
        return max(-x, 0.0) + log1p(exp(-fabs(x)))
    if code == HINGE_LOSS:
        return max(-x, 0.0) - log(2.0 + fabs(x))
    return 0.25 * (1.0 - x) * (1.0 - x)


cdef inline double loss_slope(int code, double x) noexcept nogil:
    """F'(x), never positive for the first two; 0, as it should be, if the exponential overflows."""
    if code == LOGISTIC_LOSS:
        return -1.0 / (1.0 + exp(x))  # a mispredicted branch on x would cost as much as exp
    if code == HINGE_LOSS:
        return copysign(0.5 - 1.0 / (2.0 + fabs(x)), x) - 0.5
    return 0.5 * (x - 1.0)


cdef inline double loss_curvature(int code, double x) noexcept nogil:
    """F''(x), at most F''(0)."""
    cdef double e
    if code == LOGISTIC_LOSS:
        e = exp(-fabs(x))
        return min(e / ((1.0 + e) * (1.0 + e)), 0.25)  # rounding would lift it above the bound
    if code == HINGE_LOSS:
        return 1.0 / ((2.0 + fabs(x)) * (2.0 + fabs(x)))
    return 0.5
