"""Structured logs: one JSON object a line, with the id of the request. Never keys or bodies."""

import contextlib
import logging
import sys
import threading
import time
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, TextIO

import msgspec

logger = logging.getLogger("similia.service")

_encoder = msgspec.json.Encoder(enc_hook=str)

#: seconds that lines of requests may wait, and how many
SHORT_WHILE, MOST_LINES = 0.05, 256


class JsonLines(logging.Formatter):
    """A record as one line of JSON."""

    def format(self, record: logging.LogRecord) -> str:
        """Time, level and message, then what came with it."""
        details = getattr(record, "details", {})
        if record.exc_info:
            details = {**details, "traceback": self.formatException(record.exc_info)}
        return self.line(record.created, record.levelno, record.getMessage(), details)

    def line(self, created: float, level: int, message: str, details: dict[str, Any]) -> str:
        """The same without a record."""
        name = logging.getLevelName(level).lower()
        moment = _moment(int(created * 1000))
        line = {"time": moment, "level": name, "message": message, **details}
        return _encoder.encode(line).decode("utf-8", "replace")


class Lines(logging.Formatter):
    """A record as one line for people."""

    def format(self, record: logging.LogRecord) -> str:
        """Time, level, message and details."""
        when = datetime.fromtimestamp(record.created).isoformat(" ", "milliseconds")
        details = " ".join(f"{k}={_plain(v)}" for k, v in getattr(record, "details", {}).items())
        said = _plain(record.getMessage())
        text = f"{when} {record.levelname.lower():7} {said} {details}".rstrip()
        if record.exc_info:
            trace = self.formatException(record.exc_info).splitlines()
            text = "\n".join([text, *map(_plain, trace)])
        return text


class Gathering(logging.StreamHandler[Any]):
    """Writes lines to a stream; those of requests together, a moment after the first of them.

    A line that is written alone costs more than the request's way through the service. Whatever
    else is logged is written at once, with all that came before it.
    """

    def __init__(self, stream: TextIO) -> None:
        super().__init__(stream)
        self._lines: list[str] = []
        self._some = threading.Event()
        self._thread: threading.Thread | None = None

    def emit(self, record: logging.LogRecord) -> None:
        """Write a line."""
        self._lines.append(self.format(record) + self.terminator)
        self.flush()

    def take_down(self, line: str) -> None:
        """Write a line soon."""
        with self.lock or contextlib.nullcontext():
            self._lines.append(line + self.terminator)
            n = len(self._lines)
        if n >= MOST_LINES:
            self.flush()
        elif n == 1:
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="journal", daemon=True)
                self._thread.start()
            self._some.set()

    def flush(self) -> None:
        """Write what was taken down; a stream that was closed takes nothing."""
        with self.lock or contextlib.nullcontext():
            lines, self._lines = self._lines, []
            with contextlib.suppress(ValueError, OSError):
                if lines:
                    self.stream.write("".join(lines))
                self.stream.flush()

    def _run(self) -> None:
        while True:
            self._some.wait()
            self._some.clear()
            time.sleep(SHORT_WHILE)
            self.flush()


def _plain(value: Any) -> str:
    """A value that stays on its line."""
    text = str(value)
    return text if text.isprintable() else repr(text)


def set_up(form: str, level: str) -> None:
    """Log to standard error, uvicorn's own messages included."""
    handler = Gathering(sys.stderr)
    handler.setFormatter(JsonLines() if form == "json" else Lines())
    for name in ("similia.service", "uvicorn"):
        found = logging.getLogger(name)
        found.handlers[:] = [handler]
        found.setLevel(level.upper())
        found.propagate = False
    logging.getLogger("uvicorn.access").disabled = True


@lru_cache(maxsize=2)
def _moment(milliseconds: int) -> str:
    """A time in UTC; many requests are answered within a millisecond."""
    return datetime.fromtimestamp(milliseconds / 1000, UTC).isoformat(timespec="milliseconds")


def quick(level: int, message: str, details: dict[str, Any]) -> None:
    """Log what is logged all the time: as JSON without a record, where nothing else listens."""
    handlers = logger.handlers
    if len(handlers) == 1 and isinstance(handlers[0], Gathering) and not logger.propagate:
        form = handlers[0].formatter
        if isinstance(form, JsonLines):
            handlers[0].take_down(form.line(time.time(), level, message, details))
            return
    note(level, message, **details)


def note(level: int, message: str, **details: Any) -> None:
    """Log a message with details."""
    logger.log(level, message, extra={"details": details})
