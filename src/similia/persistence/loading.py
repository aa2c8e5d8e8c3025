"""Load a learner, and check that its state is one."""

from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import DTypeLike

from similia.contract import State, Stateful
from similia.files import ViewFiles
from similia.persistence.description import learner_document
from similia.persistence.reading import rebuilt
from similia.persistence.saving import Named, PathLike
from similia.registry import LEARNERS, learner_class
from similia.tabular.layout import ViewLayout

#: largest number of judgements, features or items: exact in double precision, too
MAX_COUNT = 2**53


def load(path: PathLike) -> Any:
    """Load a learner, which continues as if it had never been saved.

    Everything is checked and nothing is executed: checksums of the header and of each tensor, the
    class against the list of public learners, parameters against their rules, shapes against each
    other.

    Raises
    ------
    ModelFileError
        If the file is damaged, foreign, or of a newer format.
    """
    document = learner_document(path)
    name = document["class"]
    return rebuilt(path, document, lambda *parts: restored(name, *parts))


def restored(name: str, parameters: Named, state: Named) -> Any:
    """A learner with a state from a file; raises ValueError if they do not fit."""
    learnt = dict(state)
    layout, assumed = learnt.pop("layout_", None), learnt.pop("assumed_", "")
    found: _Checkable = learner_class(name)(**parameters).set_state(learnt)
    if name in LEARNERS:  # batch learners check their state themselves
        _check_consistency(found)
    if assumed:
        found.assumed_ = str(assumed)
    if layout is not None:
        found.layout_ = (ViewLayout if "kinds" in layout else ViewFiles).restored(layout)
    return found


# -- consistency of a loaded state -------------------------------------------------------------
#
# A new learner with the same parameters is started on vectors of a few features, so its shapes show
# on which sizes each array depends; the loaded arrays must have those shapes at their own sizes.
# Learners declare the shapes of arrays that grow with what is learnt (`_shapes`).


class _Checkable(Stateful, Protocol):
    """A learner whose state can be compared with that of a small one."""

    n_features_in_: int
    learns_from: str
    layout_: ViewLayout | ViewFiles
    assumed_: str

    def _shapes(self) -> dict[str, tuple[int, ...]]: ...

    def _check_values(self) -> None: ...

    def _example(self, m: int, n: int, dtype: DTypeLike) -> tuple[Any, Any]: ...


class _Size(NamedTuple):
    """A number of features or classes, in the small and in the loaded learner."""

    small: int
    full: int


def _check_consistency(learner: _Checkable) -> None:
    """Raise ValueError if types, shapes, dtypes or numbers are not those of such a learner."""
    state = learner.get_state()
    names = state.pop("feature_names_in_", None)
    for name, value in state.items():
        if name.startswith("n_") and not (type(value) is int and 0 <= value < MAX_COUNT):
            raise ValueError(f"{name} is {value!r}, not a count")
    sizes = _sizes(state)
    if names is not None and (names.shape != (sizes[0].full,) or names.dtype != object):
        raise ValueError(f"there are {len(names)} feature names for {sizes[0].full} features")
    small = _small_learner(learner, state, sizes).get_state()
    if set(small) != set(state):
        raise ValueError(f"the state has no or an unknown {min(set(small) ^ set(state))}")
    declared = learner._shapes()
    for name, value in state.items():
        if type(value) is not type(small[name]):
            got, wanted = type(value).__name__, type(small[name]).__name__
            raise ValueError(f"{name} is of type {got}, not {wanted}")
        if isinstance(value, np.ndarray):
            shape = declared.get(name) or _at_full_size(small[name].shape, sizes)
            dtype = small[name].dtype
            if value.shape != shape or value.dtype != dtype:
                raise ValueError(
                    f"{name} is of shape {value.shape} and dtype {value.dtype}, "
                    f"not {shape} and {dtype}"
                )
    learner._check_values()


def _sizes(state: State) -> list[_Size]:
    """Features, then item features if they differ, then classes if there are any."""
    m: int = state["n_features_in_"]
    if m < 1:
        raise ValueError("the learner has no features")
    sizes = [_Size(11, m)]
    n: int = state.get("n_item_features_", m)
    if n != m:
        sizes.append(_Size(17, n))
    if "classes_" in state:
        k = len(state["classes_"])
        sizes.append(_Size(min(k, 5), k))
    return sizes


def _at_full_size(shape: tuple[int, ...], sizes: list[_Size]) -> tuple[int, ...]:
    """Shape at full size; a length of one more than a size includes an intercept."""

    def full(length: int) -> int:
        for size in sizes:
            if length - size.small in (0, 1):
                return length - size.small + size.full
        return length

    return tuple(map(full, shape))


def _small_learner(learner: _Checkable, state: State, sizes: list[_Size]) -> Stateful:
    small_of = {size.full: size.small for size in sizes}
    parameters = {**learner.get_params(deep=False), "verbose": False}
    for name, value in parameters.items():
        if isinstance(value, np.ndarray):
            shape = [small_of.get(length, length) for length in value.shape]
            # Identities: a learner may require a positive definite matrix.
            make = np.eye if len(shape) == 2 else lambda *n, dtype: np.zeros(n, dtype)
            parameters[name] = make(*shape, dtype=value.dtype)
    small = learner_class(type(learner).__name__)(**parameters)
    # Features are real even if the state is complex.
    dtype = state["moment_"].real.dtype
    n: int = state.get("n_item_features_", learner.n_features_in_)
    X, items = learner._example(sizes[0].small, small_of[n], dtype)
    if learner.learns_from == "labels":
        classes = state["classes_"][: sizes[-1].small]
        return small.partial_fit(X[:1], classes[:1], classes=classes)
    if learner.learns_from == "pairs":
        return small.learn(X, [], [])
    return small.learn(X, [], items=items)
