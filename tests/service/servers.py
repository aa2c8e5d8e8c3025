"""A PostgreSQL server of one's own, which can be stopped and started again."""

import os
import shutil
import subprocess
import tempfile

import pytest

from tests.stores.test_pgvector import with_extension


class Server:
    """A temporary cluster without a port; not run by root, which Postgres refuses."""

    def __init__(self):
        self.programs = with_extension()
        self.folder = tempfile.mkdtemp(prefix="similia-pg-")
        self.someone = {"user": "nobody"} if os.geteuid() == 0 else {}
        if self.someone:
            shutil.chown(self.folder, "nobody")
        self.data = f"{self.folder}/data"
        try:
            program = [self.programs / "initdb", "--version"]
            subprocess.run(program, check=True, capture_output=True, **self.someone)
        except PermissionError:
            shutil.rmtree(self.folder)
            pytest.skip(f"needs a server that others than root may run: {self.programs} is not one")
        plain = ("--auth", "trust", "--encoding", "UTF8", "--no-sync")
        self.call("initdb", "--pgdata", self.data, "--username", "similia", *plain)
        self.start()
        self.url = f"postgresql:///postgres?host={self.folder}&user=similia"

    def database(self, name):
        """URL of a new database, in which no other test has left tenants."""
        import psycopg

        with psycopg.connect(self.url, autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name}")
        return self.url.replace("/postgres?", f"/{name}?")

    def call(self, program, *arguments):
        done = subprocess.run(
            [self.programs / program, *arguments],
            cwd=self.folder,
            env={"PATH": os.environ["PATH"], "LC_ALL": "C"},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            **self.someone,
        )
        assert done.returncode == 0, done.stderr

    def start(self):
        options = f"-c listen_addresses='' -c unix_socket_directories='{self.folder}'"
        log = ("--log", f"{self.folder}/log")
        self.call("pg_ctl", "--pgdata", self.data, *log, "--wait", "--options", options, "start")

    def stop(self):
        self.call("pg_ctl", "--pgdata", self.data, "--wait", "--mode", "immediate", "stop")

    def close(self):
        self.stop()
        shutil.rmtree(self.folder)
