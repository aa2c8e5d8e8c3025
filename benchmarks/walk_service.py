"""How far one request travels: the code of the package that feedback and a ranking pass through.

A service of this process answers each request once to import and compile, then once under a
profiler, in all of its threads. What counts is each function of the package at its first call:
how many there are, and in how many files. Learning is told apart from answering: feedback is
answered once it is on the disk, and learnt on threads of its own.

``python -m benchmarks.walk_service`` also lists them.
"""

import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import NamedTuple

import httpx
import numpy as np

import similia
from benchmarks.timing import table
from similia.service.http.app import Service
from similia.service.http.server import Server, listen
from similia.service.log.records import Item
from similia.service.settings import Settings

ROOT = Path(similia.__file__).parent
COMPREHENSIONS = ("<genexpr>", "<listcomp>", "<dictcomp>", "<setcomp>", "<lambda>")
#: runs ten times a second, whatever is asked
CLOCK = "on_tick"
JUDGEMENT = {"kind": "triplet", "query": {"item": "0"}, "better": "1", "worse": "2"}
REQUESTS = {"feedback": JUDGEMENT, "rank": {"query": {"item": "0"}, "k": 5}}


class Function(NamedTuple):
    file: Path
    name: str


class Walk(NamedTuple):
    """Functions of a request, in the order of their first calls."""

    answered: list[Function]
    #: on other threads than those that answer
    learnt: list[Function]

    def in_service(self):
        """Files of the service among those that answer."""
        return {each.file for each in self.answered if each.file.parts[0] == "service"}


class Watch:
    """Notes what every thread enters."""

    def __init__(self):
        self.codes = {}

    def __call__(self, frame, event, _):
        if event == "call":
            key = threading.current_thread().name.startswith("learner"), frame.f_code
            self.codes.setdefault(key)

    def functions(self, learning):
        return [
            Function(Path(code.co_filename).relative_to(ROOT), code.co_qualname)
            for learns, code in list(self.codes)
            if learns is learning
            and Path(code.co_filename).is_relative_to(ROOT)
            and code.co_name not in (*COMPREHENSIONS, CLOCK)
        ]


def requests_walk():
    """The walks of one judgement and of one ranking."""
    found, watch = {}, Watch()
    threading.setprofile(lambda *event: watch(*event))
    try:
        with tempfile.TemporaryDirectory() as folder:
            service = Service(Settings(store=folder, port=0, warm_up="first"))
            listener = listen("127.0.0.1", 0)
            server = Server(service, listener)
            thread = threading.Thread(target=server.run)
            thread.start()
            try:
                url = "http://{}:{}/v1/default".format(*listener.getsockname())
                while not service.ready:
                    time.sleep(0.05)
                vectors = np.random.default_rng(0).normal(size=(20, 8)).astype(np.float32)
                items = [
                    Item(id=str(i), vectors={"vectors": v.tolist()}) for i, v in enumerate(vectors)
                ]
                service.tenants.get("default").put_items(items)
                with httpx.Client(timeout=300) as client:
                    for number, name in enumerate(("feedback", "rank", *REQUESTS)):
                        _settle(client, url)
                        body = dict(REQUESTS[name])
                        if name == "feedback":
                            body["id"] = str(number)
                        watch.codes = {}
                        answer = client.post(f"{url}/{name}", json=body)
                        answer.raise_for_status()
                        time.sleep(0.2)  # what follows the answer
                        walk = Walk(watch.functions(False), [])
                        _settle(client, url)
                        found[name] = walk._replace(learnt=watch.functions(True))
            finally:
                server.handle_exit(15, None)
                thread.join()
    finally:
        threading.setprofile(None)
    return found


def _settle(client, url):
    """Wait until everything is learnt."""
    seq = client.get(f"{url}/status").json()["seq"]
    client.post(f"{url}/rank", json={**REQUESTS["rank"], "min_seq": seq}).raise_for_status()


def requests():
    walks = requests_walk()
    rows = [
        [name, len(walk.answered), len(walk.in_service()), len(walk.learnt)]
        for name, walk in walks.items()
    ]
    header = ["request", "functions", "files of the service", "functions of learning"]
    table("One request, from the wire to its answer", header, rows)
    return walks


ALL = [requests]

if __name__ == "__main__":
    sys.setswitchinterval(0.0005)
    for name, walk in requests().items():
        print(f"\n{name}:")
        for function in walk.answered:
            print(function.file, function.name)
