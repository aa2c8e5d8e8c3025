from similia.contract import Array

def row_product(q: Array, B: Array) -> Array: ...
def sparse_forms(
    W: Array,
    q_ptr: Array,
    q_index: Array,
    q_value: Array,
    p_ptr: Array,
    p_index: Array,
    p_value: Array,
) -> Array: ...
def sparse_quadratic(A: Array, ptr: Array, index: Array, value: Array) -> Array: ...
