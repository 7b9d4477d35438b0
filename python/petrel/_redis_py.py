"""Commands whose arguments have a form of their own in redis-py.

Each gives a command and its arguments to ``_run``, which sends it, queues it, or returns an
awaitable.
"""

from petrel import _parse
from petrel._arguments import milliseconds, pairs, seconds, spread
from petrel._petrel import Command
from petrel.exceptions import DataError

_BITCOUNT = Command("BITCOUNT", "i64")
_BITPOS = Command("BITPOS", "i64")
_BLMOVE = Command("BLMOVE", "Option<Bytes>")
_BLMPOP = Command("BLMPOP", "Option<(Bytes, Vec<Bytes>)>")
_BLPOP = Command("BLPOP", "Option<(Bytes, Bytes)>")
_BRPOP = Command("BRPOP", "Option<(Bytes, Bytes)>")
_BRPOPLPUSH = Command("BRPOPLPUSH", "Option<Bytes>")
_BZMPOP = Command("BZMPOP", "Option<(Bytes, Vec<(Bytes, f64)>)>")
_BZPOPMAX = Command("BZPOPMAX", "Option<(Bytes, Bytes, f64)>")
_BZPOPMIN = Command("BZPOPMIN", "Option<(Bytes, Bytes, f64)>")
_CLIENT_LIST = Command("CLIENT LIST", "String", _parse.clients)
_CLIENT_INFO = Command("CLIENT INFO", "String", _parse.client)
_CONFIG_GET = Command("CONFIG GET", "HashMap<String, String>")
_CONFIG_SET = Command("CONFIG SET", "()")
_COPY = Command("COPY", "bool")
_DECRBY = Command("DECRBY", "i64")
_EVAL = Command("EVAL")
_EVALSHA = Command("EVALSHA")
_EVALSHA_RO = Command("EVALSHA_RO")
_EVAL_RO = Command("EVAL_RO")
_EXPIRE = Command("EXPIRE", "bool")
_EXPIREAT = Command("EXPIREAT", "bool")
_FCALL = Command("FCALL")
_FCALL_RO = Command("FCALL_RO")
_FLUSHALL = Command("FLUSHALL", "()")
_FLUSHDB = Command("FLUSHDB", "()")
_GEOADD = Command("GEOADD", "i64")
_GETEX = Command("GETEX", "Option<Bytes>")
_HSCAN = Command("HSCAN", "(u64, HashMap<Bytes, Bytes>)")
_HSCAN_NOVALUES = Command("HSCAN", "(u64, Vec<Bytes>)")
_HSET = Command("HSET", "i64")
_INCRBY = Command("INCRBY", "i64")
_INCRBYFLOAT = Command("INCRBYFLOAT", "f64")
_HINCRBY = Command("HINCRBY", "i64")
_HINCRBYFLOAT = Command("HINCRBYFLOAT", "f64")
_INFO = Command("INFO", "String", _parse.info)
_KEYS = Command("KEYS", "Vec<Bytes>")
_LMOVE = Command("LMOVE", "Option<Bytes>")
_LMPOP = Command("LMPOP", "Option<(Bytes, Vec<Bytes>)>")
_MGET = Command("MGET", "Vec<Option<Bytes>>")
_OBJECT = {
    word: Command(f"OBJECT {word}", shape)
    for word, shape in [
        ("ENCODING", "Option<String>"),
        ("FREQ", "Option<i64>"),
        ("IDLETIME", "Option<i64>"),
        ("REFCOUNT", "Option<i64>"),
    ]
}
_PEXPIRE = Command("PEXPIRE", "bool")
_PEXPIREAT = Command("PEXPIREAT", "bool")
_PING = Command("PING", "Value", _parse.pong)
_PSETEX = Command("PSETEX", "()")
_RESTORE = Command("RESTORE", "()")
_SCAN = Command("SCAN", "(u64, Vec<Bytes>)")
_SET = Command("SET", "Option<()>")
_SET_GET = Command("SET", "Option<Bytes>")
_SETEX = Command("SETEX", "()")
_SINTERCARD = Command("SINTERCARD", "i64")
_SORT = Command("SORT", "Vec<Option<Bytes>>")
_SORT_STORE = Command("SORT", "i64")
_SSCAN = Command("SSCAN", "(u64, Vec<Bytes>)")
_ACL_LOG = Command("ACL LOG", "Value")
_ACL_LOG_RESET = Command("ACL LOG", "()")
_ACL_SETUSER = Command("ACL SETUSER", "()")
_BITFIELD_RO = Command("BITFIELD_RO", "Vec<Option<i64>>")
_BLMOVEM = Command("BLMOVEM", "Value")
_LMOVEM = Command("LMOVEM", "Value")
_CLIENT_KILL_FILTER = Command("CLIENT KILL", "i64")
_CLIENT_PAUSE = Command("CLIENT PAUSE", "()")
_CLIENT_SETINFO = Command("CLIENT SETINFO", "()")
_CLIENT_TRACKING = Command("CLIENT TRACKING", "()")
_CLIENT_UNBLOCK = Command("CLIENT UNBLOCK", "bool")
_FUNCTION_FLUSH = Command("FUNCTION FLUSH", "()")
_FUNCTION_RESTORE = Command("FUNCTION RESTORE", "()")
_GEODIST = Command("GEODIST", "Option<f64>")
_GEORADIUS = Command("GEORADIUS", "Vec<Bytes>")
_GEORADIUS_STORE = Command("GEORADIUS", "i64")
_GEORADIUS_WITH = Command("GEORADIUS", "Value")
_GEORADIUSBYMEMBER = Command("GEORADIUSBYMEMBER", "Vec<Bytes>")
_GEORADIUSBYMEMBER_STORE = Command("GEORADIUSBYMEMBER", "i64")
_GEORADIUSBYMEMBER_WITH = Command("GEORADIUSBYMEMBER", "Value")
_GEOSEARCH = Command("GEOSEARCH", "Vec<Bytes>")
_GEOSEARCH_WITH = Command("GEOSEARCH", "Value")
_GEOSEARCHSTORE = Command("GEOSEARCHSTORE", "i64")
_HOTKEYS_START = Command("HOTKEYS START", "Value")
_HSETEX = Command("HSETEX", "bool")
_LOLWUT = Command("LOLWUT", "String")
_MIGRATE = Command("MIGRATE", "String")
_MSETEX = Command("MSETEX", "bool")
_REPLICAOF = Command("REPLICAOF", "String")
_SLAVEOF = Command("SLAVEOF", "String")
_SCRIPT_FLUSH = Command("SCRIPT FLUSH", "()")
_SDIFFCARD = Command("SDIFFCARD", "i64")
_SORT_RO = Command("SORT_RO", "Vec<Option<Bytes>>")
_SUNIONCARD = Command("SUNIONCARD", "i64")
_XACKDEL = Command("XACKDEL", "Vec<i64>")
_XDELEX = Command("XDELEX", "Vec<i64>")
_SUBSTR = Command("SUBSTR", "Bytes")
_XADD = Command("XADD", "Option<String>")
_XAUTOCLAIM = Command("XAUTOCLAIM", "(String, Vec<StreamEntry>, Vec<String>)")
_XAUTOCLAIM_JUSTID = Command("XAUTOCLAIM", "(String, Vec<String>, Vec<String>)")
_XCLAIM = Command("XCLAIM", "Vec<StreamEntry>")
_XCLAIM_JUSTID = Command("XCLAIM", "Vec<String>")
_XGROUP_CREATE = Command("XGROUP CREATE", "()")
_XPENDING = Command("XPENDING", "Value", _parse.pending)
_XPENDING_RANGE = Command("XPENDING", "Value", _parse.pending_range)
_XRANGE = Command("XRANGE", "Vec<StreamEntry>")
_XREVRANGE = Command("XREVRANGE", "Vec<StreamEntry>")
_XREAD = Command("XREAD", "Vec<(Bytes, Vec<StreamEntry>)>")
_XREADGROUP = Command("XREADGROUP", "Vec<(Bytes, Vec<StreamEntry>)>")
_XTRIM = Command("XTRIM", "i64")
_ZADD = Command("ZADD", "i64")
_ZADD_INCR = Command("ZADD", "Option<f64>")
_ZINCRBY = Command("ZINCRBY", "f64")
_ZINTERCARD = Command("ZINTERCARD", "i64")
_ZMPOP = Command("ZMPOP", "Option<(Bytes, Vec<(Bytes, f64)>)>")
_ZSCAN = Command("ZSCAN", "(u64, Vec<(Bytes, f64)>)")
_MEMBERS = "Vec<Bytes>"
_SCORES = "Vec<(Bytes, f64)>"
_ZRANGES = {
    (name, withscores): Command(name, _SCORES if withscores else _MEMBERS)
    for name in [
        "ZRANGE",
        "ZREVRANGE",
        "ZRANGEBYSCORE",
        "ZREVRANGEBYSCORE",
        "ZRANGEBYLEX",
        "ZREVRANGEBYLEX",
        "ZDIFF",
        "ZINTER",
        "ZUNION",
    ]
    for withscores in (False, True)
}
_ZSTORES = {name: Command(name, "i64") for name in ("ZINTERSTORE", "ZUNIONSTORE", "ZRANGESTORE")}
_CUSTOM = {}


def named(name, shape="Value"):
    """A command by its name, made once."""
    try:
        return _CUSTOM[name, shape]
    except KeyError:
        command = Command(name, shape)
        # Names are those of commands; a program that makes them up is not remembered for ever.
        if len(_CUSTOM) < 1024:
            _CUSTOM[name, shape] = command
        return command


def _keys(keys, args):
    return spread([keys]) + spread(args)


def _words(**flags):
    return [name.upper() for name, is_set in flags.items() if is_set]


def _limit(start, num):
    if (start is None) != (num is None):
        raise DataError("start and num are given together")
    return () if start is None else ("LIMIT", start, num)


def _aggregated(keys, aggregate):
    """Keys, or a mapping of keys to weights."""
    weights = ()
    if hasattr(keys, "items"):
        weights = ("WEIGHTS", *keys.values())
    keys = spread([list(keys) if weights else keys])
    call = [len(keys), *keys, *weights]
    if aggregate is not None:
        call += ("AGGREGATE", aggregate)
    return call


def _expiry(ex, px, exat, pxat, keepttl=False, persist=False):
    call = []
    if ex is not None:
        call += ("EX", seconds(ex))
    if px is not None:
        call += ("PX", milliseconds(px))
    if exat is not None:
        call += ("EXAT", seconds(exat))
    if pxat is not None:
        call += ("PXAT", milliseconds(pxat))
    if keepttl:
        call.append("KEEPTTL")
    if persist:
        call.append("PERSIST")
    return call


_UNITS = ("m", "km", "ft", "mi")
_REFERENCES = ("KEEPREF", "DELREF", "ACKED")


def _option(word, value):
    return () if value is None else (word, value)


def _word(word):
    """A word, or a member of one of redis-py's enumerations of words."""
    return getattr(word, "value", word)


def _unit(unit):
    if unit.lower() not in _UNITS:
        raise DataError(f"unit is one of {', '.join(_UNITS)}")
    return unit


def _references(ref_policy):
    if ref_policy not in _REFERENCES:
        raise DataError(f"ref_policy is one of {', '.join(_REFERENCES)}")
    return ref_policy


def _found(sort, count, any, withcoord, withdist, withhash):
    """What is returned of the places that a search has found."""
    if any and count is None:
        raise DataError("any is given with count")
    if sort is not None and sort.upper() not in ("ASC", "DESC"):
        raise DataError("sort is ASC or DESC")
    call = [] if sort is None else [sort.upper()]
    call += _option("COUNT", count) + tuple(_words(any=any))
    return call + _words(withcoord=withcoord, withdist=withdist, withhash=withhash)


def _area(member, longitude, latitude, unit, radius, width, height, bypolygon):
    """Where to search for places."""
    if member is not None and (longitude is not None or latitude is not None):
        raise DataError("either member or longitude and latitude are given")
    if (longitude is None) != (latitude is None):
        raise DataError("longitude and latitude are given together")
    call = list(_option("FROMMEMBER", member))
    if longitude is not None:
        call += ("FROMLONLAT", longitude, latitude)
    if bypolygon is not None:
        corners = spread(bypolygon)
        return [*call, "BYPOLYGON", len(corners) // 2, *corners]
    if not call:
        raise DataError("member or longitude and latitude are given")
    if (width is None) != (height is None):
        raise DataError("width and height are given together")
    if (radius is None) == (width is None):
        raise DataError("either radius or width and height are given")
    if unit is None:
        raise DataError("unit is given with radius, and with width and height")
    if radius is not None:
        return [*call, "BYRADIUS", radius, _unit(unit)]
    return [*call, "BYBOX", width, height, _unit(unit)]


def _text(value):
    return value.decode() if isinstance(value, bytes) else str(value)


def _signed(what, values):
    """Values that begin with + or -, each with that sign and without."""
    for value in map(_text, spread([values])):
        if value[:1] not in ("+", "-"):
            raise DataError(f"{what} begin with + or -")
        yield value[0], value[1:]


def _keys_of_user(keys):
    return [key if key[:1] in ("%", "~") else f"~{key}" for key in map(_text, keys)]


def _moved(call, count, mode, ordering):
    """How many elements are moved, and in which order they stand then."""
    if (count is None) != (ordering is None) or mode is not None and count is None:
        raise DataError("count and ordering are given together, mode with them")
    return call if count is None else [*call, mode or "COUNT", count, ordering]


def _idempotence(id, idmpauto, idmp):
    if idmpauto is not None and idmp is not None:
        raise DataError("either idmpauto or idmp is given")
    if id != "*" and (idmpauto is not None or idmp is not None):
        raise DataError("idmpauto and idmp are given with the id *")
    if idmp is not None:
        producer, name = idmp
        return ("IDMP", producer, name)
    return _option("IDMPAUTO", idmpauto)


class RedisPyCommands:
    """Commands in the forms of redis-py."""

    def _run(self, command, *arguments):
        raise NotImplementedError

    def execute_command(self, *args):
        """Any command, with its arguments as they come: ``execute_command("SET", "k", "v")``."""
        name = args[0].decode() if isinstance(args[0], bytes) else args[0]
        return self._run(named(name), *args[1:])

    # Strings

    def set(
        self,
        name,
        value,
        ex=None,
        px=None,
        nx=False,
        xx=False,
        keepttl=False,
        get=False,
        exat=None,
        pxat=None,
        ifeq=None,
        ifne=None,
        ifdeq=None,
        ifdne=None,
    ):
        if ex is None and px is None and not (nx or xx or keepttl or get):
            if exat is pxat is ifeq is ifne is ifdeq is ifdne is None:
                return self._run(_SET, name, value)
        call = [name, value, *_words(nx=nx, xx=xx)]
        for word, other in (("IFEQ", ifeq), ("IFNE", ifne), ("IFDEQ", ifdeq), ("IFDNE", ifdne)):
            if other is not None:
                call += (word, other)
        call += _words(get=get) + _expiry(ex, px, exat, pxat, keepttl)
        return self._run(_SET_GET if get else _SET, *call)

    def setex(self, name, time, value):
        return self._run(_SETEX, name, seconds(time), value)

    def psetex(self, name, time_ms, value):
        return self._run(_PSETEX, name, milliseconds(time_ms), value)

    def getex(self, name, ex=None, px=None, exat=None, pxat=None, persist=False):
        return self._run(_GETEX, name, *_expiry(ex, px, exat, pxat, persist=persist))

    def substr(self, name, start, end=-1):
        return self._run(_SUBSTR, name, start, end)

    def mget(self, keys, *args):
        return self._run(_MGET, *_keys(keys, args))

    def incr(self, name, amount=1):
        return self._run(_INCRBY, name, amount)

    def incrby(self, name, amount=1):
        return self._run(_INCRBY, name, amount)

    def incrbyfloat(self, name, amount=1.0):
        return self._run(_INCRBYFLOAT, name, amount)

    def decr(self, name, amount=1):
        return self._run(_DECRBY, name, amount)

    def decrby(self, name, amount=1):
        return self._run(_DECRBY, name, amount)

    def msetex(
        self,
        mapping,
        data_persist_option=None,
        ex=None,
        px=None,
        exat=None,
        pxat=None,
        keepttl=False,
        *,
        nx=False,
        xx=False,
    ):
        call = pairs(mapping)
        call = [len(call) // 2, *call, *_words(nx=nx, xx=xx)]
        if data_persist_option is not None:
            call.append(_word(data_persist_option))
        return self._run(_MSETEX, *call, *_expiry(ex, px, exat, pxat, keepttl))

    def bitfield_ro(self, key, encoding, offset, items=None):
        call = [key, "GET", encoding, offset]
        for encoding, offset in items or ():
            call += ("GET", encoding, offset)
        return self._run(_BITFIELD_RO, *call)

    def bitcount(self, key, start=None, end=None, mode=None):
        call = [key]
        if start is not None and end is not None:
            call += (start, end)
        elif start is not None or end is not None:
            raise DataError("start and end are given together")
        if mode is not None:
            call.append(mode)
        return self._run(_BITCOUNT, *call)

    def bitpos(self, key, bit, start=None, end=None, mode=None):
        call = [key, bit]
        if start is not None:
            call.append(start)
            if end is not None:
                call.append(end)
                if mode is not None:
                    call.append(mode)
        elif end is not None:
            raise DataError("end is given with start")
        return self._run(_BITPOS, *call)

    # Keys

    def expire(self, name, time, nx=False, xx=False, gt=False, lt=False):
        return self._run(_EXPIRE, name, seconds(time), *_words(nx=nx, xx=xx, gt=gt, lt=lt))

    def pexpire(self, name, time, nx=False, xx=False, gt=False, lt=False):
        return self._run(_PEXPIRE, name, milliseconds(time), *_words(nx=nx, xx=xx, gt=gt, lt=lt))

    def expireat(self, name, when, nx=False, xx=False, gt=False, lt=False):
        return self._run(_EXPIREAT, name, seconds(when), *_words(nx=nx, xx=xx, gt=gt, lt=lt))

    def pexpireat(self, name, when, nx=False, xx=False, gt=False, lt=False):
        return self._run(_PEXPIREAT, name, milliseconds(when), *_words(nx=nx, xx=xx, gt=gt, lt=lt))

    def keys(self, pattern="*"):
        return self._run(_KEYS, pattern)

    def copy(self, source, destination, destination_db=None, replace=False):
        call = [source, destination]
        if destination_db is not None:
            call += ("DB", destination_db)
        return self._run(_COPY, *call, *_words(replace=replace))

    def restore(
        self, name, ttl, value, replace=False, absttl=False, idletime=None, frequency=None
    ):
        call = [name, milliseconds(ttl), value, *_words(replace=replace, absttl=absttl)]
        if idletime is not None:
            call += ("IDLETIME", idletime)
        if frequency is not None:
            call += ("FREQ", frequency)
        return self._run(_RESTORE, *call)

    def object(self, infotype, key):
        return self._run(_OBJECT[infotype.upper()], key)

    def sort(
        self,
        name,
        start=None,
        num=None,
        by=None,
        get=None,
        desc=False,
        alpha=False,
        store=None,
    ):
        call = [name]
        if by is not None:
            call += ("BY", by)
        call += _limit(start, num)
        for pattern in () if get is None else spread([get]):
            call += ("GET", pattern)
        call += _words(desc=desc, alpha=alpha)
        if store is not None:
            return self._run(_SORT_STORE, *call, "STORE", store)
        return self._run(_SORT, *call)

    def sort_ro(
        self, key, start=None, num=None, by=None, get=None, desc=False, alpha=False, *, asc=False
    ):
        call = [key, *_option("BY", by), *_limit(start, num)]
        for pattern in () if get is None else spread([get]):
            call += ("GET", pattern)
        return self._run(_SORT_RO, *call, *_words(asc=asc, desc=desc, alpha=alpha))

    def migrate(
        self,
        host,
        port,
        keys,
        destination_db,
        timeout,
        copy=False,
        replace=False,
        auth=None,
        *,
        auth2=None,
    ):
        call = [host, port, "", destination_db, milliseconds(timeout)]
        call += _words(copy=copy, replace=replace) + list(_option("AUTH", auth))
        call += () if auth2 is None else ("AUTH2", *auth2)
        keys = spread([keys])
        if not keys:
            raise DataError("migrate needs a key")
        return self._run(_MIGRATE, *call, "KEYS", *keys)

    def scan(self, cursor=0, match=None, count=None, _type=None):
        return self._run(_SCAN, *self._scanned((cursor,), match, count, _type))

    def sscan(self, name, cursor=0, match=None, count=None):
        return self._run(_SSCAN, *self._scanned((name, cursor), match, count))

    def hscan(self, name, cursor=0, match=None, count=None, no_values=False):
        call = self._scanned((name, cursor), match, count)
        if no_values:
            return self._run(_HSCAN_NOVALUES, *call, "NOVALUES")
        return self._run(_HSCAN, *call)

    def zscan(self, name, cursor=0, match=None, count=None):
        return self._run(_ZSCAN, *self._scanned((name, cursor), match, count))

    @staticmethod
    def _scanned(first, match, count, kind=None):
        call = list(first)
        if match is not None:
            call += ("MATCH", match)
        if count is not None:
            call += ("COUNT", count)
        if kind is not None:
            call += ("TYPE", kind)
        return call

    # Hashes

    def hset(self, name, key=None, value=None, mapping=None, items=None):
        call = [name]
        if key is not None:
            call += (key, value)
        if mapping is not None:
            call += pairs(mapping)
        if items is not None:
            call += items
        if len(call) == 1:
            raise DataError("hset needs a field with its value, a mapping or items")
        return self._run(_HSET, *call)

    def hsetex(
        self,
        name,
        key=None,
        value=None,
        mapping=None,
        items=None,
        ex=None,
        px=None,
        exat=None,
        pxat=None,
        data_persist_option=None,
        keepttl=False,
        *,
        fnx=False,
        fxx=False,
    ):
        fields = [] if key is None else [key, value]
        if mapping is not None:
            fields += pairs(mapping)
        if items is not None:
            fields += items
        if not fields or len(fields) % 2:
            raise DataError("hsetex needs fields, each with its value")
        call = [name, *_words(fnx=fnx, fxx=fxx)]
        if data_persist_option is not None:
            call.append(_word(data_persist_option))
        call += _expiry(ex, px, exat, pxat, keepttl)
        return self._run(_HSETEX, *call, "FIELDS", len(fields) // 2, *fields)

    def hincrby(self, name, key, amount=1):
        return self._run(_HINCRBY, name, key, amount)

    def hincrbyfloat(self, name, key, amount=1.0):
        return self._run(_HINCRBYFLOAT, name, key, amount)

    # Lists

    def blpop(self, keys, timeout=0):
        return self._run(_BLPOP, *spread([keys]), timeout)

    def brpop(self, keys, timeout=0):
        return self._run(_BRPOP, *spread([keys]), timeout)

    def brpoplpush(self, src, dst, timeout=0):
        return self._run(_BRPOPLPUSH, src, dst, timeout)

    def lmove(self, first_list, second_list, src="LEFT", dest="RIGHT"):
        return self._run(_LMOVE, first_list, second_list, src, dest)

    def blmove(self, first_list, second_list, timeout, src="LEFT", dest="RIGHT"):
        return self._run(_BLMOVE, first_list, second_list, src, dest, timeout)

    def lmovem(
        self,
        first_list,
        second_list,
        src="LEFT",
        dest="RIGHT",
        count=None,
        mode=None,
        ordering=None,
    ):
        call = [first_list, second_list, src, dest]
        return self._run(_LMOVEM, *_moved(call, count, mode, ordering))

    def blmovem(
        self,
        first_list,
        second_list,
        timeout,
        src="LEFT",
        dest="RIGHT",
        count=None,
        mode=None,
        ordering=None,
    ):
        call = [first_list, second_list, src, dest, timeout]
        return self._run(_BLMOVEM, *_moved(call, count, mode, ordering))

    def lmpop(self, num_keys, *args, direction, count=1):
        return self._run(_LMPOP, num_keys, *spread(args), direction, "COUNT", count)

    def blmpop(self, timeout, numkeys, *args, direction, count=1):
        return self._run(_BLMPOP, timeout, numkeys, *spread(args), direction, "COUNT", count)

    # Sets

    def sintercard(self, numkeys, keys, limit=0):
        return self._run(_SINTERCARD, numkeys, *spread([keys]), "LIMIT", limit)

    def sdiffcard(self, numkeys, keys, limit=0):
        return self._run(_SDIFFCARD, numkeys, *spread([keys]), "LIMIT", limit)

    def sunioncard(self, numkeys, keys, limit=0, approx=False):
        call = [numkeys, *spread([keys]), *_words(approx=approx)]
        return self._run(_SUNIONCARD, *call, "LIMIT", limit)

    # Sorted sets

    def zadd(
        self, name, mapping, nx=False, xx=False, ch=False, incr=False, gt=False, lt=False
    ):
        if not mapping:
            raise DataError("zadd needs a member with its score")
        call = [name, *_words(nx=nx, xx=xx, gt=gt, lt=lt, ch=ch, incr=incr)]
        for member, score in mapping.items() if hasattr(mapping, "items") else mapping:
            call += (score, member)
        return self._run(_ZADD_INCR if incr else _ZADD, *call)

    def zincrby(self, name, amount, value):
        return self._run(_ZINCRBY, name, amount, value)

    def _zranged(self, name, withscores, call):
        if withscores:
            return self._run(_ZRANGES[name, True], *call, "WITHSCORES")
        return self._run(_ZRANGES[name, False], *call)

    def zrange(
        self,
        name,
        start,
        end,
        desc=False,
        withscores=False,
        byscore=False,
        bylex=False,
        offset=None,
        num=None,
    ):
        call = [name, start, end, *_words(byscore=byscore, bylex=bylex, rev=desc)]
        return self._zranged("ZRANGE", withscores, call + list(_limit(offset, num)))

    def zrangestore(
        self, dest, name, start, end, byscore=False, bylex=False, desc=False, offset=None, num=None
    ):
        call = [dest, name, start, end, *_words(byscore=byscore, bylex=bylex, rev=desc)]
        return self._run(_ZSTORES["ZRANGESTORE"], *call, *_limit(offset, num))

    def zrevrange(self, name, start, end, withscores=False):
        return self._zranged("ZREVRANGE", withscores, (name, start, end))

    def zrangebyscore(self, name, min, max, start=None, num=None, withscores=False):
        words = ("WITHSCORES",) if withscores else ()
        call = (name, min, max, *words, *_limit(start, num))
        return self._run(_ZRANGES["ZRANGEBYSCORE", withscores], *call)

    def zrevrangebyscore(self, name, max, min, start=None, num=None, withscores=False):
        words = ("WITHSCORES",) if withscores else ()
        call = (name, max, min, *words, *_limit(start, num))
        return self._run(_ZRANGES["ZREVRANGEBYSCORE", withscores], *call)

    def zrangebylex(self, name, min, max, start=None, num=None):
        return self._zranged("ZRANGEBYLEX", False, (name, min, max, *_limit(start, num)))

    def zrevrangebylex(self, name, max, min, start=None, num=None):
        return self._zranged("ZREVRANGEBYLEX", False, (name, max, min, *_limit(start, num)))

    def zdiff(self, keys, withscores=False):
        return self._zranged("ZDIFF", withscores, _aggregated(keys, None))

    def zinter(self, keys, aggregate=None, withscores=False):
        return self._zranged("ZINTER", withscores, _aggregated(keys, aggregate))

    def zunion(self, keys, aggregate=None, withscores=False):
        return self._zranged("ZUNION", withscores, _aggregated(keys, aggregate))

    def zinterstore(self, dest, keys, aggregate=None):
        return self._run(_ZSTORES["ZINTERSTORE"], dest, *_aggregated(keys, aggregate))

    def zunionstore(self, dest, keys, aggregate=None):
        return self._run(_ZSTORES["ZUNIONSTORE"], dest, *_aggregated(keys, aggregate))

    def zintercard(self, numkeys, keys, limit=0):
        return self._run(_ZINTERCARD, numkeys, *spread([keys]), "LIMIT", limit)

    def zmpop(self, num_keys, keys, min=False, max=False, count=1):
        where = self._end(min, max)
        return self._run(_ZMPOP, num_keys, *spread([keys]), where, "COUNT", count)

    def bzmpop(self, timeout, numkeys, keys, min=False, max=False, count=1):
        where = self._end(min, max)
        return self._run(_BZMPOP, timeout, numkeys, *spread([keys]), where, "COUNT", count)

    @staticmethod
    def _end(min, max):
        if bool(min) == bool(max):
            raise DataError("either min or max is true")
        return "MIN" if min else "MAX"

    def bzpopmax(self, keys, timeout=0):
        return self._run(_BZPOPMAX, *spread([keys]), timeout)

    def bzpopmin(self, keys, timeout=0):
        return self._run(_BZPOPMIN, *spread([keys]), timeout)

    # Geographic indexes

    def geoadd(self, name, values, nx=False, xx=False, ch=False):
        return self._run(_GEOADD, name, *_words(nx=nx, xx=xx, ch=ch), *values)

    def geodist(self, name, place1, place2, unit=None):
        unit = () if unit is None else (_unit(unit),)
        return self._run(_GEODIST, name, place1, place2, *unit)

    def _georadius(self, commands, call, unit, found, store, store_dist):
        call.append("m" if unit is None else _unit(unit))
        call += found
        if store is not None and store_dist is not None:
            raise DataError("either store or store_dist is given")
        plain, stores, details = commands
        if store is not None or store_dist is not None:
            word = "STOREDIST" if store is None else "STORE"
            return self._run(stores, *call, word, store_dist if store is None else store)
        is_plain = not any(word in found for word in ("WITHCOORD", "WITHDIST", "WITHHASH"))
        return self._run(plain if is_plain else details, *call)

    def georadius(
        self,
        name,
        longitude,
        latitude,
        radius,
        unit=None,
        withdist=False,
        withcoord=False,
        withhash=False,
        count=None,
        sort=None,
        store=None,
        store_dist=None,
        any=False,
    ):
        call = [name, longitude, latitude, radius]
        found = _found(sort, count, any, withcoord, withdist, withhash)
        commands = (_GEORADIUS, _GEORADIUS_STORE, _GEORADIUS_WITH)
        return self._georadius(commands, call, unit, found, store, store_dist)

    def georadiusbymember(
        self,
        name,
        member,
        radius,
        unit=None,
        withdist=False,
        withcoord=False,
        withhash=False,
        count=None,
        sort=None,
        store=None,
        store_dist=None,
        any=False,
    ):
        found = _found(sort, count, any, withcoord, withdist, withhash)
        commands = (_GEORADIUSBYMEMBER, _GEORADIUSBYMEMBER_STORE, _GEORADIUSBYMEMBER_WITH)
        return self._georadius(commands, [name, member, radius], unit, found, store, store_dist)

    def geosearch(
        self,
        name,
        member=None,
        longitude=None,
        latitude=None,
        unit="m",
        radius=None,
        width=None,
        height=None,
        sort=None,
        count=None,
        any=False,
        withcoord=False,
        withdist=False,
        withhash=False,
        *,
        bypolygon=None,
    ):
        call = _area(member, longitude, latitude, unit, radius, width, height, bypolygon)
        call += _found(sort, count, any, withcoord, withdist, withhash)
        details = withcoord or withdist or withhash
        return self._run(_GEOSEARCH_WITH if details else _GEOSEARCH, name, *call)

    def geosearchstore(
        self,
        dest,
        name,
        member=None,
        longitude=None,
        latitude=None,
        unit="m",
        radius=None,
        width=None,
        height=None,
        sort=None,
        count=None,
        any=False,
        storedist=False,
        *,
        bypolygon=None,
    ):
        call = _area(member, longitude, latitude, unit, radius, width, height, bypolygon)
        call += _found(sort, count, any, False, False, False) + _words(storedist=storedist)
        return self._run(_GEOSEARCHSTORE, dest, name, *call)

    # Streams

    @staticmethod
    def _trimmed(maxlen, minid, approximate, limit):
        if maxlen is not None and minid is not None:
            raise DataError("either maxlen or minid is given")
        if maxlen is None and minid is None:
            return []
        call = ["MINID" if maxlen is None else "MAXLEN"]
        if approximate:
            call.append("~")
        call.append(minid if maxlen is None else maxlen)
        if limit is not None:
            call += ("LIMIT", limit)
        return call

    def xadd(
        self,
        name,
        fields,
        id="*",
        maxlen=None,
        approximate=True,
        nomkstream=False,
        minid=None,
        limit=None,
        ref_policy=None,
        idmpauto=None,
        idmp=None,
    ):
        call = [name, *_words(nomkstream=nomkstream)]
        if ref_policy is not None:
            call.append(_references(ref_policy))
        call += _idempotence(id, idmpauto, idmp)
        call += self._trimmed(maxlen, minid, approximate, limit)
        return self._run(_XADD, *call, id, *pairs(fields))

    def xtrim(
        self, name, maxlen=None, approximate=True, minid=None, limit=None, ref_policy=None
    ):
        call = [name, *self._trimmed(maxlen, minid, approximate, limit)]
        if ref_policy is not None:
            call.append(_references(ref_policy))
        return self._run(_XTRIM, *call)

    def xackdel(self, name, groupname, *ids, ref_policy="KEEPREF"):
        ids = spread(ids)
        call = (name, groupname, _references(ref_policy), "IDS", len(ids), *ids)
        return self._run(_XACKDEL, *call)

    def xdelex(self, name, *ids, ref_policy="KEEPREF"):
        ids = spread(ids)
        return self._run(_XDELEX, name, _references(ref_policy), "IDS", len(ids), *ids)

    def xrange(self, name, min="-", max="+", count=None):
        words = () if count is None else ("COUNT", count)
        return self._run(_XRANGE, name, min, max, *words)

    def xrevrange(self, name, max="+", min="-", count=None):
        words = () if count is None else ("COUNT", count)
        return self._run(_XREVRANGE, name, max, min, *words)

    def xread(self, streams, count=None, block=None, max_count=None, max_size=None):
        call = [*_option("COUNT", count), *_option("MAXCOUNT", max_count)]
        call += _option("MAXSIZE", max_size)
        if block is not None:
            call += ("BLOCK", milliseconds(block))
        return self._run(_XREAD, *call, "STREAMS", *streams.keys(), *streams.values())

    def xreadgroup(
        self,
        groupname,
        consumername,
        streams,
        count=None,
        block=None,
        noack=False,
        claim_min_idle_time=None,
        max_count=None,
        max_size=None,
    ):
        call = ["GROUP", groupname, consumername, *_option("COUNT", count)]
        call += _option("MAXCOUNT", max_count) + _option("MAXSIZE", max_size)
        if block is not None:
            call += ("BLOCK", milliseconds(block))
        call += _words(noack=noack)
        if claim_min_idle_time is not None:
            call += ("CLAIM", milliseconds(claim_min_idle_time))
        return self._run(_XREADGROUP, *call, "STREAMS", *streams.keys(), *streams.values())

    def xgroup_create(self, name, groupname, id="$", mkstream=False, entries_read=None):
        call = [name, groupname, id, *_words(mkstream=mkstream)]
        if entries_read is not None:
            call += ("ENTRIESREAD", entries_read)
        return self._run(_XGROUP_CREATE, *call)

    def xclaim(
        self,
        name,
        groupname,
        consumername,
        min_idle_time,
        message_ids,
        idle=None,
        time=None,
        retrycount=None,
        force=False,
        justid=False,
    ):
        call = [name, groupname, consumername, milliseconds(min_idle_time), *spread([message_ids])]
        for word, value in (("IDLE", idle), ("TIME", time), ("RETRYCOUNT", retrycount)):
            if value is not None:
                call += (word, value)
        call += _words(force=force, justid=justid)
        return self._run(_XCLAIM_JUSTID if justid else _XCLAIM, *call)

    def xautoclaim(
        self,
        name,
        groupname,
        consumername,
        min_idle_time,
        start_id="0-0",
        count=None,
        justid=False,
    ):
        call = [name, groupname, consumername, milliseconds(min_idle_time), start_id]
        if count is not None:
            call += ("COUNT", count)
        call += _words(justid=justid)
        return self._run(_XAUTOCLAIM_JUSTID if justid else _XAUTOCLAIM, *call)

    def xpending(self, name, groupname):
        return self._run(_XPENDING, name, groupname)

    def xpending_range(
        self, name, groupname, min="-", max="+", count=10, consumername=None, idle=None
    ):
        call = [name, groupname]
        if idle is not None:
            call += ("IDLE", milliseconds(idle))
        call += (min, max, count)
        if consumername is not None:
            call.append(consumername)
        return self._run(_XPENDING_RANGE, *call)

    # Scripts and functions

    def eval(self, script, numkeys, *keys_and_args):
        return self._run(_EVAL, script, numkeys, *keys_and_args)

    def eval_ro(self, script, numkeys, *keys_and_args):
        return self._run(_EVAL_RO, script, numkeys, *keys_and_args)

    def evalsha(self, sha, numkeys, *keys_and_args):
        return self._run(_EVALSHA, sha, numkeys, *keys_and_args)

    def evalsha_ro(self, sha, numkeys, *keys_and_args):
        return self._run(_EVALSHA_RO, sha, numkeys, *keys_and_args)

    def fcall(self, function, numkeys, *keys_and_args):
        return self._run(_FCALL, function, numkeys, *keys_and_args)

    def fcall_ro(self, function, numkeys, *keys_and_args):
        return self._run(_FCALL_RO, function, numkeys, *keys_and_args)

    def function_flush(self, mode="SYNC"):
        return self._run(_FUNCTION_FLUSH, mode)

    def function_restore(self, payload, policy="APPEND"):
        return self._run(_FUNCTION_RESTORE, payload, *(() if policy is None else (policy,)))

    def script_flush(self, sync_type=None):
        return self._run(_SCRIPT_FLUSH, *(() if sync_type is None else (sync_type,)))

    # Server

    def acl_log(self, count=None):
        return self._run(_ACL_LOG, *(() if count is None else (count,)))

    def acl_log_reset(self):
        return self._run(_ACL_LOG_RESET, "RESET")

    def acl_setuser(
        self,
        username,
        enabled=False,
        nopass=False,
        passwords=None,
        hashed_passwords=None,
        categories=None,
        commands=None,
        keys=None,
        channels=None,
        selectors=None,
        reset=False,
        reset_keys=False,
        reset_channels=False,
        reset_passwords=False,
        *,
        rules=(),
    ):
        if nopass and (passwords or hashed_passwords):
            raise DataError("either nopass or passwords are given")
        flags = (
            ("reset", reset),
            ("resetkeys", reset_keys),
            ("resetchannels", reset_channels),
            ("resetpass", reset_passwords),
        )
        call = [username, *(word for word, is_set in flags if is_set)]
        call.append("on" if enabled else "off")
        for sign, password in _signed("passwords", passwords or ()):
            call.append((">" if sign == "+" else "<") + password)
        for sign, digest in _signed("hashed passwords", hashed_passwords or ()):
            call.append(("#" if sign == "+" else "!") + digest)
        call += ("nopass",) if nopass else ()
        for sign, category in _signed("categories", categories or ()):
            call.append(f"{sign}@{category.removeprefix('@')}")
        call += [sign + command for sign, command in _signed("commands", commands or ())]
        call += _keys_of_user(keys or ())
        call += [f"&{_text(channel)}" for channel in channels or ()]
        for command, key in selectors or ():
            ((sign, command),) = _signed("commands", [command])
            call.append(f"({sign}{command} {_keys_of_user([key])[0]})")
        return self._run(_ACL_SETUSER, *call, *rules)

    def client_kill_filter(
        self,
        _id=None,
        _type=None,
        addr=None,
        skipme=None,
        laddr=None,
        user=None,
        maxage=None,
    ):
        call = [*_option("TYPE", _type), *_option("ID", _id), *_option("ADDR", addr)]
        call += _option("LADDR", laddr) + _option("USER", user) + _option("MAXAGE", maxage)
        if skipme is not None:
            call += ("SKIPME", "YES" if skipme else "NO")
        if not call:
            raise DataError("client_kill_filter needs a filter")
        return self._run(_CLIENT_KILL_FILTER, *call)

    def client_pause(self, timeout, all=True):
        return self._run(_CLIENT_PAUSE, milliseconds(timeout), *(() if all else ("WRITE",)))

    def client_setinfo(self, attr, value):
        return self._run(_CLIENT_SETINFO, attr, value)

    def client_tracking(
        self,
        on=True,
        clientid=None,
        prefix=(),
        bcast=False,
        optin=False,
        optout=False,
        noloop=False,
    ):
        call = ["ON" if on else "OFF", *_option("REDIRECT", clientid)]
        for one in prefix:
            call += ("PREFIX", one)
        call += _words(bcast=bcast, optin=optin, optout=optout, noloop=noloop)
        return self._run(_CLIENT_TRACKING, *call)

    def client_tracking_on(
        self, clientid=None, prefix=(), bcast=False, optin=False, optout=False, noloop=False
    ):
        return self.client_tracking(True, clientid, prefix, bcast, optin, optout, noloop)

    def client_tracking_off(
        self, clientid=None, prefix=(), bcast=False, optin=False, optout=False, noloop=False
    ):
        return self.client_tracking(False, clientid, prefix, bcast, optin, optout, noloop)

    def client_unblock(self, client_id, error=False):
        return self._run(_CLIENT_UNBLOCK, client_id, *_words(error=error))

    def hotkeys_start(self, metrics, count=None, duration=None, sample_ratio=None, slots=None):
        metrics = [_word(metric) for metric in spread([metrics])]
        call = ["METRICS", len(metrics), *metrics, *_option("COUNT", count)]
        call += _option("DURATION", duration) + _option("SAMPLE", sample_ratio)
        if slots is not None:
            call += ("SLOTS", len(slots), *slots)
        return self._run(_HOTKEYS_START, *call)

    def lolwut(self, *version_numbers):
        return self._run(_LOLWUT, *(("VERSION", *version_numbers) if version_numbers else ()))

    def replicaof(self, *args):
        return self._run(_REPLICAOF, *args)

    def slaveof(self, host=None, port=None):
        if host is None and port is None:
            return self._run(_SLAVEOF, "NO", "ONE")
        return self._run(_SLAVEOF, host, port)

    def ping(self, message=None):
        return self._run(_PING) if message is None else self._run(_PING, message)

    def info(self, section=None, *args):
        return self._run(_INFO, *(() if section is None else (section, *args)))

    def client_info(self):
        return self._run(_CLIENT_INFO)

    def client_list(self, _type=None, client_id=()):
        call = [] if _type is None else ["TYPE", _type]
        ids = spread([client_id])
        return self._run(_CLIENT_LIST, *call, *(("ID", *ids) if ids else ()))

    def config_get(self, pattern="*", *args):
        return self._run(_CONFIG_GET, pattern, *args)

    def config_set(self, name, value, *args):
        return self._run(_CONFIG_SET, name, value, *args)

    def flushall(self, asynchronous=False):
        return self._run(_FLUSHALL, *(("ASYNC",) if asynchronous else ()))

    def flushdb(self, asynchronous=False):
        return self._run(_FLUSHDB, *(("ASYNC",) if asynchronous else ()))
