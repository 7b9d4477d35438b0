"""A client of Petrel, Redis and Valkey.

``petrel.Client`` is for threads, ``petrel.asyncio.Client`` for asyncio. Threads and tasks share a
client: their commands go out together over one connection.
"""

from petrel import asyncio, exceptions
from petrel._client import (
    Client,
    Connection,
    Lock,
    NearCache,
    Pipeline,
    Primary,
    PubSub,
    RedisCluster,
    Script,
    Sentinel,
    from_url,
)
from petrel._shared import ClusterNode
from petrel.exceptions import *  # noqa: F403

__version__ = "0.1.0"

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
    "asyncio",
    "exceptions",
    "from_url",
    *(
        name
        for name, kind in vars(exceptions).items()
        if isinstance(kind, type) and issubclass(kind, Exception)
    ),
]
