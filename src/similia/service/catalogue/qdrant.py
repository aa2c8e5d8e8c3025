"""Items in a collection of Qdrant."""

import uuid
from collections.abc import Sequence
from typing import Any

import numpy as np

from similia.exceptions import MissingExtraError
from similia.service.catalogue.elsewhere import Vectors
from similia.service.errors import Unavailable
from similia.service.log.records import Vector

try:
    from qdrant_client import QdrantClient, models
except ImportError as error:
    raise MissingExtraError(__name__, "qdrant_client", "qdrant") from error

#: inner products order points under these
INNER = (models.Distance.DOT, models.Distance.COSINE)


class QdrantStore:
    """A collection on a server, or in a folder; ids are those of points, or a field's values."""

    def __init__(
        self, where: str, collection: str, id: str | None, vector: str | None, key: str | None
    ) -> None:
        self._collection, self._id, self._vector = collection, id, vector
        if "://" in where:
            self._client = QdrantClient(url=where, api_key=key, timeout=10)
        else:
            self._client = QdrantClient(path=where)
        try:
            self._check_distance()
        except Unavailable as error:
            self.close()
            raise ValueError(f"settings: {error}") from error

    def nearest(self, vector: Vector, k: int) -> Vectors:
        """Vectors of items with large inner products, by id."""
        found = self._ask(
            "query_points",
            query=np.asarray(vector).tolist(),
            using=self._vector,
            limit=k,
            with_vectors=self._wanted,
            with_payload=self._id is not None,
        )
        return self._vectors(found.points)

    def vectors(self, ids: Sequence[str]) -> Vectors:
        """Vectors of those of these items that there are, by id."""
        options: dict[str, Any] = {"with_vectors": self._wanted}
        if self._id is not None:
            condition = models.FieldCondition(key=self._id, match=models.MatchAny(any=list(ids)))
            options["scroll_filter"] = models.Filter(must=[condition])
            return self._vectors(self._ask("scroll", limit=len(ids), **options)[0])
        points = [point for point in map(_point, ids) if point is not None]
        return self._vectors(self._ask("retrieve", ids=points, **options)) if points else {}

    def some(self, n: int) -> Vectors:
        """Vectors of up to n items, whichever, by id."""
        return self._vectors(self._ask("scroll", limit=n, with_vectors=self._wanted)[0])

    def close(self) -> None:
        """Disconnect."""
        self._client.close()

    @property
    def _wanted(self) -> bool | list[str]:
        return True if self._vector is None else [self._vector]

    def _ask(self, operation: str, **options: Any) -> Any:
        try:
            return getattr(self._client, operation)(self._collection, **options)
        except Exception as error:  # one kind for each way to fail, of three libraries
            raise Unavailable(
                f"items_at: Qdrant did not answer ({type(error).__name__}: {error!s:.200}); "
                "try again later."
            ) from error

    def _check_distance(self) -> None:
        found = self._ask("get_collection").config.params.vectors
        params = found.get(self._vector or "") if isinstance(found, dict) else found
        if params is None:
            raise ValueError(
                f"settings: items_vector must be one of {', '.join(found)}, got {self._vector!r}."
            )
        if params.distance not in INNER:
            raise ValueError(
                "settings: items_table must be a collection with the distance Dot or Cosine, "
                f"got {params.distance.value}."
            )

    def _vectors(self, points: Sequence[Any]) -> Vectors:
        found = {}
        for point in points:
            vector = point.vector
            vector = vector.get(self._vector) if isinstance(vector, dict) else vector
            id = point.id if self._id is None else (point.payload or {}).get(self._id)
            if vector is not None and id is not None:
                found[str(id)] = np.asarray(vector, np.float32)
        return found


def _point(id: str) -> int | str | None:
    """Id of a point: a number or a UUID; None if a text is neither."""
    if id.isascii() and id.isdigit() and int(id) < 2**64:
        return int(id)
    try:
        return str(uuid.UUID(id))
    except ValueError:
        return None
