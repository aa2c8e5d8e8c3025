"""Hours in minutes: steady load on a service, and whether memory or latency grow.

python -m benchmarks.soak [minutes] [items] [judgements a second]
"""

import contextlib
import json
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np

from benchmarks.http import judgement
from benchmarks.serving import Serving, Wire, post, save_items
from benchmarks.timing import table

WIDTH = 64
CLIENTS = 4


def soak(minutes=20.0, items=5000, rate=20.0):
    """Feedback at a steady rate, rankings, items that change, clients that break off."""
    seconds, steps = 60 * minutes, max(4, int(2 * minutes))
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        save_items(folder / "items.npy", items, WIDTH)
        with Serving(
            folder / "store", str(folder / "items.npy"), "--log-level", "warning"
        ) as served:
            load = Load(served, items, rate)
            load.start()
            time.sleep(min(30.0, seconds / 10))  # caches fill, code compiles
            rows, begun = [], time.perf_counter()
            for _ in range(steps):
                load.times.clear()
                time.sleep(seconds / steps)
                rows.append(load.figures(time.perf_counter() - begun))
                print(json.dumps(rows[-1]), file=sys.stderr, flush=True)
            load.stop()
    _report(rows, load)


class Load:
    """Clients in threads; what they wait for is noted."""

    def __init__(self, served, items, rate):
        self.served, self.items = served, items
        self.times: list[tuple[str, float]] = []
        self.errors: list[str] = []
        self.sent = 0
        self._stop = threading.Event()
        pace = CLIENTS / rate
        self._threads = [
            *(threading.Thread(target=self._judge, args=(i, pace)) for i in range(CLIENTS)),
            *(threading.Thread(target=self._rank, args=(i,)) for i in range(2)),
            threading.Thread(target=self._change),
            threading.Thread(target=self._break_off),
        ]

    def start(self):
        for thread in self._threads:
            thread.start()

    def stop(self):
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def _ask(self, wire, kind, request):
        start = time.perf_counter()
        status, body = wire.ask(request)
        self.times.append((kind, time.perf_counter() - start))
        if status != 200:
            self.errors.append(f"{kind}: {status} {body[:200]!r}")
        return body

    def _judge(self, client, pace):
        wire, n = Wire(self.served.address), 0
        while not self._stop.wait(pace):
            body = judgement(client, n, self.items)
            self._ask(wire, "feedback", post("/v1/default/feedback", body))
            n += 1
            self.sent += 1
        wire.close()

    def _rank(self, client):
        wire, n = Wire(self.served.address), client
        while not self._stop.wait(0.1):
            body = {"query": {"item": str(n % self.items)}, "k": 10, "explain": n % 50 == 0}
            self._ask(wire, "rank", post("/v1/default/rank", body))
            n += 7
        wire.close()

    def _change(self):
        """Items that are put again, status and metrics."""
        wire, rng = Wire(self.served.address), np.random.default_rng(1)
        while not self._stop.wait(1.0):
            name = str(rng.integers(self.items))
            vector = rng.normal(size=WIDTH).round(4).tolist()
            items = {"items": [{"id": name, "vectors": {"vectors": vector}}]}
            self._ask(wire, "items", post("/v1/default/items", items))
            for path in ("/v1/default/status", "/metrics"):
                self._ask(wire, "get", f"GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n".encode())
        wire.close()

    def _break_off(self):
        """Connections that end in the middle of a request."""
        while not self._stop.wait(0.5):
            with contextlib.suppress(OSError):
                wire = Wire(self.served.address)
                wire.send(post("/v1/default/feedback", {"kind": "skip"})[:-4])
                wire.close()

    def figures(self, seconds):
        """Memory, and the latencies since the last time."""
        times = list(self.times)
        found = {"seconds": round(seconds), "MiB": round(self.served.memory / 2**20, 1)}
        for kind in ("feedback", "rank"):
            own = sorted(1000 * t for k, t in times if k == kind)
            if own:
                found[f"{kind} median"] = round(own[len(own) // 2], 2)
                found[f"{kind} p99"] = round(own[len(own) * 99 // 100], 2)
        return {**found, "sent": self.sent, "errors": len(self.errors)}


def _report(rows, load):
    header = list(rows[0])
    table("Soak", header, [[row.get(name, "") for name in header] for row in rows])
    later = rows[len(rows) // 2 :]  # by then every query has been asked, and is remembered
    hours = np.array([row["seconds"] for row in later]) / 3600
    slopes = {
        name: float(np.polyfit(hours, [row[name] for row in later], 1)[0])
        for name in ("MiB", "feedback median", "rank median")
    }
    print(
        "\nSlopes an hour, second half: "
        + ", ".join(f"{name} {slope:+.1f}" for name, slope in slopes.items())
    )
    for error in load.errors[:5]:
        print(error)


if __name__ == "__main__":
    given = [float(word) for word in sys.argv[1:]]
    soak(*(kind(value) for kind, value in zip((float, int, float), given, strict=False)))
