"""Compilation of loops: cached on disk, and never failing because of the cache."""

import logging
import warnings
from collections.abc import Callable
from typing import Any

from numba import njit
from numba.core.caching import FunctionCache

logger = logging.getLogger("similia")

# Sums may be reordered and fused, but NaN and infinity keep their meaning.
FASTMATH = {"reassoc", "nsz", "contract", "arcp"}


class ForgivingCache(FunctionCache):
    """Numba's cache on disk, in which a damaged or unwritable file is a miss and not an error."""

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Give the compiled function for a signature, or None if there is none to be had."""
        try:
            found = super().load_overload(sig, target_context)
        except Exception as error:
            self._warn("read", error)
            found = None
        if found is None:
            logger.info("compiling %s for the first time; the result is cached", self._name)
        return found

    def save_overload(self, sig: Any, data: Any) -> None:
        """Keep a compiled function, if it can be kept."""
        try:
            super().save_overload(sig, data)
        except Exception:
            # A damaged index also stops writing: start the cache of this function anew.
            try:
                self.flush()
                super().save_overload(sig, data)
            except Exception as error:
                self._warn("write", error)

    def _warn(self, verb: str, error: Exception) -> None:
        warnings.warn(
            f"similia could not {verb} the compilation cache in {self.cache_path} "
            f"({type(error).__name__}: {error}); {self._name} is compiled anew.",
            RuntimeWarning,
            stacklevel=2,
        )


def compiled(function: Callable[..., Any]) -> Any:
    """Compile `function` on its first call, for each combination of dtypes, and keep the result."""
    dispatcher: Any = njit(nogil=True, error_model="numpy", fastmath=FASTMATH)(function)
    try:
        dispatcher._cache = ForgivingCache(function)
    except RuntimeError:
        # No folder can be written to: compile in memory, once a process.
        logger.info("no folder for the compilation cache; %s is not cached", function.__name__)
    return dispatcher


@compiled
def overwrite(target: Any, source: Any) -> None:
    """Do what `target[:] = source` does for vectors of the same length, and compile at once.

    Numba's own assignment brings a check of the shapes, whose message takes seconds to compile.
    """
    for i in range(len(target)):
        target[i] = source[i]
