"""Term weights. The idf is a separate step, so that it can be taken from training rows alone."""

from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray
from scipy import sparse

from similia.validation import boolean, check_parameters, one_of


def inverse_document_frequency(counts: Any, *, smooth: bool = False) -> NDArray[np.float64]:
    """Weight of each term by its rarity among the rows of `counts`.

    idf_j = log(n / df_j), and 0 for a term in no row; with `smooth` the weight of scikit-learn,
    idf_j = 1 + log((1 + n) / (1 + df_j)). Here n is the number of rows and df_j the number of
    those with term j. Hand in the training rows only.

    Parameters
    ----------
    counts : sparse array of shape (n, n_terms)
        How often each document contains each term.
    smooth : bool
        Whether terms that occur everywhere, or nowhere, keep a weight.

    Returns
    -------
    idf : ndarray of shape (n_terms,)

    Examples
    --------
    >>> from experiments.datasets import inverse_document_frequency
    >>> inverse_document_frequency([[1, 2], [0, 1]]).round(3).tolist()
    [0.693, 0.0]
    """
    check_parameters("inverse_document_frequency", {"smooth": boolean}, {"smooth": smooth})
    counts = sparse.csr_array(counts)
    n = counts.shape[0]
    df = document_frequency(counts)
    if smooth:
        return 1.0 + np.log((1.0 + n) / (1.0 + df))
    return np.where(df > 0, np.log(n / np.maximum(df, 1.0)), 0.0)


def tfidf(
    counts: Any,
    idf: NDArray[np.float64],
    *,
    tf: str = "raw",
    unit_length: bool = True,
    dtype: DTypeLike = np.float64,
) -> Any:
    """Weigh counts by tf_ij · idf_j.

    Parameters
    ----------
    counts : sparse array of shape (n, n_terms)
        How often each document contains each term.
    idf : ndarray of shape (n_terms,)
        As from `inverse_document_frequency` of the training rows.
    tf : {"raw", "log"}
        The count itself, or 1 + log(count), which tames repetition.
    unit_length : bool
        Divide each row by its Euclidean length; rows without a weight stay zero.
    dtype : dtype
        float64 or float32.

    Returns
    -------
    X : csr_array of shape (n, n_terms)

    Examples
    --------
    >>> from experiments.datasets import inverse_document_frequency, tfidf
    >>> counts = [[3, 4, 1], [1, 0, 1], [0, 1, 1], [0, 0, 1]]
    >>> tfidf(counts, inverse_document_frequency(counts)).toarray()[0].round(3).tolist()
    [0.6, 0.8, 0.0]
    """
    rules = {"tf": one_of("raw", "log"), "unit_length": boolean}
    check_parameters("tfidf", rules, {"tf": tf, "unit_length": unit_length})
    counts = sparse.csr_array(counts)
    if np.shape(idf) != (counts.shape[1],):
        raise ValueError(
            f"tfidf: idf must be an array of shape ({counts.shape[1]},), got shape {np.shape(idf)}."
        )
    X = counts.astype(np.float64)
    X.eliminate_zeros()
    if tf == "log":
        X.data = 1.0 + np.log(X.data)
    X.data *= np.asarray(idf)[X.indices]
    if unit_length:
        lengths = np.sqrt(np.asarray(X.multiply(X).sum(axis=1)))
        X.data /= np.repeat(np.where(lengths > 0, lengths, 1.0), np.diff(X.indptr))
    X.eliminate_zeros()
    return X.astype(dtype)


def document_frequency(counts: Any) -> NDArray[np.float64]:
    """In how many rows each term occurs."""
    counts = sparse.csr_array(counts)
    return np.bincount(counts.indices[counts.data != 0], minlength=counts.shape[1]).astype(float)
