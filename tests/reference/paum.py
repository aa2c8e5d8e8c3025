"""PAUM [Li2002, Algorithm 1], one example at a time."""


def paum_step(w, b, x, y, R, eta, tau_positive, tau_negative):
    """Move by a step of the Perceptron unless y(wᵀx + b) exceeds the margin of y's class."""
    tau = tau_positive if y > 0 else tau_negative
    if y * (w @ x + b) > tau:
        return w, b
    return w + eta * y * x, b + eta * y * R**2
