"""What a learner is compared with: the similarity before it learnt anything."""

from typing import Any

from sklearn.base import clone

from similia.stream.lessons import lessons_for


def base_of(model: Any, X: Any, items: Any = None) -> Any:
    """Give a learner with the same parameters that has learnt nothing.

    Parameters
    ----------
    model : learner
        Of similarities or distances.
    X : array or CSR matrix
        Vectors from which it would have started.
    items : array or CSR matrix, optional
        Vectors of items, where they are other things.
    """
    if model.learns_from == "labels":
        raise ValueError(
            f"{type(model).__name__} is a classifier and has no similarity to begin with; "
            "give learners of triplets or of pairs."
        )
    base = clone(model)
    lessons_for(base, X, items).start(base)
    return base
