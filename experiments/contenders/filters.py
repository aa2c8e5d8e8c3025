"""Contenders that say of one document after another whether it is relevant, and then are told."""

from abc import abstractmethod
from typing import Any, ClassVar

import numpy as np
from scipy import sparse
from sklearn.linear_model import Perceptron

from experiments.contenders.paum import PAUM
from experiments.problems import Problem
from similia import POLA
from similia.filtering import OnlineFilter, RelevanceFilter
from similia.linalg.blocks import RowStore, row_of
from similia.validation import Rule, none, positive_integer

_online_classifier = Rule(
    "a classifier with partial_fit and decision_function",
    lambda v: {"partial_fit", "decision_function"} <= set(dir(type(v))),
)


class NearestLabelFilter(OnlineFilter):
    """A document is what the nearest one seen so far was, in Euclidean distance (1-NN).

    Before any was seen, it is irrelevant; of equally near ones, the oldest decides.

    Parameters
    ----------
    budget : positive integer or None
        Most documents kept, relevant or not; the oldest goes first.
    """

    _rules: ClassVar = {"budget": positive_integer | none}
    _kept: RowStore | None = None

    def __init__(self, *, budget: int | None = None) -> None:
        self.budget = budget

    def _begin(self, X: Any) -> None:
        if self._kept is None:
            self._kept = RowStore(X)
            self._facts = RowStore(np.empty((0, 2)))  # squared length and label of each document

    def _visit(self, X: Any, i: int, relevant: bool | None = None) -> bool:
        x, said = row_of(X, i), False
        if self._kept is not None and len(self._kept):
            Z, facts = self._kept.rows, self._facts.rows
            whole = np.zeros(Z.shape[1], dtype=Z.dtype)
            whole[x.places] = x.values
            said = bool(facts[np.argmin(facts[:, 0] - 2 * (Z @ whole)), 1])
        if relevant is not None:
            self._kept.append(x)
            length2 = np.square(x.values, dtype=np.float64).sum()
            self._facts.append(row_of(np.array([[length2, relevant]]), 0))
            if self.budget is not None and len(self._kept) > self.budget:
                self._kept.remove_first()
                self._facts.remove_first()
        return said


class ClassifierFilter(OnlineFilter):
    """A document is relevant if an online classifier scores it above 0.

    Before anything was learnt, it is irrelevant. Labels are learnt one at a time.

    Parameters
    ----------
    classifier : classifier with `partial_fit` and `decision_function`
        As AROW or scikit-learn's Perceptron. It is taught in place, and may have learnt before,
        from two classes; the second is "relevant".
    """

    _rules: ClassVar = {"classifier": _online_classifier}

    def __init__(self, classifier: Any) -> None:
        self.classifier = classifier

    def _begin(self, X: Any) -> None:
        self._classes()

    def _classes(self) -> Any:
        classes = getattr(self.classifier, "classes_", np.array([False, True]))
        if len(classes) != 2:
            raise ValueError(
                f"{self._owner}: classifier must know two classes, got {len(classes)}: {classes}."
            )
        return classes

    def _visit(self, X: Any, i: int, relevant: bool | None = None) -> bool:
        row, said = _row(X, i), False
        if hasattr(self.classifier, "classes_"):
            said = bool(self.classifier.decision_function(row)[0] > 0)
        if relevant is not None:
            classes = self._classes()
            self.classifier.partial_fit(row, classes[[int(relevant)]], classes=classes)
        return said


def _row(X: Any, i: int) -> Any:
    """Row i as a matrix; some of scikit-learn's classifiers need indices of 32 bits."""
    row = X[i : i + 1]
    if sparse.issparse(row):
        row.indices, row.indptr = row.indices.astype(np.int32), row.indptr.astype(np.int32)
    return row


class Filter:
    """A filter that goes through the test part in its order, and leaves its predictions."""

    stepwise = False
    note = ""
    predicted: Any

    def __init__(self, problem: Problem, seed: int, **parameters: Any) -> None:
        self.X, self.y = problem.X_test, problem.y_test
        self.parameters = parameters

    def learn_to(self, step: int) -> None:
        self.predicted = self._filter(**self.parameters).run(self.X, self.y).predicted

    @abstractmethod
    def _filter(self, **parameters: Any) -> Any:
        """A filter that has learnt nothing yet."""


class ByDistance(Filter):
    """POLA: relevant is what is close to a relevant document."""

    def _filter(self, *, pairs: Any = "nearest", **parameters: Any) -> Any:
        return RelevanceFilter(POLA(**parameters), pairs=pairs)


class ByNeighbor(Filter):
    """1-NN: a document is what the nearest one before it was."""

    def _filter(self, **parameters: Any) -> Any:
        return NearestLabelFilter(**parameters)


class ByPerceptron(Filter):
    """The Perceptron of scikit-learn, one document at a time.

    Rows are dense: on sparse ones its intercept moves a hundred times more slowly.
    """

    def __init__(self, problem: Problem, seed: int, **parameters: Any) -> None:
        super().__init__(problem, seed, **parameters)
        self.X = self.X.toarray()

    def _filter(self, **parameters: Any) -> Any:
        return ClassifierFilter(Perceptron(**parameters))


class ByPAUM(Filter):
    """The Perceptron with uneven margins."""

    def _filter(self, **parameters: Any) -> Any:
        return ClassifierFilter(PAUM(**parameters))
