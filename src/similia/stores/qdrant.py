"""Items in a collection of Qdrant."""

import uuid
from collections.abc import Sequence
from typing import Any

import numpy as np

from similia.contract import Array
from similia.exceptions import MissingExtraError
from similia.stores import StoreError, VectorsById

try:
    from qdrant_client import QdrantClient, models
except ImportError as error:
    raise MissingExtraError(__name__, "qdrant_client", "qdrant") from error

#: distances with the same order as each geometry; new collections use the first
DISTANCES = {
    "inner_product": (models.Distance.DOT, models.Distance.COSINE),
    "l2": (models.Distance.EUCLID,),
}


class QdrantStore:
    """A collection on a server, or in a folder; ids are those of points, or a field's values."""

    def __init__(
        self,
        where: str,
        collection: str,
        id: str | None,
        vector: str | None,
        key: str | None,
        timeout: int,
    ) -> None:
        self._collection, self._id, self._vector = collection, id, vector
        if "://" in where:
            self._client = QdrantClient(url=where, api_key=key, timeout=timeout)
        else:
            self._client = QdrantClient(path=where)

    # -- writing -------------------------------------------------------------------------------

    def create(self, n_features: int, geometry: str, *, numbered: bool) -> None:
        """Make the collection unless it exists, and then refuse one of another kind."""
        known = DISTANCES[geometry]
        if not self._client.collection_exists(self._collection):
            params = models.VectorParams(size=n_features, distance=known[0])
            self._client.create_collection(self._collection, params)
        found = self._client.get_collection(self._collection).config.params.vectors
        if (
            not isinstance(found, models.VectorParams)
            or found.size != n_features
            or found.distance not in known
        ):
            names = " or ".join(distance.value for distance in known)
            raise ValueError(
                f"table must be a collection of one vector of {n_features} features and the "
                f"distance {names}, got {found}."
            )

    def write(self, ids: Sequence[int | str], vectors: Array) -> None:
        """Add or replace the points of a batch; ids that are no point's go to the field ``id``."""
        points: list[int | str | uuid.UUID] = [_new_point(id) for id in ids]
        rows = np.asarray(vectors, np.float32).tolist()
        named = [{"id": id} for id in ids]
        batch = models.Batch(ids=points, vectors=rows, payloads=named)
        self._client.upsert(self._collection, batch, wait=True)

    # -- searching -----------------------------------------------------------------------------

    def check(self) -> None:
        """Raise ValueError if the collection cannot be searched by inner products."""
        try:
            found = self._ask("get_collection").config.params.vectors
        except StoreError as error:
            self.close()
            raise ValueError(str(error)) from error
        params = found.get(self._vector or "") if isinstance(found, dict) else found
        if params is None:
            raise ValueError(
                f"items_vector must be one of {', '.join(found)}, got {self._vector!r}."
            )
        if params.distance not in DISTANCES["inner_product"]:
            raise ValueError(
                "items_table must be a collection with the distance Dot or Cosine, "
                f"got {params.distance.value}."
            )

    def nearest(self, vector: Array, k: int) -> VectorsById:
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

    def vectors(self, ids: Sequence[str]) -> VectorsById:
        """Vectors of those of these items that exist, by id."""
        options: dict[str, Any] = {"with_vectors": self._wanted}
        if self._id is not None:
            condition = models.FieldCondition(key=self._id, match=models.MatchAny(any=list(ids)))
            options["scroll_filter"] = models.Filter(must=[condition])
            return self._vectors(self._ask("scroll", limit=len(ids), **options)[0])
        points = [point for point in map(_known_point, ids) if point is not None]
        return self._vectors(self._ask("retrieve", ids=points, **options)) if points else {}

    def some(self, n: int) -> VectorsById:
        """Vectors of any n items, by id."""
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
        except Exception as error:  # three libraries, each with its own errors
            raise StoreError(
                f"Qdrant did not answer ({type(error).__name__}: {error!s:.200})"
            ) from error

    def _vectors(self, points: Sequence[Any]) -> VectorsById:
        found = {}
        for point in points:
            vector = point.vector
            vector = vector.get(self._vector) if isinstance(vector, dict) else vector
            id = point.id if self._id is None else (point.payload or {}).get(self._id)
            if vector is not None and id is not None:
                found[str(id)] = np.asarray(vector, np.float32)
        return found


def _known_point(id: str) -> int | str | None:
    """Id of a point: a number or a UUID; None if a text is neither."""
    if id.isascii() and id.isdigit() and int(id) < 2**64:
        return int(id)
    try:
        return str(uuid.UUID(id))
    except ValueError:
        return None


def _new_point(id: int | str) -> int | str:
    """Id of a point: a number or a UUID; other texts get one made from them."""
    if isinstance(id, int) and 0 <= id < 2**64:
        return id
    try:
        return str(uuid.UUID(str(id)))
    except ValueError:
        return str(uuid.uuid5(uuid.NAMESPACE_OID, str(id)))
