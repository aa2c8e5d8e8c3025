"""Structured logs: one JSON object a line, with the id of the request. Never keys or bodies."""

import logging
import sys
from datetime import UTC, datetime
from typing import Any

import msgspec

from similia.progress import printable

logger = logging.getLogger("similia.service")


class JsonLines(logging.Formatter):
    """A record as one line of JSON."""

    def format(self, record: logging.LogRecord) -> str:
        """Time, level and message, then what came with it."""
        line = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "message": record.getMessage(),
            **getattr(record, "details", {}),
        }
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return msgspec.json.encode(line, enc_hook=str).decode("utf-8", "replace")


class Lines(logging.Formatter):
    """A record as one line for people."""

    def format(self, record: logging.LogRecord) -> str:
        """Time, level, message and details."""
        when = datetime.fromtimestamp(record.created).isoformat(" ", "milliseconds")
        details = " ".join(f"{k}={_plain(v)}" for k, v in getattr(record, "details", {}).items())
        said = _plain(record.getMessage())
        text = f"{when} {record.levelname.lower():7} {said} {details}".rstrip()
        if record.exc_info:
            text = f"{text}\n{printable(self.formatException(record.exc_info))}"
        return text


def _plain(value: Any) -> str:
    """A value that stays on its line."""
    text = str(value)
    return text if text.isprintable() else repr(text)


def set_up(form: str, level: str) -> None:
    """Log to standard error, uvicorn's own messages included."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines() if form == "json" else Lines())
    for name in ("similia.service", "uvicorn"):
        found = logging.getLogger(name)
        found.handlers[:] = [handler]
        found.setLevel(level.upper())
        found.propagate = False
    logging.getLogger("uvicorn.access").disabled = True


def note(level: int, message: str, **details: Any) -> None:
    """Log a message with details."""
    logger.log(level, message, extra={"details": details})
