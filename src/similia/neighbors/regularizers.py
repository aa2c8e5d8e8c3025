"""What keeps two maps small: functions of (U, V) with their gradients.

Each gives its value and the gradients by U and by V. With W the matrix of the distance as a form in
(x, z), ‖W‖² = ‖UᵀU‖² + 2‖UᵀV‖² + ‖VᵀV‖², so that the gradients are 4(UUᵀ + VVᵀ)U and 4(UUᵀ + VVᵀ)V;
equations (11) and (12) of the notes are neither those of ‖W‖ nor of its square.
"""

import numpy as np

from similia.contract import Array
from similia.linalg.blas import products

Penalty = tuple[float, Array, Array]


def joint(U: Array, V: Array) -> Penalty:
    """‖W‖²_F of the whole 2d × 2d matrix."""
    P, Q = products((U, U.T), (V, V.T))
    P += Q
    G_U, G_V = products((4 * P, U), (4 * P, V))
    return float(np.vdot(P, P)), G_U, G_V


def separate(U: Array, V: Array) -> Penalty:
    """‖UᵀU‖²_F + ‖VᵀV‖²_F: each map by itself."""
    P, Q = products((U, U.T), (V, V.T))
    G_U, G_V = products((4 * P, U), (4 * Q, V))
    return float(np.vdot(P, P) + np.vdot(Q, Q)), G_U, G_V


def frobenius(U: Array, V: Array) -> Penalty:
    """‖U‖²_F + ‖V‖²_F."""
    return float(np.vdot(U, U) + np.vdot(V, V)), 2 * U, 2 * V


REGULARIZERS = {"joint": joint, "separate": separate, "frobenius": frobenius}
