"""Sums over pairs of eigenvalues; see `linalg.gibbs`."""

from libc.math cimport exp, expm1, fabs, log
from libc.stdlib cimport free, malloc
from similia.linalg.eigen_update cimport Work
from similia.linalg.secular cimport deflated, set_roots

cdef double APART = 0.5  # gap of logarithms above which the difference of exponentials is accurate


def divided_difference(double g, double w, double h, double v):
    """(w - v)/(g - h) for w = exp(g), v = exp(h), also where they agree."""
    return _divided(g, w, h, v)


cdef inline double _divided(double g, double w, double h, double v) noexcept nogil:
    cdef double gap = fabs(g - h), larger
    if gap > APART:
        return (w - v) / (g - h)
    larger = max(w, v)
    return larger if gap == 0.0 else larger * (-expm1(-gap) / gap)


def weighted_sum(const double[::1] values, const double[::1] w, const double[:, ::1] squares):
    """Σ_ab Φ_ab squares_ab."""
    cdef Py_ssize_t a, b
    cdef double total = 0.0
    with nogil:
        for a in range(values.shape[0]):
            total += w[a] * squares[a, a]
            for b in range(a):
                total += 2.0 * _divided(values[a], w[a], values[b], w[b]) * squares[a, b]
    return total


def rank_one_gibbs_line(const double[::1] values, const double[::1] z, double rho, work):
    """Value, slope and curvature of log tr exp(diag(values) + tzzᵀ) at t = ρ, in O(n²).

    Components of z that are tiny beside ρ count as zero: ρ must change the values visibly, or be 0.
    """
    cdef double[3] line
    cdef Work memory = Work(work)
    with nogil:
        set_gibbs_line(values, z, rho, memory, line)
    return line[0], line[1], line[2]


cdef void set_gibbs_line(
    const double[::1] values, const double[::1] z, double rho, Work work, double* line
) noexcept nogil:
    """Set `line` to value, slope and curvature."""
    cdef Py_ssize_t n = values.shape[0], i, j, k, a, b
    cdef double length2 = 0.0, scale = 1.0, strength = 0.0, total, top, slope, curvature, phi
    cdef double* g = <double*>malloc(3 * n * sizeof(double))
    # In the eigenvectors after the change, zzᵀ has entries whose squares are parts_a parts_b.
    cdef double* parts = g + n
    cdef double* w = g + 2 * n
    cdef double* turn = &work.turn[0]
    for i in range(n):
        g[i], parts[i] = values[i], 0.0
        length2 += z[i] * z[i]
    k = deflated(
        g, n, NULL, 0, &z[0], rho, work.places, work.poles, work.weights, &scale, &strength
    )
    if k == 0:
        for i in range(n):
            parts[i] = z[i] * z[i]
    else:
        set_roots(0, k, k, &work.poles[0], &work.weights[0], strength, &work.roots[0], turn)
    for j in range(k):
        total = 0.0
        for i in range(k):
            # With at most two poles `turn` holds eigenvectors, else differences of pole and root.
            if k <= 2:
                total += work.weights[i] * turn[j * k + i]
            else:
                total += (work.weights[i] / turn[j * k + i]) * (work.weights[i] / turn[j * k + i])
        g[work.places[j]] = scale * work.roots[j]
        parts[work.places[j]] = length2 * (
            total * total if k <= 2 else 1.0 / (strength * strength * total)
        )
    top = g[0]
    for i in range(n):
        top = max(top, g[i])
    total = 0.0
    for i in range(n):
        w[i] = exp(g[i] - top)
        total += w[i]
    slope = curvature = 0.0
    for a in range(n):
        w[a] /= total
        if parts[a] == 0.0:
            continue
        slope += w[a] * parts[a]
        curvature += w[a] * parts[a] * parts[a]
        for b in range(a):
            if parts[b] > 0.0:
                phi = _divided(g[a], w[a], g[b], w[b])
                curvature += 2.0 * phi * parts[a] * parts[b]
    line[0], line[1], line[2] = top + log(total), slope, curvature - slope * slope
    free(g)
