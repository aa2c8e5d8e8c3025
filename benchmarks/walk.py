"""How far one judgement travels: the code that it, and a ranking, pass through.

`similia learn` runs in this process for a CSV of one row, and so does a service that is asked:
`POST feedback`, until the judgement is learnt, and `POST rank`, on a connection that is open. What
counts is each function of the package at its first call (comprehensions belong to the function they
are written in): how many there are, in how many files, and, of the command, how often the next new
function is in another package. Everything runs before it is watched, so imports and first calls do
not count; nor do clocks, which are what a service enters while nobody asks for anything.

``python -m benchmarks.walk`` also lists the functions in order.
"""

import logging
import signal
import sys
import tempfile
import threading
import time
from contextlib import contextmanager
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np
from typer.testing import CliRunner

import similia
from benchmarks.timing import table
from similia.cli.main import app
from similia.registry import DEFAULT

ROOT = Path(similia.__file__).parent
#: the default, and a learner of one matrix from triplets alone
LEARNERS = (DEFAULT, "FactoredAROMA")
COMPREHENSIONS = ("<genexpr>", "<listcomp>", "<dictcomp>", "<setcomp>")
#: judgements sent at once for a walk "after a block": more than the lists of one
FILLING = 150
#: seconds after which a request that is learnt has left nothing to do, and a limit to all waiting
REST, PATIENCE = 0.5, 300.0
#: what is sent, by request; each judgement has a worse item of its own, else it is known already
BODIES = {
    "feedback": {"kind": "triplet", "query": {"item": "i0"}, "better": "i1"},
    "rank": {"query": {"item": "i0"}, "k": 5},
}
#: requests before the one that is watched: the first ones compile
UNWATCHED = [name for name in BODIES for _ in range(3)]


class Function(NamedTuple):
    file: Path
    name: str

    @property
    def package(self):
        return self.file.parts[0]


class Watch:
    """Functions of the package that are entered while it is on, in the order of first calls."""

    def __init__(self):
        self.on = False
        self._codes = {}

    def __call__(self, frame, event, _):
        if self.on and event == "call" and frame.f_code.co_filename.startswith(str(ROOT)):
            self._codes.setdefault(frame.f_code)

    @contextmanager
    def here(self):
        """Watch this thread."""
        sys.setprofile(self)
        try:
            yield self
        finally:
            sys.setprofile(None)

    @contextmanager
    def elsewhere(self):
        """Watch the threads that are started meanwhile."""
        threading.setprofile(self)
        try:
            yield self
        finally:
            threading.setprofile(None)

    def taken(self):
        """The functions so far, which are then forgotten."""
        codes, self._codes = self._codes, {}
        return [
            Function(Path(code.co_filename).relative_to(ROOT), code.co_qualname)
            for code in codes
            if code.co_name not in COMPREHENSIONS
        ]


def learn(learner):
    """Functions that `similia learn` enters for one row of a CSV."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        np.save(folder / "vectors.npy", np.random.default_rng(0).normal(size=(20, 8)))
        (folder / "row.csv").write_text("query,better,worse\n0,1,2\n")
        words = ("learn", folder / "vectors.npy", folder / "row.csv", "-o", folder / "model")
        arguments = [*map(str, words), "--learner", learner]
        watch = Watch()
        for watch.on in (False, True):
            with watch.here():
                result = CliRunner().invoke(app, arguments)
            if result.exit_code:
                raise RuntimeError(result.output)
    return watch.taken()


def request(name, *, filled=False):
    """Functions that the service enters for a judgement or a ranking, until it has learnt.

    With `filled`, the tenant has learnt a full block before.
    """
    import httpx

    from similia.service.http import journal
    from similia.service.http.app import Service
    from similia.service.http.server import Server, listen
    from similia.service.settings import Settings

    rows = np.random.default_rng(0).normal(size=(30, 8)).tolist()
    items = [{"id": f"i{i}", "vectors": {"vectors": row}} for i, row in enumerate(rows)]
    watch = Watch()
    journal.logger.setLevel(logging.INFO)  # each request leaves a line, whoever ran before
    with tempfile.TemporaryDirectory() as folder, watch.elsewhere():
        service = Service(Settings(store=folder, port=0, warm_up="never"))
        listener = listen("127.0.0.1", 0)
        server = Server(service, listener)
        thread = threading.Thread(target=server.run, daemon=True)
        thread.start()
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/v1/default/"
        with httpx.Client(base_url=url, timeout=PATIENCE) as client:
            _wait(lambda: service.ready or service.failure)
            _posted(client, "items", {"items": items})
            if filled:
                _posted(client, "feedback", {"judgements": _many()})
            for number, path in enumerate([*UNWATCHED, name], start=2):
                watch.on = number == len(UNWATCHED) + 2
                if watch.on:
                    time.sleep(REST)
                    clocks = watch.taken()
                worse = {"worse": f"i{number}"} if path == "feedback" else {}
                _posted(client, path, BODIES[path] | worse)
                _wait(lambda: _has_learnt(service.tenants.get("default").status()))
                time.sleep(REST)
            watch.on = False
        server.handle_exit(signal.SIGTERM, None)
        thread.join(PATIENCE)
    return [function for function in watch.taken() if function not in clocks]


def _many():
    """Judgements; those that are sent one by one are others."""
    pairs = [(i, j) for i in range(30) for j in range(i)][:FILLING]
    return [BODIES["feedback"] | {"better": f"i{i}", "worse": f"i{j}"} for i, j in pairs]


def _has_learnt(status):
    return status.learnt_seq == status.seq


def _posted(client, path, body):
    answer = client.post(path, json=body)
    if answer.status_code != 200:
        raise RuntimeError(answer.text)


def _wait(holds):
    end = time.monotonic() + PATIENCE
    while not holds() and time.monotonic() < end:
        time.sleep(0.05)


def figures(name, functions):
    """Functions, files (of the service alone, of its requests), and changes of package."""
    files = {function.file for function in functions}
    if name.startswith("POST"):
        files = {file for file in files if file.parts[0] == "service"}
        return {"functions": len(functions), "files": len(files)}
    changes = sum(a.package != b.package for a, b in pairwise(functions))
    return {"functions": len(functions), "files": len(files), "changes": changes}


#: functions of each walk, in order, by its name
WALKS = {
    **{f"learn {learner}": partial(learn, learner) for learner in LEARNERS},
    **{f"POST {name}": partial(request, name) for name in BODIES},
    "POST feedback, after a block": partial(request, "feedback", filled=True),
}


def walks():
    """Functions of each walk, in order, by its name."""
    return {name: take() for name, take in WALKS.items()}


def walk():
    found = walks()
    rows = [[name, *figures(name, functions).values(), ""][:4] for name, functions in found.items()]
    table("One judgement, one ranking", ["walk", "functions", "files", "changes of package"], rows)
    return found


ALL = [walk]

if __name__ == "__main__":
    for title, entered in walk().items():
        print(f"\n{title}:")
        for function in entered:
            print(function.file, function.name)
