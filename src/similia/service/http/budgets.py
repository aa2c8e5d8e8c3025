"""What callers share: how often they may ask, how much they may hold at a time."""

import time
from collections import OrderedDict

from similia.service.http.problems import Problem

#: callers whose rates are remembered; the one not seen for longest is forgotten
MAX_REMEMBERED_CALLERS = 10_000
#: one caller may hold this part of a budget, so that others find some left
QUOTA_RATIO = 1 / 4
#: the caller that everybody without a key is
UNKNOWN_CALLER = ""


class Rates:
    """Token buckets: a caller may make `burst` requests at once, and `rate` a second."""

    def __init__(self, rate: float, burst: int) -> None:
        self.rate, self.burst = rate, float(burst)
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def wait(self, caller: str) -> float:
        """Count a request; seconds to wait if there are too many, else 0."""
        if self.rate <= 0:
            return 0.0
        now = time.monotonic()
        tokens, seen = self._buckets.pop(caller, (self.burst, now))
        tokens = min(self.burst, tokens + (now - seen) * self.rate)
        wait = 0.0 if tokens >= 1 else (1 - tokens) / self.rate
        self._buckets[caller] = (tokens - 1 if wait == 0 else tokens, now)
        if len(self._buckets) > MAX_REMEMBERED_CALLERS:
            self._buckets.popitem(last=False)
        return wait

    def check(self, caller: str, *, close: bool = False) -> None:
        """Refuse with 429 if there are too many requests; `close` drops those that follow."""
        wait = self.wait(caller)
        if wait > 0:
            raise Problem(
                429,
                f"too many requests: at most {self.rate:g} a second; try again later.",
                retry_after=wait,
                headers={"connection": "close"} if close else None,
            )


class Budget:
    """So much of something at a time: in all, and for each caller."""

    def __init__(self, what: str, total: int, min_quota: int = 1) -> None:
        self.what, self.total = what, total
        self.quota = max(int(total * QUOTA_RATIO), min_quota)
        self.taken = 0
        self._by_caller: dict[str, int] = {}

    def take(self, caller: str, amount: int = 1) -> None:
        """Take some, or refuse: with 429 beyond the quota of the caller, with 503 beyond all.

        Whoever has nothing may have one thing that is larger than a quota.
        """
        own = self._by_caller.get(caller, 0) + amount
        if own > max(self.quota, amount):
            raise Problem(429, f"too many {self.what} for one key; try again later.", retry_after=1)
        if self.taken + amount > max(self.total, amount):
            raise Problem(503, f"too many {self.what} at a time; try again later.", retry_after=1)
        self._by_caller[caller] = own
        self.taken += amount

    def give(self, caller: str, amount: int = 1) -> None:
        """Give back what was taken."""
        self.taken -= amount
        left = self._by_caller[caller] - amount
        if left:
            self._by_caller[caller] = left
        else:
            del self._by_caller[caller]
