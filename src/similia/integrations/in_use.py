"""The model in use: a learner, a file or a folder of generations, reloaded when it changes."""

import os
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from similia.contract import Array, Searchable
from similia.persistence import load
from similia.registry import LEARNERS, learner_class
from similia.trust.generations import HISTORY, Generations

#: serializes judgements from several threads
_LEARNING = Lock()


class InUse:
    """The model that maps queries now; None while the base is in use.

    Parameters
    ----------
    owner : str
        Who uses the model, for messages.
    model : learner or path
        A learner that is taught elsewhere; a saved model; or a folder of `similia promote`, whose
        promotions and rollbacks take effect at the next query. Stores hold the vectors of the base,
        so the model must leave items as they are: distances move them, and are refused.
    """

    def __init__(self, owner: str, model: Searchable | str | os.PathLike[str]) -> None:
        self.owner = owner
        self.path = Path(model) if isinstance(model, str | os.PathLike) else None
        self._learner: Any = None if self.path else self._checked(model)
        self._seen: tuple[int, ...] | None = ()
        self.learner()  # raises if the model cannot be loaded

    def learner(self) -> Any:
        """Learner in use, or None if the base ranks or nothing was learnt yet."""
        if self.path is not None:
            history = self.path / HISTORY
            watched = history if self.path.is_dir() or not self.path.exists() else self.path
            found = _stamp(watched)
            if found != self._seen:
                self._learner = self._checked(_loaded(self.path))
                self._seen = found
            return self._learner
        is_fitted = getattr(self._learner, "__sklearn_is_fitted__", lambda: True)
        return self._learner if is_fitted() else None

    def _checked(self, model: Any) -> Any:
        if model is not None and getattr(model, "geometry", None) != "inner_product":
            raise ValueError(
                f"{self.owner}: model must leave items as they are ({teachable_learners()}), got "
                f"{type(model).__name__}."
            )
        return model

    def check_teachable(self, owner: str, learner: Any) -> None:
        """Raise unless the learner, or else the model, can learn from feedback.

        A model that learns nothing may still be searched by.
        """
        if learner is not None or hasattr(self._learner, "learns_from"):
            _check_triplets(owner, self._learner if learner is None else learner)

    def query_vector(self, vector: list[float]) -> list[float]:
        """Map a query vector of the base to the vector to search with."""
        learner = self.learner()
        if learner is None:
            return vector
        found: Array = learner.query_vectors(np.asarray(vector, dtype=np.float64))
        return [float(value) for value in found]

    def prefer(
        self, owner: str, learner: Any, query: ArrayLike, better: ArrayLike, worse: ArrayLike
    ) -> None:
        """Teach `learner`, or the one in use, that one item answers a query better.

        Arguments are vectors of the base. A file or a folder is never taught: it changes by
        promotion.
        """
        if learner is None and self.path is not None:
            raise ValueError(
                f"{owner}: learner must be given where the model is a file or folder; "
                f"pass learner=similia.Blend() and promote it into {self.path}."
            )
        taught = self._learner if learner is None else learner
        _check_triplets(owner, taught)
        asked = np.asarray([query], dtype=np.float64)
        items = np.asarray([better, worse], dtype=np.float64)
        with _LEARNING:
            taught.learn(asked, [[0, 0, 1]], items=items)


def query_map(owner: str, learner: Any) -> Array:
    """Matrix that maps queries; for a Blend, without what it remembers of single queries."""
    W = learner.query_matrix() if hasattr(learner, "query_matrix") else None
    names = getattr(learner, "names_", ())
    if W is None and len(names) == 1 and hasattr(learner, "trust_"):
        W = learner.query_vectors(np.eye(learner.n_features_in_), remembered=False)
    if W is None:
        views = f" of the views {', '.join(names)}" if len(names) > 1 else ""
        raise ValueError(
            f"{owner}: learner must be one whose queries are mapped by a matrix (a similarity, a "
            f"Mahalanobis distance, or a Blend of vectors alone), got {type(learner).__name__}"
            f"{views}; learn from the vectors alone to export it."
        )
    found: Array = np.asarray(W)
    return found


def teachable_learners() -> str:
    """Names of learners that take comparisons of two items."""
    return ", ".join(name for name in LEARNERS if learner_class(name).learns_from == "triplets")


def _check_triplets(owner: str, learner: Any) -> None:
    if getattr(learner, "learns_from", None) != "triplets":
        raise ValueError(
            f"{owner}: learner must learn from triplets ({teachable_learners()}), got "
            f"{type(learner).__name__}."
        )


def _loaded(path: Path) -> Any:
    if not path.exists():
        raise FileNotFoundError(f"{path}: no model and no folder of generations.")
    if not path.is_dir():
        return load(path)
    generations = Generations(path)
    return generations.load(generations.current) if generations.current else None


def _stamp(path: Path) -> tuple[int, ...] | None:
    """Identity of a file's version; None without a file."""
    try:
        about = path.stat()
    except FileNotFoundError:
        return None
    return about.st_ino, about.st_mtime_ns, about.st_size
