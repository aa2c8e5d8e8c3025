"""Contenders that say of one document after another whether it is relevant, and then are told."""

from abc import abstractmethod
from typing import Any

from sklearn.linear_model import Perceptron

from experiments.contenders.paum import PAUM
from experiments.problems import Problem
from similia import POLA
from similia.filtering import ClassifierFilter, NearestLabelFilter, RelevanceFilter


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
        """Give a filter that has learnt nothing yet."""


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
