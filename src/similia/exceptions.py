"""Errors that a caller can act on."""


class MissingExtraError(ImportError):
    """An optional dependency is needed and not installed."""

    def __init__(self, module: str, package: str, extra: str) -> None:
        super().__init__(
            f'{module} needs {package}; install it with: pip install "similia[{extra}]"'
        )


class ModelFileError(ValueError):
    """A saved model is damaged, foreign, or of a version that cannot be read."""


class BadRowError(ValueError):
    """A row cannot be used, and bad rows are not skipped."""


class StaleIndexError(ValueError):
    """The metric has changed since the index was built; build it again."""
