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

    def lmpop(self, num_keys, *args, direction, count=1):
        return self._run(_LMPOP, num_keys, *spread(args), direction, "COUNT", count)

    def blmpop(self, timeout, numkeys, *args, direction, count=1):
        return self._run(_BLMPOP, timeout, numkeys, *spread(args), direction, "COUNT", count)

    # Sets

    def sintercard(self, numkeys, keys, limit=0):
        return self._run(_SINTERCARD, numkeys, *spread([keys]), "LIMIT", limit)

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
    ):
        call = [name, *_words(nomkstream=nomkstream)]
        call += self._trimmed(maxlen, minid, approximate, limit)
        return self._run(_XADD, *call, id, *pairs(fields))

    def xtrim(self, name, maxlen=None, approximate=True, minid=None, limit=None):
        return self._run(_XTRIM, name, *self._trimmed(maxlen, minid, approximate, limit))

    def xrange(self, name, min="-", max="+", count=None):
        words = () if count is None else ("COUNT", count)
        return self._run(_XRANGE, name, min, max, *words)

    def xrevrange(self, name, max="+", min="-", count=None):
        words = () if count is None else ("COUNT", count)
        return self._run(_XREVRANGE, name, max, min, *words)

    def xread(self, streams, count=None, block=None):
        call = [] if count is None else ["COUNT", count]
        if block is not None:
            call += ("BLOCK", milliseconds(block))
        return self._run(_XREAD, *call, "STREAMS", *streams.keys(), *streams.values())

    def xreadgroup(self, groupname, consumername, streams, count=None, block=None, noack=False):
        call = ["GROUP", groupname, consumername]
        if count is not None:
            call += ("COUNT", count)
        if block is not None:
            call += ("BLOCK", milliseconds(block))
        call += _words(noack=noack)
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

    # Server

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
