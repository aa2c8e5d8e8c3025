"""Data of the experiments: real sets, checksummed and cached, and generated ones.

A loader is a function that returns a frozen, named result; `files.toml` lists the files they read.
"""

from experiments.datasets.clicks import load_lisp
from experiments.datasets.fetch import DataNotFoundError
from experiments.datasets.image_features import (
    load_caltech101,
    load_office_caltech,
    load_tiny_imagenet,
)
from experiments.datasets.images import load_fashion_mnist, load_mnist, load_usps
from experiments.datasets.isolet import load_isolet
from experiments.datasets.newsgroups import (
    load_newsgroups,
    load_newsgroups_embeddings,
    load_newsgroups_terms,
)
from experiments.datasets.objects import load_gyrb, load_zappos
from experiments.datasets.retrieval_sets import load_retrieval
from experiments.datasets.reuters import load_reuters, load_reuters_terms, topics_by_ratio
from experiments.datasets.synthetic import make_clusters
from experiments.datasets.terms import information_gain, tfidf

__all__ = [
    "DataNotFoundError",
    "information_gain",
    "load_caltech101",
    "load_fashion_mnist",
    "load_gyrb",
    "load_isolet",
    "load_lisp",
    "load_mnist",
    "load_newsgroups",
    "load_newsgroups_embeddings",
    "load_newsgroups_terms",
    "load_office_caltech",
    "load_retrieval",
    "load_reuters",
    "load_reuters_terms",
    "load_tiny_imagenet",
    "load_usps",
    "load_zappos",
    "make_clusters",
    "tfidf",
    "topics_by_ratio",
]
