"""Problems: name -> function of (seed, options) that gives a split of labelled data.

A problem names how it is measured (`measures.py`). Whatever is learnt from data (terms, idf, a
scale) is learnt from the training part.
"""

from experiments.problems.base import Problem, validation
from experiments.problems.domains import domain_pair, isolet, mnist_votes, office_domain, usps
from experiments.problems.features import (
    caltech101_fisher,
    drawn_features,
    image_features,
    isolet_letters,
    many_classes,
    newsgroups_tfidf,
    shifted_mnist,
    tiny_imagenet,
)
from experiments.problems.filtering import reuters
from experiments.problems.images import fashion_mnist, mnist, mnist_pair, noisy_digits
from experiments.problems.judged import newsgroups_search, search
from experiments.problems.matrices import gyrb, quantum_state, zappos
from experiments.problems.neighbors import by_neighbors
from experiments.problems.retrieval import (
    caltech101_visterms,
    caltech256_words,
    newsgroups,
    toy,
)

PROBLEMS = {
    "newsgroups": newsgroups,
    "caltech101_visterms": caltech101_visterms,
    "caltech256_words": caltech256_words,
    "noisy_digits": noisy_digits,
    "mnist_pair": mnist_pair,
    "mnist": mnist,
    "fashion_mnist": fashion_mnist,
    "by_neighbors": by_neighbors,
    "reuters": reuters,
    "gyrb": gyrb,
    "zappos": zappos,
    "quantum_state": quantum_state,
    "isolet": isolet,
    "usps": usps,
    "mnist_votes": mnist_votes,
    "office_domain": office_domain,
    "domain_pair": domain_pair,
    "caltech101_fisher": caltech101_fisher,
    "tiny_imagenet": tiny_imagenet,
    "isolet_letters": isolet_letters,
    "newsgroups_tfidf": newsgroups_tfidf,
    "image_features": image_features,
    "many_classes": many_classes,
    "drawn_features": drawn_features,
    "shifted_mnist": shifted_mnist,
    "search": search,
    "newsgroups_search": newsgroups_search,
    "toy": toy,
}

__all__ = ["PROBLEMS", "Problem", "search", "toy", "validation"]
