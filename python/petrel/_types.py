"""Types of arguments and replies."""

from __future__ import annotations

from collections.abc import Awaitable, Coroutine, Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any, TypeVar, Union

#: What is one argument of a command.
Argument = Union[bytes, str, int, float, bytearray, memoryview]
#: Seconds or milliseconds, as the command has it; a duration, or a point in time.
Time = Union[int, timedelta, datetime]
#: Keys or fields with their values.
Pairs = Union[Mapping[Any, Argument], Iterable[tuple[Argument, Argument]]]

#: Strings in replies: ``bytes``, or ``str`` with ``decode_responses=True``.
T = TypeVar("T")
R = TypeVar("R")


class Call(Coroutine[Any, Any, R], Awaitable[R]):
    """A command under way, to be awaited; it is sent whether or not it is."""
