"""Structured logs: one JSON object a line, with the id of the request. Never keys or bodies."""

import atexit
import contextlib
import logging
import queue
import sys
import time
from datetime import UTC, datetime
from logging.handlers import BufferingHandler, QueueHandler, QueueListener
from typing import Any, TextIO

import msgspec

logger = logging.getLogger("similia.service")

#: seconds that lines of requests may wait for others, and how many are written at once
FLUSH_INTERVAL, MAX_LINES = 0.05, 256

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


class Handler(QueueHandler):
    """Hands records to the thread that writes them."""

    def prepare(self, record: logging.LogRecord) -> logging.LogRecord:
        """Leave the formatting to that thread, too."""
        return record


class Writer(BufferingHandler):
    """Writes many lines at once; a stream that was closed takes nothing."""

    def __init__(self, stream: TextIO) -> None:
        super().__init__(MAX_LINES)
        self._stream = stream

    def flush(self) -> None:
        """Write what was handed over."""
        records, self.buffer = self.buffer, []
        text = "".join([f"{self.format(record)}\n" for record in records])
        with contextlib.suppress(ValueError, OSError):
            if text:
                self._stream.write(text)
                self._stream.flush()


class Listener(QueueListener):
    """Takes records from the queue: lines of requests a moment after the first of them.

    A thread that woke up for each would cost more than the requests.
    """

    def __init__(self, waiting: "queue.SimpleQueue[Any]", writer: Writer) -> None:
        super().__init__(waiting, writer)
        self._waiting, self._writer = waiting, writer

    def prepare(self, record: Any) -> logging.LogRecord:
        """A record; lines of requests become one here, not where requests are served."""
        found: logging.LogRecord = record
        return logging.makeLogRecord(record) if isinstance(record, dict) else found

    def dequeue(self, block: bool) -> Any:
        """What comes next."""
        if not self._waiting.empty():
            return self._waiting.get(block)
        self._writer.flush()
        record = self._waiting.get(block)
        if isinstance(record, dict):
            time.sleep(FLUSH_INTERVAL)
        return record


def set_up(form: str, level: str) -> None:
    """Log to standard error from a thread of its own, uvicorn's messages included."""
    writer = Writer(sys.stderr)
    writer.setFormatter(JsonLines() if form == "json" else Lines())
    waiting: queue.SimpleQueue[Any] = queue.SimpleQueue()
    listener = Listener(waiting, writer)
    listener.start()
    atexit.register(_end, listener, writer)
    for name in ("similia.service", "uvicorn"):
        found = logging.getLogger(name)
        found.handlers[:] = [Handler(waiting)]
        found.setLevel(level.upper())
        found.propagate = False
    logging.getLogger("uvicorn.access").disabled = True
    # No line names a thread or a process, and to find their names costs time for each.
    logging.logThreads = logging.logProcesses = logging.logMultiprocessing = False


def _end(listener: QueueListener, writer: Writer) -> None:
    listener.stop()
    writer.flush()


def note(level: int, message: str, **details: Any) -> None:
    """Log a message with details."""
    logger.log(level, message, extra={"details": details})


def line(level: int, details: dict[str, Any]) -> None:
    """Log a request, with as little work as can be: there are thousands a second."""
    name = logging.getLevelName(level)
    given = {"levelno": level, "levelname": name, "msg": "request", "details": details}
    for handler in logger.handlers:
        if isinstance(handler, Handler):
            handler.enqueue({**given, "created": time.time()})  # type: ignore[arg-type]
            return
    logger.handle(logging.makeLogRecord({**given, "name": logger.name}))
