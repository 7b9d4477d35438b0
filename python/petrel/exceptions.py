"""Exceptions, by the names that redis-py gives them."""


class PetrelError(Exception):
    """Any error of this package. ``command`` names the command concerned, or is empty."""

    command = ""


#: The name that redis-py has for the class of all errors.
RedisError = PetrelError


class ConnectionError(PetrelError):
    """The connection could not be made, or was lost; the server may have executed the command."""


class TimeoutError(PetrelError):
    """No reply came in time; the server may execute the command nevertheless."""


class DataError(PetrelError):
    """An argument or an option makes no sense; nothing was sent."""


class InvalidResponse(PetrelError):
    """A reply is not of the type that the command has."""


class NeedsConnectionError(PetrelError):
    """The command changes its connection: see ``Client.connection``."""


class NotSupportedError(PetrelError, NotImplementedError):
    """A client of this kind does not have it, such as locks of a cluster."""


class WatchError(PetrelError):
    """A watched key changed; the transaction was not executed."""


class LockError(PetrelError, ValueError):
    """A lock could not be acquired or released."""


class LockNotOwnedError(LockError):
    """The lock is not held any more."""


class PubSubError(PetrelError):
    """A subscription is used in a wrong way."""


class ResponseError(PetrelError):
    """The server answered with an error. ``code`` is its first word, such as ``WRONGTYPE``."""

    code = ""


class NoScriptError(ResponseError):
    """``NOSCRIPT``: the server does not have the script."""


class NoPermissionError(ResponseError):
    """``NOPERM``: the user may not do that."""


class AuthenticationError(ConnectionError, ResponseError):
    """``NOAUTH``, ``WRONGPASS``: no or wrong credentials."""


class BusyLoadingError(ConnectionError, ResponseError):
    """``LOADING``: the server is reading its data."""


class ReadOnlyError(ResponseError):
    """``READONLY``: the server is a replica."""


class OutOfMemoryError(ResponseError):
    """``OOM``: the server's memory is used up."""


class ExecAbortError(ResponseError):
    """``EXECABORT``: a command of the transaction was refused."""


class ClusterError(PetrelError):
    """Something about a cluster."""


class ClusterDownError(ClusterError, ResponseError):
    """``CLUSTERDOWN``: the cluster serves no commands."""


class MovedError(ResponseError):
    """``MOVED``: another node has the slot."""


class AskError(ResponseError):
    """``ASK``: another node may have the key."""


class TryAgainError(ResponseError):
    """``TRYAGAIN``: the keys are being moved."""


_BY_CODE: dict[str, type[ResponseError]] = {
    "ASK": AskError,
    "CLUSTERDOWN": ClusterDownError,
    "EXECABORT": ExecAbortError,
    "LOADING": BusyLoadingError,
    "MOVED": MovedError,
    "NOAUTH": AuthenticationError,
    "NOPERM": NoPermissionError,
    "NOSCRIPT": NoScriptError,
    "OOM": OutOfMemoryError,
    "READONLY": ReadOnlyError,
    "TRYAGAIN": TryAgainError,
    "WRONGPASS": AuthenticationError,
}

_BY_KIND: dict[str, type[PetrelError]] = {
    kind.__name__: kind
    for kind in (
        ConnectionError,
        TimeoutError,
        DataError,
        InvalidResponse,
        NeedsConnectionError,
        WatchError,
    )
}


def make(kind: str, message: str, code: str, command: str) -> PetrelError:
    """The exception for an error of the native part."""
    error: PetrelError
    if kind == "ResponseError":
        # As redis-py has it: other codes are a part of the message.
        text = message[4:] if code == "ERR" else message
        response = _BY_CODE.get(code, ResponseError)(text)
        response.code = code
        error = response
    else:
        error = _BY_KIND.get(kind, PetrelError)(message)
    error.command = command
    return error
