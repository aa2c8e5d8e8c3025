"""Structured logs: one JSON object a line, with the id of the request. Never keys or bodies."""

import atexit
import logging
import queue
import sys
from datetime import UTC, datetime
from logging.handlers import QueueHandler, QueueListener
from typing import Any

import msgspec

logger = logging.getLogger("similia.service")

_encoder = msgspec.json.Encoder(enc_hook=str)


class JsonLines(logging.Formatter):
    """A record as one line of JSON."""

    def format(self, record: logging.LogRecord) -> str:
        """Time, level and message, then what came with it."""
        moment = datetime.fromtimestamp(record.created, UTC)
        line: dict[str, Any] = {
            "time": moment.isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "message": record.getMessage(),
            **getattr(record, "details", {}),
        }
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
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


def _plain(value: Any) -> str:
    """A value that stays on its line."""
    text = str(value)
    return text if text.isprintable() else repr(text)


class _Handler(QueueHandler):
    """Hands records to the thread that writes them."""

    def prepare(self, record: logging.LogRecord) -> logging.LogRecord:
        """Leave the formatting to that thread, too."""
        return record


def set_up(form: str, level: str) -> None:
    """Log to standard error from a thread of its own, uvicorn's messages included."""
    writer = logging.StreamHandler(sys.stderr)
    writer.setFormatter(JsonLines() if form == "json" else Lines())
    waiting: queue.SimpleQueue[logging.LogRecord] = queue.SimpleQueue()
    listener = QueueListener(waiting, writer)
    listener.start()
    atexit.register(listener.stop)
    for name in ("similia.service", "uvicorn"):
        found = logging.getLogger(name)
        found.handlers[:] = [_Handler(waiting)]
        found.setLevel(level.upper())
        found.propagate = False
    logging.getLogger("uvicorn.access").disabled = True


def note(level: int, message: str, **details: Any) -> None:
    """Log a message with details."""
    logger.log(level, message, extra={"details": details})
