"""Fit a learner of another library in its own environment; what comes back is a linear map."""

import atexit
import json
import os
import subprocess
import tempfile
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
PYTHON = ROOT / ".venv-peers" / "bin" / "python"


class CannotRunError(RuntimeError):
    """A contender that cannot run says why."""


def fit_peer(
    name: str, X: Any, y: Any, parameters: dict[str, Any], seed: int, seconds: float
) -> Any:
    """Give L (p, d) with the learnt squared distance |Lx - Lz|²."""
    if not PYTHON.exists():
        raise CannotRunError("needs the environment of peers; build it with: make peers")
    with tempfile.TemporaryDirectory() as folder:
        given, found = Path(folder, "given.npz"), Path(folder, "found.npz")
        np.savez(given, X=X, y=y)
        order = json.dumps({"name": name, "parameters": parameters, "seed": seed})
        script = Path(__file__).with_name("fit.py")
        command = [str(PYTHON), str(script), order, str(given), str(found)]
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, timeout=seconds, env=_environment()
            )
        except subprocess.TimeoutExpired:
            raise CannotRunError(f"not done within the budget of {seconds:g} s") from None
        if done.returncode:
            last = (done.stderr.strip().splitlines() or ["no message"])[-1]
            raise CannotRunError(f"{name} failed: {last[:200]}")
        return np.load(found)["components"]


def train_adapter(
    Q: Any, Z: Any, triplets: Any, parameters: dict[str, Any]
) -> tuple[Any, dict[str, float]]:
    """Give the W of torch's triplet adapter, and how many seconds it and an epoch took.

    One process serves all orders, since to import torch takes longer than to train it.
    """
    if not PYTHON.exists():
        raise CannotRunError("needs the environment of peers; build it with: make peers")
    server = _adapter_server()
    with tempfile.TemporaryDirectory() as folder:
        given, found = Path(folder, "given.npz"), Path(folder, "found.npz")
        np.savez(given, Q=Q, Z=Z, triplets=triplets)
        order = {"given": str(given), "found": str(found), "parameters": parameters}
        try:
            server.stdin.write(json.dumps(order) + "\n")
            server.stdin.flush()
            answer = server.stdout.readline()
        except BrokenPipeError:
            answer = ""
        if not answer:
            _adapter_server.cache_clear()
            last = (server.stderr.read().strip().splitlines() or ["no message"])[-1]
            raise CannotRunError(f"torch failed: {last[:200]}")
        return np.load(found)["W"], json.loads(answer)


@lru_cache(maxsize=1)
def _adapter_server() -> subprocess.Popen[str]:
    script = Path(__file__).with_name("adapt.py")
    pipe = subprocess.PIPE
    server = subprocess.Popen(
        [str(PYTHON), str(script)],
        stdin=pipe,
        stdout=pipe,
        stderr=pipe,
        text=True,
        env=_environment(),
    )
    atexit.register(server.kill)
    return server


def _environment() -> dict[str, str]:
    """Give our environment without what leads to our packages, and with one thread."""
    ours = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}
    return {**ours, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
