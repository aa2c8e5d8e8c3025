"""nginx before one process that writes and two that follow, by the file that documents name."""

import re
import shutil
import subprocess
from pathlib import Path

import httpx
import pytest

pytest.importorskip("psycopg", reason="needs psycopg")

from similia.client import Client, ServiceProblem
from similia.service.http.keys import Keys
from tests.service.conftest import PATIENCE, Process, some_items, until
from tests.service.kills_of_followers import free_ports

CONFIGURATION = Path(__file__).parents[2] / "balancer.conf"
NGINX = shutil.which("nginx") or shutil.which("/usr/sbin/nginx")

pytestmark = [
    pytest.mark.skipif(NGINX is None, reason="needs nginx"),
    pytest.mark.skipif(not CONFIGURATION.exists(), reason="not in the archive of the source"),
]


@pytest.fixture
def balanced(tmp_path):
    """Starts nginx before processes on these ports; returns its address."""
    started = []

    def start(ports):
        (own,) = free_ports(1)
        text = CONFIGURATION.read_text(encoding="utf-8")
        servers = iter([*ports, *ports])
        text, n = re.subn(r"server \w+:8765", lambda _: f"server 127.0.0.1:{next(servers)}", text)
        more = "".join(f"server 127.0.0.1:{port} max_fails=0;" for port in ports[n:])
        text = text.replace("keepalive 64;", f"{more} keepalive 64;").replace("8080", str(own))
        folders = "".join(
            f"{name}_temp_path {tmp_path}/{name};"
            for name in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
        )
        (tmp_path / "nginx.conf").write_text(
            f"daemon off; pid {tmp_path}/pid; error_log {tmp_path}/errors; worker_processes 1;\n"
            f"events {{}}\nhttp {{ access_log off; {folders}\n{text} }}\n"
        )
        command = [NGINX, "-p", str(tmp_path), "-c", str(tmp_path / "nginx.conf")]
        started.append(subprocess.Popen(command))
        return f"http://127.0.0.1:{own}"

    yield start
    for process in started:
        process.terminate()
        process.wait(PATIENCE)


def test_a_client_behind_a_balancer_notices_no_process_that_ends(server, name, tmp_path, balanced):
    """It sends and asks through nginx, while one after the other is killed and started again."""
    database = server.database(name.replace("-", "_"))
    _, token = Keys(tmp_path / "keys.json").add("*", ("admin",))
    ports, processes = free_ports(3), []

    def serve(place):
        flags = ["--follow"] if place else []
        flags += ["--cache", str(tmp_path / str(place)), "--keys", str(tmp_path / "keys.json")]
        return Process(database, "--port", str(ports[place]), *flags)

    try:
        processes += [serve(place) for place in range(3)]
        url = balanced(ports)
        with Client(url, key=token) as client:
            until(lambda: _is_there(client))
            client.put_items(some_items())
            for place in (1, 2, 0):
                processes[place].stop("kill")
                for turn in range(6):
                    if place or turn > 2:  # nobody writes while the writer is away
                        receipt = client.prefer({"item": "i0"}, better=f"i{turn + 1}", worse="i20")
                        found = client.rank({"item": "i0"}, min_seq=receipt.seq)
                        assert found.seq >= receipt.seq
                    else:
                        assert client.rank({"item": "i0"}).results
                    if turn == 2:
                        processes[place] = serve(place)
    finally:
        for each in processes:
            if each.process.poll() is None:
                each.stop("kill")


def _is_there(client):
    try:
        client.status()
    except (httpx.HTTPError, ServiceProblem):
        return False
    return True
