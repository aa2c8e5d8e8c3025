"""What can go wrong in a service, each with the status that HTTP gives it."""

import math
from collections.abc import Mapping


class ServiceError(Exception):
    """An error that a client can act on.

    Attributes
    ----------
    status : int
        Status of HTTP.
    rows : dict
        What is wrong with single rows of a batch, by their places.
    headers : dict
        Further headers of the answer.
    pause : float
        Seconds until it is sent.
    """

    status = 500
    pause = 0.0
    headers: Mapping[str, str] = {}

    def __init__(self, message: str = "", rows: Mapping[int, str] | None = None) -> None:
        super().__init__(message)
        self.rows = dict(rows or {})


class Gone(Exception):
    """The client left before its answer; whatever it asked for can be dropped."""


class Problem(ServiceError):
    """A request that is refused before it reaches a tenant, with its status."""

    def __init__(
        self,
        status: int,
        message: str,
        *,
        retry_after: float | None = None,
        headers: Mapping[str, str] | None = None,
        rows: Mapping[int, str] | None = None,
        pause: float = 0.0,
    ) -> None:
        super().__init__(message, rows)
        self.status = status
        self.pause = pause
        self.headers = dict(headers or {})
        if retry_after is not None:
            self.headers["retry-after"] = str(max(1, math.ceil(retry_after)))
        if status in (408, 413):  # the rest of the body is not read
            self.headers["connection"] = "close"


class Invalid(ServiceError, ValueError):
    """The request breaks a rule; nothing was stored."""

    status = 422


class NotFound(ServiceError, LookupError):
    """There is no such tenant, item, judgement or model."""

    status = 404


class Conflict(ServiceError):
    """The id is taken by something else; nothing was stored."""

    status = 409


class Unavailable(ServiceError):
    """The log cannot take a row at the moment; nothing of the request counts as stored."""

    status = 503
    headers = {"retry-after": "1"}


class Taken(Unavailable):
    """Another process writes the log."""


class Timeout(Unavailable, TimeoutError):
    """What was waited for did not happen in time."""


class Full(ServiceError):
    """There is no room on the disk; nothing was stored."""

    status = 507


class Damaged(ServiceError):
    """The log is not what was written."""

    status = 503
