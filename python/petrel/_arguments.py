"""What callers may give for arguments, made into the arguments of a command."""

from datetime import datetime, timedelta

_ONE = (bytes, str, int, float, bytearray, memoryview)


def spread(arguments):
    """Arguments of which some may be lists: ``("a", ["b", "c"])`` is three."""
    if isinstance(arguments, _ONE):
        return (arguments,)
    flat = []
    for one in arguments:
        if isinstance(one, _ONE):
            flat.append(one)
        elif one is None:
            flat.append(one)
        else:
            flat.extend(one)
    return flat


def counted(arguments):
    """How many there are, then the arguments."""
    flat = spread(arguments)
    return (len(flat), *flat)


def counted_pairs(mapping):
    """How many pairs there are, then their parts."""
    parts = pairs(mapping)
    return (len(parts) // 2, *parts)


def values(value):
    """One value, or each of several."""
    if value is None or isinstance(value, _ONE):
        return (value,)
    if hasattr(value, "items"):
        return tuple(pairs(value))
    return tuple(value)


def pairs(mapping):
    """A mapping, or pairs, with the parts beside one another."""
    items = mapping.items() if hasattr(mapping, "items") else mapping
    return [part for pair in items for part in pair]


def apart(mapping):
    """A mapping, or pairs: all of the first parts, then all of the second."""
    items = list(mapping.items() if hasattr(mapping, "items") else mapping)
    return [first for first, _ in items] + [second for _, second in items]


def seconds(time):
    """A time in seconds, as a number."""
    if isinstance(time, timedelta):
        return int(time.total_seconds())
    if isinstance(time, datetime):
        return int(time.timestamp())
    return time


def milliseconds(time):
    """A time in milliseconds, as a number."""
    if isinstance(time, timedelta):
        return int(time.total_seconds() * 1000)
    if isinstance(time, datetime):
        return int(time.timestamp() * 1000)
    return time
