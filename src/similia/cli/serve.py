"""``similia serve``, ``feedback``, ``keys`` and ``log``: a live service, and what keeps it well."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields, make_dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from typer import Argument, Option

from similia.cli import inputs
from similia.cli import options as opt
from similia.service.settings import Settings, grouped_settings, read_settings

if TYPE_CHECKING:
    from similia.client import Client
    from similia.service.http.keys import Keys
    from similia.service.http.pages import Images
    from similia.service.tenants.files import ItemFile, QueryFile, TableFile

#: groups of settings that help leaves to --show-settings and the documents
FOR_OPERATORS = ("Limits", "Seconds", "Operation")
#: status of what does not exist
NOT_FOUND = 404

keys = typer.Typer(help="Make, list, rotate and revoke API keys.", no_args_is_help=True)
log = typer.Typer(help="Check and back up the log of a service.", no_args_is_help=True)

ItemsFile = Annotated[
    Path | None, Argument(metavar="ITEMS", help=f"Items to start with. {opt.VECTORS_HELP}")
]
TextsFile = Annotated[
    Path | None, Option("--texts", help="Texts of the items: .txt, or the column text of a table.")
]
QueriesFile = Annotated[
    Path | None, Option("--queries", help="Vectors of queries to ask people about.")
]
QueryTexts = Annotated[
    Path | None, Option("--query-texts", help="Texts of those queries, like --texts.")
]
Config = Annotated[
    Path | None, Option("--config", help="TOML file of settings; flags and variables beat it.")
]
Show = Annotated[bool, Option("--show-settings", help="Print all settings, and stop.")]
Store = Annotated[str | None, Option("--store", help="Folder of the logs, or a postgresql:// URL.")]
KeyFile = Annotated[str | None, Option("--keys", help="File of keys.")]
TenantName = Annotated[str, Option("--tenant", help="Tenant; * is all of them.")]


def _flag(each: Any, group: str) -> Any:
    name = each.name.replace("_", "-")
    spelled = f"--{name}/--no-{name}" if each.type is bool else f"--{name}"
    default = f" Default: {each.default}." if each.default not in ("", None) else ""
    told = f"{each.metadata['doc']}{default}"
    hidden = group in FOR_OPERATORS
    return Annotated[
        each.type | None, Option(spelled, help=told, rich_help_panel=group, hidden=hidden)
    ]


#: a flag for each setting, from the one list of them
_GROUPS = grouped_settings()
Flags: Any = make_dataclass(
    "Flags", [(each.name, _flag(each, _GROUPS[each.name]), None) for each in fields(Settings)]
)


@dataclass(frozen=True, kw_only=True)
class ServedOptions(inputs.TableOptions):
    """Options that say more about items, and name the queries to ask people about."""

    texts: TextsFile = None
    queries: QueriesFile = None
    query_texts: QueryTexts = None

    def files(
        self, items: Path | None, settings: Settings, images: "Images | None" = None
    ) -> "tuple[Settings, ItemFile | None, QueryFile | None]":
        """Items and queries to serve; settings with an embedder that matches the items."""
        from similia.service.tenants.files import ItemFile, QueryFile

        asked = None if self.queries is None else QueryFile(self.queries, texts=self.query_texts)
        if items is None:
            return settings, None, asked
        table = None if self.texts is not None else self._table(items)
        if table is None:
            columns = self.vector_column, self.id_column
            return settings, ItemFile(items, self.ids, *columns, self.texts, images), asked
        if not settings.embedder:
            settings = replace(settings, embedder=_embedder_of(table))
        return settings, replace(table, images=images), asked

    def _table(self, items: Path) -> "TableFile | None":
        """Items of a table whose columns are views, if it is one."""
        layout = self.table_layout(items)
        if layout is None:
            return None
        from similia.service.tenants.files import TableFile

        return TableFile(items, layout=layout)


@inputs.grouped
def serve(
    served: ServedOptions,
    flags: Flags,
    items: ItemsFile = None,
    config: Config = None,
    show_settings: Show = False,
) -> None:
    """Serve feedback and rankings over HTTP.

    Listens on this machine only, until told otherwise and given keys. Items are added to the first
    tenant, or replace those with the same ids. It ends on Ctrl-C or SIGTERM, once the requests
    under way are answered. Every setting is a flag (--max-body), a variable of the environment
    (SIMILIA_MAX_BODY), and a name in the file for --config (max_body). Limits, deadlines and
    logging are settings, too: --show-settings lists all.
    """
    inputs.check_files(items, served)
    settings, origin = read_settings(config, flags=vars(flags))
    if show_settings:
        for name, value in settings.shown().items():
            opt.say(f"{name} = {value!r}  # {origin.get(name, 'default')}")
        return
    _need_serve()
    settings, file, asked = served.files(items, settings)
    _run(settings, file, asked, lambda url: opt.note(f"Listening on {url}; try {url}/docs."))


@inputs.grouped
def judge(
    served: ServedOptions,
    items: Annotated[Path, Argument(metavar="ITEMS", help=f"Items to judge. {opt.VECTORS_HELP}")],
    store: Annotated[
        Path | None,
        Option("--store", help="Folder for the judgements. Default: judged-NAME beside the items."),
    ] = None,
    images: Annotated[
        Path | None,
        Option("--images", help="Folder of pictures named like the ids of the items."),
    ] = None,
    port: Annotated[int, Option("--port", min=0, max=65535, help="Port; 0 is any free one.")] = 0,
    browser: Annotated[bool, Option(help="Open the page in a browser.")] = True,
) -> None:
    """Judge items on a page in the browser.

    Starts a service for this machine only. Judgements are kept in a folder: start again with the
    same one to go on. Without queries, questions ask which of two items is more like a third.
    """
    inputs.check_files(items, served)
    for path in (items, *vars(served).values()):
        if isinstance(path, Path) and not path.is_file():
            raise ValueError(f"judge: {path} must be a file that exists; see similia judge --help.")
    if served.query_texts is not None and served.queries is None:
        raise ValueError("judge: --query-texts must come with --queries, got none.")
    _need_serve()

    import webbrowser

    from similia.service.http.pages import Images

    folder = store or items.parent / f"judged-{items.stem}"
    flags = {"store": str(folder), "port": port, "log_level": "warning", "warm_up": "beside"}
    settings, _ = read_settings(None, flags=flags)
    pictures = None if images is None else Images(images)
    settings, file, asked = served.files(items, settings, pictures)

    def greet(url: str) -> None:
        opt.note(f"Judge on {url}; judgements are kept in {folder}. Ctrl-C stops.")
        if browser:
            webbrowser.open(url)

    _run(settings, file, asked, greet, pictures)


def _embedder_of(table: "TableFile") -> str:
    """Setting by which typed queries get vectors like those of the items; "" for none."""
    if table.layout.columns("vector") and not table.layout.embedder:
        return ""
    return f"local:{table.layout.embedder}" if table.layout.embedder else f"words:{table.words}"


def _run(
    settings: Settings,
    items: "ItemFile | None",
    queries: "QueryFile | None",
    greet: Callable[[str], None],
    images: "Images | None" = None,
) -> None:
    from similia.service.http import journal
    from similia.service.http.app import Service
    from similia.service.http.server import serve as run

    journal.set_up(settings.log_format, settings.log_level)
    run(Service(settings, items=items, queries=queries, images=images), greet)


def feedback(
    file: Annotated[
        Path,
        Argument(
            metavar="FEEDBACK",
            help="Judgements as `similia learn` reads them: triplets, grades, logs of lists; "
            "searches of UBI with --events; or .jsonl of judgements as the API takes them, - reads "
            "such lines.",
        ),
    ],
    events: Annotated[
        Path | None, Option("--events", help="Events of UBI, if FEEDBACK are its searches.")
    ] = None,
    columns: opt.Columns = None,
    queries: Annotated[
        Literal["item", "id", "text"] | None,
        opt.judgement_option(
            "--queries",
            help="What queries are: ids of items, ids of queries that the service knows, or texts "
            "that people typed. Default: items if they are known as such, else texts.",
        ),
    ] = None,
    url: opt.Url = opt.LOCAL_SERVICE,
    tenant: opt.TenantAt = "default",
    key: opt.ApiKey = None,
    judge: Annotated[str | None, Option("--judge", help="Who judged.")] = None,
    batch: Annotated[int, Option("--batch", min=1, max=1000, help="Judgements a request.")] = 200,
    as_json: opt.AsJson = False,
) -> None:
    """Send judgements to a service.

    Sending a file again, or the rest of it, does no harm: judgements that the service has are not
    counted twice.
    """
    _need_serve()
    from similia.client import Client
    from similia.service.client.sending import batches, judgements_in

    sent = known = 0
    last = 0
    with service_in_words(), Client(url, tenant, key) as client:
        names = inputs.named_columns(columns)
        kind: str = queries or "item"
        if queries is None and events is None:
            kind = kind_of_queries(client, file, names)
        found = judgements_in(file, judge, events=events, columns=names, queries=kind)
        for rows in batches(found, batch):
            receipts = client.feedback(rows)
            sent += len(receipts)
            known += sum(receipt.duplicate for receipt in receipts)
            last = max([last, *(receipt.seq for receipt in receipts)])
    if as_json:
        opt.print_json({"judgements": sent, "duplicates": known, "seq": last})
    else:
        opt.say(f"Sent {sent} judgements, {known} of them known before; last in the log: {last}.")


# -- keys ----------------------------------------------------------------------------------------


@keys.command("add")
def keys_add(
    tenant: TenantName = "default",
    scope: Annotated[
        list[str] | None,
        Option("--scope", help="Scope: read, feedback or admin; repeatable. Default: admin."),
    ] = None,
    name: Annotated[str, Option("--name", help="What the key is for.")] = "",
    judge: Annotated[
        str | None, Option("--judge", help="Judgements with this key are this judge's.")
    ] = None,
    hours: Annotated[float | None, Option("--hours", min=0, help="Expire after so long.")] = None,
    config: Config = None,
    store: Store = None,
    file: KeyFile = None,
) -> None:
    """Make a key and print it, once.

    Only its hash is stored, and a running service knows it at once.
    """
    found = _keys(config, store, file)
    expires = None if hours is None else time.time() + 3600 * hours
    key, token = found.add(
        tenant, tuple(scope or ["admin"]), name=name, judge=judge, expires=expires
    )
    opt.say(token)
    opt.note(f"key {key.id} for {', '.join(key.scopes)} of {key.tenant}, kept in {found.path}.")


@keys.command("list")
def keys_list(
    config: Config = None, store: Store = None, file: KeyFile = None, as_json: opt.AsJson = False
) -> None:
    """List keys, without their secrets."""
    from similia.service.http.keys import described

    rows = [described(key) for key in _keys(config, store, file).list()]
    if as_json:
        opt.print_json(rows)
        return
    header = ["id", "tenant", "scopes", "name", "judge", "created", "expires"]
    opt.print_table(header, [[str(row[name] or "") for name in header] for row in rows])


@keys.command("rotate")
def keys_rotate(
    key: Annotated[str, Argument(metavar="ID", help="Id of the key.")],
    grace: Annotated[
        float, Option("--grace", min=0, help="Hours that the old key goes on working.")
    ] = 24.0,
    config: Config = None,
    store: Store = None,
    file: KeyFile = None,
) -> None:
    """Replace a key by a new one, and print that, once."""
    new, token = _told(lambda: _keys(config, store, file).rotate(key, grace=3600 * grace), key)
    opt.say(token)
    opt.note(f"key {new.id} replaces {key}, which works for {grace:g} more hours.")


@keys.command("revoke")
def keys_revoke(
    key: Annotated[str, Argument(metavar="ID", help="Id of the key.")],
    config: Config = None,
    store: Store = None,
    file: KeyFile = None,
) -> None:
    """Revoke a key, at once."""
    found = _keys(config, store, file)
    _told(lambda: found.revoke(key), key)
    left = len(found.list())
    opt.note(f"key {key} is revoked; {left} left.")


def _keys(config: Path | None, store: str | None, file: str | None) -> "Keys":
    from similia.service.http.keys import Keys

    settings, _ = read_settings(config, flags={"store": store, "keys": file})
    return Keys(settings.key_file)


def _told(change: Callable[[], Any], key: str) -> Any:
    try:
        return change()
    except KeyError:
        raise ValueError(
            f"keys: ID must be that of a key, got {key!r:.80}; see the list."
        ) from None


# -- the log -------------------------------------------------------------------------------------


@log.command("check")
def log_check(
    tenant: Annotated[str | None, Option("--tenant", help="Tenant. Default: all of them.")] = None,
    config: Config = None,
    store: Store = None,
    set_aside: Annotated[
        bool,
        Option(
            "--set-aside", help="Set rows aside that cannot be learnt; the service must be stopped."
        ),
    ] = False,
    as_json: opt.AsJson = False,
) -> None:
    """Verify the chain of hashes over every row, and that all can be learnt.

    It may run beside the service. Rows that cannot be learnt are named.
    """
    from similia.service.tenants.upkeep import check

    rows = []
    with service_in_words():
        for name, found in check(_store(config, store), tenant, set_aside=set_aside):
            rows.append({"tenant": name, **found._asdict()})
            if as_json:
                continue
            opt.say(f"{name}: {found.rows} rows, whole; last hash {found.head}")
            for reason in found.unlearnable.values():
                opt.say(f"{name}: {reason}{' (set aside)' if set_aside else ''}")
    if as_json:
        opt.print_json(rows)


@log.command("backup")
def log_backup(
    target: Annotated[Path, Argument(metavar="FOLDER", help="Where to put the copies.")],
    tenant: Annotated[str | None, Option("--tenant", help="Tenant. Default: all of them.")] = None,
    config: Config = None,
    store: Store = None,
) -> None:
    """Copy the logs while the service runs, and verify the copies."""
    from similia.service.tenants.upkeep import backup

    with service_in_words():
        for name, path, found in backup(_store(config, store), target, tenant):
            opt.say(f"{name}: {found.rows} rows in {path}; last hash {found.head}")


def _store(config: Path | None, store: str | None) -> str:
    _need_serve()
    return read_settings(config, flags={"store": store})[0].store


def kind_of_queries(client: "Client", file: Path, columns: dict[str, str]) -> str:
    """What the queries of a file are, for this service; said if they are texts."""
    from similia.client import ServiceProblem
    from similia.service.client.sending import queries_are

    def is_item(name: str) -> bool:
        try:
            client.item(name)
        except ServiceProblem as problem:
            if problem.status != NOT_FOUND:
                raise
            return False
        return True

    found = queries_are(file, columns, is_item)
    if found == "text":
        opt.note("Queries are no items here, so they are sent as what people typed (--queries).")
    return found


@contextmanager
def service_in_words() -> Iterator[None]:
    """Errors of services and connections as the command line reports errors."""
    from httpx import HTTPError

    from similia.client import ServiceProblem
    from similia.service.errors import ServiceError

    try:
        yield
    except (ServiceError, ServiceProblem) as error:
        raise ValueError(str(error)) from error
    except HTTPError as error:
        raise OSError(f"the service cannot be reached: {error or type(error).__name__}.") from error


def _need_serve() -> None:
    from similia.exceptions import MissingExtraError

    try:
        import apsw  # noqa: F401
        import httpx  # noqa: F401
        import msgspec  # noqa: F401
        import starlette  # noqa: F401
        import uvicorn  # noqa: F401
    except ImportError as error:
        raise MissingExtraError("similia serve", error.name or "a package", "serve") from error
