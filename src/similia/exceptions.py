"""The few errors that a caller can act on."""


class MissingExtraError(ImportError):
    """An optional dependency is needed and not installed."""

    def __init__(self, module: str, package: str, extra: str) -> None:
        super().__init__(
            f'{module} needs {package}; install it with: pip install "similia[{extra}]"'
        )


class ModelFileError(ValueError):
    """A saved model is damaged, foreign, or of a version that cannot be read."""


class BadRowError(ValueError):
    """A row of a file cannot be used, and bad rows are not to be skipped."""


class StaleIndexError(ValueError):
    """An index holds vectors of a metric that has learnt since; it must be built again."""
