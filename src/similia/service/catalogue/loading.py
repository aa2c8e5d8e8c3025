"""Items of a file, put into a tenant at the start."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np

from similia.files import VectorFile, read_texts, read_vectors
from similia.service.http.images import Images
from similia.service.log.records import Item
from similia.service.tenants.tenant import Tenant

#: items in one row of the log
BATCH = 500


@dataclass(frozen=True)
class ItemFile:
    """A file of vectors, with ids and perhaps texts."""

    path: Path
    ids: Path | None = None
    vector_column: str | None = None
    id_column: str | None = None
    texts: Path | None = None
    images: Images | None = None

    def items(self) -> Iterator[Item]:
        """Items one by one, in single precision."""
        file = read_vectors(
            self.path, ids=self.ids, vector_column=self.vector_column, id_column=self.id_column
        )
        texts = None if self.texts is None else read_texts(self.texts, file.ids)
        for row, (name, vector) in enumerate(rows_of(self.path, file)):
            text = None if texts is None else str(texts[row])
            image = None if self.images is None else self.images.address(name)
            yield Item(id=name, vectors={"vectors": vector}, text=text, image=image)

    def load(self, tenant: Tenant) -> tuple[int, int]:
        """Put items that are new or changed into a tenant; how many there are, and were put."""
        found = put = 0
        items = self.items()
        while batch := list(islice(items, BATCH)):
            changed = [item for item in batch if tenant.item(item.id) != item]
            if changed:
                tenant.put_items(changed)
            found, put = found + len(batch), put + len(changed)
        return found, put


def rows_of(path: Path, file: VectorFile) -> Iterator[tuple[str, list[float]]]:
    """Ids and dense, finite vectors of a file, in single precision."""
    matrix = file.X
    if not isinstance(matrix, np.ndarray):
        raise ValueError(f"{path}: vectors to serve must be dense, got others.")
    for row, name in enumerate(file.ids.names()):
        vector = np.asarray(matrix[row], np.float32)
        if not np.isfinite(vector).all():
            raise ValueError(f"{path}: vectors must be finite, got row {row}, {name!r}.")
        yield str(name), vector.tolist()
