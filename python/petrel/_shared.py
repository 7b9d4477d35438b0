"""What the clients for threads and for asyncio have in common."""

import collections
import hashlib
import os
import weakref

from petrel import _petrel
from petrel.exceptions import DataError, PetrelError

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
    _kind = "server"
    _options = frozenset(_OPTIONS)

    def __init__(self, host="localhost", port=6379, db=None, *, unix_socket_path=None, **options):
        self._open(None, host, port, unix_socket_path, {"db": db, **options})

    @classmethod
    def from_url(cls, url, **options):
        """A client by a URL such as ``redis://user:password@host:6379/0``."""
        client = cls.__new__(cls)
        client._open(url, "", 0, None, options)
        return client

    def _open(self, url, host, port, path, options):
        unknown = options.keys() - self._options
        if unknown:
            raise DataError(f"no such option: {', '.join(sorted(unknown))}")
        self._made_by = (self._is_async, self._kind, url, host, port, path, options)
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


#: A node of a cluster, or a sentinel.
ClusterNode = collections.namedtuple("ClusterNode", ["host", "port"])


def _all_of(replies):
    return all(replies)


def _first_of(replies):
    return replies[0]


def _joined(replies):
    return [one for reply in replies for one in reply]


#: Commands without a key that concern all primaries, and what becomes of their replies.
_ON_PRIMARIES = {
    "CONFIG SET": _all_of,
    "DBSIZE": sum,
    "FLUSHALL": _all_of,
    "FLUSHDB": _all_of,
    "FUNCTION DELETE": _all_of,
    "FUNCTION FLUSH": _all_of,
    "FUNCTION LOAD": _first_of,
    "KEYS": _joined,
    "PING": _first_of,
    "SCRIPT EXISTS": lambda replies: [all(each) for each in zip(*replies)],
    "SCRIPT FLUSH": _all_of,
    "SCRIPT LOAD": _first_of,
}


class ClusterConnecting(Connecting):
    """A client of a cluster: commands without a key that concern all primaries go to each."""

    _kind = "cluster"
    _options = Connecting._options | {"startup_nodes", "read_from_replicas"}

    def __init__(self, host=None, port=6379, startup_nodes=None, **options):
        nodes = [ClusterNode(node[0], node[1]) for node in startup_nodes or ()]
        if host is None and nodes:
            host, port = nodes[0]
        options = {**options, "startup_nodes": [tuple(node) for node in nodes]}
        self._open(None, host or "localhost", port, None, options)

    def _connect(self):
        super()._connect()
        self._run = self._send

    def _send(self, command, *arguments):
        if command.name == "SCAN":
            raise PetrelError("scan walks over one node: use scan_iter, or primaries()")
        merge = _ON_PRIMARIES.get(command.name)
        if merge is None:
            return self._core.run(command, *arguments)
        return self._merged(merge, self._core.on_primaries((command, *arguments)))


class SentinelConnecting(Connecting):
    """A client of a server that sentinels name."""

    _options = Connecting._options | {
        "sentinels",
        "service_name",
        "sentinel_username",
        "sentinel_password",
    }


class Watching:
    """Sentinels, which know where the servers of services are."""

    def __init__(self, sentinels, sentinel_kwargs=None, **options):
        self._sentinels = [(host, port) for host, port in sentinels]
        known = sentinel_kwargs or {}
        self._credentials = {
            f"sentinel_{name}": known[name] for name in ("username", "password") if name in known
        }
        self._options = options

    def _client(self, kind, service_name, options):
        client = self._class.__new__(self._class)
        client._kind = kind
        options = {**self._options, **options, **self._credentials}
        options.update(sentinels=self._sentinels, service_name=service_name)
        client._open(None, "sentinel", 0, None, options)
        return client

    def master_for(self, service_name, **options):
        """A client of the primary of a service, which follows when another takes its place."""
        return self._client("primary", service_name, options)

    def slave_for(self, service_name, **options):
        """A client that reads from a replica, or from the primary where there is none."""
        return self._client("replica", service_name, options)
