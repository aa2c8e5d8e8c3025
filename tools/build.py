#!/usr/bin/env python3
"""What the build asks of Python: ``tools/build.py version | left-out | in-place``.

``in-place`` builds what is compiled and puts it beside its sources, so that `src` can be imported
as it is, by ``PYTHONPATH=src``.
"""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "src" / "similia"
NOT_INSTALLED = (".c", ".dep", ".pyc", ".pyx", ".so", ".pyd")


def version() -> None:
    """Print the version that the package names."""
    text = (PACKAGE / "__init__.py").read_text(encoding="utf-8")
    print(re.search(r'^__version__ = "(.+)"$', text, re.MULTILINE)[1])


def left_out() -> None:
    """Print the files of the package's folder that are not installed from there."""
    for path in sorted(PACKAGE.rglob("*")):
        if path.suffix in NOT_INSTALLED:
            print(path.relative_to(PACKAGE).as_posix())


def in_place(*options: str) -> None:
    """Build, and copy the modules to where their sources are."""
    folder = ROOT / "build" / "in-place"
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    meson = [sys.executable, "-m", "mesonbuild.mesonmain"]
    again = ["--reconfigure"] if (folder / "build.ninja").exists() else []
    setup = [*meson, "setup", folder, ROOT, "--python.purelibdir=/", "--python.platlibdir=/"]
    subprocess.run([*setup, *again, *options], env=environment, check=True, stdout=subprocess.PIPE)
    subprocess.run([*meson, "compile", "-C", folder], env=environment, check=True)
    plan = json.loads((folder / "meson-info" / "intro-install_plan.json").read_text())
    for built, target in plan["targets"].items():
        place = PACKAGE.parent / Path(target["destination"].replace("{py_platlib}/", ""))
        for other in place.parent.glob(f"{place.name.partition('.')[0]}.*"):
            if other.suffix in (".so", ".pyd") and other != place:
                other.unlink()  # of another name for the same module, which would be found first
        if not place.exists() or place.stat().st_mtime < Path(built).stat().st_mtime:
            place.unlink(missing_ok=True)  # other processes keep the file that they have loaded
            shutil.copy2(built, place)


if __name__ == "__main__":
    commands = {"version": version, "left-out": left_out, "in-place": in_place}
    commands[sys.argv[1]](*sys.argv[2:])
