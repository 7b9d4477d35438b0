"""Replies that are text, as dictionaries, and others in the form of redis-py."""


def _text(reply):
    return reply.decode("utf-8", "replace") if isinstance(reply, bytes) else reply


def _number(text):
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            pass
    return text


def info(reply):
    """``INFO``: a dictionary of its fields; a field such as ``k=1,v=2`` is one itself."""
    fields = {}
    for line in _text(reply).splitlines():
        if not line or line.startswith("#") or ":" not in line:
            continue
        name, value = line.split(":", 1)
        parts = value.split(",")
        if all("=" in part for part in parts):
            pairs = (part.split("=", 1) for part in parts)
            fields[name] = {key: _number(part) for key, part in pairs}
        else:
            fields[name] = _number(value)
    return fields


def client(reply):
    """A line of ``CLIENT LIST``."""
    pairs = (pair.split("=", 1) for pair in _text(reply).split() if "=" in pair)
    return dict(pairs)


def clients(reply):
    """``CLIENT LIST``."""
    return [client(line) for line in _text(reply).splitlines() if line]


def pong(reply):
    """``PING``: true, or the message."""
    return True if reply in (b"PONG", "PONG") else reply


def pending(reply):
    """``XPENDING`` in its short form."""
    count, first, last, consumers = reply
    consumers = [{"name": name, "pending": int(number)} for name, number in consumers or ()]
    return {"pending": count, "min": first, "max": last, "consumers": consumers}


def pending_range(reply):
    """``XPENDING`` in its long form."""
    names = ("message_id", "consumer", "time_since_delivered", "times_delivered")
    return [dict(zip(names, entry)) for entry in reply]
