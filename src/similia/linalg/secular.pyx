"""Eigenvalues and eigenvectors of diag(d) + ρuuᵀ: the secular equation 1 + ρ Σ uᵢ²/(dᵢ - λ) = 0.

After deflation d is strictly increasing, no uᵢ is zero and ρ > 0: there is one root right of each
dᵢ, the last at most d_k + ρ|u|². LAPACK's root finder [Li1993] finds each with all differences
dᵢ - λⱼ, accurate even where they are tiny; eigenvectors follow from these [Gu1994].

References
----------
.. [Gu1994] M. Gu, S. Eisenstat, "A Stable and Efficient Algorithm for the Rank-One Modification of
   the Symmetric Eigenproblem", SIAM J. Matrix Anal. Appl. 15, 1994.
.. [Li1993] R.-C. Li, "Solving Secular Equations Stably and Efficiently", LAPACK Working Note 89.
"""

from libc.math cimport copysign, fabs, hypot, sqrt
from libc.stdlib cimport free, malloc
from scipy.linalg.cython_lapack cimport dlaed4

cdef enum:
    HALVINGS = 1200  # after which an interval cannot shrink any more, whatever its scale

#: a change below this multiple of the matrix's norm is rounding; LAPACK's choice in dlaed2
cdef double ROUNDING = 8.0 * 2.0**-52
cdef double TINY = 2.0**-1022  # numbers without a reciprocal count as zero


def deflate(
    double[::1] values,
    double[:, ::1] rows,
    const double[::1] z,
    double rho,
    Py_ssize_t[::1] places,
    double[::1] poles,
    double[::1] weights,
):
    """Select the eigenpairs that ρzzᵀ changes; return their number k, a scale and a strength.

    `z` are the components in the eigenvectors `rows`. The first k `places` are set to the pairs
    that change, `poles` to their eigenvalues over the scale, which has the sign of ρ (increasing,
    well apart, at most 1), `weights` to their components, scaled to length one. The strength
    takes the place of |ρ|.

    A pair stays if its component is zero up to rounding. Where two eigenvalues agree, a plane
    rotation of their vectors leaves one of them without a component, so `values` and `rows` change
    here already. `rows` may be empty if only eigenvalues are wanted.
    """
    cdef double scale = 1.0, strength = 0.0
    cdef double* first = &rows[0, 0] if rows.shape[0] and rows.shape[1] else NULL
    cdef Py_ssize_t n = values.shape[0], k = 0
    if n:
        k = deflated(
            &values[0], n, first, rows.shape[1], &z[0], rho, places, poles, weights, &scale,
            &strength,
        )
    return k, scale, strength


cdef Py_ssize_t deflated(
    double* values,
    Py_ssize_t n,
    double* rows,
    Py_ssize_t m,
    const double* z,
    double rho,
    Py_ssize_t[::1] places,
    double[::1] poles,
    double[::1] weights,
    double* scale,
    double* strength,
) noexcept nogil:
    """`deflate`, with rows of length m or NULL; sets scale and strength."""
    cdef Py_ssize_t i, j, k = 0
    cdef double largest = 0.0, norm = 0.0, square = 0.0, length, sign, negligible
    cdef double pole, weight, both, c, s, previous, change
    scale[0], strength[0] = 1.0, 0.0
    for i in range(n):
        largest = max(largest, fabs(z[i]))
        norm = max(norm, fabs(values[i]))
    if largest < TINY:
        return 0
    for i in range(n):
        square += (z[i] / largest) * (z[i] / largest)
    length = largest * sqrt(square)
    change = fabs(rho) * length * length
    norm = max(norm, change)
    if change <= ROUNDING * norm or norm < TINY:
        return 0
    negligible = ROUNDING * norm
    sign = 1.0 if rho > 0.0 else -1.0
    cdef Py_ssize_t* order = <Py_ssize_t*>malloc(n * sizeof(Py_ssize_t))
    _ascending(values, n, order)
    for j in range(n):
        i = order[j if rho > 0.0 else n - 1 - j]
        pole, weight = sign * values[i], z[i] / length
        if change * fabs(weight) <= negligible:
            continue
        if k > 0:
            # Turn the previous one out of the term, if that leaves no more than rounding behind.
            both = hypot(weight, weights[k - 1])
            c, s, previous = weight / both, weights[k - 1] / both, poles[k - 1]
            if fabs((pole - previous) * c * s) <= negligible:
                k -= 1
                values[places[k]] = sign * (previous * c * c + pole * s * s)
                pole = previous * s * s + pole * c * c
                weight = both
                if rows != NULL:
                    _rotate(rows + places[k] * m, rows + i * m, m, c, s)
        places[k], poles[k], weights[k] = i, pole, weight
        k += 1
    free(order)
    for j in range(k):
        poles[j] /= norm
    scale[0], strength[0] = sign * norm, change / norm
    return k


cdef void _ascending(const double* values, Py_ssize_t n, Py_ssize_t* order) noexcept nogil:
    """Places of the values in ascending order; fast if nearly sorted, as usual."""
    cdef Py_ssize_t j, i, place
    cdef bint falling = values[0] > values[n - 1]
    for j in range(n):
        i = n - 1 - j if falling else j
        place = j
        while place > 0 and values[order[place - 1]] > values[i]:
            order[place] = order[place - 1]
            place -= 1
        order[place] = i


cdef void _rotate(double* p, double* q, Py_ssize_t m, double c, double s) noexcept nogil:
    """Replace the pair (p, q) of rows by (cp - sq, sp + cq)."""
    cdef Py_ssize_t i
    cdef double x
    for i in range(m):
        x = p[i]
        p[i], q[i] = c * x - s * q[i], s * x + c * q[i]


def secular_roots(
    Py_ssize_t start,
    Py_ssize_t stop,
    const double[::1] d,
    const double[::1] u,
    double rho,
    double[::1] roots,
    double[:, ::1] gaps,
):
    """Set roots start … stop-1, and gaps[j, i] to dᵢ - λⱼ.

    With at most two poles LAPACK returns eigenvectors instead, as after `secular_vectors`.
    """
    if stop > start:
        with nogil:
            set_roots(start, stop, d.shape[0], &d[0], &u[0], rho, &roots[0], &gaps[0, 0])


cdef void set_roots(
    Py_ssize_t start,
    Py_ssize_t stop,
    Py_ssize_t k,
    const double* d,
    const double* u,
    double rho,
    double* roots,
    double* gaps,
) noexcept nogil:
    cdef int size = <int>k, place, info = 0
    cdef Py_ssize_t j
    for j in range(start, stop):
        place = <int>(j + 1)
        dlaed4(&size, &place, <double*>d, <double*>u, gaps + j * k, &rho, &roots[j], &info)
        if info != 0:
            roots[j] = _bisected(d, u, k, rho, j, gaps + j * k)


def bisected_root(
    const double[::1] d, const double[::1] u, double rho, Py_ssize_t j, double[::1] gap
):
    """Root j, by halving its distance to the nearer pole, and gap = d - λ: slow but sure."""
    return _bisected(&d[0], &u[0], d.shape[0], rho, j, &gap[0])


cdef double _bisected(
    const double* d, const double* u, Py_ssize_t k, double rho, Py_ssize_t j, double* gap
) noexcept nogil:
    cdef double width = d[j + 1] - d[j] if j + 1 < k else 0.0
    cdef double origin = d[j], low = 0.0, high, middle, offset
    cdef Py_ssize_t i
    if j + 1 == k:
        for i in range(k):
            width += rho * u[i] * u[i]
    high = width
    # In memory: in one expression, the compiler would be free to add origin and offset first, which
    # loses the offset.
    for i in range(k):
        gap[i] = d[i] - origin
    if j + 1 < k and _secular(gap, u, k, rho, 0.5 * width) < 0.0:
        origin, low, high = d[j + 1], -width, 0.0
        for i in range(k):
            gap[i] = d[i] - origin
    for _ in range(HALVINGS):
        middle = 0.5 * (low + high)
        if middle == low or middle == high:
            break
        if _secular(gap, u, k, rho, middle) < 0.0:
            low = middle
        else:
            high = middle
    offset = low if high == 0.0 else high
    for i in range(k):
        gap[i] -= offset
    return origin + offset


cdef double _secular(
    const double* shifted, const double* u, Py_ssize_t k, double rho, double offset
) noexcept nogil:
    cdef double total = 1.0
    cdef Py_ssize_t i
    for i in range(k):
        total += rho * u[i] * u[i] / (shifted[i] - offset)
    return total


def exact_weights(
    Py_ssize_t start,
    Py_ssize_t stop,
    const double[::1] d,
    const double[::1] u,
    const double[:, ::1] gaps,
    double[::1] weights,
):
    """Set entries start … stop-1 of the û for which the computed roots are *exact* eigenvalues.

    ûᵢ² ∝ Π_j (λⱼ - dᵢ) / Π_{j≠i} (dⱼ - dᵢ)                           [Gu1994, Löwner's formula]

    Eigenvectors for û are orthogonal to rounding, however close the roots; those for u are not.
    """
    if stop > start:
        with nogil:
            set_weights(start, stop, d.shape[0], &d[0], &u[0], &gaps[0, 0], &weights[0])


cdef void set_weights(
    Py_ssize_t start,
    Py_ssize_t stop,
    Py_ssize_t k,
    const double* d,
    const double* u,
    const double* gaps,
    double* weights,
) noexcept nogil:
    cdef Py_ssize_t i, j
    cdef const double* gap
    cdef double pole
    for i in range(start, stop):
        weights[i] = 1.0
    for j in range(k):
        gap, pole = gaps + j * k, d[j]
        for i in range(start, min(j, stop)):
            weights[i] *= gap[i] / (d[i] - pole)
        if start <= j and j < stop:
            weights[j] *= gap[j]
        for i in range(max(j + 1, start), stop):
            weights[i] *= gap[i] / (d[i] - pole)
    for i in range(start, stop):
        weights[i] = copysign(sqrt(fabs(weights[i])), u[i])


def secular_vectors(
    Py_ssize_t start, Py_ssize_t stop, const double[::1] weights, double[:, ::1] gaps
):
    """Turn rows start … stop-1 of the differences into eigenvectors ∝ ûᵢ / (dᵢ - λⱼ)."""
    if stop > start:
        with nogil:
            set_vectors(start, stop, weights.shape[0], &weights[0], &gaps[0, 0])


cdef void set_vectors(
    Py_ssize_t start, Py_ssize_t stop, Py_ssize_t k, const double* weights, double* gaps
) noexcept nogil:
    cdef Py_ssize_t i, j
    cdef double* row
    cdef double square, scale
    for j in range(start, stop):
        row = gaps + j * k
        square = 0.0
        for i in range(k):
            row[i] = weights[i] / row[i]
            square += row[i] * row[i]
        scale = 1.0 / sqrt(square)
        for i in range(k):
            row[i] *= scale
