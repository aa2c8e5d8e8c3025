"""Whether the parts of a loaded state fit together, without knowing any learner.

A new learner with the same parameters is started on vectors of a few features, so its shapes show
which sizes each array depends on; the loaded arrays must have those shapes at their own sizes.
Arrays that grow with what is learnt have no size to be seen so; their learner declares it.
"""

import inspect
from typing import Any, NamedTuple

import numpy as np


class Size(NamedTuple):
    """A number of features or classes: that of the small learner, and that of the loaded one."""

    small: int
    full: int


def check_consistency(learner: Any) -> None:
    """Raise ValueError if types, shapes or dtypes are not those of a learner of this size."""
    state = learner.get_state()
    names = state.pop("feature_names_in_", None)
    for name, value in state.items():
        if name.startswith("n_") and (type(value) is not int or value < 0):
            raise ValueError(f"{name} is {value!r}, not a count")
    sizes = _sizes(learner)
    if names is not None and (names.shape != (sizes[0].full,) or names.dtype != object):
        raise ValueError(f"there are {len(names)} feature names for {sizes[0].full} features")
    small = _small_learner(learner, sizes).get_state()
    if set(small) != set(state):
        raise ValueError(f"the state has no or an unknown {min(set(small) ^ set(state))}")
    declared = learner._shapes()
    for name, value in state.items():
        _check_like(name, value, small[name], declared.get(name), sizes)


def _check_like(
    name: str, value: Any, small: Any, declared: tuple[int, ...] | None, sizes: list[Size]
) -> None:
    if type(value) is not type(small):
        raise ValueError(f"{name} is of type {type(value).__name__}, not {type(small).__name__}")
    if not isinstance(value, np.ndarray):
        return
    shape = declared or tuple(_at_full_size(length, sizes) for length in small.shape)
    if value.shape != shape or value.dtype != small.dtype:
        raise ValueError(
            f"{name} is of shape {value.shape} and dtype {value.dtype}, "
            f"not {shape} and {small.dtype}"
        )


def _sizes(learner: Any) -> list[Size]:
    m = learner.n_features_in_
    if m < 1:
        raise ValueError("the learner has no features")
    sizes = [Size(11, m)]
    n = getattr(learner, "n_item_features_", m)
    if n != m:
        sizes.append(Size(17, n))
    if hasattr(learner, "classes_"):
        k = len(learner.classes_)
        sizes.append(Size(min(k, 5), k))
    return sizes


def _at_full_size(length: int, sizes: list[Size]) -> int:
    """Give the length at full size; one more than a size is that size and an intercept."""
    for size in sizes:
        if length - size.small in (0, 1):
            return length - size.small + size.full
    return length


def _small_learner(learner: Any, sizes: list[Size]) -> Any:
    small_of = {size.full: size.small for size in sizes}
    parameters = {**learner.get_params(deep=False), "verbose": False}
    for name, value in parameters.items():
        if isinstance(value, np.ndarray):
            shape = [small_of.get(length, length) for length in value.shape]
            # Identities: a learner may ask for a matrix that is positive definite.
            make = np.eye if len(shape) == 2 else lambda *n, dtype: np.zeros(n, dtype)
            parameters[name] = make(*shape, dtype=value.dtype)
    small = type(learner)(**parameters)
    # Features are real even where what is learnt of them is complex.
    dtype = getattr(learner, learner._averaged).real.dtype
    X = np.zeros((sizes[0].small, sizes[0].small), dtype)  # square: it may be a kernel matrix
    if hasattr(learner, "classes_"):
        classes = learner.classes_[: sizes[-1].small]
        return small.partial_fit(X[:1], classes[:1], classes=classes)
    given: dict[str, Any] = {}
    if hasattr(learner, "n_item_features_"):
        given["items"] = np.zeros((1, small_of[learner.n_item_features_]), dtype)
    if "y" in inspect.signature(small.learn).parameters:
        given["y"] = []
    return small.learn(X, [], **given)
