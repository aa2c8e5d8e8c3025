"""Data to learn from: real sets, checksummed and cached, and generated ones."""

from experiments.datasets.caltech101 import Caltech101, load_caltech101
from experiments.datasets.fetch import cache_folder, data_folder
from experiments.datasets.gyrb import GyrB, load_gyrb
from experiments.datasets.images import GrayImages
from experiments.datasets.isolet import Isolet, load_isolet
from experiments.datasets.mnist import load_fashion_mnist, load_mnist
from experiments.datasets.newsgroups import (
    Newsgroups,
    NewsgroupsEmbeddings,
    load_newsgroups,
    load_newsgroups_embeddings,
)
from experiments.datasets.newsgroups_terms import NewsgroupsTerms, load_newsgroups_terms
from experiments.datasets.office_caltech import OfficeCaltech, load_office_caltech
from experiments.datasets.retrieval_sets import RetrievalSet, load_retrieval
from experiments.datasets.reuters import Reuters, load_reuters, topics_by_ratio
from experiments.datasets.reuters_terms import ReutersTerms, load_reuters_terms
from experiments.datasets.synthetic import (
    BilinearTriplets,
    Clusters,
    make_bilinear_triplets,
    make_clusters,
)
from experiments.datasets.terms import (
    InformativeTerms,
    count_terms,
    information_gain,
    informative_tfidf,
)
from experiments.datasets.tfidf import inverse_document_frequency, tfidf
from experiments.datasets.tiny_imagenet import TinyImageNet, load_tiny_imagenet
from experiments.datasets.usps import load_usps
from experiments.datasets.zappos import Zappos, load_zappos

__all__ = [
    "BilinearTriplets",
    "Caltech101",
    "Clusters",
    "GrayImages",
    "GyrB",
    "InformativeTerms",
    "Isolet",
    "Newsgroups",
    "NewsgroupsEmbeddings",
    "NewsgroupsTerms",
    "OfficeCaltech",
    "RetrievalSet",
    "Reuters",
    "ReutersTerms",
    "TinyImageNet",
    "Zappos",
    "cache_folder",
    "count_terms",
    "data_folder",
    "information_gain",
    "informative_tfidf",
    "inverse_document_frequency",
    "load_caltech101",
    "load_fashion_mnist",
    "load_gyrb",
    "load_isolet",
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
    "make_bilinear_triplets",
    "make_clusters",
    "tfidf",
    "topics_by_ratio",
]
