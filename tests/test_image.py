"""What the Containerfile says is what a service needs: its steps, without an engine."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytest.importorskip("uvicorn")
ROOT = Path(__file__).parent.parent
STEPS = (ROOT / "Containerfile").read_text().split("\nFROM ")[-1]


def free_port():
    """A port that nobody listens on."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


def environment(folder):
    """Variables of the image, with its volume in a folder."""
    found = dict(re.findall(r"^ENV (\w+)=(.*)$", STEPS, re.MULTILINE))
    found = {name: value.replace("/data", str(folder)) for name, value in found.items()}
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return {**found, "PATH": path, "HOME": "/nonexistent", "SIMILIA_PORT": str(free_port())}


def command(name):
    """The command of a step, as it is run."""
    begin = "^CMD" if name == "CMD" else f"^{name}.* CMD"
    words = json.loads(re.search(rf"{begin} (\[.*\])$", STEPS, re.MULTILINE)[1])
    return [sys.executable if word == "python" else word for word in words]


def test_the_image_serves_with_keys_alone_is_healthy_and_stops(tmp_path):
    given = {"env": environment(tmp_path), "cwd": tmp_path, "text": True}
    served = command("CMD")
    # It listens on all addresses, so it needs keys.
    refused = subprocess.run(served, **given, capture_output=True, timeout=120, check=False)
    assert refused.returncode == 1
    assert "similia keys add" in refused.stderr
    subprocess.run(
        ["similia", "keys", "add"], **given, capture_output=True, timeout=120, check=True
    )
    with subprocess.Popen(served, **given, stderr=subprocess.PIPE) as process:
        healthy = command("HEALTHCHECK")
        for _ in range(100):
            if subprocess.run(healthy, **given, capture_output=True, check=False).returncode == 0:
                break
            time.sleep(0.2)
        else:
            pytest.fail("the health check must succeed")
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
    # All that is written is in the volume.
    assert (tmp_path / "keys.json").exists()


def test_the_image_has_no_root_and_one_volume():
    assert re.search(r"^USER 10001$", STEPS, re.MULTILINE)
    assert re.findall(r"^VOLUME (.*)$", STEPS, re.MULTILINE) == ["/data"]
    assert "slim" in STEPS.splitlines()[0]
