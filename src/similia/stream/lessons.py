"""How each kind of learner is taught a batch of judgements, and how many of it it had right.

All that is known of a learner is its contract: `learns_from`, `learn` or `partial_fit`,
`triplet_scores`, `predict`.
"""

from typing import Any

import numpy as np

from similia.files import Judgements


class Lessons:
    """Judgements for learners of triplets.

    Parameters
    ----------
    X : array or CSR matrix
        Vectors (of queries).
    items : array or CSR matrix, optional
        Vectors of items, where they are other things.
    """

    #: whether a judgement can be right or wrong before it is learnt
    scored = True

    def __init__(self, X: Any, items: Any = None) -> None:
        self.X = X
        self.items = items

    def start(self, model: Any) -> None:
        """Give a new learner the state from which it begins."""
        self.teach(model, Judgements(np.empty((0, 3), np.int64), None, np.empty(0, np.int64)))

    def teach(self, model: Any, part: Judgements) -> None:
        """Let the learner learn."""
        model.learn(self.X, part.tuples, **({} if self.items is None else {"items": self.items}))

    def n_right(self, model: Any, part: Judgements) -> float:
        """Count the judgements that the learner agrees with; a tie is half right."""
        scores = model.triplet_scores(self.X, part.tuples, items=self.items)
        return float((scores > 0).sum() + (scores == 0).sum() / 2)


class PairLessons(Lessons):
    """Judgements for learners of pairs; right or wrong only where there is a threshold."""

    def __init__(self, X: Any, scored: bool) -> None:
        super().__init__(X)
        self.scored = scored

    def start(self, model: Any) -> None:
        """Give a new learner the state from which it begins."""
        model.learn(self.X, np.empty((0, 2), np.int64), np.empty(0))

    def teach(self, model: Any, part: Judgements) -> None:
        """Let the learner learn."""
        model.learn(self.X, part.tuples, part.values)

    def n_right(self, model: Any, part: Judgements) -> float:
        """Count the pairs on the right side of the threshold."""
        return float(np.sum(model.predict(self.X, part.tuples) == part.values))


class LabelLessons(Lessons):
    """Labels for classifiers; what was never taught guesses at random."""

    def __init__(self, X: Any, classes: Any) -> None:
        super().__init__(X)
        self.classes = classes

    def start(self, model: Any) -> None:
        """Do nothing: a classifier takes its classes with the first rows."""

    def teach(self, model: Any, part: Judgements) -> None:
        """Let the learner learn."""
        labels = self.classes[part.values]
        model.partial_fit(self.X[part.tuples[:, 0]], labels, classes=self.classes)

    def n_right(self, model: Any, part: Judgements) -> float:
        """Count the labels that are predicted."""
        if not hasattr(model, "classes_"):
            return len(part) / len(self.classes)
        found = model.predict(self.X[part.tuples[:, 0]])
        return float(np.sum(found == self.classes[part.values]))


def lessons_for(model: Any, X: Any, items: Any = None, classes: Any = None) -> Lessons:
    """Give the lessons that suit a learner."""
    if model.learns_from == "triplets":
        return Lessons(X, items)
    if items is not None:
        raise ValueError(
            f"items must be left out for {type(model).__name__}, which learns from "
            f"{model.learns_from}."
        )
    if model.learns_from == "labels":
        if classes is not None and len(classes) == 1:
            raise ValueError(
                f"{type(model).__name__}: labels must be of at least two classes, got only "
                f"{classes[0]!r}."
            )
        return LabelLessons(X, classes)
    return PairLessons(X, scored=hasattr(model, "decision_function"))
