"""A service in a process of its own, and clients that cost little."""

import contextlib
import json
import os
import re
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path

import numpy as np

#: the header of prepared requests that stands for the address of the service
HOST = b"host: localhost\r\n"


class Serving:
    """`similia serve` on a free port of this machine; ends with the block."""

    def __init__(self, folder, *flags):
        words = ["serve", "--store", str(folder), "--port", "0", "--rate", "0", *flags]
        environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "similia.cli.main", *words],
            stderr=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            text=True,
            env=environment,
        )
        self.address = None
        self.said = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self):
        for line in self.process.stderr:
            self.said = [*self.said[-50:], line]
            found = re.match(r"Listening on http://([\d.]+):(\d+)", line)
            if found:
                self.address = (found[1], int(found[2]))

    def __enter__(self):
        end = time.monotonic() + 600
        while not self._is_ready():
            if self.process.poll() is not None or time.monotonic() > end:
                raise RuntimeError("".join(self.said))
            time.sleep(0.1)
        return self

    def _is_ready(self):
        if self.address is None:
            return False
        try:
            with urllib.request.urlopen(f"{self.url}/readyz", timeout=10):
                return True
        except OSError:
            return False

    @property
    def url(self):
        return "http://{}:{}".format(*self.address)

    @property
    def memory(self):
        """Resident bytes of the process."""
        with open(f"/proc/{self.process.pid}/statm") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    @property
    def processor(self):
        """Seconds of processor time of the process."""
        return processor_of(self.process.pid)

    @property
    def used(self):
        """The same to the nanosecond, of the threads that there are now."""
        total = 0
        for task in Path(f"/proc/{self.process.pid}/task").iterdir():
            with contextlib.suppress(FileNotFoundError):  # it has just ended
                total += int((task / "schedstat").read_text().split()[0])
        return total / 1e9

    def __exit__(self, *_):
        self.process.terminate()
        try:
            self.process.wait(60)
        finally:
            if self.process.poll() is None:
                self.process.kill()
                self.process.wait()
        self._reader.join(10)
        self.process.stderr.close()


def processor_of(pid):
    """Seconds of processor time of a process."""
    with open(f"/proc/{pid}/stat") as file:
        fields = file.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Wire:
    """One connection that sends prepared requests and reads answers, with little work for each."""

    def __init__(self, address):
        self.socket = socket.create_connection(address, 60)
        self._host = b"host: %s:%d\r\n" % (address[0].encode(), address[1])
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._left = b""

    def ask(self, request: bytes) -> tuple[int, bytes]:
        """Status and body of the answer."""
        self.send(request)
        return self.answer()

    def send(self, request: bytes) -> None:
        """Send a request; the host is the service's, which without keys takes no other."""
        self.socket.sendall(request.replace(HOST, self._host, 1))

    def answer(self) -> tuple[int, bytes]:
        """Status and body of the answer to what was sent."""
        while (end := self._left.find(b"\r\n\r\n")) < 0:
            self._more()
        head = self._left[:end]
        length = int(head.partition(b"content-length: ")[2].partition(b"\r")[0])
        while len(self._left) < end + 4 + length:
            self._more()
        body, self._left = self._left[end + 4 : end + 4 + length], self._left[end + 4 + length :]
        return int(head[9:12]), body

    def _more(self):
        part = self.socket.recv(65536)
        if not part:
            raise ConnectionError("closed by the service")
        self._left += part

    def close(self):
        self.socket.close()


def post(path: str, body) -> bytes:
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    head = f"POST {path} HTTP/1.1\r\n{HOST.decode()}content-type: application/json\r\n"
    return f"{head}content-length: {len(content)}\r\n\r\n".encode() + content


def in_parallel(n: int, work: Callable[[int, threading.Event], int], seconds: float) -> float:
    """Rate of n threads that count what they do until told to stop."""
    stop, counts = threading.Event(), [0] * n

    def run(i):
        counts[i] = work(i, stop)

    threads = [threading.Thread(target=run, args=(i,)) for i in range(n)]
    start = time.perf_counter()
    for thread in threads:
        thread.start()
    time.sleep(seconds)
    stop.set()
    for thread in threads:
        thread.join()
    return sum(counts) / (time.perf_counter() - start)


def save_items(path, n, width, seed=0):
    rows = np.random.default_rng(seed).normal(size=(n, width)).astype(np.float32)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    np.save(path, rows)
