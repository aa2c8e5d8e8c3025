"""Further views of queries and items: vectors, fields and texts from files, matched by id."""

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

import numpy as np

from similia.contract import Array, Matrix
from similia.files.columns import NUMBER, TEXT, Reader, WantedColumns
from similia.files.ids import Ids
from similia.files.lines import FIELD_DELIMITERS, JSON_SUFFIXES, json_object, opened
from similia.files.rows import BadRows, RowError
from similia.files.source import Source
from similia.files.vectors import TABLE_SUFFIXES, VectorFile, mapped_array, read_vectors
from similia.text import BM25
from similia.views import VECTORS, Views

#: columns of texts and of ids, unless the view has a column of its own name
TEXT_COLUMN, ID_COLUMN = "text", "id"
#: texts; an empty one is a text, too
ANY_TEXT = TEXT._replace(missing="")


class ViewFiles:
    """Files of further views by name; the vectors themselves are the first view, "vectors".

    Rows are matched by id where a file has ids, else by their order.

    Parameters
    ----------
    items, queries : dict of paths
        Vectors, as for `read_vectors`, or numbers: a .npy file of one number per row, or the column
        of the view's name in a table (.csv, .tsv, .jsonl, .parquet, .arrow). A view of one column
        that queries do not have is a field.
    texts, query_texts : dict of paths
        Texts of the items, and of the queries, which become BM25: a .txt file of one per line, or a
        column of a table named like the view, or ``text``.
    """

    def __init__(
        self,
        items: Mapping[str, Path] | None = None,
        queries: Mapping[str, Path] | None = None,
        texts: Mapping[str, Path] | None = None,
        query_texts: Mapping[str, Path] | None = None,
    ) -> None:
        self.items, self.queries = dict(items or {}), dict(queries or {})
        self.texts, self.query_texts = dict(texts or {}), dict(query_texts or {})
        self._bm25: dict[str, BM25] = {}
        for views, texts in ((self.items, self.texts), (self.queries, self.query_texts)):
            repeated = (views.keys() & texts.keys()) | ({VECTORS} & (views.keys() | texts.keys()))
            if repeated:
                raise ValueError(f"views must have different names, got {min(repeated)} twice.")
        for name in sorted(self.query_texts.keys() - self.texts.keys()):
            raise ValueError(f"texts of the items must be given, too, for the view {name}.")

    def of_items(self, file: VectorFile) -> VectorFile:
        """Items with their further views; also the queries, if these are the same."""
        found: dict[str, Matrix] = {
            name: _aligned(path, *_named_view(path, name), file.ids)
            for name, path in self.items.items()
        }
        for name, path in self.texts.items():
            texts = _aligned(path, *_read_texts(path, name), file.ids)
            if name not in self._bm25:
                self._bm25[name] = BM25().fit(texts)
            found[name] = self._bm25[name].items(texts)
        return self._together(file, found)

    def of_queries(self, file: VectorFile) -> VectorFile:
        """Queries with their further views."""
        found: dict[str, Matrix] = {
            name: _aligned(path, *_named_view(path, name), file.ids)
            for name, path in self.queries.items()
        }
        for name, path in self.query_texts.items():
            if name not in self._bm25:
                self._bm25[name] = BM25().fit(_read_texts(self.texts[name], name)[0])
            texts = _aligned(path, *_read_texts(path, name), file.ids)
            found[name] = self._bm25[name].queries(texts)
        return self._together(file, found)

    def of_both(
        self, queries: VectorFile, items: VectorFile | None
    ) -> tuple[VectorFile, VectorFile | None]:
        """Queries and items with their further views.

        Without items, the queries are the items. With texts there are two sides even so, with the
        ids in common: words count in queries and weigh in items.
        """
        if not any((self.items, self.queries, self.texts, self.query_texts)):
            return queries, items
        if items is not None:
            for name in sorted(self.texts.keys() - self.query_texts.keys()):
                raise ValueError(
                    f"texts of the queries must be given, too, for the view {name} "
                    f"(--query-text {name}=FILE)."
                )
            whole = self.of_items(items)
            return self.of_queries(queries), whole
        if self.queries or self.query_texts:
            raise ValueError("views of queries must be left out unless items are given.")
        if not self.texts:
            return self.of_items(queries), None
        comparing = {name: path for name, path in self.items.items() if not _is_field(path, name)}
        found = self.of_items(queries)
        asked = ViewFiles(self.items, comparing, self.texts, self.texts)
        asked._bm25 = self._bm25
        return asked.of_queries(queries)._replace(layout=self), found

    def _together(self, file: VectorFile, views: dict[str, Matrix]) -> VectorFile:
        if not views or isinstance(file.X, Views):
            return file
        return VectorFile(Views(**{VECTORS: file.X}, **views), file.ids, self)

    def state(self) -> dict[str, Any]:
        """The files, and the statistics of their words, as plain values and arrays."""
        sides = {"items": self.items, "queries": self.queries}
        sides |= {"texts": self.texts, "query_texts": self.query_texts}
        files = {side: {n: str(path) for n, path in some.items()} for side, some in sides.items()}
        return {"files": files, "words": {n: bm25.state() for n, bm25 in self._bm25.items()}}

    @classmethod
    def restored(cls, state: Mapping[str, Any]) -> Self:
        """The views of such a state."""
        files = {s: {n: Path(p) for n, p in some.items()} for s, some in state["files"].items()}
        found = cls(**files)
        found._bm25 = {name: BM25.restored(words) for name, words in state["words"].items()}
        return found


def _is_field(path: Path, name: str) -> bool:
    return _read_view(path, name)[0].shape[1] == 1


def _aligned(path: Path, rows: Any, names: Sequence[Any] | None, ids: Ids) -> Any:
    """Rows in the order of ids."""
    n = rows.shape[0]
    if names is None:
        if n != ids.n:
            raise ValueError(f"{path}: rows must be as many as vectors, {ids.n}, got {n}.")
        return rows
    try:
        own = Ids(list(names), n)
        return rows[np.array([own.row(name) for name in ids.names()])]
    except RowError as error:
        raise ValueError(f"{path}: ids must include those of the vectors, got {error}.") from None
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None


def _named_view(path: Path, name: str) -> tuple[Matrix, Sequence[Any] | None]:
    """Matrix and ids, if any; errors say what the file holds instead."""
    names = _column_names(path)
    if name not in names and len(names) > 2:  # of ids and vectors, whatever they are called
        raise ValueError(
            f"{path}: a view must have the column {name}, got {','.join(names)!r:.120}."
        )
    try:
        return _read_view(path, name)
    except ValueError as error:
        if _holds_texts(path, name):
            raise ValueError(
                f"{path}: a view must be numbers, but {name} holds texts; "
                f"pass it as texts (--text {name}=FILE)."
            ) from error
        raise


def _column_names(path: Path) -> list[str]:
    """Columns of a table, or fields of the first JSON object; empty for other files."""
    if path.suffix in TABLE_SUFFIXES:
        return list(Source(path).table().names)
    return list(_first_object(path)) if path.suffix in JSON_SUFFIXES else []


def _first_object(path: Path) -> dict[str, Any]:
    """First line of JSON, empty if that is no object, which reading will explain."""
    with opened(path) as file, suppress(ValueError):
        return json_object(next((line for line in file if line.strip()), b"{}").decode())
    return {}


def _holds_texts(path: Path, name: str) -> bool:
    """Whether the first values of a column are texts other than numbers."""
    try:
        texts = _read_texts(path, name)[0][:10].tolist()
    except ValueError:
        return False
    return not any(re.match(r"\s*[-+.\d\[]", text) for text in texts)


def _read_view(path: Path, name: str) -> tuple[Matrix, Sequence[Any] | None]:
    """Matrix and ids, if any."""
    if path.suffix == ".npy":
        array = mapped_array(path, "a view")
        if array.ndim == 1:
            return array[:, None], None
    if path.suffix in FIELD_DELIMITERS:
        found, ids = _read_column(path, [name], NUMBER)
        return found[:, None], ids
    column = None
    if path.suffix in TABLE_SUFFIXES:
        column = name if name in Source(path).table().names else None
    elif path.suffix in JSON_SUFFIXES:
        value = _first_object(path).get(name)
        if isinstance(value, int | float):
            found, ids = _read_column(path, [name], NUMBER)
            return found[:, None], ids
        column = None if value is None else name
    read = read_vectors(path, vector_column=column)
    return read.X, read.ids.values  # type: ignore[return-value]  # a file holds one matrix


def _read_texts(path: Path, name: str) -> tuple[Array, Sequence[Any] | None]:
    """Texts and ids, if any."""
    if path.suffix == ".txt":
        lines = path.read_text(encoding="utf-8-sig").splitlines()
        return np.array(lines, dtype=object), None
    texts, ids = _read_column(path, [name, TEXT_COLUMN], ANY_TEXT)
    return np.array([str(text) for text in texts], dtype=object), ids


def read_texts(path: Path, ids: Ids) -> Array:
    """Texts of a .txt file, or of the column ``text`` of a table, in the order of ids."""
    return _aligned(path, *_read_texts(path, TEXT_COLUMN), ids)


def _read_column(
    path: Path, wanted: list[str], reader: Reader
) -> tuple[Array, Sequence[Any] | None]:
    """The first column of those names that a table has, and its ids, if any."""
    source, parts, ids = Source(path, what="a view"), [], []
    choices = [WantedColumns({name: reader}, {ID_COLUMN: ANY_TEXT}) for name in wanted]
    for found, _ in source.batches(choices, BadRows()):
        values, *names = found.values()
        parts.append(values)
        ids += [str(name) for name in names[0].tolist()] if names else []
    if not parts:
        raise ValueError(f"{path}: a view must have at least one row, got none.")
    return np.concatenate(parts), ids or None
