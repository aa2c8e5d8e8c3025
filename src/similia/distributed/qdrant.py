"""Items into a collection of Qdrant."""

import uuid
from collections.abc import Sequence

import numpy as np

from similia.contract import Array
from similia.exceptions import MissingExtraError

try:
    from qdrant_client import QdrantClient, models
except ImportError as error:
    raise MissingExtraError(__name__, "qdrant_client", "qdrant") from error

#: distances that order as a geometry does; the first is that of a new collection
DISTANCES = {
    "inner_product": (models.Distance.DOT, models.Distance.COSINE),
    "l2": (models.Distance.EUCLID,),
}


class QdrantTarget:
    """A collection on a server, or in a folder."""

    def __init__(self, where: str, collection: str, key: str | None) -> None:
        self._collection = collection
        if "://" in where:
            self._client = QdrantClient(url=where, api_key=key, timeout=60)
        else:
            self._client = QdrantClient(path=where)

    def create(self, n_features: int, geometry: str, *, numbered: bool) -> None:
        """Make the collection unless it is there, and then refuse one of another kind."""
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
                f"export_items: table must be a collection of one vector of {n_features} features "
                f"and the distance {names}, got {found}."
            )

    def write(self, ids: Sequence[int | str], vectors: Array) -> None:
        """Add or replace the points of a batch."""
        points: list[int | str | uuid.UUID] = [_point(id) for id in ids]
        rows = np.asarray(vectors, np.float32).tolist()
        named = [{"id": id} for id in ids]
        batch = models.Batch(ids=points, vectors=rows, payloads=named)
        self._client.upsert(self._collection, batch, wait=True)

    def close(self) -> None:
        """Disconnect."""
        self._client.close()


def _point(id: int | str) -> int | str:
    """Id of a point: a number or a UUID; other texts have one made from them."""
    if isinstance(id, int) and 0 <= id < 2**64:
        return id
    try:
        return str(uuid.UUID(str(id)))
    except ValueError:
        return str(uuid.uuid5(uuid.NAMESPACE_OID, str(id)))
