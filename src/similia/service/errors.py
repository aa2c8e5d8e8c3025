"""What can go wrong in a service, each with the status that HTTP gives it."""

from typing import ClassVar


class ServiceError(Exception):
    """An error that a client can act on."""

    status: ClassVar[int] = 500


class Invalid(ServiceError, ValueError):
    """The request breaks a rule; nothing was stored."""

    status = 422

    def __init__(self, message: str, rows: dict[int, str] | None = None) -> None:
        super().__init__(message)
        #: what is wrong with single rows of a batch, by their places
        self.rows = rows or {}


class NotFound(ServiceError, LookupError):
    """There is no such tenant, item, judgement or model."""

    status = 404


class UnknownJudgement(NotFound):
    """There is no judgement with this id."""


class Conflict(ServiceError):
    """The id is taken by something else; nothing was stored."""

    status = 409

    def __init__(self, message: str, rows: dict[int, str] | None = None) -> None:
        super().__init__(message)
        self.rows = rows or {}


class Unavailable(ServiceError):
    """The log cannot be written at the moment; nothing of the request counts as stored."""

    status = 503


class Busy(Unavailable):
    """Too much is waiting; try again later."""


class Timeout(Unavailable, TimeoutError):
    """What was waited for did not happen in time."""


class Full(ServiceError):
    """There is no room on the disk; nothing was stored."""

    status = 507


class Damaged(ServiceError):
    """The log is not what was written."""

    status = 503
