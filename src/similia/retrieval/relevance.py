"""Relevant items of each query: from labels or from graded judgements."""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from similia.contract import Array, Matrix
from similia.retrieval.vectors import Floats, Integers, is_sparse
from similia.safety.bounds import check_entries

MAX_EXPONENTIAL_GRADE = 512.0


class Relevance(NamedTuple):
    """Groups of relevant items; query i has group[i].

    Group g holds items[starts[g]:starts[g + 1]], in increasing order, and their gains. Queries of
    one class share a group, so labels never take memory of queries times items.
    """

    group: Integers
    starts: Integers
    items: Integers
    gains: Floats


def members(relevant: Relevance, query: int) -> slice:
    """Places of the query's items and gains in `relevant`."""
    group = relevant.group[query]
    return slice(relevant.starts[group], relevant.starts[group + 1])


def exponential_gain(grades: Floats) -> Floats:
    """Gain 2^grade - 1, which stresses the highest grades; a grade of 1 keeps its gain of 1."""
    return np.exp2(grades) - 1.0


def checked_labels(labels: ArrayLike, shape: tuple[int, int], *, pair: bool) -> Relevance:
    """Relevance from labels, given as y or as (y_queries, y_items): equal labels are relevant."""
    if not pair:
        y_queries = y_items = _checked_vector("labels", labels, shape[0])
    elif not isinstance(labels, (tuple, list)) or len(labels) != 2:
        raise ValueError(
            "evaluate: labels must be a pair (y_queries, y_items) when Z is given, "
            f"got {type(labels).__name__}."
        )
    else:
        y_queries = _checked_vector("labels[0]", labels[0], shape[0])
        y_items = _checked_vector("labels[1]", labels[1], shape[1])
    if (y_queries.dtype.kind in "US") != (y_items.dtype.kind in "US"):
        raise ValueError(
            "evaluate: labels must be of one kind for queries and items, "
            f"got {y_queries.dtype} and {y_items.dtype}."
        )
    classes, item_class = np.unique(y_items, return_inverse=True)
    sizes = np.bincount(item_class, minlength=len(classes))
    # The last group is empty, for queries whose label no item has.
    starts = np.concatenate([[0], np.cumsum(sizes), [len(y_items)]])
    group = np.searchsorted(classes, y_queries)
    known = group < len(classes)
    known[known] = classes[group[known]] == y_queries[known]
    group = np.where(known, group, len(classes))
    return Relevance(group, starts, np.argsort(item_class, kind="stable"), np.ones(len(y_items)))


def _checked_vector(name: str, labels: ArrayLike, length: int) -> Array:
    y = np.asarray(labels)
    if y.shape != (length,):
        raise ValueError(f"evaluate: {name} must be of shape ({length},), got shape {y.shape}.")
    if y.dtype.kind == "f" and np.isnan(y).any():
        row = np.isnan(y).argmax()
        raise ValueError(f"evaluate: {name} must be without NaN, got one in row {row}.")
    return y


def checked_grades(relevance: ArrayLike | Matrix, shape: tuple[int, int], gain: str) -> Relevance:
    """Relevance from a matrix of grades: positive grades are relevant."""
    check_entries("evaluate", "relevance", relevance)
    grades: Matrix = relevance if is_sparse(relevance) else np.asarray(relevance)
    if grades.shape != shape:
        raise ValueError(f"evaluate: relevance must be of shape {shape}, got {grades.shape}.")
    if grades.dtype.kind not in "biuf":
        raise ValueError(f"evaluate: relevance must be numbers, got dtype {grades.dtype}.")
    stored = grades.tocsr().data if is_sparse(grades) else grades
    wrong = stored[~((stored >= 0) & (stored < np.inf))]
    if wrong.size:
        raise ValueError(
            f"evaluate: relevance must be finite grades of at least 0, got {wrong[0]}."
        )
    exponential = gain == "exponential"
    if exponential and stored.size and stored.max() > MAX_EXPONENTIAL_GRADE:
        raise ValueError(
            f"evaluate: relevance must be at most {MAX_EXPONENTIAL_GRADE:g} with exponential gain, "
            f"got {stored.max()}."
        )
    matrix = sparse.csr_array(grades, dtype=np.float64, copy=True)
    matrix.sum_duplicates()
    matrix.eliminate_zeros()
    gains = exponential_gain(matrix.data) if exponential else matrix.data
    starts, items = matrix.indptr.astype(np.int64), matrix.indices.astype(np.int64)
    return Relevance(np.arange(shape[0]), starts, items, gains)
