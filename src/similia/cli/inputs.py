"""What commands make of their options: parsed values, models, and groups that name files."""

import inspect
import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import typer

from similia.cli.options import (
    Embed,
    IdColumn,
    IdsFile,
    ItemColumns,
    ItemIdsFile,
    Items,
    OnBadRow,
    QueryTexts,
    QueryViews,
    Texts,
    VectorColumn,
    Vectors,
    Views,
)
from similia.cli.printing import note
from similia.exceptions import BadRowError

if TYPE_CHECKING:
    from similia.distributed import VectorPath
    from similia.files import BadRows, Source, VectorFile, ViewFiles
    from similia.tabular.layout import ViewLayout

# -- parsing -----------------------------------------------------------------------------------


def setting(text: str) -> tuple[str, Any]:
    """Parse NAME=VALUE; numbers, true, false and none become such values."""
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise typer.BadParameter(f"--set must be NAME=VALUE, got {text!r}.")
    constants = {"true": True, "false": False, "none": None}
    if value.lower() in constants:
        return name, constants[value.lower()]
    for number in (int, float):
        try:
            return name, number(value)
        except ValueError:
            pass
    return name, value


def named(text: str, option: str) -> tuple[str, str]:
    """Parse NAME=VALUE."""
    name, equals, value = text.partition("=")
    if not equals or not name or not value:
        raise typer.BadParameter(f"{option} must be NAME=VALUE, got {text!r}.")
    return name, value


def named_columns(columns: str | None, position: str | None = None) -> dict[str, str]:
    """Parse NAME=COLUMN,…: what the judgements call a column, by our name."""
    pairs = [text.partition("=") for text in (columns or "").split(",") if text.strip()]
    for name, equals, column in pairs:
        if not (name.strip() and equals and column.strip()):
            raise typer.BadParameter(f"--columns must be NAME=COLUMN,…, got {columns!r}.")
    names = {name.strip(): column.strip() for name, _, column in pairs}
    return names | ({} if position is None else {"position": position})


def load_model(path: Path, *, plain: bool = False) -> Any:
    """Load a model from its file, or the one in use from a folder of generations.

    If the base is in use there is no model: return None if plain vectors will do, else raise.
    """
    from similia.persistence import load

    if not (path / "history.json").exists():
        return load(path)
    from similia.trust import Promotion

    promotion = Promotion(path)
    if promotion.current:
        return promotion.champion()
    if plain:
        return None
    raise ValueError(f"{path}: the base is in use, and no model; promote one first.")


def layout_of(model: Any, views: "FurtherViews") -> "ViewLayout | ViewFiles":
    """How a model reads files: a table by its layout, or vectors and further views.

    The views are its own unless some are given.
    """
    found = None if model is None or views else model.layout_
    return views.files() if found is None else found


def items_of(path: Path, layout: "ViewLayout | ViewFiles", file: "FileOptions") -> "VectorFile":
    """Items of a file, with their views."""
    from similia.files import ViewFiles

    if isinstance(layout, ViewFiles):
        return layout.of_items(file.vectors_in(path))
    return layout.items(path)


def queries_of(path: Path, layout: "ViewLayout | ViewFiles", file: "FileOptions") -> "VectorFile":
    """Queries of a file, with their views."""
    from similia.files import ViewFiles
    from similia.tabular.layout import read_queries

    if isinstance(layout, ViewFiles):
        return layout.of_queries(file.vectors_in(path))
    return read_queries(path, layout)


def base_named(name: str) -> Any:
    """Base to compare with: the name of a plain similarity, or the model in a file."""
    from similia.retrieval.scorers import PLAIN_SCORERS

    return name if name in PLAIN_SCORERS else load_model(Path(name))


# -- groups of options -------------------------------------------------------------------------


def check_files(*inputs: Any, outputs: tuple[Path | None, ...] = ()) -> None:
    """Refuse to read standard input twice, or to overwrite an input; inputs may be groups."""
    groups = [vars(each).values() if is_dataclass(each) else [each] for each in inputs]
    given = [path for group in groups for path in group if isinstance(path, Path)]
    if sum(str(path) == "-" for path in given) > 1:
        raise typer.BadParameter("only one input can be -, standard input.")
    for output in outputs:
        if output is None or not output.exists():
            continue
        if any(path.exists() and output.samefile(path) for path in given):
            raise typer.BadParameter(f"{output} is an input, and would be overwritten.")


def fetched(path: Path, folder: Path, *, beside: bool = False) -> Path:
    """Local file; one named by a URL is copied into the folder."""
    from similia.distributed.folders import WorkFolder, fetched_for_work
    from similia.files.locations import local_path, url_of

    if local_path(folder) is None:
        raise typer.BadParameter(
            f"--work must be a path that all workers find, got {url_of(folder)}; learn_shares and "
            "evaluate_parts of similia.distributed take URLs."
        )
    return fetched_for_work(path, WorkFolder(folder), beside=beside)


@dataclass(frozen=True)
class FurtherViews:
    """Options for further views of queries and items, each NAME=FILE."""

    views: Views = None
    query_views: QueryViews = None
    texts: Texts = None
    query_texts: QueryTexts = None

    def __bool__(self) -> bool:
        return any((self.views, self.query_views, self.texts, self.query_texts))

    def files(self) -> "ViewFiles":
        """Files by the names of their views."""
        from similia.files import ViewFiles

        names, found = ("--view", "--query-view", "--text", "--query-text"), []
        for option, field in zip(names, fields(self), strict=True):
            files: dict[str, Path] = {}
            for text in getattr(self, field.name) or []:
                name, _, path = text.partition("=")
                if not name or not path or name in files:
                    raise typer.BadParameter(
                        f"{option} must be NAME=FILE, with new names, got {text!r}."
                    )
                files[name] = Path(path)
            found.append(files)
        return ViewFiles(*found)


@dataclass(frozen=True, kw_only=True)
class FileOptions:
    """Options that say where the vectors and ids of a file are."""

    ids: IdsFile = None
    vector_column: VectorColumn = None
    id_column: IdColumn = None

    def vectors_in(self, path: Path) -> "VectorFile":
        """Vectors and ids of a file."""
        from similia.files import read_vectors

        return read_vectors(
            path, ids=self.ids, vector_column=self.vector_column, id_column=self.id_column
        )


@dataclass(frozen=True, kw_only=True)
class TableOptions(FileOptions):
    """Options that say what the columns of a table hold."""

    item_columns: ItemColumns = None
    embed: Embed = None

    def table_layout(self, table: Path) -> "ViewLayout | None":
        """Layout of a table of items, printed as soon as it is known; None for plain vectors."""
        plain = self.vector_column is not None or self.ids is not None
        if plain or table.suffix in (".npy", ".npz", ".safetensors", ".svmlight"):
            return None

        from similia.tabular.columns import column_kinds, is_table, kinds_in_words

        if not is_table(table):
            return None
        given = dict(named(text, "--item-column") for text in self.item_columns or ())
        if self.id_column is not None:
            given[self.id_column] = "id"
        kinds = column_kinds(table, given)
        mixed = {"text", "category", "date"} & set(kinds.values()) or self.embed or given
        if not mixed and table.suffix not in (".csv", ".tsv"):
            return None
        note(f"{table}: {kinds_in_words(kinds)}.")

        from similia.tabular.layout import ViewLayout

        return ViewLayout.found_in(table, kinds, self.embed or "")


@dataclass(frozen=True, kw_only=True)
class SideOptions(TableOptions):
    """Options that say more about the vectors of queries and items."""

    items: Items = None
    item_ids: ItemIdsFile = None


@dataclass(frozen=True, kw_only=True)
class Sides(SideOptions):
    """The vectors of queries, and options for them and those of items."""

    vectors: Vectors

    def fetched(self, folder: Path) -> Self:
        """The same with local files; those named by URLs are copied into the folder."""
        return replace(
            self,
            vectors=fetched(self.vectors, folder, beside=self.ids is None),
            items=self.items and fetched(self.items, folder, beside=self.item_ids is None),
            ids=self.ids and fetched(self.ids, folder),
            item_ids=self.item_ids and fetched(self.item_ids, folder),
        )

    def layout(self) -> "ViewLayout | None":
        """Layout of the items, if they are a table; None for plain vectors."""
        return self.table_layout(self.items or self.vectors)

    def paths(self) -> "tuple[VectorPath, VectorPath | None]":
        """Where workers find the vectors of queries and items."""
        from similia.distributed import VectorPath

        def path(vectors: Path, ids: Path | None) -> VectorPath:
            names = None if ids is None else str(ids)
            return VectorPath(str(vectors), names, self.vector_column, self.id_column)

        items = None if self.items is None else path(self.items, self.item_ids)
        return path(self.vectors, self.ids), items

    @contextmanager
    def read(
        self,
        views: FurtherViews | None = None,
        action: OnBadRow = OnBadRow.stop,
        log: Path | None = None,
        *,
        feedback: "Source | None" = None,
        layout: "ViewLayout | ViewFiles | None" = None,
    ) -> "Iterator[tuple[VectorFile, VectorFile | None, BadRows]]":
        """Yield the vectors, those of the items if they are separate, and a policy for bad rows.

        A table with a `layout` becomes the views of that; queries that are none of its rows are
        those that people typed, in the `feedback`.
        """
        from similia.files import ViewFiles, read_vectors

        if layout is not None and not isinstance(layout, ViewFiles):
            from similia.tabular.layout import read_sides

            with skipping(action, log) as bad:
                queries = None if self.items is None else self.vectors
                both = read_sides(
                    self.items or self.vectors, layout, feedback=feedback, queries=queries
                )
                yield *both, bad
            return
        further = views.files() if views else layout
        columns: Any = {"vector_column": self.vector_column, "id_column": self.id_column}
        with skipping(action, log) as bad:
            X, Z = read_vectors(self.vectors, ids=self.ids, bad_rows=bad, **columns), None
            if self.items is not None:
                Z = read_vectors(self.items, ids=self.item_ids, bad_rows=bad, **columns)
            if further is not None:
                X, Z = further.of_both(X, Z)
            try:
                yield X, Z, bad
            except BadRowError as error:
                if self.items is not None or "unknown id" not in str(error):
                    raise
                advice = "if items are in another file than queries, name it by --items"
                raise BadRowError(f"{str(error).rstrip('.')}; {advice}.") from error


@contextmanager
def skipping(action: OnBadRow, log: Path | None = None) -> "Iterator[BadRows]":
    """Yield a policy for bad rows; rows skipped are logged, and the first printed at the end."""
    from similia.files import BadRows

    with open(log or os.devnull, "w", encoding="utf-8") as file:
        bad = BadRows(action.value, lambda row: print(json.dumps(row._asdict()), file=file))
        yield bad
    for row in bad.first:
        note(f"skipped: {row}")
    if bad.n > len(bad.first):
        note(f"skipped: {bad.n - len(bad.first)} more.")


def grouped(command: Callable[..., None]) -> Callable[..., None]:
    """Make a command with groups of options as parameters take the options themselves.

    In help, the options of groups come after those of the command.
    """
    given = inspect.signature(command).parameters.values()
    groups: dict[str, Any] = {
        one.name: one.annotation for one in given if is_dataclass(one.annotation)
    }
    own: list[inspect.Parameter] = []
    others: list[inspect.Parameter] = []
    for one in given:
        options = [one]
        if one.name in groups:
            options = list(inspect.signature(groups[one.name]).parameters.values())
        for option in options:
            last = one.name in groups and option.default is not option.empty
            (others if last else own).append(option.replace(kind=option.KEYWORD_ONLY))

    @wraps(command)
    def run(**values: Any) -> None:
        for name, group in groups.items():
            values[name] = group(**{field.name: values.pop(field.name) for field in fields(group)})
        command(**values)

    run.__signature__ = inspect.Signature([*own, *others])  # type: ignore[attr-defined]
    run.__annotations__ = {option.name: option.annotation for option in (*own, *others)}
    return run
