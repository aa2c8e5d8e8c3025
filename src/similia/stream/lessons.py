"""How each kind of learner is taught a batch of judgements, and tested on one."""

from typing import Any, Protocol, TypeVar, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import clone

from similia.contract import Array, LabelLearner, Matrix, PairLearner, Stateful, TripletLearner
from similia.files import Judgements

L = TypeVar("L", contravariant=True)
M = TypeVar("M", bound="StreamLearner")


class StreamLearner(Stateful, Protocol):
    """Any learner of a stream: `learns_from` says of what."""

    @property
    def learns_from(self) -> str:
        """Kind of judgement: "triplets", "pairs" or "labels"."""
        ...

    def __sklearn_is_fitted__(self) -> bool: ...


class Lessons(Protocol[L]):
    """Judgements about fixed vectors, for one kind of learner."""

    #: whether judgements can be scored before they are learnt
    scored: bool

    def start(self, model: L) -> None:
        """Bring a new learner to its initial state."""
        ...

    def teach(self, model: L, part: Judgements) -> None:
        """Learn a batch."""
        ...

    def n_right(self, model: L, part: Judgements) -> float:
        """Number of judgements in a batch that the model agrees with."""
        ...


class _TripletLessons:
    """Triplets are right if the margin is positive; a tie counts half."""

    scored = True

    def __init__(self, X: Matrix, items: Matrix | None) -> None:
        self.X = X
        self.options = {} if items is None else {"items": items}

    def start(self, model: TripletLearner) -> None:
        model.learn(self.X, np.empty((0, 3), np.int64), **self.options)

    def teach(self, model: TripletLearner, part: Judgements) -> None:
        model.learn(self.X, part.tuples, **self.options)

    def n_right(self, model: TripletLearner, part: Judgements) -> float:
        margins = model.triplet_scores(self.X, part.tuples, **self.options)
        return float((margins > 0).sum() + (margins == 0).sum() / 2)


@runtime_checkable
class _PairClassifier(Protocol):
    """A learner of pairs with a threshold."""

    def predict(self, X: Matrix, pairs: ArrayLike) -> Array: ...


class _PairLessons:
    """Pairs are right if on the right side of the threshold, for learners that have one."""

    def __init__(self, X: Matrix, scored: bool) -> None:
        self.X = X
        self.scored = scored

    def start(self, model: PairLearner) -> None:
        model.learn(self.X, np.empty((0, 2), np.int64), np.empty(0))

    def teach(self, model: PairLearner, part: Judgements) -> None:
        model.learn(self.X, part.tuples, np.asarray(part.values))

    def n_right(self, model: _PairClassifier, part: Judgements) -> float:
        return float(np.sum(model.predict(self.X, part.tuples) == part.values))


class _LabelLessons:
    """Labels are right if predicted; an unfitted classifier scores as chance."""

    scored = True

    def __init__(self, X: Matrix, classes: Array) -> None:
        self.X = X
        self.classes = classes

    def start(self, model: LabelLearner) -> None:
        pass  # a classifier is initialized by its first rows

    def teach(self, model: LabelLearner, part: Judgements) -> None:
        labels = self.classes[part.values]
        model.partial_fit(self.X[part.tuples[:, 0]], labels, classes=self.classes)

    def n_right(self, model: Any, part: Judgements) -> float:
        if not model.__sklearn_is_fitted__():
            return len(part) / len(self.classes)
        found = model.predict(self.X[part.tuples[:, 0]])
        return float(np.sum(found == self.classes[part.values]))


def lessons_for(
    model: StreamLearner, X: Matrix, items: Matrix | None = None, classes: Array | None = None
) -> Lessons[Any]:
    """Lessons that suit a learner; `classes` are the labels to expect, for classifiers."""
    if model.learns_from == "triplets":
        return _TripletLessons(X, items)
    name = type(model).__name__
    if items is not None:
        raise ValueError(
            f"items must be left out for {name}, which learns from {model.learns_from}."
        )
    if model.learns_from == "pairs":
        return _PairLessons(X, scored=isinstance(model, _PairClassifier))
    if classes is None or len(classes) < 2:
        found = "none" if classes is None or not len(classes) else f"only {classes[0]!r}"
        raise ValueError(f"{name}: labels must be of at least two classes, got {found}.")
    return _LabelLessons(X, classes)


def base_of(model: M, X: Matrix, items: Matrix | None = None) -> M:
    """Unlearnt counterpart of a model: same parameters, initial state.

    Parameters
    ----------
    model : learner
        Of similarities or distances.
    X : array or CSR matrix
        Vectors from which it would start.
    items : array or CSR matrix, optional
        Vectors of items, if they are separate.
    """
    if model.learns_from == "labels":
        raise ValueError(
            f"{type(model).__name__} is a classifier and has no similarity to begin with; "
            "give learners of triplets or of pairs."
        )
    base: M = clone(model)
    lessons_for(base, X, items).start(base)
    return base
