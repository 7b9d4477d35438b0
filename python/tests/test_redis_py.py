"""The methods beside redis-py's: the same names, in the same places, and the same commands sent."""

import inspect

import pytest

from petrel._commands import Commands

redis = pytest.importorskip("redis", reason="skipped: redis-py is not installed")

# Methods of redis-py that are no commands, or none that Petrel has; by their names, or how they begin.
NO_COMMANDS = {
    # Of the client: each class has its own.
    "close", "from_pool", "from_url", "get_connection_kwargs", "get_encoder", "get_retry", "lock", "monitor",
    "parse_response", "pipeline", "pubsub", "register_script", "set_response_callback", "set_retry", "transaction",
    "scan_iter", "sscan_iter", "hscan_iter", "zscan_iter", "get_cache", "digest_local", "keyspace_notifications",
    "load_external_module",
    # Groups of commands that redis-py has in classes of their own.
    "bf", "cf", "cms", "ft", "json", "tdigest", "topk", "ts", "vset",
    # Called without a subcommand, they are no commands here.
    "client", "cluster", "command",
    # Refused or removed by servers, answered with something else than a reply, or of another server.
    "client_reply", "debug_object", "debug_segfault", "psync", "sentinel", "stralgo", "sync",
}  # fmt: skip
NO_COMMANDS_BEGIN = ("sentinel_", "ar", "himport_discard", "himport_prepare_internal")

# Methods that differ, and why. What is listed here and does not differ fails too.
REVIEWED = {
    "acl_dryrun": "the command has a parameter of its own before its arguments",
    "bitfield": "operations are arguments: there is no object that gathers them",
    "command_getkeys": "the command has a parameter of its own before its arguments",
    "command_getkeysandflags": "the command has a parameter of its own before its arguments",
    "latency_graph": "the event must be named, as the server demands",
    "script_debug": "there is one mode",
    "sort": "no groups: the values of several patterns are a flat list",
}

# Parameters that no method has, and why.
NO_PARAMETERS = {"score_cast_func": "scores are numbers"}

METHODS = sorted(
    name
    for name in dir(redis.Redis)
    if not name.startswith("_")
    and inspect.isfunction(getattr(redis.Redis, name))
    and name not in NO_COMMANDS
    and not name.startswith(NO_COMMANDS_BEGIN)
)


def parameters(method):
    found = list(inspect.signature(method).parameters.values())[1:]
    return [one for one in found if one.name not in NO_PARAMETERS]


def differences(ours, theirs):
    """What a call that redis-py accepts would run into."""
    ours, theirs = parameters(ours), parameters(theirs)
    found = []
    by_position = [one for one in ours if one.kind is one.POSITIONAL_OR_KEYWORD]
    names = {one.name for one in ours if one.kind in (one.POSITIONAL_OR_KEYWORD, one.KEYWORD_ONLY)}
    takes_rest = any(one.kind is one.VAR_POSITIONAL for one in ours)
    rest_at = len(theirs)
    for at, one in enumerate(theirs):
        if one.kind is one.VAR_POSITIONAL:
            rest_at = at
            if not takes_rest:
                found.append(f"no *{one.name}")
        elif one.kind is one.POSITIONAL_OR_KEYWORD:
            if at >= len(by_position) or by_position[at].name != one.name:
                found.append(f"no {one.name} at {at}")
        elif one.kind is one.KEYWORD_ONLY and one.name not in names:
            found.append(f"no keyword {one.name}")
    optional = {one.name for one in theirs if one.default is not one.empty}
    known = {one.name for one in theirs}
    for one in ours:
        is_needed = one.default is one.empty and one.kind is not one.VAR_POSITIONAL
        if is_needed and (one.name not in known or one.name in optional):
            found.append(f"{one.name} must be given")
    return found


@pytest.mark.parametrize("name", METHODS)
def test_a_method_takes_what_redis_py_takes(name):
    ours = getattr(Commands, name, None)
    assert ours is not None, "there is no such method"
    found = differences(ours, getattr(redis.Redis, name))
    if name in REVIEWED:
        assert found, "it differs no longer: it need not be reviewed"
    else:
        assert not found


def test_what_was_reviewed_is_there():
    assert REVIEWED.keys() <= set(METHODS)
    every = {one for name in METHODS for one in inspect.signature(getattr(redis.Redis, name)).parameters}
    assert NO_PARAMETERS.keys() <= every
    assert all(hasattr(redis.Redis, name) for name in ("geosearch", "zadd", "acl_setuser"))


class Ours(Commands):
    def _run(self, command, *arguments):
        return " ".join(map(text, (command.name, *arguments)))


class Theirs(redis.commands.core.CoreCommands):
    def execute_command(self, *args, **options):
        return " ".join(map(text, args))

    def get_encoder(self):
        return redis._parsers.Encoder("utf-8", "strict", False)


def text(value):
    return value.decode() if isinstance(value, bytes) else str(value)


CALLS = [
    ("geosearch", ("g",), {"longitude": 15.5, "latitude": 37, "radius": 200, "unit": "km"}),
    ("geosearch", ("g", "m"), {"width": 5, "height": 6, "sort": "DESC", "count": 3, "any": True}),
    ("geosearch", ("g",), {"member": "m", "radius": 5, "withcoord": True, "withdist": True, "withhash": True}),
    ("geosearchstore", ("to", "g"), {"longitude": 1, "latitude": 2, "radius": 3, "unit": "mi", "sort": "ASC"}),
    ("geodist", ("g", "a", "b", "km"), {}),
    ("georadius", ("g", 1, 2, 3), {"unit": "km", "withdist": True, "count": 2, "sort": "ASC"}),
    ("georadius", ("g", 1, 2, 3), {"store": "to"}),
    ("georadiusbymember", ("g", "m", 3), {"store_dist": "to"}),
    ("acl_setuser", ("me", True), {
        "passwords": ["+secret", "-old"], "hashed_passwords": "+abc", "categories": ["+read", "-@write"],
        "commands": ["+get", "-set"], "keys": ["a*", "%R~b*"], "channels": ["c*"], "selectors": [("+get", "s*")],
        "reset": True, "reset_keys": True, "reset_channels": True, "reset_passwords": True,
    }),
    ("acl_setuser", ("me",), {"nopass": True}),
    ("acl_log", (5,), {}),
    ("acl_log_reset", (), {}),
    ("append", (), {"key": "k", "value": "v"}),
    ("bitfield_ro", ("k", "u8", 0), {"items": [("i4", 8), ("u2", "#1")]}),
    ("bitop", ("AND", "to", "a", "b"), {}),
    ("client_kill_filter", (), {"_id": 3, "_type": "normal", "skipme": False, "maxage": 9}),
    ("client_pause", (100,), {"all": False}),
    ("client_pause", (100,), {}),
    ("client_setinfo", ("LIB-NAME", "x"), {}),
    ("client_tracking", (), {"clientid": 4, "prefix": ["a", "b"], "bcast": True, "noloop": True}),
    ("client_tracking_off", (), {}),
    ("client_unblock", (7, True), {}),
    ("function_flush", (), {}),
    ("function_restore", ("x",), {"policy": "REPLACE"}),
    ("hmget", ("h", ["a", "b"], "c"), {}),
    ("hrandfield", ("h", 3, True), {}),
    ("hsetex", ("h", "f", "v"), {"ex": 10}),
    ("hsetex", ("h",), {"mapping": {"a": 1, "b": 2}, "keepttl": True}),
    ("lcs", ("a", "b"), {"idx": True, "minmatchlen": 2, "withmatchlen": True}),
    ("linsert", ("l", "BEFORE", "p", "v"), {}),
    ("lmovem", ("a", "b"), {"count": 2, "ordering": "OBO"}),
    ("lpos", ("l", "v"), {"rank": 2, "count": 0, "maxlen": 9}),
    ("migrate", ("h", 6379, ["a", "b"], 0, 100), {"copy": True, "replace": True, "auth": "x"}),
    ("msetex", ({"a": 1, "b": 2},), {"px": 5}),
    ("script_flush", ("ASYNC",), {}),
    ("sdiff", (["a", "b"], "c"), {}),
    ("sdiffcard", (2, ["a", "b"], 5), {}),
    ("sinterstore", ("to", "a", "b"), {}),
    ("slaveof", (), {}),
    ("slaveof", ("h", 1), {}),
    ("smismember", ("s", ["a"], "b"), {}),
    ("srandmember", ("s", 3), {}),
    ("sunioncard", (2, ["a", "b"]), {"approx": True}),
    ("swapdb", (0, 1), {}),
    ("xackdel", ("s", "g", "1-1", "1-2"), {"ref_policy": "ACKED"}),
    ("xadd", ("s", {"f": "v"}), {"ref_policy": "DELREF", "idmp": ("p", "1"), "maxlen": 9}),
    ("xdelex", ("s", "1-1"), {}),
    ("xgroup_setid", ("s", "g", "0"), {"entries_read": 3}),
    ("xread", ({"s": "0"},), {"count": 1, "block": 5, "max_count": 4, "max_size": 6}),
    ("xreadgroup", ("g", "c", {"s": ">"}), {"claim_min_idle_time": 5, "max_count": 4, "noack": True}),
    ("xtrim", ("s", 5), {"ref_policy": "ACKED"}),
    ("zmscore", ("z", ["a", "b"]), {}),
    ("zrandmember", ("z", 2, True), {}),
    ("zrank", ("z", "m", True), {}),
    ("zremrangebyrank", ("z", 0, 1), {}),
]  # fmt: skip


@pytest.mark.parametrize(("name", "args", "options"), CALLS)
def test_a_call_sends_what_redis_py_sends(name, args, options):
    ours = getattr(Ours(), name)(*args, **options)
    theirs = getattr(Theirs(), name)(*args, **options)
    # Options may stand in another order.
    assert sorted(ours.split(" ")) == sorted(theirs.split(" "))


@pytest.mark.parametrize(
    ("name", "args", "options"),
    [
        ("geosearch", ("g",), {"radius": 5}),
        ("geosearch", ("g",), {"longitude": 5, "radius": 5}),
        ("geosearch", ("g", "m"), {}),
        ("geosearch", ("g", "m"), {"radius": 5, "width": 1, "height": 1}),
        ("geosearch", ("g", "m"), {"radius": 5, "unit": "yd"}),
        ("geosearch", ("g", "m"), {"radius": 5, "any": True}),
        ("acl_setuser", ("me",), {"passwords": ["+a"], "nopass": True}),
        ("acl_setuser", ("me",), {"commands": ["get"]}),
        ("xadd", ("s", {"f": "v"}, "1-1"), {"idmpauto": "p"}),
        ("lmovem", ("a", "b"), {"count": 2}),
    ],
)
def test_what_redis_py_refuses_is_refused(name, args, options):
    from petrel.exceptions import DataError

    with pytest.raises(DataError):
        getattr(Ours(), name)(*args, **options)
    with pytest.raises(redis.DataError):
        getattr(Theirs(), name)(*args, **options)
