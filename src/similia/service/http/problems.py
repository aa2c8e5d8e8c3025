"""Answers that are errors, in one form."""

import math

import msgspec

from similia.service.errors import ServiceError, Unavailable


class Error(msgspec.Struct, frozen=True, omit_defaults=True):
    """Why a request failed; nothing of it was stored."""

    error: str
    status: int
    request_id: str
    #: what is wrong with single rows of a batch, by their places from 0
    rows: dict[str, str] | None = None


class Problem(Exception):
    """A request that cannot be served, with its status."""

    def __init__(
        self,
        status: int,
        sentence: str,
        *,
        retry_after: float | None = None,
        headers: dict[str, str] | None = None,
        rows: dict[int, str] | None = None,
    ) -> None:
        super().__init__(sentence)
        self.status = status
        self.sentence = sentence
        self.rows = {str(row): why for row, why in rows.items()} if rows else None
        self.headers = dict(headers or {})
        if retry_after is not None:
            self.headers["retry-after"] = str(max(1, math.ceil(retry_after)))
        if status in (408, 413):  # the rest of the body is not read
            self.headers["connection"] = "close"


def as_problem(error: Exception) -> Problem:
    """The answer to an error of the engine, or to one that nobody expected."""
    if isinstance(error, Problem):
        return error
    if isinstance(error, ServiceError) and error.status != 500:
        retry = 1 if isinstance(error, Unavailable) else None
        rows = getattr(error, "rows", None)
        return Problem(error.status, str(error), retry_after=retry, rows=rows)
    if isinstance(error, MemoryError):
        return Problem(503, "not enough memory for this request.", retry_after=1)
    return Problem(500, "an error of the service; its log has the request id.")
