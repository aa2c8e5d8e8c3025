"""Sets of linear constraints tr(W C_j) ≤ 0 on matrices of trace one, and solvers for them."""
