"""Fit a learner of another library in its own environment; what comes back is a linear map."""

import json
import os
import subprocess
import tempfile
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


def _environment() -> dict[str, str]:
    """Give our environment without what leads to our packages, and with one thread."""
    ours = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}
    return {**ours, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
