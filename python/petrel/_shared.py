"""What the clients for threads and for asyncio have in common."""

import hashlib
import os
import weakref

from petrel import _petrel
from petrel.exceptions import DataError

#: Clients of this process, which are made anew in one that is forked.
_clients = weakref.WeakSet()

#: Clients of the process before the fork: dropping them would speak over its connections.
_left_behind = []


def _after_fork():
    _petrel.after_fork()
    for client in list(_clients):
        _left_behind.append(client._core)
        client._connect()


os.register_at_fork(after_in_child=_after_fork)

_OPTIONS = {
    "db",
    "username",
    "password",
    "socket_timeout",
    "socket_connect_timeout",
    "ssl",
    "ssl_ca_certs",
    "client_name",
    "protocol",
    "decode_responses",
    "encoding_errors",
    "retries",
    "connections",
    "bytes_in_flight_max",
}


class Connecting:
    """A client that connects by a URL or an address, when it is first used."""

    _is_async = False

    def __init__(self, host="localhost", port=6379, db=None, *, unix_socket_path=None, **options):
        self._open(None, host, port, unix_socket_path, {"db": db, **options})

    @classmethod
    def from_url(cls, url, **options):
        """A client by a URL such as ``redis://user:password@host:6379/0``."""
        client = cls.__new__(cls)
        client._open(url, "", 0, None, options)
        return client

    def _open(self, url, host, port, path, options):
        unknown = options.keys() - _OPTIONS
        if unknown:
            raise DataError(f"no such option: {', '.join(sorted(unknown))}")
        self._made_by = (self._is_async, url, host, port, path, options)
        self._connect()
        _clients.add(self)

    def _connect(self):
        self._core = _petrel.Core(*self._made_by)
        self._run = self._core.run


class Digested:
    """A script with the digest that servers know it by."""

    def __init__(self, client, script):
        self._client = client
        self.script = script
        source = script.encode() if isinstance(script, str) else script
        self.sha = hashlib.sha1(source, usedforsecurity=False).hexdigest()


def message(kind, pattern, channel, data):
    """A message in the form of redis-py."""
    return {"type": kind, "pattern": pattern, "channel": channel, "data": data}


def seconds_of(limit):
    """A limit in seconds, as a number."""
    return limit.total_seconds() if hasattr(limit, "total_seconds") else limit
