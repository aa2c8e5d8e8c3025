"""The one list of settings of a service: from a file, the environment and flags, in that order.

Standard library only, so that the command line can show the list at once.
"""

import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from ipaddress import ip_address
from pathlib import Path
from typing import Any

from similia.service.log.limits import MAX_RANKED

VARIABLE_PREFIX = "SIMILIA_"
#: variables of the environment that other parts of the project read
NOT_SETTINGS = {"SIMILIA_DATA", "SIMILIA_CACHE", "SIMILIA_KEY"}
#: the first setting of each group, for help and documents
GROUPS = {
    "host": "Where",
    "items_at": "Items that are elsewhere",
    "max_body": "Limits",
    "timeout": "Seconds",
    "embedder": "Typed queries",
    "hold_out": "Learning",
    "log_level": "Operation",
}
#: characters of an address, which PostgreSQL keeps as the name of a connection
MAX_ADDRESS = 63
#: values that are never printed
SECRET = "***"


def setting(
    default: Any,
    doc: str,
    *,
    least: float | None = None,
    most: float | None = None,
    choices: tuple[str, ...] = (),
    secret: bool = False,
) -> Any:
    """Declare a setting: default, sentence, bounds or choices, and whether it is a secret."""
    rules = {"least": least, "most": most, "choices": choices}
    return field(default=default, metadata={"doc": doc, "secret": secret, **rules})


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Everything that can be set, checked."""

    # -- where ---------------------------------------------------------------------------------
    host: str = setting("127.0.0.1", "Address to listen on. Anything but loopback needs keys.")
    port: int = setting(8765, "Port to listen on; 0 takes a free one.", least=0, most=65535)
    store: str = setting("similia-store", "Folder of the logs, or a postgresql:// URL.")
    cache: str = setting("", "Folder for what is computed from logs in a database.")
    tenant: str = setting("default", "Tenant that is made at the start, if missing.")
    follow: bool = setting(
        False,
        "Follow logs in a database that another process writes: rank, and hand on the rest.",
    )
    tenants: str = setting("", "Tenants that are served here, with commas between. Default: all.")
    address: str = setting(
        "", "URL at which processes that follow reach this one. Default: host and port."
    )
    keys: str = setting("", "File of keys. Default: keys.json in the folder of the logs.")

    # -- items that are elsewhere ----------------------------------------------------------------
    items_at: str = setting(
        "",
        "Database that has the items of the first tenant: a postgresql:// URL, or qdrant: and an "
        "address or a folder. It proposes, the service learns and ranks.",
    )
    items_table: str = setting("items", "Table or collection of those items.")
    items_id: str = setting(
        "", "Column or field of their ids. Default: id; in Qdrant the id of the point."
    )
    items_vector: str = setting(
        "", "Column or name of their vectors. Default: embedding; in Qdrant the unnamed one."
    )
    items_key: str = setting("", "Key of that database. Better in the environment.", secret=True)

    # -- limits --------------------------------------------------------------------------------
    max_body: int = setting(8 * 2**20, "Bytes of a request's body.", least=1024, most=2**30)
    max_buffered: int = setting(
        128 * 2**20, "Bytes of all bodies at a time; one key may have a quarter.", least=1024
    )
    max_unread: int = setting(
        256 * 2**20, "Bytes of all answers that wait for slow readers.", least=1024
    )
    max_batch: int = setting(1000, "Judgements, items or queries in one request.", least=1)
    max_features: int = setting(8192, "Numbers in one vector.", least=1)
    max_k: int = setting(MAX_RANKED, "Items in one ranking.", least=1, most=MAX_RANKED)
    max_requests: int = setting(512, "Requests at a time; one key may have a quarter.", least=1)
    max_waiting: int = setting(64, "Requests waiting for a free thread; more get 503.", least=1)
    rate: float = setting(1000.0, "Requests a second of one key; 0 is no limit.", least=0)
    burst: int = setting(2000, "Requests of one key at once, before its rate counts.", least=1)
    wrong_rate: float = setting(
        10.0, "Requests a second with a wrong key, from one address; 0 is no limit.", least=0
    )
    page_rate: float = setting(
        500.0, "Requests a second for pages, from one address; 0 is no limit.", least=0
    )
    threads: int = setting(4, "Threads that search.", least=1, most=256)

    # -- time, in seconds ----------------------------------------------------------------------
    timeout: float = setting(30.0, "Seconds for a request.", least=0.01)
    long_timeout: float = setting(600.0, "Seconds to evaluate or promote.", least=0.01)
    header_timeout: float = setting(10.0, "Seconds to send a request's head.", least=0.01)
    body_timeout: float = setting(20.0, "Seconds to send a request's body.", least=0.01)
    write_timeout: float = setting(20.0, "Seconds a reader may stop a response.", least=0.01)
    max_silence: float = setting(
        0.0,
        "Seconds without the database after which a process that follows is not ready; 0: never.",
        least=0,
    )
    keep_alive: float = setting(75.0, "Seconds that an idle connection is kept.", least=0)
    drain: float = setting(20.0, "Seconds to finish requests after SIGTERM.", least=0)

    # -- typed queries -------------------------------------------------------------------------
    embedder: str = setting(
        "",
        "What turns texts into vectors: the URL of a /v1/embeddings endpoint, or "
        "sentence-transformers:FOLDER for a model on the disk. A table of items brings its own.",
    )
    embedder_model: str = setting("", "Name of the model, for an endpoint.")
    embedder_key: str = setting("", "Key of the endpoint. Better in the environment.", secret=True)
    embedder_view: str = setting("vectors", "View that the embedder's vectors belong to.")
    words: str = setting(
        "",
        "File of the words of items that have vectors and texts, for a process that is given no "
        "items; none: they are no view of a new store. Items bring their own.",
    )

    # -- learning ------------------------------------------------------------------------------
    hold_out: float = setting(
        0.2, "Share of queries of new tenants that are kept for exams.", least=0, most=0.9
    )

    search: str = setting(
        "exact",
        "Search of new tenants: exact, or proposed by a library.",
        choices=("exact", "faiss", "usearch", "hnswlib"),
    )

    warm_up: str = setting(
        "first",
        "When to load what the first judgement needs: first, before the service is ready; "
        "beside it, while it serves; or never, until it is needed.",
        choices=("first", "beside", "never"),
    )

    # -- operation -----------------------------------------------------------------------------
    log_level: str = setting(
        "info", "What is logged.", choices=("debug", "info", "warning", "error")
    )
    log_format: str = setting("json", "JSON lines, or text for people.", choices=("json", "text"))
    try_page: bool = setting(True, "Serve /docs, a page to try the API.")
    telemetry: bool = setting(False, "Send traces by OpenTelemetry, set up by OTEL_* variables.")

    def __post_init__(self) -> None:
        for each in fields(self):
            object.__setattr__(self, each.name, _checked(each, getattr(self, each.name)))
        if self.max_buffered < self.max_body:
            raise ValueError(
                f"settings: max_buffered must be at least max_body, {self.max_body}, "
                f"got {self.max_buffered}."
            )

        self._check_processes()

    def _check_processes(self) -> None:
        """Check what concerns several processes."""
        if self.follow and not self.is_database:
            raise ValueError(
                f"settings: store must be a postgresql:// URL to follow, got {self.store!r:.80}."
            )
        if self.served and self.tenant not in self.served:
            raise ValueError(
                f"settings: tenant must be one of tenants, {', '.join(sorted(self.served))}, "
                f"got {self.tenant!r:.80}."
            )
        address = self.address
        if address and not (
            address.startswith(("http://", "https://"))
            and address.isascii()
            and len(address) <= MAX_ADDRESS
        ):
            raise ValueError(
                f"settings: address must be a URL of at most {MAX_ADDRESS} characters, got "
                f"{address!r:.80}."
            )

    @property
    def served(self) -> frozenset[str]:
        """Tenants that are served here; none is all."""
        return frozenset(name.strip() for name in self.tenants.split(",") if name.strip())

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can connect."""
        if self.host == "localhost":
            return True
        try:
            return ip_address(self.host).is_loopback
        except ValueError:
            return False

    @property
    def is_database(self) -> bool:
        """Whether the logs are in PostgreSQL instead of a folder."""
        return is_url(self.store)

    @property
    def key_file(self) -> Path:
        """Where keys are; beside the logs by default."""
        if self.keys:
            return Path(self.keys)
        if self.is_database:
            return Path("similia-keys.json")
        return Path(self.store) / "keys.json"

    def shown(self) -> dict[str, Any]:
        """Values by name, without secrets."""
        found = {
            f.name: SECRET if f.metadata["secret"] and getattr(self, f.name) else v
            for f in fields(self)
            for v in [getattr(self, f.name)]
        }
        if self.is_database:
            found["store"] = without_password(self.store)
        found["items_at"] = without_password(self.items_at)
        return found


def is_url(where: str | Path) -> bool:
    """Whether a place is a PostgreSQL database."""
    return str(where).startswith(("postgres://", "postgresql://"))


def without_password(url: str) -> str:
    """A URL whose password is not shown."""
    scheme, found, rest = url.partition("://")
    if not found:
        return url
    account, at, place = rest.rpartition("@")
    user = account.partition(":")[0]
    shown = f"{user}:{SECRET}" if ":" in account else account
    return f"{scheme}://{shown}{at}{place.partition('?')[0]}"


def read_settings(
    file: Path | None = None,
    environment: Mapping[str, str] | None = None,
    flags: Mapping[str, Any] | None = None,
) -> tuple[Settings, dict[str, str]]:
    """Read settings; flags beat the environment, which beats the file, which beats defaults.

    Parameters
    ----------
    file : path, optional
        TOML with the names of settings.
    environment : mapping, optional
        Variables named ``SIMILIA_`` and the setting's name in capitals; the process's by default.
    flags : mapping, optional
        Values by name; None is not given.

    Returns
    -------
    Settings, dict
        And where each value that is not the default came from.
    """
    given: dict[str, Any] = {}
    origin: dict[str, str] = {}
    names = {f.name for f in fields(Settings)}
    variables = os.environ if environment is None else environment
    for source, values in (
        (str(file), {} if file is None else _read_file(file)),
        ("environment", _of_environment(variables)),
        ("flag", {name: value for name, value in (flags or {}).items() if value is not None}),
    ):
        unknown = sorted(values.keys() - names)
        if unknown:
            raise ValueError(
                f"{source}: a setting must be one of {', '.join(sorted(names))}, "
                f"got {unknown[0]!r}."
            )
        given |= values
        origin |= dict.fromkeys(values, source)
    return Settings(**given), origin


def _read_file(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ValueError(f"{path}: settings must be TOML, got an error: {error}.") from error


def _of_environment(variables: Mapping[str, str]) -> dict[str, Any]:
    return {
        name.removeprefix(VARIABLE_PREFIX).lower(): value
        for name, value in variables.items()
        if name.startswith(VARIABLE_PREFIX) and name not in NOT_SETTINGS
    }


def _checked(each: Any, value: Any) -> Any:
    """Value in the type of its field; texts of the environment become numbers."""
    rules, kind = each.metadata, each.type
    shown = SECRET if rules["secret"] else repr(value)
    if isinstance(value, str) and kind is not str:
        value = _parsed(kind, value)
    if kind is float and type(value) is int:
        value = float(value)
    least, most, choices = rules["least"], rules["most"], rules["choices"]
    right = type(value) is kind
    if right and kind in (int, float):
        right = (least is None or value >= least) and (most is None or value <= most)
        right = right and abs(value) < 2**53
    if right and choices:
        right = value in choices
    if not right:
        words = {int: "an integer", float: "a number", bool: "true or false", str: "a text"}[kind]
        if choices:
            words = f"one of {', '.join(choices)}"
        if least is not None:
            words += f" of at least {least:g}"
        if most is not None:
            words += f" and at most {most:g}"
        raise ValueError(f"settings: {each.name} must be {words}, got {shown}.")
    return value


def _parsed(kind: type, text: str) -> Any:
    if kind is bool:
        return {"true": True, "1": True, "false": False, "0": False}.get(text.lower(), text)
    try:
        return kind(text)
    except ValueError:
        return text


def grouped_settings() -> dict[str, str]:
    """Group of each setting, by its name, in their order."""
    found, group = {}, ""
    for each in fields(Settings):
        group = GROUPS.get(each.name, group)
        found[each.name] = group
    return found
