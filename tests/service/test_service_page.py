"""Every command of docs/service.md runs, in its order; its files are what the programs take."""

import configparser
import contextlib
import io
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from similia.cli.main import app
from similia.service.http.server import listen
from tests.cli_reference import help_of

PAGE = (Path(__file__).parents[2] / "docs" / "service.md").read_text()
FILES = dict(re.findall(r"<!-- file: (\S+) -->\n```\w+\n(.*?)```", PAGE, re.DOTALL))
PATIENCE = 300


def free_port():
    with contextlib.closing(listen("127.0.0.1", 0)) as listener:
        return str(listener.getsockname()[1])


@pytest.mark.skipif(not (shutil.which("bash") and shutil.which("curl")), reason="needs bash, curl")
def test_the_page_runs_from_start_to_recovery(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("SIMILIA_KEY", raising=False)
    command = tmp_path / "bin" / "similia"
    command.parent.mkdir()
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m similia.cli.main "$@"\n')
    command.chmod(0o755)
    monkeypatch.setenv("PATH", str(command.parent), prepend=os.pathsep)
    port = free_port()
    monkeypatch.setenv("SIMILIA_PORT", port)
    names = {}
    try:
        for kind, block in re.findall(r"```(python|console)\n(.*?)```", PAGE, re.DOTALL):
            text = block.replace("127.0.0.1:8765", f"127.0.0.1:{port}")
            if kind == "python":
                with contextlib.redirect_stdout(io.StringIO()):
                    exec(compile(text, "docs/service.md", "exec"), names)
            else:
                console(text)
    finally:
        end("serve.pid")


def console(text):
    """Run the lines after "$ "; what is shown below one is what it prints."""
    parts = re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]
    for part in parts:
        line, _, shown = part.partition("\n")
        words, _, target = line.partition(" > ")
        if words.startswith("similia ") and not re.search(r"[|;&$]", line):
            # In this process, as starting one takes longer than the command.
            result = CliRunner().invoke(app, shlex.split(words)[1:], prog_name="similia")
            code, stdout, stderr = result.exit_code, result.stdout, result.stderr
            if target:
                Path(target).write_text(stdout)
        else:
            found = subprocess.run(
                ["bash", "-c", line], capture_output=True, text=True, timeout=PATIENCE, check=False
            )
            code, stdout, stderr = found.returncode, found.stdout, found.stderr
        assert code == 0, f"{line}\n{stdout}\n{stderr}"
        if shown.strip():
            assert stdout == shown


def end(file):
    """End the process whose id is in a file."""
    with contextlib.suppress(OSError, ValueError):
        os.kill(int(Path(file).read_text()), signal.SIGKILL)


def test_the_unit_starts_a_command_that_exists(tmp_path):
    unit = configparser.ConfigParser(interpolation=None, strict=False)
    unit.optionxform = str
    unit.read_string(FILES["similia.service"])
    words = unit["Service"]["ExecStart"].split()
    assert words[1] == "serve"
    text = help_of("serve")
    for flag in words[2:]:
        if flag.startswith("--"):
            assert flag in text
    if shutil.which("systemd-analyze"):
        path = tmp_path / "similia.service"
        path.write_text(FILES["similia.service"].replace(words[0], sys.executable))
        found = subprocess.run(
            ["systemd-analyze", "verify", "--man=no", "--recursive-errors=no", str(path)],
            capture_output=True,
            text=True,
            check=False,
        )
        assert "similia.service:" not in found.stderr, found.stderr


@pytest.mark.skipif(not shutil.which("nginx"), reason="needs nginx")
def test_the_proxy_passes_requests_on(tmp_path, start):
    """With plain HTTP on a free port in place of TLS, for which there is no certificate here."""
    import httpx

    from similia.service.http.keys import Keys
    from tests.service.conftest import until

    _, token = Keys(tmp_path / "store" / "keys.json").add("default", ("admin",))
    running, port = start(), free_port()
    site = FILES["nginx.conf"].replace("listen 443 ssl", f"listen 127.0.0.1:{port}")
    site = re.sub(r"\n +ssl_\w+ .*", "", site).replace(
        "127.0.0.1:8765", f"127.0.0.1:{running.port}"
    )
    folders = "\n".join(
        f"{name}_temp_path {tmp_path / name};"
        for name in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    (tmp_path / "nginx.conf").write_text(
        f"daemon off; pid {tmp_path / 'pid'}; error_log {tmp_path / 'log'};\n"
        f"events {{}}\nhttp {{ access_log off;\n{folders}\n{site} }}\n"
    )
    proxy = subprocess.Popen(
        ["nginx", "-p", str(tmp_path), "-c", str(tmp_path / "nginx.conf")],
        stderr=subprocess.DEVNULL,
    )
    try:
        url, headers = f"http://127.0.0.1:{port}", {"authorization": f"Bearer {token}"}

        def answers():
            with contextlib.suppress(httpx.TransportError):
                return httpx.get(f"{url}/readyz").status_code == 200

        until(answers)
        status = httpx.get(f"{url}/v1/default/status", headers=headers)
        assert status.json()["items"] == 30
        assert len(status.headers["x-request-id"]) == 32  # nginx's own
        assert httpx.get(f"{url}/v1/default/status").status_code == 401
        assert httpx.get(f"{url}/metrics", headers=headers).status_code == 403
        assert httpx.post(f"{url}/v1/default/rank", content=b"x" * 9 * 2**20).status_code == 413
    finally:
        proxy.terminate()
        proxy.wait(60)
