"""Fit a learner of another library in its own environment; what comes back is a linear map."""

import atexit
import json
import os
import select
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
    """L (p, d) with the learnt squared distance |Lx - Lz|².

    One process serves all orders, as with `train_adapter`; one that is late is ended.
    """
    server = metric_learner()
    with tempfile.TemporaryDirectory() as folder:
        given, found = Path(folder, "given.npz"), Path(folder, "found.npz")
        np.savez(given, X=X, y=y)
        order = {"name": name, "parameters": parameters, "seed": seed}
        order |= {"given": str(given), "found": str(found)}
        answer = _answer(server, json.dumps(order), seconds)
        if not answer:
            server.kill()
            metric_learner.cache_clear()
            late = answer is None
            raise CannotRunError(
                f"not done within the budget of {seconds:g} s"
                if late
                else f"{name} ended its process"
            )
        failure = json.loads(answer)["failure"]
        if failure:
            raise CannotRunError(f"{name} failed: {failure[:200]}")
        return np.load(found)["components"]


@lru_cache(maxsize=1)
def metric_learner() -> subprocess.Popen[str]:
    """Start the process that fits for `fit_peer`, and wait until it has imported what it needs."""
    if not PYTHON.exists():
        raise CannotRunError("needs the environment of peers; build it with: make peers")
    server = _server("fit.py", subprocess.DEVNULL)
    server.stdout.readline()
    return server


def _answer(server: subprocess.Popen[str], order: str, seconds: float) -> str | None:
    """Line that answers an order; None if it does not come in time, "" if the process has ended."""
    try:
        server.stdin.write(order + "\n")
        server.stdin.flush()
    except BrokenPipeError:
        return ""
    in_time, _, _ = select.select([server.stdout], [], [], seconds)
    return server.stdout.readline() if in_time else None


def train_adapter(
    Q: Any, Z: Any, triplets: Any, parameters: dict[str, Any]
) -> tuple[Any, dict[str, float]]:
    """W of torch's triplet adapter, and how many seconds it and an epoch took.

    One process serves all orders, since to import torch takes longer than to train it.
    """
    found, answer = _order("adapt.py", {"Q": Q, "Z": Z, "triplets": triplets}, parameters)
    return found["W"], answer


def rank_lists(arrays: dict[str, Any], parameters: dict[str, Any]) -> Any:
    """Scores of lightgbm's LambdaMART for the rows `others`, after learning lists.

    Without lists to learn (X) those of the model that was trained last in this process.
    """
    return _order("lambdamart.py", arrays, parameters)[0]["scores"]


def _order(
    script: str, arrays: dict[str, Any], parameters: dict[str, Any]
) -> tuple[Any, dict[str, float]]:
    """Arrays and the line that a script answers with."""
    if not PYTHON.exists():
        raise CannotRunError("needs the environment of peers; build it with: make peers")
    server = _patient_server(script)
    with tempfile.TemporaryDirectory() as folder:
        given, found = Path(folder, "given.npz"), Path(folder, "found.npz")
        np.savez(given, **arrays)
        order = {"given": str(given), "found": str(found), "parameters": parameters}
        try:
            server.stdin.write(json.dumps(order) + "\n")
            server.stdin.flush()
            answer = server.stdout.readline()
        except BrokenPipeError:
            answer = ""
        if not answer:
            _patient_server.cache_clear()
            last = (server.stderr.read().strip().splitlines() or ["no message"])[-1]
            raise CannotRunError(f"{script} failed: {last[:200]}")
        return dict(np.load(found)), json.loads(answer)


@lru_cache(maxsize=2)
def _patient_server(script: str) -> subprocess.Popen[str]:
    return _server(script, subprocess.PIPE)


def _server(script: str, errors: int) -> subprocess.Popen[str]:
    """Start a script of the peers that answers a line with a line."""
    server = subprocess.Popen(
        [str(PYTHON), str(Path(__file__).with_name(script))],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=errors,
        text=True,
        env=_environment(),
    )
    atexit.register(server.kill)
    return server


def _environment() -> dict[str, str]:
    """Our environment with one thread, and without what leads to our packages."""
    ours = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}
    return {**ours, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
