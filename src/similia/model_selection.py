"""Judgements in scikit-learn: as samples to split, or as metadata of a pipeline step."""

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import (
    BaseEstimator,
    ClassNamePrefixFeaturesOutMixin,
    TransformerMixin,
    clone,
)
from sklearn.utils.validation import check_is_fitted

from similia.base import Learner
from similia.contract import Array, Matrix, PairLearner, Side, TripletLearner
from similia.safety.bounds import memory
from similia.validation import tuple_array


class JudgementEstimator(BaseEstimator):
    """A learner whose samples are judgements, for `cross_val_score`, `GridSearchCV` and the like.

    Only judgements are split; clones share the vectors. The same point may be judged on both sides
    of a split: to score triplets of unseen queries only, pass the queries as `groups` to a splitter
    such as `GroupKFold`.

    Parameters
    ----------
    learner : learner of triplets or pairs
        Cloned before learning. Its parameters are ``learner__gamma`` and so on.
    X : array or CSR matrix of shape (n_samples, n_features), or Views
        What judgements index.
    items : array or CSR matrix of shape (n_items, n_item_features), or Views, optional
        The items of triplets, where they are not the queries.

    Attributes
    ----------
    learner_ : the fitted learner

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.model_selection import cross_val_score
    >>> from similia import POLA, JudgementEstimator
    >>> X, y = load_iris(return_X_y=True)
    >>> pairs = np.random.default_rng(0).integers(len(X), size=(1000, 2))
    >>> signs = np.where(y[pairs[:, 0]] == y[pairs[:, 1]], 1, -1)
    >>> scores = cross_val_score(JudgementEstimator(POLA(), X), pairs, signs)
    >>> bool((scores > 0.9).all())
    True
    """

    def __init__(
        self, learner: TripletLearner | PairLearner, X: Side, *, items: Side | None = None
    ) -> None:
        self.learner, self.X, self.items = learner, X, items

    def fit(
        self,
        judgements: ArrayLike,
        y: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> Self:
        """Learn from judgements, in order, with a clone of `learner`.

        Parameters
        ----------
        judgements : integer array of shape (n_triplets, 3) or (n_pairs, 2)
        y : array of shape (n_pairs,)
            Feedback on pairs; none for triplets.
        sample_weight : whole numbers of shape (n_judgements,), optional
            How often each judgement is told, one time after the other.
        """
        judgements, y = _repeated("JudgementEstimator.fit", sample_weight, judgements, y)
        arguments, options = self._arguments("fit", judgements, y)
        self.learner_ = clone(self.learner).learn(*arguments, **options)
        return self

    def score(
        self,
        judgements: ArrayLike,
        y: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> float:
        """Weighted share of judgements in the right order."""
        check_is_fitted(self, "learner_")
        judgements, y = _repeated("JudgementEstimator.score", sample_weight, judgements, y)
        arguments, options = self._arguments("score", judgements, y)
        return float(self.learner_.score(*arguments, **options))

    def _arguments(
        self, method: str, judgements: ArrayLike, y: ArrayLike | None
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Arguments of the learner's method, positional and by name; ValueError otherwise."""
        kind = self.learner.learns_from if isinstance(self.learner, Learner) else None
        if kind not in ("triplets", "pairs"):
            raise ValueError(
                "JudgementEstimator: learner must be a learner of triplets or pairs, "
                f"got {type(self.learner).__name__}."
            )
        pairs = kind == "pairs"
        if pairs == (y is None):
            rule = "feedback on each pair, got None" if pairs else "None for triplets"
            raise ValueError(f"JudgementEstimator.{method}: y must be {rule}.")
        if pairs and self.items is not None:
            raise ValueError("JudgementEstimator: items must be None for pairs.")
        given = (self.X, judgements)
        return ((*given, y), {}) if pairs else (given, {"items": self.items})

    def __sklearn_clone__(self) -> Self:
        return type(self)(clone(self.learner), self.X, items=self.items)


class JudgedTransformer(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """A step of a pipeline that learns from judgements, passed to `fit` as metadata.

    Judgements name rows of the whole data. In a pipeline that is cross-validated, also pass `rows`,
    which scikit-learn splits with the data: of the judgements, those are learnt whose rows are all
    in the training part. So nothing is learnt about rows that are held out.

    Parameters
    ----------
    learner : learner of triplets or pairs with vectors
        Cloned before learning. Its parameters are ``learner__C`` and so on.

    Attributes
    ----------
    learner_ : the fitted learner
    n_judgements_ : int
        How many judgements were learnt, each counted as often as it was told.

    Examples
    --------
    >>> import numpy as np, sklearn
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.model_selection import cross_validate
    >>> from sklearn.neighbors import KNeighborsClassifier
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> from similia import POLA, JudgedTransformer
    >>> X, y = load_iris(return_X_y=True)
    >>> pairs = np.random.default_rng(0).integers(len(X), size=(1000, 2))
    >>> signs = np.where(y[pairs[:, 0]] == y[pairs[:, 1]], 1, -1)
    >>> with sklearn.config_context(enable_metadata_routing=True):
    ...     step = JudgedTransformer(POLA())
    ...     step.set_fit_request(judgements=True, feedback=True, rows=True)
    ...     model = make_pipeline(StandardScaler(), step, KNeighborsClassifier())
    ...     told = {"judgements": pairs, "feedback": signs, "rows": np.arange(len(X))}
    ...     scores = cross_validate(model, X, y, params=told)["test_score"]
    JudgedTransformer(learner=POLA())
    >>> bool((scores > 0.9).all())
    True
    """

    def __init__(self, learner: TripletLearner | PairLearner) -> None:
        self.learner = learner

    def fit(
        self,
        X: Matrix,
        y: ArrayLike | None = None,
        *,
        judgements: ArrayLike,
        feedback: ArrayLike | None = None,
        rows: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> Self:
        """Learn from judgements, in order, with a clone of `learner`.

        Parameters
        ----------
        X : array or CSR matrix of shape (n_samples, n_features)
        y : ignored
        judgements : integer array of shape (n_triplets, 3) or (n_pairs, 2)
            Of row numbers of X or, with `rows`, of the whole data.
        feedback : array of shape (n_pairs,)
            On pairs; none for triplets.
        rows : integer array of shape (n_samples,), optional
            Which row of the whole data each row of X is, such as ``np.arange(n)`` split with it.
        sample_weight : whole numbers of shape (n_judgements,), optional
            How often each judgement is told, one time after the other.
        """
        owner = "JudgedTransformer.fit"
        told, answers = _repeated(owner, sample_weight, judgements, feedback)
        if rows is not None:
            told, answers = _within(owner, np.asarray(rows), told, answers)
        estimator = JudgementEstimator(self.learner, X).fit(told, answers)
        self.learner_, self.n_judgements_ = estimator.learner_, len(told)
        self.n_features_in_ = self.learner_.n_features_in_
        return self

    def transform(self, X: Matrix) -> Array:
        """`query_vectors`: vectors with the learnt inner products or distances."""
        check_is_fitted(self, "learner_")
        return np.asarray(self.learner_.query_vectors(X))

    @property
    def _n_features_out(self) -> int:
        matrix = self.learner_.query_matrix()
        return int(self.n_features_in_ if matrix is None else matrix.shape[1])


def _repeated(
    owner: str, weight: ArrayLike | None, judgements: ArrayLike, y: ArrayLike | None
) -> tuple[NDArray[Any], NDArray[Any] | None]:
    """Judgements and answers, repeated by weight."""
    told = tuple_array(owner, "triplets" if y is None else "pairs", judgements)
    answers = None if y is None else np.asarray(y)
    if told.ndim != 2 or (answers is not None and answers.shape != told.shape[:1]):
        raise ValueError(
            f"{owner}: judgements must be rows of an array, with an answer for each if there are "
            f"any, got shape {told.shape} and {0 if answers is None else answers.shape} answers."
        )
    if weight is None:
        return told, answers
    counts = np.asarray(weight)
    if counts.shape != told.shape[:1] or not np.all((counts >= 0) & (counts == np.floor(counts))):
        raise ValueError(
            f"{owner}: sample_weight must be whole numbers, one for each judgement, got "
            f"{'shape ' + str(counts.shape) if counts.shape != told.shape[:1] else counts[:5]}."
        )
    if float(counts.sum()) * told[:1].nbytes > (limit := memory()):
        raise ValueError(
            f"{owner}: sample_weight must be small enough for {limit / 1e9:.3g} GB of memory, got "
            f"{counts.max():g}."
        )
    counts = counts.astype(np.int64)
    return np.repeat(told, counts, axis=0), None if answers is None else np.repeat(answers, counts)


def _within(
    owner: str, rows: NDArray[Any], told: NDArray[Any], answers: NDArray[Any] | None
) -> tuple[NDArray[Any], NDArray[Any] | None]:
    """Judgements whose rows are all present, renumbered."""
    if rows.ndim != 1 or rows.dtype.kind not in "iu" or len(np.unique(rows)) != len(rows):
        raise ValueError(f"{owner}: rows must be different row numbers, got {rows!r:.80}.")
    order = np.argsort(rows)
    place = np.searchsorted(rows, told, sorter=order).clip(max=len(rows) - 1)
    found = order[place]
    present = (rows[found] == told).all(axis=1)
    if not present.any():
        raise ValueError(f"{owner}: some of the {len(told)} judgements must lie within rows.")
    return found[present], None if answers is None else answers[present]
