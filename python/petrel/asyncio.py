"""The client for asyncio.

Commands of tasks that run at the same time go out together over one connection, and the event loop
is woken once for all replies that arrive together.
"""

import collections

from petrel import _client
from petrel._arguments import spread
from petrel._commands import Commands
from petrel._redis_py import _EVAL, _EVALSHA
from petrel._shared import (
    ClusterConnecting,
    ClusterNode,
    Connecting,
    Digested,
    SentinelConnecting,
    Watching,
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

__all__ = [
    "Client",
    "ClusterNode",
    "Connection",
    "Lock",
    "NearCache",
    "Pipeline",
    "Primary",
    "PubSub",
    "RedisCluster",
    "Script",
    "Sentinel",
    "from_url",
]


class Scanning:
    """Walks over keys and over what is in them."""

    def scan_iter(self, match=None, count=None, _type=None):
        """All keys; one that is there all the time is returned at least once."""
        return self._walk(lambda at: self.scan(at, match, count, _type))

    def sscan_iter(self, name, match=None, count=None):
        """The members of a set."""
        return self._walk(lambda at: self.sscan(name, at, match, count))

    async def hscan_iter(self, name, match=None, count=None, no_values=False):
        """The fields of a hash, with their values unless ``no_values``."""
        cursor = None
        while cursor != 0:
            cursor, part = await self.hscan(name, cursor or 0, match, count, no_values)
            for one in part if no_values else part.items():
                yield one

    def zscan_iter(self, name, match=None, count=None):
        """The members of a sorted set with their scores."""
        return self._walk(lambda at: self.zscan(name, at, match, count))

    @staticmethod
    async def _walk(step):
        cursor = None
        while cursor != 0:
            cursor, part = await step(cursor or 0)
            for one in part:
                yield one


class Client(Connecting, Scanning, Commands):
    """A client of one server, which any number of tasks share.

    A command is sent when its method is called, and its reply is awaited. Commands that wait on
    the server, such as ``blpop``, take a connection of their own, which is closed when they are
    cancelled.
    """

    _is_async = True

    def pipeline(self, transaction=True, shard_hint=None):
        """Commands that are sent in one piece, as a transaction unless ``transaction=False``."""
        return Pipeline(self, transaction)

    async def transaction(self, func, *watches, value_from_callable=False, attempts=None):
        """Runs a transaction that depends on what it reads.

        ``func``, a coroutine function, is given a pipeline for which ``watches`` are watched: it
        reads with it, calls ``multi``, and queues commands. It is called again when a watched key
        has changed, up to ``attempts`` times.
        """
        async with self.pipeline() as pipe:
            while True:
                try:
                    if watches:
                        await pipe.watch(*watches)
                    value = await func(pipe)
                    replies = await pipe.execute()
                    return value if value_from_callable else replies
                except WatchError:
                    if attempts is not None:
                        attempts -= 1
                        if attempts <= 0:
                            raise

    async def connection(self):
        """A connection of one's own, for commands that change it (``select``)."""
        return Connection(await self._core.connection())

    def pubsub(self, ignore_subscribe_messages=True):
        """Subscriptions to channels."""
        return PubSub(self)

    def register_script(self, script):
        """A Lua script that is called like a function, and sent by its digest."""
        return Script(self, script)

    def lock(self, name, timeout=10.0, blocking=True, blocking_timeout=None):
        """A lock that programs share. See ``Lock``."""
        return Lock(self, name, timeout, blocking, blocking_timeout)

    async def near_cache(self, bytes_max=128 * 1024 * 1024, ttl_max=None, prefixes=()):
        """Reads through a cache in the process, which the server invalidates."""
        limit = seconds_of(ttl_max)
        return NearCache(await self._core.near_cache(bytes_max, limit, list(prefixes)))

    async def aclose(self):
        """Closes all connections. Commands afterwards fail."""
        self._core.close()

    close = aclose

    async def __aenter__(self):
        return self

    async def __aexit__(self, *error):
        await self.aclose()


def from_url(url, **options):
    """A client by a URL such as ``redis://user:password@host:6379/0``."""
    return Client.from_url(url, **options)


class RedisCluster(ClusterConnecting, Client):
    """A client of a Redis Cluster, which any number of tasks share.

    A command goes to the node that serves its key. ``flushall``, ``dbsize``, ``keys`` and others
    that concern all keys go to every primary, ``scan_iter`` walks over all of them, and
    ``primaries`` are the primaries one by one. The keys of a transaction are in one slot; those of
    other pipelines need not be. Channels of shards (``ssubscribe``) follow their slots.
    """

    @staticmethod
    async def _merged(merge, replies):
        return merge(await replies)

    async def primaries(self):
        """Each primary, for commands that concern nodes rather than keys."""
        count = len(await self._core.on_primaries((_client._PING,)))
        return [Primary(self, number) for number in range(count)]

    async def scan_iter(self, match=None, count=None, _type=None):
        """All keys of all primaries."""
        for primary in await self.primaries():
            async for key in primary.scan_iter(match, count, _type):
                yield key

    def pipeline(self, transaction=False, shard_hint=None):
        """Commands that are sent together, each to the node of its key; with ``transaction=True``
        as a transaction, of one slot."""
        return Pipeline(self, transaction)

    async def connection(self, key):
        """A connection of one's own, to the node that serves a key."""
        return Connection(await self._core.connection(key))

    def lock(self, *_, **__):
        """Locks are of single servers."""
        raise NotSupportedError("locks are of single servers, not of a cluster")


class Primary(Scanning, Commands):
    """One primary of a cluster."""

    def __init__(self, cluster, number):
        self._cluster = cluster
        self._number = number

    async def _run(self, *call):
        return (await self._cluster._core.on_primaries(call, self._number))[0]


class ServiceClient(SentinelConnecting, Client):
    """A client of the server that sentinels name."""


class Sentinel(Watching):
    """Sentinels, which know where the primary and the replicas of a service are:
    ``Sentinel([(host, port)]).master_for("mymaster")``. Options are those of ``Client``."""

    _class = ServiceClient


class Connection(_client.Connection):
    """A connection that one caller has to itself. It is not made anew when it is lost."""

    async def aclose(self):
        """Closes the connection."""
        self._native.close()

    close = aclose

    async def __aenter__(self):
        return self

    async def __aexit__(self, *error):
        await self.aclose()


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


class Pipeline(_client.Queue):
    """Commands that are sent in one piece by ``execute``.

    ``watch`` takes a connection of its own: commands then go out at once and are awaited, until
    ``multi``; if a watched key changes before ``execute``, that raises ``WatchError``.
    """

    async def watch(self, *names):
        """Watches keys."""
        if self._calls:
            raise PetrelError("watch comes before commands")
        if self._connection is None:
            self._connection = await self._client._core.connection(spread(names)[0])
        self._is_watching = True
        return await self._connection.run(_client._WATCH, *spread(names))

    async def unwatch(self):
        """Watches no key any more."""
        if self._connection is None:
            return True
        self._is_watching = False
        return await self._connection.run(_client._UNWATCH)

    async def execute(self, raise_on_error=True):
        """The replies to the commands, in their order."""
        native, calls, is_transaction = self._take()
        if not calls:
            # An empty transaction would leave the keys watched.
            if self._connection is not None:
                await self._connection.run(_client._UNWATCH)
            return []
        return self._replies(await native.pipeline(calls, is_transaction), raise_on_error)

    async def reset(self):
        """Forgets queued commands, and watches no key any more."""
        self._calls = []
        self._is_watching = False
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    async def __aenter__(self):
        return self

    async def __aexit__(self, *error):
        await self.reset()


class Script(Digested):
    """A Lua script: ``await script(keys=[...], args=[...])``."""

    async def __call__(self, keys=(), args=(), client=None):
        """Runs it. It is sent in full only if the server does not have it."""
        run = (client or self._client)._run
        keys = spread([keys])
        call = (len(keys), *keys, *args)
        if isinstance(client, _client.Queue):
            return run(_EVAL, self.script, *call)
        try:
            return await run(_EVALSHA, self.sha, *call)
        except NoScriptError:
            return await run(_EVAL, self.script, *call)


class PubSub(_client.PubSub):
    """Subscriptions, and their messages as dictionaries of ``type``, ``pattern``, ``channel``
    and ``data``.

    A lost connection is made anew and everything is subscribed to again; ``interruptions`` tells
    that messages may be missing. Messages that say that a subscription was made are not returned:
    ``subscribe`` returns when it was.
    """

    async def _change(self, kind, is_wanted, channels, handlers):
        if self._native is None:
            self._native = await self._client._core.subscription()
        channels = spread(channels) + list(handlers)
        for channel, handler in handlers.items():
            self._handlers[kind, channel.encode()] = handler
        await self._native.change(kind, is_wanted, channels)

    async def subscribe(self, *channels, **handlers):
        """Subscribes to channels; ``name=function`` hands its messages to a function."""
        await self._change("channel", True, channels, handlers)

    async def psubscribe(self, *patterns, **handlers):
        """Subscribes to the channels that match patterns."""
        await self._change("pattern", True, patterns, handlers)

    async def ssubscribe(self, *channels, **handlers):
        """Subscribes to channels of the shard."""
        await self._change("shard", True, channels, handlers)

    async def unsubscribe(self, *channels):
        """Ends subscriptions to channels."""
        await self._change("channel", False, channels, {})

    async def punsubscribe(self, *patterns):
        """Ends subscriptions by pattern."""
        await self._change("pattern", False, patterns, {})

    async def sunsubscribe(self, *channels):
        """Ends subscriptions to channels of the shard."""
        await self._change("shard", False, channels, {})

    async def get_message(self, timeout=0.0):
        """The next message, waited for ``timeout`` seconds (``None``: for ever), or ``None``."""
        if self._native is None:
            raise PubSubError("nothing is subscribed to")
        if not self._waiting:
            self._waiting.extend(await self._native.next(timeout) or ())
        return self._handled() if self._waiting else None

    async def listen(self):
        """All messages, as they come."""
        if self._native is None:
            raise PubSubError("nothing is subscribed to")
        while True:
            if not self._waiting:
                messages = await self._native.next(None)
                if messages is None:
                    return
                self._waiting.extend(messages)
            while self._waiting:
                taken = self._handled()
                if taken is not None:
                    yield taken

    __aiter__ = listen

    async def aclose(self):
        """Ends all subscriptions."""
        native, self._native = self._native, None
        if native is not None:
            native.close()

    close = aclose

    async def __aenter__(self):
        return self

    async def __aexit__(self, *error):
        await self.aclose()


class Lock(_client.Lock):
    """A lock that programs share: a key with a random token and a lease of ``timeout`` seconds.

    The lease is extended for as long as the lock is held. The release of a lock wakes the next
    holder by invalidation, without polling. A lock is a lease: ``is_lost`` tells that it ended
    too early.
    """

    async def acquire(self, blocking=None, blocking_timeout=None):
        """Whether the lock was acquired within ``blocking_timeout`` seconds."""
        if self._held is not None:
            raise LockError("the lock is held already")
        wait = self._wait(blocking, blocking_timeout)
        self._held = await self._client._core.lock(self.name, self._ttl, wait)
        return self._held is not None

    async def release(self):
        """Releases the lock; ``LockNotOwnedError`` if it was lost before."""
        held, self._held = self._held, None
        if held is None:
            raise LockError("the lock is not held")
        if not await held.release():
            raise LockNotOwnedError("the lock was lost")

    async def __aenter__(self):
        if not await self.acquire():
            raise LockError("the lock is held elsewhere")
        return self

    async def __aexit__(self, *error):
        await self.release()
