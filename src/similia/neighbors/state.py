"""The learnt state of two maps and a database as plain arrays: packed, unpacked and checked."""

import numpy as np
from scipy import sparse

from similia.contract import State
from similia.safety.bounds import check_entries

COUNT_NAMES = (
    "n_features_in_",
    "n_item_features_",
    "n_seen_",
    "n_updates_",
    "n_iter_",
    "best_iter_",
)
FLOAT_NAMES = ("U_", "V_", "query_center_", "item_center_", "database_")
VECTOR_NAMES = ("classes_", "database_labels_", "losses_", "validation_errors_")
STATE_NAMES = (
    *COUNT_NAMES,
    *FLOAT_NAMES,
    *VECTOR_NAMES,
    "queries_are_items_",
    "scale_",
    "penalty_",
    "adam_moments_",
)


def packed(learnt: State) -> State:
    """The learnt attributes; a sparse database becomes its three arrays."""
    state = {name: learnt[name] for name in (*STATE_NAMES, "feature_names_in_") if name in learnt}
    rows = state["database_"]
    if sparse.issparse(rows):
        state["database_"] = {"data": rows.data, "indices": rows.indices, "indptr": rows.indptr}
    return state


def unpacked(where: str, state: State, asymmetric: bool | str) -> State:
    """The attributes of a packed state; ValueError if they do not fit together."""
    missing, unknown = (
        set(STATE_NAMES) - set(state),
        set(state) - {*STATE_NAMES, "feature_names_in_"},
    )
    if missing or unknown:
        raise ValueError(
            f"{where}: state must have the names {sorted(STATE_NAMES)}, but "
            f"{sorted(missing or unknown)} {'is missing' if missing else 'is unknown'}."
        )
    rows = state["database_"]
    if isinstance(rows, dict):
        shape = (len(state["database_labels_"]), state["n_item_features_"])
        rows = sparse.csr_array((rows["data"], rows["indices"], rows["indptr"]), shape=shape)
        check_entries(where, "database_", rows)
    learnt = {**state, "database_": rows}
    if problem := _misfit(learnt, asymmetric):
        raise ValueError(f"{where}: {problem}.")
    return learnt


def _misfit(learnt: State, asymmetric: bool | str) -> str | None:
    for name in COUNT_NAMES:
        if type(learnt[name]) is not int or not 0 <= learnt[name] < 2**53:
            return f"{name} must be a count, got {learnt[name]!r}"
    U, codes, moments = learnt["U_"], learnt["database_labels_"], learnt["adam_moments_"]
    if U.ndim != 2 or any(learnt[name].ndim != 1 for name in VECTOR_NAMES):
        return f"U_ must be a matrix, {', '.join(VECTOR_NAMES)} vectors"
    d, width = learnt["n_features_in_"], learnt["n_item_features_"]
    of_U, of_V = (len(U), d), (len(U), width)
    two = len(moments) == 4 if asymmetric == "auto" else asymmetric
    of_moments = (of_U, of_U, of_V, of_V) if two else (of_U, of_U)
    if len(moments) != len(of_moments):
        return f"adam_moments_ must be {len(of_moments)} arrays, got {len(moments)}"
    floats = [*(learnt[name] for name in FLOAT_NAMES), *moments]
    shapes = [of_U, of_V, (d,), (width,), (len(codes), width), *of_moments]
    names = [*FLOAT_NAMES, *["adam_moments_"] * len(moments)]
    for name, found, shape in zip(names, floats, shapes, strict=True):
        if found.shape != shape or found.dtype != U.dtype:
            return (
                f"{name} must be of shape {shape} and dtype {U.dtype}, "
                f"got {found.shape} and {found.dtype}"
            )
    known = codes.dtype == np.intp and len(codes) > 0
    if not known or codes.min() < 0 or codes.max() >= len(learnt["classes_"]):
        return "database_labels_ must be numbers of classes"
    if "feature_names_in_" in learnt and np.shape(learnt["feature_names_in_"]) != (d,):
        return f"feature_names_in_ must be {d} names"
    if not (learnt["scale_"] > 0.0 and learnt["penalty_"] > 0.0):
        return "scale_ and penalty_ must be positive"
    return None
