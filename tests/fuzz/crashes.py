"""A file system that stops at any change, and forgets what was not flushed to it.

A child process replaces a first state by a second one; at its k-th change of the disk it ends at
once. Then the power is cut: of every file that was written and not flushed only a part remains, and
renames and removals whose folder was not flushed may not have happened. `kills` are the same
without a cut, at system calls instead: strace ends the process at the k-th of one name.
"""

import os
import shutil
import signal
import subprocess
import time
from functools import partial
from pathlib import Path

import numpy as np

from similia.adapters import Adapters, load_adapters
from similia.index import build_index, open_index
from similia.persistence import load, save
from similia.registry import learner_class
from similia.stream import Checkpoint, Tally
from similia.trust.generations import Generations

ENDED = 99
#: system calls that change a disk
CALLS = "write pwrite64 writev rename renameat renameat2 unlink unlinkat fsync fdatasync mkdir "
CALLS = (CALLS + "mkdirat rmdir chmod fchmod fchmodat ftruncate truncate").split()
PATIENCE = 30  #: seconds


class Disk:
    """Counts changes, ends the process at one of them, and knows what is not safe yet."""

    def __init__(self, rng, last):
        self.rng, self.left = rng, last
        self.flushed, self.unsafe = set(), set()
        self.pending = []  # changes of names that are not flushed: (path, copy of what was there)
        self._calls = {name: getattr(os, name) for name in ("replace", "fsync", "unlink")}

    def install(self):
        for name in self._calls:
            setattr(os, name, getattr(self, name))

    def _count(self):
        self.left -= 1
        if self.left <= 0:
            self.cut_power()
            os._exit(ENDED)

    def _keep(self, path):
        """Remember what a name stood for before it changes."""
        old = None
        if os.path.exists(path):
            old = f"{path}.before-{len(self.pending)}"
            shutil.copy(path, old)
        self.pending.append((str(path), old))

    def fsync(self, descriptor):
        self._count()
        self._calls["fsync"](descriptor)
        path = Path(os.readlink(f"/proc/self/fd/{descriptor}"))
        self.flushed.add(str(path))
        self.pending = [change for change in self.pending if Path(change[0]).parent != path]
        self._count()

    def replace(self, source, target):
        self._count()
        self._keep(target)
        self._calls["replace"](source, target)
        self.unsafe.discard(str(target))
        if str(source) not in self.flushed:
            self.unsafe.add(str(target))
        self._count()

    def unlink(self, path, *, dir_fd=None):
        if not os.path.exists(path):
            return self._calls["unlink"](path)
        self._count()
        self._keep(path)
        self._calls["unlink"](path)
        self._count()

    def cut_power(self):
        for path, old in reversed(self.pending):
            if self.rng.random() < 0.5:  # the change did not reach the disk
                self.unsafe.discard(path)
                if old is not None:
                    self._calls["replace"](old, path)
                elif os.path.exists(path):
                    self._calls["unlink"](path)
        for path in self.unsafe:  # the name did, the contents did not
            if os.path.exists(path):
                os.truncate(path, int(self.rng.integers(os.path.getsize(path) + 1)))


# -- what is replaced ------------------------------------------------------------------------------


def learner_of(n):
    return learner_class("OASIS")(average=False).learn(np.eye(3), [[0, 1, 2]] * n)


class Model:
    """A model file."""

    def write(self, folder, n):
        save(learner_of(n), folder / "model.safetensors")

    def seen(self, folder):
        return load(folder / "model.safetensors").n_seen_


class Generation:
    """A promotion."""

    def write(self, folder, n):
        with (home := Generations(folder / "home")).changing():
            home.promote(learner_of(n), {})

    def seen(self, folder):
        now = Generations(folder / "home")
        return now.load(now.current).n_seen_  # refused if it is not the file that was promoted


class Kept:
    """A checkpoint."""

    def write(self, folder, n):
        Checkpoint(folder / "kept", {}).write(learner_of(n), Tally(n=n), str(n))

    def seen(self, folder):
        model, tally = (kept := Checkpoint(folder / "kept", {})).read()
        same = model.n_seen_ == tally.n == int(kept.learnt)
        return tally.n if same else f"progress {tally.n} with the model of {model.n_seen_}"


class Users:
    """A file of adapters."""

    def write(self, folder, n):
        adapters = Adapters(rank=2)
        for user in range(n):
            adapters.learn(f"user {user}", np.eye(3), [[0, 1, 2]])
        adapters.save(folder / "adapters")

    def seen(self, folder):
        return len(load_adapters(folder / "adapters"))


class Items:
    """An index file."""

    def write(self, folder, n):
        build_index(np.eye(3)[:n]).save(folder / "items.index")

    def seen(self, folder):
        return len(open_index(folder / "items.index"))


SCENES = {"model": Model, "generation": Generation, "kept": Kept, "users": Users, "items": Items}


# -- how it ends -----------------------------------------------------------------------------------


def in_a_child(rng, last, work):
    """Run the work in a process that ends at change `last`; its exit code."""
    child = os.fork()
    if child == 0:
        try:
            disk = Disk(rng, last)
            disk.install()
            work()
            disk.cut_power()
            os._exit(0)
        except BaseException:
            os._exit(1)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def killed_child(call, last, work):
    """Run the work in a process that strace kills at its `last` system call of that name."""
    child = os.fork()
    if child == 0:
        try:
            os.kill(os.getpid(), signal.SIGSTOP)
            work()
            os._exit(0)
        except BaseException:
            os._exit(1)
    os.waitpid(child, os.WUNTRACED)
    fault = f"inject={call}:signal=KILL:when={last}"
    command = ["strace", "-f", "-o", os.devnull, "-e", f"trace={call}", "-e", fault]
    tracer = subprocess.Popen([*command, "-p", str(child)], stderr=subprocess.DEVNULL)
    end = time.monotonic() + PATIENCE
    while "TracerPid:\t0\n" in Path(f"/proc/{child}/status").read_text():
        if tracer.poll() is not None or time.monotonic() > end:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            tracer.kill()
            tracer.wait()
            return None
        time.sleep(0.01)
    os.kill(child, signal.SIGCONT)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    tracer.wait(PATIENCE)
    return code


def problem_of(scene, folder, end, last):
    """What is wrong after one end at change `last`, if anything; and whether the work was done."""
    (stage := scene()).write(folder, 1)
    code = end(last, lambda: stage.write(folder, 2))
    if code is None:
        return None, True
    if code not in (0, ENDED, -signal.SIGKILL):
        return f"the child failed with {code} before change {last}", True
    seen, done = stage.seen(folder), code == 0
    if seen not in ({2} if done else {1, 2}):
        return f"{scene.__doc__} is {seen} after an end at change {last} ({code})", done
    stage.write(folder, 3)
    left = [path.name for path in folder.rglob("*.part*")]
    if scene in (Generation, Kept) and left:  # folders of their own are swept
        return f"{scene.__doc__} leaves {left} after an end at change {last}", done
    return (None if stage.seen(folder) == 3 else "the next write is lost"), done


def crash_case(rng, folder):
    """What is wrong after one crash, if anything."""
    name = list(SCENES)[rng.integers(len(SCENES))]
    last = int(rng.integers(1, 22))
    return problem_of(SCENES[name], folder, lambda k, work: in_a_child(rng, k, work), last)[0]


def kill_case(rng, folder):
    """What is wrong after a kill at one system call, if anything."""
    if shutil.which("strace") is None:
        return None
    name = list(SCENES)[rng.integers(len(SCENES))]
    end = partial(killed_child, CALLS[rng.integers(len(CALLS))])
    return problem_of(SCENES[name], folder, end, int(rng.integers(1, 6)))[0]
