"""Timing as ratios measured in one run: contenders take turns, so that noise hits them alike."""

import gc
import time
from collections.abc import Callable

import numpy as np


def seconds(
    contenders: dict[str, Callable[[], object]],
    repeats: int = 5,
    clock: Callable[[], float] = time.perf_counter,
) -> dict[str, float]:
    """Run all contenders in turn, `repeats` times after a warm-up; give each one's median time.

    `time.process_time` as the clock counts processor time alone, of all threads.
    """
    times: dict[str, list[float]] = {name: [] for name in contenders}
    for run in contenders.values():
        run()
    for _ in range(repeats):
        for name, run in contenders.items():
            gc.collect()
            start = clock()
            run()
            times[name].append(clock() - start)
    return {name: float(np.median(values)) for name, values in times.items()}


def table(title: str, header: list[str], rows: list[list[object]]) -> None:
    """Print rows under a title as a Markdown table."""
    print(f"\n### {title}\n")
    print("| " + " | ".join(header) + " |")
    print("| " + " | ".join("---" for _ in header) + " |")
    for row in rows:
        print("| " + " | ".join(_shown(cell) for cell in row) + " |", flush=True)


def _shown(cell: object) -> str:
    if not isinstance(cell, float):
        return str(cell)
    return f"{cell:.0f}" if cell >= 100 else f"{cell:.1f}" if cell >= 10 else f"{cell:.2f}"
