"""Neighborhood gerrymandering: maps for kNN, different ones for queries and for the database."""

from typing import Any, ClassVar

import numpy as np

from similia.contract import Array
from similia.neighbors.gerrymander_fit import GerrymanderFit
from similia.neighbors.maps import STARTS
from similia.neighbors.regularizers import REGULARIZERS
from similia.validation import (
    Rule,
    array,
    between,
    boolean,
    none,
    one_of,
    positive,
    positive_integer,
)

two_arrays = Rule(
    "a pair of arrays",
    lambda v: isinstance(v, tuple) and len(v) == 2 and all(isinstance(M, np.ndarray) for M in v),
)


class NeighborhoodGerrymandering(GerrymanderFit):
    """kNN classifier that learns where queries go, x ↦ Ux, and where the database goes, z ↦ Vz.

    A set h of k items votes on the class of a query, S(x, h) = -Σ_{z∈h} |Ux - Vz|² says how near
    it is, and Δ what its verdict costs. The loss of a query compares the nearest set that is right
    with the nearest of all, where wrong ones have a start:

        L(x, y) = max_h [S(x, h) + Δ(y, h)] - max_{h: Δ(y,h)=0} S(x, h) ≥ Δ(y, the k nearest)

    Both sets are found exactly, and Ω(U, V) + C Σ L is minimized by mini-batches [Trivedi2014,
    Trivedi]. It asks only for what kNN needs: a vote that is won, not that all points of a class be
    near.

    Parameters
    ----------
    n_neighbors : int
        k, the items that vote, in training and in predicting.
    asymmetric : bool
        Different maps of queries and items. False ties them, V = U: a Mahalanobis metric.
    cost : array of shape (n_classes, n_classes) or None
        Δ: rows are true classes, columns verdicts, in the order of `classes_`; at least 0, with a
        zero diagonal. None is 0/1.
    ties : bool
        Whether a tie counts as its cheapest class. False counts it as its dearest one, so that the
        right set must win outright.
    C : positive number
        Weight of the losses' sum against Ω, which counts in units of its value at the start.
        Smaller C keeps the maps smaller.
    regularizer : {"joint", "separate", "frobenius"}
        Ω: ‖W‖² of the distance as a form in (x, z), that is ‖UᵀU‖² + 2‖UᵀV‖² + ‖VᵀV‖²; the same
        without the middle term; ‖U‖² + ‖V‖².
    n_components : int or None
        p, the dimension that both maps lead to; None is that of the data ("classes": their number).
    init : {"auto", "identity", "pca", "lda", "classes"}, array or pair of arrays
        Where the maps start, up to `start_scale`: the data as they are, their principal directions,
        Fisher's directions in coordinates that whiten the classes, or a regression on the classes,
        which serves where queries and items have different features. "auto" takes "identity" (with
        `n_components`, "pca") or "lda", whichever has the smaller kNN error. One array is for both
        maps.
    start_scale : positive number or None
        Mean squared distance, at the start, of a point to its k-th neighbor, against costs of 1. A
        larger one leaves fewer points to learn from. None takes the maps of `init` as they are.
    optimizer : {"adam", "sgd"}
        Adam, or the plain gradient of the notes.
    learning_rate : positive number
        In units of `scale_`, or of its square for plain gradients, so that it does not depend on
        the units of the data.
    schedule : {"cosine", "constant"}
        Whether the rate falls to zero over the epochs of a call.
    batch_size : int or None
        Queries of a step, for which the database is mapped once. None makes 20 steps an epoch, of
        16 to 256 queries.
    max_iter : int
        Epochs of `fit`; `partial_fit` makes one.
    early_stopping : bool
        Hold out points, keep the maps of the epoch with least kNN error on them, the start
        included, and stop when it does not fall. All points are in the database afterwards. Fewer
        than 20 held-out points are none.
    validation_fraction : number between 0 and 1
        Share of each class that is held out.
    n_iter_no_change : int
        Epochs without a smaller error after which to stop.
    n_database : int or None
        Items that are drawn, by class, for each step, for large databases; None takes all. What is
        lost: neighbors are those of a sample, so that k of n items stand for k N/n of all N.
    center : bool
        Subtract means. Asymmetric maps subtract that of the queries and that of the items.
    search : {"exact", "faiss"}
        How `predict` and `kneighbors` search: all distances, or a graph index of faiss, which
        misses a neighbor now and then. Training is always exact on its items.
    random_state : int, RandomState or None
        Seed of the order of queries, of what is held out and of `n_database`.
    verbose : bool
        Show a progress bar.

    Attributes
    ----------
    U_, V_ : arrays of shape (p, n_features) and (p, n_item_features)
    query_center_, item_center_ : arrays
    classes_ : array of shape (n_classes,)
    database_, database_labels_ : array or CSR matrix, and numbers of classes
        The items, in the order in which they came.
    item_vectors_ : array of shape (n_items, p)
        The items, mapped.
    losses_, validation_errors_ : arrays of shape (n_iter_,) and (n_iter_ + 1,) or (0,)
        Mean loss in each epoch; held-out error at the start and after each.
    best_iter_ : int
        Epochs after which the maps were kept.
    scale_, penalty_ : float
        Largest singular value of the map, and Ω, at the start: units of `learning_rate` and `C`.
    n_iter_, n_seen_, n_updates_ : int
        Epochs, queries learnt from, and steps.

    Notes
    -----
    A step on B queries against N items costs 2Ndp flops to map the items and 2BNp for distances, in
    matrix products; inference adds N comparisons and a sort of k nearest items of each class to a
    query. Points that cannot be right, because their class is too small to win, are left out.

    Where we differ from the notes: the gradient of ‖W‖² is 4(UUᵀ + VVᵀ)U and 4(UUᵀ + VVᵀ)V, not
    (11) and (12); the losses carry C in the update as in the objective; data are centered.

    For maps that are not linear, put random features, Nyström features or kernel PCA before, in a
    pipeline.

    References
    ----------
    .. [Trivedi2014] S. Trivedi, D. McAllester, G. Shakhnarovich, "Discriminative Metric Learning by
       Neighborhood Gerrymandering", NIPS 2014.
    .. [Trivedi] S. Trivedi, "Notes on Asymmetric Metric Learning for k-NN Classification".

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from similia import NeighborhoodGerrymandering
    >>> X, y = load_iris(return_X_y=True)
    >>> learner = NeighborhoodGerrymandering(random_state=0).fit(X, y)
    >>> bool(learner.score(X, y) > 0.95)
    True
    """

    _rules: ClassVar = {
        **GerrymanderFit._rules,
        "asymmetric": boolean,
        "cost": none | array,
        "ties": boolean,
        "C": positive,
        "regularizer": one_of(*REGULARIZERS),
        "n_components": none | positive_integer,
        "init": one_of("auto", *STARTS) | array | two_arrays,
        "start_scale": none | positive,
        "optimizer": one_of("adam", "sgd"),
        "learning_rate": positive,
        "schedule": one_of("cosine", "constant"),
        "batch_size": none | positive_integer,
        "max_iter": positive_integer,
        "early_stopping": boolean,
        "validation_fraction": between(0, 1),
        "n_iter_no_change": positive_integer,
        "n_database": none | positive_integer,
        "center": boolean,
    }

    def __init__(
        self,
        *,
        n_neighbors: int = 5,
        asymmetric: bool = True,
        cost: Array | None = None,
        ties: bool = False,
        C: float = 0.01,
        regularizer: str = "joint",
        n_components: int | None = None,
        init: Any = "auto",
        start_scale: float | None = 1.0,
        optimizer: str = "adam",
        learning_rate: float = 0.003,
        schedule: str = "cosine",
        batch_size: int | None = None,
        max_iter: int = 10,
        early_stopping: bool = True,
        validation_fraction: float = 0.1,
        n_iter_no_change: int = 5,
        n_database: int | None = None,
        center: bool = True,
        search: str = "exact",
        random_state: Any = None,
        verbose: bool = False,
    ) -> None:
        self.n_neighbors = n_neighbors
        self.asymmetric = asymmetric
        self.cost = cost
        self.ties = ties
        self.C = C
        self.regularizer = regularizer
        self.n_components = n_components
        self.init = init
        self.start_scale = start_scale
        self.optimizer = optimizer
        self.learning_rate = learning_rate
        self.schedule = schedule
        self.batch_size = batch_size
        self.max_iter = max_iter
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.n_iter_no_change = n_iter_no_change
        self.n_database = n_database
        self.center = center
        self.search = search
        self.random_state = random_state
        self.verbose = verbose
