"""Servers to test against: a Petrel binary, and redis-server where it is installed."""

import os
import pathlib
import shutil
import signal
import socket
import subprocess
import time

import pytest

import petrel

ROOT = pathlib.Path(__file__).resolve().parents[2]


def petrel_binary():
    named = os.environ.get("PETREL_BINARY")
    if named:
        return named
    built = (ROOT / "target" / profile / "petrel" for profile in ("release", "debug"))
    return next((str(path) for path in built if path.exists()), None)


class Server:
    """A server in a process of its own, with an empty keyspace."""

    def __init__(self, name, binary, folder):
        self.name = name
        self.folder = folder
        self.socket = str(folder / "server.sock")
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.command = [binary, "--port", str(self.port), "--bind", "127.0.0.1"]
        self.command += ["--save", "", "--dir", str(folder), "--unixsocket", self.socket]
        if name == "petrel":
            self.command += ["--threads", "2"]
        self.process = None
        self.start()

    @property
    def url(self):
        return f"redis://127.0.0.1:{self.port}"

    def start(self):
        with open(self.folder / "log", "a") as log:
            self.process = subprocess.Popen(self.command, stdout=log, stderr=log)
        until = time.monotonic() + 20
        while time.monotonic() < until:
            try:
                with socket.create_connection(("127.0.0.1", self.port), 1) as stream:
                    stream.sendall(b"PING\r\n")
                    if stream.recv(16).startswith(b"+PONG"):
                        return
            except OSError:
                pass
            time.sleep(0.02)
        raise RuntimeError((self.folder / "log").read_text())

    def stop(self):
        """Stops the process: it answers nothing from now on, and its connections stay."""
        self.process.send_signal(signal.SIGSTOP)

    def kill(self):
        self.process.kill()
        self.process.wait()


def binaries():
    return {"petrel": petrel_binary(), "redis": shutil.which("redis-server")}


@pytest.fixture(scope="session", params=["petrel", "redis"])
def shared_server(request, tmp_path_factory):
    binary = binaries()[request.param]
    if binary is None:
        pytest.skip(f"no {request.param} server: set PETREL_BINARY, or install redis-server")
    server = Server(request.param, binary, tmp_path_factory.mktemp(request.param))
    yield server
    server.kill()


@pytest.fixture
def server(shared_server):
    """A server that all tests share, emptied."""
    if shared_server.process.poll() is not None:
        shared_server.start()
    with petrel.Client(port=shared_server.port) as client:
        client.flushall()
    return shared_server


@pytest.fixture
def client(server):
    with petrel.Client(port=server.port) as client:
        yield client


@pytest.fixture
def text_client(server):
    with petrel.from_url(server.url, decode_responses=True) as client:
        yield client
