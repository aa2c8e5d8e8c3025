"""Which part of an eigendecomposition a rank-one term changes at all.

Where the term has no component, or only one that rounding would swallow, the eigenpair stays. Where
eigenvalues agree, a plane rotation of their vectors leaves one of the two without a component.
"""

import numpy as np

from similia.linalg.compiled import compiled

#: a change below this multiple of the matrix's norm is rounding; LAPACK's choice in dlaed2
ROUNDING = 8.0 * np.finfo(np.float64).eps
#: what has no reciprocal counts as zero
TINY = np.finfo(np.float64).tiny


@compiled
def deflate(values, rows, z, rho, places, poles, weights):
    """Leave those eigenpairs alone that ρzzᵀ does not change; give the number k of the others.

    `values` and `rows` are eigenvalues, in any order, and eigenvectors, `z` the components of the
    term in them. Places that take part are put into `places`, their eigenvalues into `poles` and
    their components into `weights`: such that poles are increasing, well apart, at most 1, and
    weights of length one. Returned with k are the scale of the poles (negative where ρ is: the
    matrix is then treated with its sign turned) and the ρ > 0 that belongs to poles and weights.

    Pairs with equal eigenvalues are rotated, so `values` and `rows` change here already; `rows` may
    be empty where only eigenvalues are wanted.
    """
    n = len(values)
    largest, norm = 0.0, 0.0
    for i in range(n):
        largest = max(largest, abs(z[i]))
        norm = max(norm, abs(values[i]))
    if largest < TINY:
        return 0, 1.0, 0.0
    square = 0.0
    for i in range(n):
        square += (z[i] / largest) * (z[i] / largest)
    length = largest * np.sqrt(square)
    strength = abs(rho) * length * length
    norm = max(norm, strength)
    if strength <= ROUNDING * norm or norm < TINY:
        return 0, 1.0, 0.0
    negligible = ROUNDING * norm
    sign = 1.0 if rho > 0.0 else -1.0
    k = 0
    order = _ascending(values)
    for j in range(n):
        i = order[j if rho > 0.0 else n - 1 - j]
        pole, weight = sign * values[i], z[i] / length
        if strength * abs(weight) <= negligible:
            continue
        if k > 0:
            # Turn the previous one out of the term, if that leaves no more than rounding behind.
            both = np.hypot(weight, weights[k - 1])
            c, s, previous = weight / both, weights[k - 1] / both, poles[k - 1]
            if abs((pole - previous) * c * s) <= negligible:
                k -= 1
                values[places[k]] = sign * (previous * c * c + pole * s * s)
                pole = previous * s * s + pole * c * c
                weight = both
                if rows.size:
                    _rotate(rows[places[k]], rows[i], c, s)
        places[k], poles[k], weights[k] = i, pole, weight
        k += 1
    for j in range(k):
        poles[j] /= norm
    return k, sign * norm, strength / norm


@compiled
def _ascending(values):
    """Give the places of the values in ascending order; fast where they nearly have one already.

    That is the rule here, up or down: a change by a rank-one term moves no value beyond the next.
    """
    n = len(values)
    order, falling = np.empty(n, np.intp), values[0] > values[n - 1]
    for j in range(n):
        i = n - 1 - j if falling else j
        place = j
        while place > 0 and values[order[place - 1]] > values[i]:
            order[place] = order[place - 1]
            place -= 1
        order[place] = i
    return order


@compiled
def _rotate(p, q, c, s):
    """Replace the pair (p, q) of rows by (cp - sq, sp + cq)."""
    for i in range(len(p)):
        p[i], q[i] = c * p[i] - s * q[i], s * p[i] + c * q[i]
