"""What a learnt distance is compared with: the nearest document's label, and linear classifiers."""

from typing import Any, ClassVar

import numpy as np

from similia.filtering.protocol import OnlineFilter
from similia.linalg.rows import RowStore, row_of
from similia.validation import Rule, none, positive_integer

_LINEAR = Rule(
    "a classifier with partial_fit and decision_function",
    lambda v: hasattr(v, "partial_fit") and hasattr(v, "decision_function"),
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

    def __init__(self, *, budget: int | None = None) -> None:
        self.budget = budget

    def _begin(self, X: Any) -> None:
        if not hasattr(self, "_kept"):
            self._kept = RowStore(X)
            #: squared length and label of each document kept
            self._facts = RowStore(np.empty((0, 2)))

    def _judged(self, X: Any, i: int) -> tuple[bool, None]:
        if not len(getattr(self, "_kept", ())):
            return False, None
        x, Z, facts = row_of(X, i), self._kept.rows, self._facts.rows
        whole = np.zeros(Z.shape[1], dtype=Z.dtype)
        whole[x.places] = x.values
        nearest = np.argmin(facts[:, 0] - 2 * (Z @ whole))
        return bool(facts[nearest, 1]), None

    def _learn_row(self, X: Any, i: int, relevant: bool, evidence: None = None) -> None:
        x = row_of(X, i)
        self._kept.append(x)
        length2 = np.square(x.values, dtype=np.float64).sum()
        self._facts.append(row_of(np.array([[length2, relevant]]), 0))
        if self.budget is not None and len(self._kept) > self.budget:
            self._kept.remove_first()
            self._facts.remove_first()


class ClassifierFilter(OnlineFilter):
    """A document is relevant if an online classifier scores it above 0.

    Before anything was learnt, it is irrelevant. Labels are learnt one at a time.

    Parameters
    ----------
    classifier : classifier with `partial_fit` and `decision_function`
        AROW or scikit-learn's Perceptron, say. It is taught in place, and may have learnt
        before, from two classes; the second is "relevant".
    """

    _rules: ClassVar = {"classifier": _LINEAR}

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

    def _judged(self, X: Any, i: int) -> tuple[bool, None]:
        if not hasattr(self.classifier, "classes_"):
            return False, None
        return bool(self.classifier.decision_function(X[i : i + 1])[0] > 0), None

    def _learn_row(self, X: Any, i: int, relevant: bool, evidence: None = None) -> None:
        classes = self._classes()
        self.classifier.partial_fit(X[i : i + 1], classes[[int(relevant)]], classes=classes)
