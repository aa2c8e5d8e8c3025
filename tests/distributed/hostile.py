"""Tasks whose workers die, hang or lie, once; workers find them by import."""

import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from similia.distributed.learning import LearnShare


def first_time(folder, what):
    """Whether this is the first call, over all processes."""
    try:
        (Path(folder) / f"{what}.happened").touch(exist_ok=False)
    except FileExistsError:
        return False
    return True


def die():
    os.kill(os.getpid(), signal.SIGKILL)


def hang():
    time.sleep(10_000)


def take_all_memory():
    """Fill 3 GiB, until somebody ends this process or the system refuses."""
    import resource

    before = resource.getrlimit(resource.RLIMIT_AS)
    size = int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGESIZE")
    resource.setrlimit(resource.RLIMIT_AS, (size + 3 * 2**30, before[1]))
    taken = []
    try:
        while True:
            taken.append(np.ones(2**23))
            time.sleep(0.05)
    finally:
        taken.clear()
        resource.setrlimit(resource.RLIMIT_AS, before)


@dataclass(frozen=True)
class Unlucky(LearnShare):
    """After its first chunk, one share is killed, one hangs, one takes all memory: once each."""

    def run(self, folder, report):
        fates = (die, hang, take_all_memory)[self.number : self.number + 1]

        def meet(n):
            report(n)
            for fate in fates:
                if first_time(folder, fate.__name__):
                    fate()

        return super().run(folder, meet)


@dataclass(frozen=True)
class Dying(LearnShare):
    """Killed after its first chunk."""

    def run(self, folder, report):
        def meet(n):
            report(n)
            if self.number == 1 and first_time(folder, "die"):
                die()

        return super().run(folder, meet)


@dataclass(frozen=True)
class KillingTheDriver(LearnShare):
    """Ends the driver before the third share is finished."""

    def run(self, folder, report):
        if self.number == 2 and first_time(folder, "murder"):
            (folder.parent / "worker.pid").write_text(str(os.getpid()))
            os.kill(int((folder.parent / "driver.pid").read_text()), signal.SIGKILL)
        return super().run(folder, report)


@dataclass(frozen=True)
class KillingTheConnection(LearnShare):
    """After its first chunk, one share ends the process of Ray that serves the client."""

    def run(self, folder, report):
        def meet(n):
            report(n)
            if self.number == 1 and first_time(folder, "cut"):
                os.kill(int((folder.parent / "server.pid").read_text()), signal.SIGKILL)
                hang()

        return super().run(folder, meet)


@dataclass(frozen=True)
class Writing:
    """Writes its name; the one named `victim` first meets its fate."""

    name: str
    fate: str = ""
    #: folder of all workers, if that of the work is none
    shared: str = ""
    needs = ()

    def run(self, folder, report):
        shared = self.shared or folder
        if self.fate == "hang" and first_time(shared, self.name):
            hang()
        if self.fate == "die" and first_time(shared, self.name):
            die()
        if self.fate == "memory" and first_time(shared, self.name):
            raise MemoryError
        if self.fate == "always die":
            die()
        if self.fate == "fail":
            raise ValueError("the task itself is wrong.")
        (folder / f"{self.name}.txt").write_text(self.name)
        return {"n": 1, "wrote": self.name}, [f"{self.name}.txt"]
