"""The learnt state of two maps and a database, as plain arrays: packed, unpacked and checked."""

from typing import Any

import numpy as np
from scipy import sparse

from similia.contract import Matrix, State


def packed(database: Matrix) -> Any:
    """A dense database as it is, a sparse one as its three arrays by name."""
    if isinstance(database, np.ndarray):
        return database
    return {"data": database.data, "indices": database.indices, "indptr": database.indptr}


def unpacked(state: State) -> Matrix:
    """The database of a state."""
    database = state["database_"]
    if not isinstance(database, dict):
        return database
    shape = (len(state["database_labels_"]), state["n_item_features_"])
    parts = database["data"], database["indices"], database["indptr"]
    rows = sparse.csr_array(parts, shape=shape)
    rows.check_format()
    return rows


def misfit(state: State, asymmetric: bool) -> str | None:
    """First part of a state, its database unpacked, that does not fit the rest; None if all fit."""
    U, V, codes = state["U_"], state["V_"], state["database_labels_"]
    for name, value in state.items():
        if name.startswith("n_") and (type(value) is not int or value < 0):
            return f"{name} must be a count, got {value!r}"
    if U.ndim != 2 or codes.ndim != 1 or state["classes_"].ndim != 1:
        return "U_ must be a matrix, database_labels_ and classes_ vectors"
    d, width = state["n_features_in_"], state["n_item_features_"]
    shapes = {
        "U_": (len(U), d),
        "V_": (len(U), width),
        "query_center_": (d,),
        "item_center_": (width,),
        "database_": (len(codes), width),
    }
    for name, shape in shapes.items():
        found = state[name]
        if found.shape != shape or found.dtype != U.dtype:
            return (
                f"{name} must be of shape {shape} and dtype {U.dtype}, "
                f"got {found.shape} and {found.dtype}"
            )
    known = codes.dtype == np.intp and len(codes) > 0
    if not known or codes.min() < 0 or codes.max() >= len(state["classes_"]):
        return "database_labels_ must be numbers of classes"
    if "feature_names_in_" in state and np.shape(state["feature_names_in_"]) != (d,):
        return f"feature_names_in_ must be {d} names"
    kinds = [(M.shape, M.dtype) for M in ((U, V) if asymmetric else (U,)) for _ in range(2)]
    if [(moment.shape, moment.dtype) for moment in state["adam_moments_"]] != kinds:
        return f"adam_moments_ must be of shapes and dtypes {kinds}"
    if state["losses_"].ndim != 1 or state["validation_errors_"].ndim != 1:
        return "losses_ and validation_errors_ must be vectors"
    if not (state["scale_"] > 0.0 and state["penalty_"] > 0.0):
        return "scale_ and penalty_ must be positive"
    return None
