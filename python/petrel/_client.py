"""The client for threads."""

import collections

from petrel._arguments import spread
from petrel._commands import Commands
from petrel._petrel import Command
from petrel._redis_py import _EVAL, _EVALSHA
from petrel._shared import (
    ClusterConnecting,
    Connecting,
    Digested,
    SentinelConnecting,
    Watching,
    message,
    seconds_of,
)
from petrel.exceptions import (
    LockError,
    LockNotOwnedError,
    NoScriptError,
    NotSupportedError,
    PetrelError,
    PubSubError,
    WatchError,
)

_PING = Command("PING")
_UNWATCH = Command("UNWATCH", "()")
_WATCH = Command("WATCH", "()")


class Scanning:
    """Walks over keys and over what is in them."""

    def scan_iter(self, match=None, count=None, _type=None):
        """All keys; one that is there all the time is returned at least once."""
        return self._walk(lambda at: self.scan(at, match, count, _type))

    def sscan_iter(self, name, match=None, count=None):
        """The members of a set."""
        return self._walk(lambda at: self.sscan(name, at, match, count))

    def hscan_iter(self, name, match=None, count=None, no_values=False):
        """The fields of a hash, with their values unless ``no_values``."""
        for part in self._walk(lambda at: self.hscan(name, at, match, count, no_values), True):
            yield from part if no_values else part.items()

    def zscan_iter(self, name, match=None, count=None):
        """The members of a sorted set with their scores."""
        return self._walk(lambda at: self.zscan(name, at, match, count))

    @staticmethod
    def _walk(step, by_part=False):
        cursor = None
        while cursor != 0:
            cursor, part = step(cursor or 0)
            if by_part:
                yield part
            else:
                yield from part


class Client(Connecting, Scanning, Commands):
    """A client of one server, which any number of threads share.

    Commands of threads that call at the same time go out together. Commands that wait on the
    server, such as ``blpop``, take a connection of their own.
    """

    def pipeline(self, transaction=True, shard_hint=None):
        """Commands that are sent in one piece, as a transaction unless ``transaction=False``."""
        return Pipeline(self, transaction)

    def transaction(self, func, *watches, value_from_callable=False, attempts=None):
        """Runs a transaction that depends on what it reads.

        ``func`` is given a pipeline for which ``watches`` are watched: it reads with it, calls
        ``multi``, and queues commands. It is called again when a watched key has changed, up to
        ``attempts`` times.
        """
        with self.pipeline() as pipe:
            while True:
                try:
                    if watches:
                        pipe.watch(*watches)
                    value = func(pipe)
                    replies = pipe.execute()
                    return value if value_from_callable else replies
                except WatchError:
                    if attempts is not None:
                        attempts -= 1
                        if attempts <= 0:
                            raise

    def connection(self):
        """A connection of one's own, for commands that change it (``select``)."""
        return Connection(self._core.connection())

    def pubsub(self, ignore_subscribe_messages=True):
        """Subscriptions to channels."""
        return PubSub(self)

    def register_script(self, script):
        """A Lua script that is called like a function, and sent by its digest."""
        return Script(self, script)

    def lock(self, name, timeout=10.0, blocking=True, blocking_timeout=None):
        """A lock that programs share. See ``Lock``."""
        return Lock(self, name, timeout, blocking, blocking_timeout)

    def near_cache(self, bytes_max=128 * 1024 * 1024, ttl_max=None, prefixes=()):
        """Reads through a cache in the process, which the server invalidates."""
        limit = seconds_of(ttl_max)
        return NearCache(self._core.near_cache(bytes_max, limit, list(prefixes)))

    def close(self):
        """Closes all connections. Commands afterwards fail."""
        self._core.close()

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.close()


def from_url(url, **options):
    """A client by a URL such as ``redis://user:password@host:6379/0``."""
    return Client.from_url(url, **options)


class RedisCluster(ClusterConnecting, Client):
    """A client of a Redis Cluster, which any number of threads share.

    A command goes to the node that serves its key. ``flushall``, ``dbsize``, ``keys`` and others
    that concern all keys go to every primary, ``scan_iter`` walks over all of them, and
    ``primaries`` are the primaries one by one. The keys of a transaction are in one slot; those of
    other pipelines need not be. Channels of shards (``ssubscribe``) follow their slots.
    """

    @staticmethod
    def _merged(merge, replies):
        return merge(replies)

    def primaries(self):
        """Each primary, for commands that concern nodes rather than keys."""
        count = len(self._core.on_primaries((_PING,)))
        return [Primary(self, number) for number in range(count)]

    def scan_iter(self, match=None, count=None, _type=None):
        """All keys of all primaries."""
        for primary in self.primaries():
            yield from primary.scan_iter(match, count, _type)

    def pipeline(self, transaction=False, shard_hint=None):
        """Commands that are sent together, each to the node of its key; with ``transaction=True``
        as a transaction, of one slot."""
        return Pipeline(self, transaction)

    def connection(self, key):
        """A connection of one's own, to the node that serves a key."""
        return Connection(self._core.connection(key))

    def lock(self, *_, **__):
        """Locks are of single servers."""
        raise NotSupportedError("locks are of single servers, not of a cluster")


class Primary(Scanning, Commands):
    """One primary of a cluster."""

    def __init__(self, cluster, number):
        self._cluster = cluster
        self._number = number

    def _run(self, *call):
        return self._cluster._core.on_primaries(call, self._number)[0]


class ServiceClient(SentinelConnecting, Client):
    """A client of the server that sentinels name."""


class Sentinel(Watching):
    """Sentinels, which know where the primary and the replicas of a service are:
    ``Sentinel([(host, port)]).master_for("mymaster")``. Options are those of ``Client``."""

    _class = ServiceClient


class Connection(Commands):
    """A connection that one caller has to itself. It is not made anew when it is lost."""

    def __init__(self, native):
        self._native = native
        self._run = native.run

    def close(self):
        """Closes the connection."""
        self._native.close()

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.close()


class NearCache(Scanning, Commands):
    """Commands through a cache in the process.

    Replies of those that read one key are kept until the server says that it has changed. Between
    a change and that message, reads return the older value; a program that must read its own
    writes calls ``forget`` after each.
    """

    def __init__(self, native):
        self._native = native
        self._run = native.run

    def statistics(self):
        """Hits, misses, joined reads, invalidations, evictions, keys and bytes."""
        return self._native.statistics()

    def forget(self, name):
        """Forgets what is cached of a key."""
        self._native.forget(name)

    def clear(self):
        """Forgets everything."""
        self._native.clear()


class Queue(Commands):
    """Commands that are queued, and those that go out at once after ``watch``."""

    def __init__(self, client, transaction):
        self._client = client
        self._is_transaction = transaction
        self._connection = None
        self._calls = []
        self._is_watching = False

    def _run(self, *call):
        if self._is_watching:
            return self._connection.run(*call)
        self._calls.append(call)
        return self

    def __len__(self):
        return len(self._calls)

    def __bool__(self):
        return True

    def multi(self):
        """After ``watch`` and reads: begins the commands of the transaction."""
        if not self._is_watching:
            raise PetrelError("multi follows watch")
        self._is_watching = False

    def _take(self):
        calls, self._calls = self._calls, []
        native = self._client._core if self._connection is None else self._connection
        # Watched keys are of no effect on commands outside of a transaction.
        is_transaction = self._is_transaction or self._connection is not None
        self._is_watching = False
        return native, calls, is_transaction

    @staticmethod
    def _replies(replies, raise_on_error):
        if raise_on_error:
            for number, reply in enumerate(replies, 1):
                if isinstance(reply, Exception):
                    reply.args = (f"command {number} of the pipeline: {reply}",)
                    raise reply
        return replies


class Pipeline(Queue):
    """Commands that are sent in one piece by ``execute``.

    ``watch`` takes a connection of its own: commands then go out at once, until ``multi``; if a
    watched key changes before ``execute``, that raises ``WatchError``.
    """

    def watch(self, *names):
        """Watches keys."""
        if self._calls:
            raise PetrelError("watch comes before commands")
        if self._connection is None:
            self._connection = self._client._core.connection(spread(names)[0])
        self._is_watching = True
        return self._connection.run(_WATCH, *spread(names))

    def unwatch(self):
        """Watches no key any more."""
        if self._connection is None:
            return True
        self._is_watching = False
        return self._connection.run(_UNWATCH)

    def execute(self, raise_on_error=True):
        """The replies to the commands, in their order."""
        native, calls, is_transaction = self._take()
        if not calls:
            # An empty transaction would leave the keys watched.
            if self._connection is not None:
                self._connection.run(_UNWATCH)
            return []
        return self._replies(native.pipeline(calls, is_transaction), raise_on_error)

    def reset(self):
        """Forgets queued commands, and watches no key any more."""
        self._calls = []
        self._is_watching = False
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.reset()


class Script(Digested):
    """A Lua script: ``script(keys=[...], args=[...])``."""

    def __call__(self, keys=(), args=(), client=None):
        """Runs it. It is sent in full only if the server does not have it."""
        run = (client or self._client)._run
        keys = spread([keys])
        call = (len(keys), *keys, *args)
        if isinstance(client, Queue):
            return run(_EVAL, self.script, *call)
        try:
            return run(_EVALSHA, self.sha, *call)
        except NoScriptError:
            return run(_EVAL, self.script, *call)


class PubSub:
    """Subscriptions, and their messages as dictionaries of ``type``, ``pattern``, ``channel``
    and ``data``.

    A lost connection is made anew and everything is subscribed to again; ``interruptions`` tells
    that messages may be missing. Messages that say that a subscription was made are not returned:
    ``subscribe`` returns when it was.
    """

    def __init__(self, client):
        self._client = client
        self._native = None
        self._waiting = collections.deque()
        self._handlers = {}

    def _change(self, kind, is_wanted, channels, handlers):
        if self._native is None:
            self._native = self._client._core.subscription()
        channels = spread(channels) + list(handlers)
        for channel, handler in handlers.items():
            self._handlers[kind, channel.encode()] = handler
        self._native.change(kind, is_wanted, channels)

    def subscribe(self, *channels, **handlers):
        """Subscribes to channels; ``name=function`` hands its messages to a function."""
        self._change("channel", True, channels, handlers)

    def psubscribe(self, *patterns, **handlers):
        """Subscribes to the channels that match patterns."""
        self._change("pattern", True, patterns, handlers)

    def ssubscribe(self, *channels, **handlers):
        """Subscribes to channels of the shard."""
        self._change("shard", True, channels, handlers)

    def unsubscribe(self, *channels):
        """Ends subscriptions to channels."""
        self._change("channel", False, channels, {})

    def punsubscribe(self, *patterns):
        """Ends subscriptions by pattern."""
        self._change("pattern", False, patterns, {})

    def sunsubscribe(self, *channels):
        """Ends subscriptions to channels of the shard."""
        self._change("shard", False, channels, {})

    def interruptions(self):
        """How often the connection was lost."""
        return 0 if self._native is None else self._native.interruptions()

    def get_message(self, timeout=0.0):
        """The next message, waited for ``timeout`` seconds (``None``: for ever), or ``None``."""
        if self._native is None:
            raise PubSubError("nothing is subscribed to")
        if not self._waiting:
            self._waiting.extend(self._native.next(timeout) or ())
        return self._handled() if self._waiting else None

    def _handled(self):
        taken = message(*self._waiting.popleft())
        kinds = {"message": "channel", "pmessage": "pattern", "smessage": "shard"}
        channel = taken["channel"] if taken["pattern"] is None else taken["pattern"]
        if self._handlers:
            key = channel.encode() if isinstance(channel, str) else channel
            handler = self._handlers.get((kinds[taken["type"]], key))
            if handler is not None:
                handler(taken)
                return None
        return taken

    def listen(self):
        """All messages, as they come."""
        if self._native is None:
            raise PubSubError("nothing is subscribed to")
        while True:
            if not self._waiting:
                messages = self._native.next(None)
                if messages is None:
                    return
                self._waiting.extend(messages)
            while self._waiting:
                taken = self._handled()
                if taken is not None:
                    yield taken

    __iter__ = listen

    def close(self):
        """Ends all subscriptions."""
        native, self._native = self._native, None
        if native is not None:
            native.close()

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.close()


class Lock:
    """A lock that programs share: a key with a random token and a lease of ``timeout`` seconds.

    The lease is extended for as long as the lock is held. The release of a lock wakes the next
    holder by invalidation, without polling. A lock is a lease: ``is_lost`` tells that it ended
    too early.
    """

    def __init__(self, client, name, timeout=10.0, blocking=True, blocking_timeout=None):
        self._client = client
        self.name = name
        self._ttl = seconds_of(timeout)
        self._blocking = blocking
        self._blocking_timeout = blocking_timeout
        self._held = None

    def _wait(self, blocking, blocking_timeout):
        blocking = self._blocking if blocking is None else blocking
        if not blocking:
            return 0.0
        limit = self._blocking_timeout if blocking_timeout is None else blocking_timeout
        return seconds_of(limit)

    def acquire(self, blocking=None, blocking_timeout=None):
        """Whether the lock was acquired within ``blocking_timeout`` seconds."""
        if self._held is not None:
            raise LockError("the lock is held already")
        wait = self._wait(blocking, blocking_timeout)
        self._held = self._client._core.lock(self.name, self._ttl, wait)
        return self._held is not None

    def is_lost(self):
        """Whether the lock is known to be lost."""
        return self._held is None or self._held.is_lost()

    def owned(self):
        """Whether the lock is held, as far as is known."""
        return not self.is_lost()

    def release(self):
        """Releases the lock; ``LockNotOwnedError`` if it was lost before."""
        held, self._held = self._held, None
        if held is None:
            raise LockError("the lock is not held")
        if not held.release():
            raise LockNotOwnedError("the lock was lost")

    def __enter__(self):
        if not self.acquire():
            raise LockError("the lock is held elsewhere")
        return self

    def __exit__(self, *error):
        self.release()
