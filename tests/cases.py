"""One problem for each learner: data, a stream of judgements, and a call that learns from it."""

import copy
from dataclasses import dataclass, is_dataclass
from typing import Any

import numpy as np

from tests.problems import labelled, triplets_of


@dataclass
class Case:
    """A learner, its data, and one call that learns from rows `start:stop` of a fixed stream."""

    learner: Any
    X: Any
    y: np.ndarray
    stream: tuple

    def learn(self, start=0, stop=None, learner=None, X=None):
        learner = self.learner if learner is None else learner
        X = self.X if X is None else X
        part = tuple(column[start:stop] for column in self.stream)
        if learner.learns_from != "labels":
            return learner.learn(X, *part)
        rows, labels = part
        if len(rows) == 0:  # scikit-learn's contract knows no empty batch
            return learner
        return learner.partial_fit(X[rows], labels, classes=np.unique(self.y))

    @property
    def length(self):
        return len(self.stream[0])

    def output(self, learner=None, X=None):
        learner = self.learner if learner is None else learner
        X = self.X if X is None else X
        by_labels = learner.learns_from == "labels"
        return learner.decision_function(X) if by_labels else learner.pairwise_score(X)

    def agreement(self, t):
        """How well the learner agrees with judgement t: larger is better."""
        rows, *feedback = (column[t] for column in self.stream)
        if self.learner.learns_from == "triplets":
            return self.learner.triplet_scores(self.X, [rows])[0]
        if self.learner.learns_from == "pairs":
            score = self.learner.pairwise_score(self.X[rows[:1]], self.X[rows[1:]])[0, 0]
            y = feedback[0]
            return -abs(-score - y**2) if is_measured(self.learner) else y * score
        own = self.learner.classes_ == feedback[0]
        scores = self.learner.decision_function(self.X[[rows]])[0]
        return scores[own][0]

    def fresh(self):
        return copy.deepcopy(self.learner)


def case_of(cls, seed=0, dtype=np.float64, form=np.asarray, n=150, separable=False, **parameters):
    """Make the case of a learner; a separable stream holds only judgements that labels imply."""
    rng = np.random.default_rng(seed)
    points, y = labelled(rng)
    X = form(points.astype(dtype))
    learner = cls(random_state=0)
    if not averages(learner):
        parameters.pop("average", None)
    learner.set_params(**parameters)
    if learner.learns_from == "triplets":
        learner.set_params(n_triplets=500)
        stream = (triplets_of(rng, len(y), len(y), 20 * n if separable else n),)
        if separable:
            query, better, worse = y[stream[0]].T
            stream = (stream[0][(query == better) & (query != worse)][:n],)
    elif learner.learns_from == "pairs":
        learner.set_params(n_pairs=500)
        pairs = rng.integers(len(y), size=(n, 2))
        same = y[pairs[:, 0]] == y[pairs[:, 1]]
        feedback = np.where(same, 1.0, 4.0) if is_measured(learner) else np.where(same, 1, -1)
        if separable and is_measured(learner):  # distances that some metric has
            gaps = points[pairs[:, 0], :3] - points[pairs[:, 1], :3]
            feedback = np.linalg.norm(gaps, axis=1) * 2**0.5
        stream = (pairs, feedback)
    else:
        rows = rng.integers(len(y), size=n)
        stream = (rows, y[rows])
    return Case(learner, X, y, stream)


def is_measured(learner):
    """Whether feedback on a pair is a distance rather than a sign."""
    return learner.get_params().get("feedback") == "distances"


def averages(learner):
    """Whether the mean over the stream can be scored with: a parameter of those that can."""
    return "average" in learner.get_params()


def obeys(learner):
    """Whether a judgement is a decision, obeyed as such and not only moved towards."""
    return learner.get_params().get("obey", False)


def everything(learner):
    """All attributes of a learner by name, with the state in place of parts that hold it."""
    plain = {n: value for n, value in vars(learner).items() if not is_dataclass(value)}
    return {**plain, **learner.get_state()}
