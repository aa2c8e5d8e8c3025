"""Structured logs: one JSON object a line, with the id of the request. Never keys or bodies."""

import atexit
import contextlib
import logging
import queue
import sys
import threading
import time
from datetime import UTC, datetime
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


class LineWriter(logging.Handler):
    """Writes records from a thread of its own, in order; a closed stream is ignored.

    Lines of requests wait a moment for others: waking a thread for each would cost more than the
    requests do.
    """

    def __init__(self, stream: TextIO) -> None:
        super().__init__()
        self._stream = stream
        #: records, or the attributes of a request's record; None at the end
        self.waiting: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="journal", daemon=True)
        self._thread.start()

    def emit(self, record: logging.LogRecord) -> None:
        """Hand a record over."""
        self.waiting.put(record)

    def _run(self) -> None:
        found: list[Any] = []
        while None not in found:
            found = [self.waiting.get()]
            if isinstance(found[0], dict):
                time.sleep(FLUSH_INTERVAL)
            found += [self.waiting.get() for _ in range(min(self.waiting.qsize(), MAX_LINES))]
            records = [
                logging.makeLogRecord(each) if isinstance(each, dict) else each
                for each in found
                if each is not None
            ]
            with contextlib.suppress(ValueError, OSError):
                self._stream.write("".join([f"{self.format(record)}\n" for record in records]))
                self._stream.flush()

    def close(self) -> None:
        """Write what waits, and end."""
        self.waiting.put(None)
        self._thread.join()
        super().close()


def set_up(form: str, level: str) -> None:
    """Log to standard error from a thread of its own, uvicorn's messages included."""
    writer = LineWriter(sys.stderr)
    writer.setFormatter(JsonLines() if form == "json" else Lines())
    atexit.register(writer.close)
    for name in ("similia.service", "uvicorn"):
        found = logging.getLogger(name)
        found.handlers[:] = [writer]
        found.setLevel(level.upper())
        found.propagate = False
    logging.getLogger("uvicorn.access").disabled = True
    # No line names a thread or a process, and looking them up takes time.
    logging.logThreads = logging.logProcesses = logging.logMultiprocessing = False


def note(level: int, message: str, **details: Any) -> None:
    """Log a message with details."""
    logger.log(level, message, extra={"details": details})


def line(level: int, details: dict[str, Any]) -> None:
    """Log a request as cheaply as possible: there are thousands a second."""
    name = logging.getLevelName(level)
    given = {"levelno": level, "levelname": name, "msg": "request", "details": details}
    for handler in logger.handlers:
        if isinstance(handler, LineWriter):
            handler.waiting.put({**given, "created": time.time()})
            return
    logger.handle(logging.makeLogRecord({**given, "name": logger.name}))
