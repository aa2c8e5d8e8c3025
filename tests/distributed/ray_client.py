"""One task on a Ray elsewhere: ``python -m tests.distributed.ray_client ADDRESS FOLDER CALLS``."""

import sys
from pathlib import Path

from similia.distributed import engines
from similia.distributed.engines import engine_named
from similia.distributed.folders import WorkFolder
from similia.distributed.tasks import run_all
from tests.distributed.hostile import Writing


def main(address, folder, calls):
    engines.CALLS = int(calls)
    (record,) = run_all([Writing("task-0")], WorkFolder(Path(folder)), engine_named(address))
    sys.stdout.write(f"{record['wrote']}\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
