# Written by `generate` from the command table; not to be edited.
"""A method for every command that has no form of its own in ``_redis_py``."""

from petrel._arguments import apart as _apart
from petrel._arguments import counted as _counted
from petrel._arguments import counted_pairs as _counted_pairs
from petrel._arguments import pairs as _pairs
from petrel._arguments import spread as _spread
from petrel._arguments import values as _values
from petrel._petrel import Command
from petrel._redis_py import RedisPyCommands

_ACL_CAT = Command("ACL CAT", "Vec<String>")
_ACL_DELUSER = Command("ACL DELUSER", "i64")
_ACL_DRYRUN = Command("ACL DRYRUN", "String")
_ACL_GENPASS = Command("ACL GENPASS", "String")
_ACL_GETUSER = Command("ACL GETUSER", "Value")
_ACL_HELP = Command("ACL HELP", "Value")
_ACL_LIST = Command("ACL LIST", "Vec<String>")
_ACL_LOAD = Command("ACL LOAD", "()")
_ACL_SAVE = Command("ACL SAVE", "()")
_ACL_USERS = Command("ACL USERS", "Vec<String>")
_ACL_WHOAMI = Command("ACL WHOAMI", "String")
_APPEND = Command("APPEND", "i64")
_ARCOUNT = Command("ARCOUNT", "i64")
_ARDEL = Command("ARDEL", "i64")
_ARDELRANGE = Command("ARDELRANGE", "i64")
_ARGET = Command("ARGET", "Option<Bytes>")
_ARGETRANGE = Command("ARGETRANGE", "Vec<Option<Bytes>>")
_ARGREP = Command("ARGREP", "Vec<i64>")
_ARGREP_WITHVALUES = Command("ARGREP", "Vec<(i64, Bytes)>")
_ARINFO = Command("ARINFO", "Value")
_ARINSERT = Command("ARINSERT", "i64")
_ARLASTITEMS = Command("ARLASTITEMS", "Vec<Option<Bytes>>")
_ARLEN = Command("ARLEN", "i64")
_ARMGET = Command("ARMGET", "Vec<Option<Bytes>>")
_ARMSET = Command("ARMSET", "i64")
_ARNEXT = Command("ARNEXT", "Option<i64>")
_AROP = Command("AROP", "Value")
_ARRING = Command("ARRING", "i64")
_ARSCAN = Command("ARSCAN", "Vec<(i64, Bytes)>")
_ARSEEK = Command("ARSEEK", "bool")
_ARSET = Command("ARSET", "i64")
_ASKING = Command("ASKING", "()")
_AUTH = Command("AUTH", "()")
_BACKUP_ABORT = Command("BACKUP ABORT", "()")
_BACKUP_CLEANUP = Command("BACKUP CLEANUP", "()")
_BACKUP_HELP = Command("BACKUP HELP", "Value")
_BACKUP_LIST = Command("BACKUP LIST", "Vec<String>")
_BACKUP_SEAL = Command("BACKUP SEAL", "()")
_BACKUP_START = Command("BACKUP START", "()")
_BACKUP_STATUS = Command("BACKUP STATUS", "Value")
_BF_ADD = Command("BF.ADD", "bool")
_BF_CARD = Command("BF.CARD", "i64")
_BF_DEBUG = Command("BF.DEBUG", "Vec<String>")
_BF_EXISTS = Command("BF.EXISTS", "bool")
_BF_INFO = Command("BF.INFO", "Value")
_BF_INSERT = Command("BF.INSERT", "Value")
_BF_LOADCHUNK = Command("BF.LOADCHUNK", "()")
_BF_MADD = Command("BF.MADD", "Value")
_BF_MEXISTS = Command("BF.MEXISTS", "Vec<bool>")
_BF_RESERVE = Command("BF.RESERVE", "()")
_BF_SCANDUMP = Command("BF.SCANDUMP", "Value")
_BGREWRITEAOF = Command("BGREWRITEAOF", "String")
_BGSAVE = Command("BGSAVE", "String")
_BITFIELD = Command("BITFIELD", "Vec<Option<i64>>")
_BITOP = Command("BITOP", "i64")
_CF_ADD = Command("CF.ADD", "bool")
_CF_ADDNX = Command("CF.ADDNX", "bool")
_CF_COMPACT = Command("CF.COMPACT", "()")
_CF_COUNT = Command("CF.COUNT", "i64")
_CF_DEBUG = Command("CF.DEBUG", "String")
_CF_DEL = Command("CF.DEL", "bool")
_CF_EXISTS = Command("CF.EXISTS", "bool")
_CF_INFO = Command("CF.INFO", "Value")
_CF_INSERT = Command("CF.INSERT", "Value")
_CF_INSERTNX = Command("CF.INSERTNX", "Vec<i64>")
_CF_LOADCHUNK = Command("CF.LOADCHUNK", "()")
_CF_MEXISTS = Command("CF.MEXISTS", "Vec<bool>")
_CF_RESERVE = Command("CF.RESERVE", "()")
_CF_SCANDUMP = Command("CF.SCANDUMP", "Value")
_CLIENT_CACHING = Command("CLIENT CACHING", "()")
_CLIENT_CAPA = Command("CLIENT CAPA", "()")
_CLIENT_GETNAME = Command("CLIENT GETNAME", "Option<String>")
_CLIENT_GETREDIR = Command("CLIENT GETREDIR", "i64")
_CLIENT_HELP = Command("CLIENT HELP", "Value")
_CLIENT_ID = Command("CLIENT ID", "i64")
_CLIENT_IMPORT_SOURCE = Command("CLIENT IMPORT-SOURCE", "()")
_CLIENT_KILL = Command("CLIENT KILL", "Value")
_CLIENT_NO_EVICT = Command("CLIENT NO-EVICT", "()")
_CLIENT_NO_TOUCH = Command("CLIENT NO-TOUCH", "()")
_CLIENT_SETNAME = Command("CLIENT SETNAME", "()")
_CLIENT_TRACKINGINFO = Command("CLIENT TRACKINGINFO", "Value")
_CLIENT_UNPAUSE = Command("CLIENT UNPAUSE", "()")
_CLUSTER_ADDSLOTS = Command("CLUSTER ADDSLOTS", "Value")
_CLUSTER_ADDSLOTSRANGE = Command("CLUSTER ADDSLOTSRANGE", "Value")
_CLUSTER_BUMPEPOCH = Command("CLUSTER BUMPEPOCH", "Value")
_CLUSTER_CANCELSLOTMIGRATIONS = Command("CLUSTER CANCELSLOTMIGRATIONS", "Value")
_CLUSTER_COUNT_FAILURE_REPORTS = Command("CLUSTER COUNT-FAILURE-REPORTS", "Value")
_CLUSTER_COUNTKEYSINSLOT = Command("CLUSTER COUNTKEYSINSLOT", "i64")
_CLUSTER_DELSLOTS = Command("CLUSTER DELSLOTS", "Value")
_CLUSTER_DELSLOTSRANGE = Command("CLUSTER DELSLOTSRANGE", "Value")
_CLUSTER_FAILOVER = Command("CLUSTER FAILOVER", "Value")
_CLUSTER_FLUSHSLOT = Command("CLUSTER FLUSHSLOT", "Value")
_CLUSTER_FLUSHSLOTS = Command("CLUSTER FLUSHSLOTS", "Value")
_CLUSTER_FORGET = Command("CLUSTER FORGET", "Value")
_CLUSTER_GETKEYSINSLOT = Command("CLUSTER GETKEYSINSLOT", "Vec<Bytes>")
_CLUSTER_GETSLOTMIGRATIONS = Command("CLUSTER GETSLOTMIGRATIONS", "Value")
_CLUSTER_HELP = Command("CLUSTER HELP", "Value")
_CLUSTER_INFO = Command("CLUSTER INFO", "String")
_CLUSTER_KEYSLOT = Command("CLUSTER KEYSLOT", "i64")
_CLUSTER_LINKS = Command("CLUSTER LINKS", "Value")
_CLUSTER_MEET = Command("CLUSTER MEET", "Value")
_CLUSTER_MIGRATESLOTS = Command("CLUSTER MIGRATESLOTS", "Value")
_CLUSTER_MIGRATION = Command("CLUSTER MIGRATION", "Value")
_CLUSTER_MYID = Command("CLUSTER MYID", "String")
_CLUSTER_MYSHARDID = Command("CLUSTER MYSHARDID", "String")
_CLUSTER_NODES = Command("CLUSTER NODES", "String")
_CLUSTER_REPLICAS = Command("CLUSTER REPLICAS", "Value")
_CLUSTER_REPLICATE = Command("CLUSTER REPLICATE", "Value")
_CLUSTER_RESET = Command("CLUSTER RESET", "Value")
_CLUSTER_SAVECONFIG = Command("CLUSTER SAVECONFIG", "Value")
_CLUSTER_SET_CONFIG_EPOCH = Command("CLUSTER SET-CONFIG-EPOCH", "Value")
_CLUSTER_SETSLOT = Command("CLUSTER SETSLOT", "Value")
_CLUSTER_SHARDS = Command("CLUSTER SHARDS", "Value")
_CLUSTER_SLAVES = Command("CLUSTER SLAVES", "Value")
_CLUSTER_SLOT_STATS = Command("CLUSTER SLOT-STATS", "Value")
_CLUSTER_SLOTS = Command("CLUSTER SLOTS", "Value")
_CLUSTER_SYNCSLOTS = Command("CLUSTER SYNCSLOTS", "Value")
_CLUSTERSCAN = Command("CLUSTERSCAN", "Value")
_CMS_INCRBY = Command("CMS.INCRBY", "Value")
_CMS_INFO = Command("CMS.INFO", "Value")
_CMS_INITBYDIM = Command("CMS.INITBYDIM", "()")
_CMS_INITBYPROB = Command("CMS.INITBYPROB", "()")
_CMS_MERGE = Command("CMS.MERGE", "()")
_CMS_QUERY = Command("CMS.QUERY", "Vec<i64>")
_COMMAND_COUNT = Command("COMMAND COUNT", "i64")
_COMMAND_DOCS = Command("COMMAND DOCS", "Value")
_COMMAND_GETKEYS = Command("COMMAND GETKEYS", "Vec<Bytes>")
_COMMAND_GETKEYSANDFLAGS = Command("COMMAND GETKEYSANDFLAGS", "Value")
_COMMAND_HELP = Command("COMMAND HELP", "Value")
_COMMAND_INFO = Command("COMMAND INFO", "Value")
_COMMAND_LIST = Command("COMMAND LIST", "Vec<String>")
_COMMANDLOG_GET = Command("COMMANDLOG GET", "Value")
_COMMANDLOG_HELP = Command("COMMANDLOG HELP", "Value")
_COMMANDLOG_LEN = Command("COMMANDLOG LEN", "Value")
_COMMANDLOG_RESET = Command("COMMANDLOG RESET", "Value")
_CONFIG_HELP = Command("CONFIG HELP", "Value")
_CONFIG_RESETSTAT = Command("CONFIG RESETSTAT", "()")
_CONFIG_REWRITE = Command("CONFIG REWRITE", "()")
_DBSIZE = Command("DBSIZE", "i64")
_DEL = Command("DEL", "i64")
_DELEX = Command("DELEX", "bool")
_DELIFEQ = Command("DELIFEQ", "bool")
_DIGEST = Command("DIGEST", "Option<String>")
_DUMP = Command("DUMP", "Option<Bytes>")
_ECHO = Command("ECHO", "Bytes")
_EXISTS = Command("EXISTS", "i64")
_EXPIRETIME = Command("EXPIRETIME", "i64")
_FAILOVER = Command("FAILOVER", "Value")
_FT_AGGREGATE = Command("FT.AGGREGATE", "Value")
_FT_ALIASADD = Command("FT.ALIASADD", "Value")
_FT_ALIASDEL = Command("FT.ALIASDEL", "Value")
_FT_ALIASUPDATE = Command("FT.ALIASUPDATE", "Value")
_FT_ALTER = Command("FT.ALTER", "Value")
_FT_CONFIG = Command("FT.CONFIG", "Value")
_FT_CREATE = Command("FT.CREATE", "Value")
_FT_CURSOR = Command("FT.CURSOR", "Value")
_FT_DICTADD = Command("FT.DICTADD", "i64")
_FT_DICTDEL = Command("FT.DICTDEL", "i64")
_FT_DICTDUMP = Command("FT.DICTDUMP", "Vec<Bytes>")
_FT_DROPINDEX = Command("FT.DROPINDEX", "Value")
_FT_EXPLAIN = Command("FT.EXPLAIN", "Value")
_FT_EXPLAINCLI = Command("FT.EXPLAINCLI", "Value")
_FT_INFO = Command("FT.INFO", "Value")
_FT_SEARCH = Command("FT.SEARCH", "Value")
_FT_SPELLCHECK = Command("FT.SPELLCHECK", "Value")
_FT_SUGADD = Command("FT.SUGADD", "i64")
_FT_SUGDEL = Command("FT.SUGDEL", "bool")
_FT_SUGGET = Command("FT.SUGGET", "Value")
_FT_SUGLEN = Command("FT.SUGLEN", "i64")
_FT_SYNDUMP = Command("FT.SYNDUMP", "Value")
_FT_SYNUPDATE = Command("FT.SYNUPDATE", "()")
_FT_TAGVALS = Command("FT.TAGVALS", "Value")
_FT__LIST = Command("FT._LIST", "Value")
_FUNCTION_DELETE = Command("FUNCTION DELETE", "()")
_FUNCTION_DUMP = Command("FUNCTION DUMP", "Bytes")
_FUNCTION_HELP = Command("FUNCTION HELP", "Value")
_FUNCTION_KILL = Command("FUNCTION KILL", "()")
_FUNCTION_LIST = Command("FUNCTION LIST", "Value")
_FUNCTION_LOAD = Command("FUNCTION LOAD", "String")
_FUNCTION_STATS = Command("FUNCTION STATS", "Value")
_GEOHASH = Command("GEOHASH", "Vec<Option<String>>")
_GEOPOS = Command("GEOPOS", "Vec<Option<(f64, f64)>>")
_GEORADIUSBYMEMBER_RO = Command("GEORADIUSBYMEMBER_RO", "Vec<Bytes>")
_GEORADIUSBYMEMBER_RO_WITHCOORD = Command("GEORADIUSBYMEMBER_RO", "Value")
_GEORADIUSBYMEMBER_RO_WITHDIST = Command("GEORADIUSBYMEMBER_RO", "Value")
_GEORADIUSBYMEMBER_RO_WITHHASH = Command("GEORADIUSBYMEMBER_RO", "Value")
_GEORADIUS_RO = Command("GEORADIUS_RO", "Vec<Bytes>")
_GEORADIUS_RO_WITHCOORD = Command("GEORADIUS_RO", "Value")
_GEORADIUS_RO_WITHDIST = Command("GEORADIUS_RO", "Value")
_GEORADIUS_RO_WITHHASH = Command("GEORADIUS_RO", "Value")
_GET = Command("GET", "Option<Bytes>")
_GETBIT = Command("GETBIT", "bool")
_GETDEL = Command("GETDEL", "Option<Bytes>")
_GETRANGE = Command("GETRANGE", "Bytes")
_GETSET = Command("GETSET", "Option<Bytes>")
_HDEL = Command("HDEL", "i64")
_HELLO = Command("HELLO", "Value")
_HEXISTS = Command("HEXISTS", "bool")
_HEXPIRE = Command("HEXPIRE", "Vec<i64>")
_HEXPIREAT = Command("HEXPIREAT", "Vec<i64>")
_HEXPIRETIME = Command("HEXPIRETIME", "Vec<i64>")
_HGET = Command("HGET", "Option<Bytes>")
_HGETALL = Command("HGETALL", "HashMap<Bytes, Bytes>")
_HGETDEL = Command("HGETDEL", "Vec<Option<Bytes>>")
_HGETEX = Command("HGETEX", "Vec<Option<Bytes>>")
_HIMPORT_DISCARD = Command("HIMPORT DISCARD", "Value")
_HIMPORT_DISCARDALL = Command("HIMPORT DISCARDALL", "Value")
_HIMPORT_PREPARE = Command("HIMPORT PREPARE", "Value")
_HIMPORT_SET = Command("HIMPORT SET", "Value")
_HKEYS = Command("HKEYS", "Vec<Bytes>")
_HLEN = Command("HLEN", "i64")
_HMGET = Command("HMGET", "Vec<Option<Bytes>>")
_HMSET = Command("HMSET", "()")
_HOTKEYS_GET = Command("HOTKEYS GET", "Value")
_HOTKEYS_HELP = Command("HOTKEYS HELP", "Value")
_HOTKEYS_RESET = Command("HOTKEYS RESET", "Value")
_HOTKEYS_STOP = Command("HOTKEYS STOP", "Value")
_HPERSIST = Command("HPERSIST", "Vec<i64>")
_HPEXPIRE = Command("HPEXPIRE", "Vec<i64>")
_HPEXPIREAT = Command("HPEXPIREAT", "Vec<i64>")
_HPEXPIRETIME = Command("HPEXPIRETIME", "Vec<i64>")
_HPTTL = Command("HPTTL", "Vec<i64>")
_HRANDFIELD = Command("HRANDFIELD", "Option<Bytes>")
_HRANDFIELD_COUNT = Command("HRANDFIELD", "Vec<Bytes>")
_HRANDFIELD_WITHVALUES = Command("HRANDFIELD", "Vec<(Bytes, Bytes)>")
_HSETNX = Command("HSETNX", "bool")
_HSTRLEN = Command("HSTRLEN", "i64")
_HTTL = Command("HTTL", "Vec<i64>")
_HVALS = Command("HVALS", "Vec<Bytes>")
_INCREX = Command("INCREX", "Value")
_JSON_ARRAPPEND = Command("JSON.ARRAPPEND", "Value")
_JSON_ARRINDEX = Command("JSON.ARRINDEX", "Value")
_JSON_ARRINSERT = Command("JSON.ARRINSERT", "Value")
_JSON_ARRLEN = Command("JSON.ARRLEN", "Value")
_JSON_ARRPOP = Command("JSON.ARRPOP", "Value")
_JSON_ARRTRIM = Command("JSON.ARRTRIM", "Value")
_JSON_CLEAR = Command("JSON.CLEAR", "Value")
_JSON_DEBUG = Command("JSON.DEBUG", "Value")
_JSON_DEL = Command("JSON.DEL", "Value")
_JSON_FORGET = Command("JSON.FORGET", "Value")
_JSON_GET = Command("JSON.GET", "Value")
_JSON_MERGE = Command("JSON.MERGE", "Value")
_JSON_MGET = Command("JSON.MGET", "Value")
_JSON_MSET = Command("JSON.MSET", "Value")
_JSON_NUMINCRBY = Command("JSON.NUMINCRBY", "Value")
_JSON_NUMMULTBY = Command("JSON.NUMMULTBY", "Value")
_JSON_NUMPOWBY = Command("JSON.NUMPOWBY", "Value")
_JSON_OBJKEYS = Command("JSON.OBJKEYS", "Value")
_JSON_OBJLEN = Command("JSON.OBJLEN", "Value")
_JSON_RESP = Command("JSON.RESP", "Value")
_JSON_SET = Command("JSON.SET", "Value")
_JSON_STRAPPEND = Command("JSON.STRAPPEND", "Value")
_JSON_STRLEN = Command("JSON.STRLEN", "Value")
_JSON_TOGGLE = Command("JSON.TOGGLE", "Value")
_JSON_TYPE = Command("JSON.TYPE", "Value")
_LASTSAVE = Command("LASTSAVE", "i64")
_LATENCY_DOCTOR = Command("LATENCY DOCTOR", "String")
_LATENCY_GRAPH = Command("LATENCY GRAPH", "String")
_LATENCY_HELP = Command("LATENCY HELP", "Value")
_LATENCY_HISTOGRAM = Command("LATENCY HISTOGRAM", "Value")
_LATENCY_HISTORY = Command("LATENCY HISTORY", "Value")
_LATENCY_LATEST = Command("LATENCY LATEST", "Value")
_LATENCY_RESET = Command("LATENCY RESET", "i64")
_LCS = Command("LCS", "Bytes")
_LCS_IDX = Command("LCS", "Value")
_LCS_LEN = Command("LCS", "i64")
_LINDEX = Command("LINDEX", "Option<Bytes>")
_LINSERT = Command("LINSERT", "i64")
_LLEN = Command("LLEN", "i64")
_LPOP = Command("LPOP", "Option<Bytes>")
_LPOP_COUNT = Command("LPOP", "Vec<Bytes>")
_LPOS = Command("LPOS", "Option<i64>")
_LPOS_COUNT = Command("LPOS", "Vec<i64>")
_LPUSH = Command("LPUSH", "i64")
_LPUSHX = Command("LPUSHX", "i64")
_LRANGE = Command("LRANGE", "Vec<Bytes>")
_LREM = Command("LREM", "i64")
_LSET = Command("LSET", "()")
_LTRIM = Command("LTRIM", "()")
_MEMORY_DOCTOR = Command("MEMORY DOCTOR", "String")
_MEMORY_HELP = Command("MEMORY HELP", "Value")
_MEMORY_MALLOC_STATS = Command("MEMORY MALLOC-STATS", "String")
_MEMORY_PURGE = Command("MEMORY PURGE", "()")
_MEMORY_STATS = Command("MEMORY STATS", "Value")
_MEMORY_USAGE = Command("MEMORY USAGE", "Option<i64>")
_MODULE_HELP = Command("MODULE HELP", "Value")
_MODULE_LIST = Command("MODULE LIST", "Value")
_MODULE_LOAD = Command("MODULE LOAD", "()")
_MODULE_LOADEX = Command("MODULE LOADEX", "Value")
_MODULE_UNLOAD = Command("MODULE UNLOAD", "()")
_MOVE = Command("MOVE", "bool")
_MSET = Command("MSET", "()")
_MSETNX = Command("MSETNX", "bool")
_OBJECT_ENCODING = Command("OBJECT ENCODING", "Option<String>")
_OBJECT_FREQ = Command("OBJECT FREQ", "Option<i64>")
_OBJECT_HELP = Command("OBJECT HELP", "Value")
_OBJECT_IDLETIME = Command("OBJECT IDLETIME", "Option<i64>")
_OBJECT_REFCOUNT = Command("OBJECT REFCOUNT", "Option<i64>")
_PERSIST = Command("PERSIST", "bool")
_PEXPIRETIME = Command("PEXPIRETIME", "i64")
_PFADD = Command("PFADD", "bool")
_PFCOUNT = Command("PFCOUNT", "i64")
_PFDEBUG = Command("PFDEBUG", "Value")
_PFMERGE = Command("PFMERGE", "()")
_PFSELFTEST = Command("PFSELFTEST", "Value")
_PTTL = Command("PTTL", "i64")
_PUBLISH = Command("PUBLISH", "i64")
_PUBSUB_CHANNELS = Command("PUBSUB CHANNELS", "Vec<Bytes>")
_PUBSUB_HELP = Command("PUBSUB HELP", "Value")
_PUBSUB_NUMPAT = Command("PUBSUB NUMPAT", "i64")
_PUBSUB_NUMSUB = Command("PUBSUB NUMSUB", "Vec<(Bytes, i64)>")
_PUBSUB_SHARDCHANNELS = Command("PUBSUB SHARDCHANNELS", "Vec<Bytes>")
_PUBSUB_SHARDNUMSUB = Command("PUBSUB SHARDNUMSUB", "Vec<(Bytes, i64)>")
_QUIT = Command("QUIT", "()")
_RANDOMKEY = Command("RANDOMKEY", "Option<Bytes>")
_READONLY = Command("READONLY", "()")
_READWRITE = Command("READWRITE", "()")
_RENAME = Command("RENAME", "()")
_RENAMENX = Command("RENAMENX", "bool")
_REPLCONF = Command("REPLCONF", "Value")
_RESET = Command("RESET", "String")
_ROLE = Command("ROLE", "Value")
_RPOP = Command("RPOP", "Option<Bytes>")
_RPOP_COUNT = Command("RPOP", "Vec<Bytes>")
_RPOPLPUSH = Command("RPOPLPUSH", "Option<Bytes>")
_RPUSH = Command("RPUSH", "i64")
_RPUSHX = Command("RPUSHX", "i64")
_SADD = Command("SADD", "i64")
_SAVE = Command("SAVE", "()")
_SCARD = Command("SCARD", "i64")
_SCRIPT_DEBUG = Command("SCRIPT DEBUG", "Value")
_SCRIPT_EXISTS = Command("SCRIPT EXISTS", "Vec<bool>")
_SCRIPT_HELP = Command("SCRIPT HELP", "Value")
_SCRIPT_KILL = Command("SCRIPT KILL", "()")
_SCRIPT_LOAD = Command("SCRIPT LOAD", "String")
_SCRIPT_SHOW = Command("SCRIPT SHOW", "Value")
_SDIFF = Command("SDIFF", "Vec<Bytes>")
_SDIFFSTORE = Command("SDIFFSTORE", "i64")
_SELECT = Command("SELECT", "()")
_SETBIT = Command("SETBIT", "bool")
_SETNX = Command("SETNX", "bool")
_SETRANGE = Command("SETRANGE", "i64")
_SHUTDOWN = Command("SHUTDOWN", "Value")
_SINTER = Command("SINTER", "Vec<Bytes>")
_SINTERSTORE = Command("SINTERSTORE", "i64")
_SISMEMBER = Command("SISMEMBER", "bool")
_SLOWLOG_GET = Command("SLOWLOG GET", "Value")
_SLOWLOG_HELP = Command("SLOWLOG HELP", "Value")
_SLOWLOG_LEN = Command("SLOWLOG LEN", "i64")
_SLOWLOG_RESET = Command("SLOWLOG RESET", "()")
_SMEMBERS = Command("SMEMBERS", "HashSet<Bytes>")
_SMISMEMBER = Command("SMISMEMBER", "Vec<bool>")
_SMOVE = Command("SMOVE", "bool")
_SPOP = Command("SPOP", "Option<Bytes>")
_SPOP_COUNT = Command("SPOP", "Vec<Bytes>")
_SPUBLISH = Command("SPUBLISH", "i64")
_SRANDMEMBER = Command("SRANDMEMBER", "Option<Bytes>")
_SRANDMEMBER_NUMBER = Command("SRANDMEMBER", "Vec<Bytes>")
_SREM = Command("SREM", "i64")
_STRLEN = Command("STRLEN", "i64")
_SUNION = Command("SUNION", "Vec<Bytes>")
_SUNIONSTORE = Command("SUNIONSTORE", "i64")
_SWAPDB = Command("SWAPDB", "()")
_TDIGEST_ADD = Command("TDIGEST.ADD", "()")
_TDIGEST_BYRANK = Command("TDIGEST.BYRANK", "Vec<f64>")
_TDIGEST_BYREVRANK = Command("TDIGEST.BYREVRANK", "Vec<f64>")
_TDIGEST_CDF = Command("TDIGEST.CDF", "Vec<f64>")
_TDIGEST_CREATE = Command("TDIGEST.CREATE", "()")
_TDIGEST_INFO = Command("TDIGEST.INFO", "Value")
_TDIGEST_MAX = Command("TDIGEST.MAX", "f64")
_TDIGEST_MERGE = Command("TDIGEST.MERGE", "()")
_TDIGEST_MIN = Command("TDIGEST.MIN", "f64")
_TDIGEST_QUANTILE = Command("TDIGEST.QUANTILE", "Vec<f64>")
_TDIGEST_RANK = Command("TDIGEST.RANK", "Vec<i64>")
_TDIGEST_RESET = Command("TDIGEST.RESET", "()")
_TDIGEST_REVRANK = Command("TDIGEST.REVRANK", "Vec<i64>")
_TDIGEST_TRIMMED_MEAN = Command("TDIGEST.TRIMMED_MEAN", "f64")
_TIME = Command("TIME", "(u64, u64)")
_TOPK_ADD = Command("TOPK.ADD", "Vec<Option<Bytes>>")
_TOPK_COUNT = Command("TOPK.COUNT", "Vec<i64>")
_TOPK_INCRBY = Command("TOPK.INCRBY", "Value")
_TOPK_INFO = Command("TOPK.INFO", "Value")
_TOPK_LIST = Command("TOPK.LIST", "Vec<Bytes>")
_TOPK_LIST_WITHCOUNT = Command("TOPK.LIST", "Vec<(Bytes, i64)>")
_TOPK_QUERY = Command("TOPK.QUERY", "Vec<bool>")
_TOPK_RESERVE = Command("TOPK.RESERVE", "()")
_TOUCH = Command("TOUCH", "i64")
_TTL = Command("TTL", "i64")
_TYPE = Command("TYPE", "String")
_UNLINK = Command("UNLINK", "i64")
_UNWATCH = Command("UNWATCH", "()")
_WAIT = Command("WAIT", "i64")
_WAITAOF = Command("WAITAOF", "(i64, i64)")
_WATCH = Command("WATCH", "()")
_XACK = Command("XACK", "i64")
_XCFGSET = Command("XCFGSET", "()")
_XDEL = Command("XDEL", "i64")
_XGROUP_CREATECONSUMER = Command("XGROUP CREATECONSUMER", "bool")
_XGROUP_DELCONSUMER = Command("XGROUP DELCONSUMER", "i64")
_XGROUP_DESTROY = Command("XGROUP DESTROY", "bool")
_XGROUP_HELP = Command("XGROUP HELP", "Value")
_XGROUP_SETID = Command("XGROUP SETID", "()")
_XIDMPRECORD = Command("XIDMPRECORD", "Value")
_XINFO_CONSUMERS = Command("XINFO CONSUMERS", "Value")
_XINFO_GROUPS = Command("XINFO GROUPS", "Value")
_XINFO_HELP = Command("XINFO HELP", "Value")
_XINFO_STREAM = Command("XINFO STREAM", "Value")
_XLEN = Command("XLEN", "i64")
_XNACK = Command("XNACK", "i64")
_XSETID = Command("XSETID", "()")
_ZCARD = Command("ZCARD", "i64")
_ZCOUNT = Command("ZCOUNT", "i64")
_ZDIFFSTORE = Command("ZDIFFSTORE", "i64")
_ZLEXCOUNT = Command("ZLEXCOUNT", "i64")
_ZMSCORE = Command("ZMSCORE", "Vec<Option<f64>>")
_ZPOPMAX = Command("ZPOPMAX", "Vec<(Bytes, f64)>")
_ZPOPMIN = Command("ZPOPMIN", "Vec<(Bytes, f64)>")
_ZRANDMEMBER = Command("ZRANDMEMBER", "Option<Bytes>")
_ZRANDMEMBER_COUNT = Command("ZRANDMEMBER", "Vec<Bytes>")
_ZRANDMEMBER_WITHSCORES = Command("ZRANDMEMBER", "Vec<(Bytes, f64)>")
_ZRANK = Command("ZRANK", "Option<u64>")
_ZRANK_WITHSCORE = Command("ZRANK", "Option<(u64, f64)>")
_ZREM = Command("ZREM", "i64")
_ZREMRANGEBYLEX = Command("ZREMRANGEBYLEX", "i64")
_ZREMRANGEBYRANK = Command("ZREMRANGEBYRANK", "i64")
_ZREMRANGEBYSCORE = Command("ZREMRANGEBYSCORE", "i64")
_ZREVRANK = Command("ZREVRANK", "Option<u64>")
_ZREVRANK_WITHSCORE = Command("ZREVRANK", "Option<(u64, f64)>")
_ZSCORE = Command("ZSCORE", "Option<f64>")


class Commands(RedisPyCommands):
    """Commands, as methods that give them to ``_run``."""

    def acl_cat(self, category=None):
        """``ACL CAT [category]``: Lists the categories of commands, or the commands of one."""
        call = []
        if category is not None:
            call.append(category)
        return self._run(_ACL_CAT, *call)

    def acl_deluser(self, *usernames):
        """``ACL DELUSER username [username ...]``: Removes users and closes their connections."""
        return self._run(_ACL_DELUSER, *_spread(usernames))

    def acl_dryrun(self, username, command_, *args):
        """``ACL DRYRUN username command [arg [arg ...]]``: Says whether a user may call a command, without calling it."""
        return self._run(_ACL_DRYRUN, username, command_, *_spread(args))

    def acl_genpass(self, bits=None):
        """``ACL GENPASS [bits]``: Draws a password that nobody can guess."""
        call = []
        if bits is not None:
            call.append(bits)
        return self._run(_ACL_GENPASS, *call)

    def acl_getuser(self, username):
        """``ACL GETUSER username``: Shows a user's rules."""
        return self._run(_ACL_GETUSER, username)

    def acl_help(self):
        """``ACL HELP``: Lists the subcommands."""
        return self._run(_ACL_HELP)

    def acl_list(self):
        """``ACL LIST``: Shows all users as lines of a file."""
        return self._run(_ACL_LIST)

    def acl_load(self):
        """``ACL LOAD``: Lets the users be those of the file."""
        return self._run(_ACL_LOAD)

    def acl_save(self):
        """``ACL SAVE``: Writes the users to the file."""
        return self._run(_ACL_SAVE)

    def acl_users(self):
        """``ACL USERS``: Lists the names of all users."""
        return self._run(_ACL_USERS)

    def acl_whoami(self):
        """``ACL WHOAMI``: Names the user of the connection."""
        return self._run(_ACL_WHOAMI)

    def append(self, key, value):
        """``APPEND key value``: Appends to the string stored at a key."""
        return self._run(_APPEND, key, value)

    def arcount(self, name):
        """``ARCOUNT key``: Returns the number of non-empty elements in an array."""
        return self._run(_ARCOUNT, name)

    def ardel(self, name, *indexs):
        """``ARDEL key index [index ...]``: Deletes elements at the specified indices in an array."""
        return self._run(_ARDEL, name, *_spread(indexs))

    def ardelrange(self, name, mapping):
        """``ARDELRANGE key start end [start end ...]``: Deletes elements in one or more ranges."""
        return self._run(_ARDELRANGE, name, *_pairs(mapping))

    def arget(self, name, index):
        """``ARGET key index``: Gets the value at an index in an array."""
        return self._run(_ARGET, name, index)

    def argetrange(self, name, start, end):
        """``ARGETRANGE key start end``: Gets values in a range of indices."""
        return self._run(_ARGETRANGE, name, start, end)

    def argrep(self, name, start, end, *, exact=None, match=None, glob=None, re=None, and_=False, or_=False, limit=None, withvalues=False, nocase=False):
        """``ARGREP key start end <EXACT string | MATCH string | GLOB pattern | RE pattern> [<EXACT string | MATCH string | GLOB pattern | RE pattern> ...] [AND | OR | LIMIT limit | WITHVALUES | NOCASE [<AND | OR | LIMIT limit | WITHVALUES | NOCASE> ...]]``: Searches array elements in a range using textual predicates."""
        call = []
        call.append(name)
        call.append(start)
        call.append(end)
        if exact is not None:
            call += ("EXACT",)
            call += _values(exact)
        if match is not None:
            call += ("MATCH",)
            call += _values(match)
        if glob is not None:
            call += ("GLOB",)
            call += _values(glob)
        if re is not None:
            call += ("RE",)
            call += _values(re)
        if and_:
            call += ("AND",)
        if or_:
            call += ("OR",)
        if limit is not None:
            call += ("LIMIT",)
            call.append(limit)
        if withvalues:
            call += ("WITHVALUES",)
        if nocase:
            call += ("NOCASE",)
        return self._run(_ARGREP_WITHVALUES if withvalues else _ARGREP, *call)

    def arinfo(self, name, *, full=False):
        """``ARINFO key [FULL]``: Returns metadata about an array."""
        call = []
        call.append(name)
        if full:
            call += ("FULL",)
        return self._run(_ARINFO, *call)

    def arinsert(self, name, *values):
        """``ARINSERT key value [value ...]``: Inserts one or more values at consecutive indices."""
        return self._run(_ARINSERT, name, *_spread(values))

    def arlastitems(self, name, count, *, rev=False):
        """``ARLASTITEMS key count [REV]``: Returns the most recently inserted elements."""
        call = []
        call.append(name)
        call.append(count)
        if rev:
            call += ("REV",)
        return self._run(_ARLASTITEMS, *call)

    def arlen(self, name):
        """``ARLEN key``: Returns the length of an array (max index + 1)."""
        return self._run(_ARLEN, name)

    def armget(self, name, *indexs):
        """``ARMGET key index [index ...]``: Gets values at multiple indices in an array."""
        return self._run(_ARMGET, name, *_spread(indexs))

    def armset(self, name, mapping):
        """``ARMSET key index value [index value ...]``: Sets multiple index-value pairs in an array."""
        return self._run(_ARMSET, name, *_pairs(mapping))

    def arnext(self, name):
        """``ARNEXT key``: Returns the next index ARINSERT would use."""
        return self._run(_ARNEXT, name)

    def arop(self, name, start, end, *, sum=False, min=False, max=False, and_=False, or_=False, xor=False, match=None, used=False):
        """``AROP key start end <SUM | MIN | MAX | AND | OR | XOR | MATCH value | USED>``: Performs aggregate operations on array elements in a range."""
        call = []
        call.append(name)
        call.append(start)
        call.append(end)
        if sum:
            call += ("SUM",)
        if min:
            call += ("MIN",)
        if max:
            call += ("MAX",)
        if and_:
            call += ("AND",)
        if or_:
            call += ("OR",)
        if xor:
            call += ("XOR",)
        if match is not None:
            call += ("MATCH",)
            call += _values(match)
        if used:
            call += ("USED",)
        return self._run(_AROP, *call)

    def arring(self, name, size, *values):
        """``ARRING key size value [value ...]``: Inserts values into a ring buffer of specified size, wrapping and truncating as needed."""
        return self._run(_ARRING, name, size, *_spread(values))

    def arscan(self, name, start, end, *, limit=None):
        """``ARSCAN key start end [LIMIT limit]``: Iterates existing elements in a range, returning index-value pairs."""
        call = []
        call.append(name)
        call.append(start)
        call.append(end)
        if limit is not None:
            call += ("LIMIT",)
            call.append(limit)
        return self._run(_ARSCAN, *call)

    def arseek(self, name, index):
        """``ARSEEK key index``: Sets the ARINSERT / ARRING cursor to a specific index."""
        return self._run(_ARSEEK, name, index)

    def arset(self, name, index, *values):
        """``ARSET key index value [value ...]``: Sets one or more contiguous values starting at an index in an array."""
        return self._run(_ARSET, name, index, *_spread(values))

    def asking(self):
        """``ASKING``: Announces that the next command follows an `-ASK` redirection."""
        return self._run(_ASKING)

    def auth(self, password, username=None):
        """``AUTH [username] password``: Authenticates the connection."""
        call = []
        if username is not None:
            call.append(username)
        call.append(password)
        return self._run(_AUTH, *call)

    def backup_abort(self):
        """``BACKUP ABORT``: Gives up a backup that is not sealed."""
        return self._run(_BACKUP_ABORT)

    def backup_cleanup(self):
        """``BACKUP CLEANUP``: Removes the files of a backup that is sealed or has failed."""
        return self._run(_BACKUP_CLEANUP)

    def backup_help(self):
        """``BACKUP HELP``: Lists the subcommands."""
        return self._run(_BACKUP_HELP)

    def backup_list(self):
        """``BACKUP LIST``: Returns the paths of the files of the backup that do not change any more."""
        return self._run(_BACKUP_LIST)

    def backup_seal(self):
        """``BACKUP SEAL``: Ends the backup: its files hold all changes until now, and no later ones."""
        return self._run(_BACKUP_SEAL)

    def backup_start(self):
        """``BACKUP START``: Begins a backup in the directory `backupdirname`."""
        return self._run(_BACKUP_START)

    def backup_status(self):
        """``BACKUP STATUS``: Returns the state of the backup."""
        return self._run(_BACKUP_STATUS)

    def bf_add(self, name, item):
        """``BF.ADD key item``: Adds an item to a Bloom filter, which is made if it does not exist."""
        return self._run(_BF_ADD, name, item)

    def bf_card(self, name):
        """``BF.CARD key``: Returns how many items were added to a Bloom filter that it did not seem to have."""
        return self._run(_BF_CARD, name)

    def bf_debug(self, name):
        """``BF.DEBUG key``: Returns the properties of each link of a Bloom filter."""
        return self._run(_BF_DEBUG, name)

    def bf_exists(self, name, item):
        """``BF.EXISTS key item``: Tells whether an item was added to a Bloom filter, with few false positives."""
        return self._run(_BF_EXISTS, name, item)

    def bf_info(self, name, *, capacity=False, size=False, filters=False, items=False, expansion=False):
        """``BF.INFO key [CAPACITY | SIZE | FILTERS | ITEMS | EXPANSION]``: Returns the properties of a Bloom filter, or one of them."""
        call = []
        call.append(name)
        if capacity:
            call += ("CAPACITY",)
        if size:
            call += ("SIZE",)
        if filters:
            call += ("FILTERS",)
        if items:
            call += ("ITEMS",)
        if expansion:
            call += ("EXPANSION",)
        return self._run(_BF_INFO, *call)

    def bf_insert(self, name, *items, capacity=None, error=None, expansion=None, nocreate=False, nonscaling=False):
        """``BF.INSERT key [CAPACITY capacity] [ERROR error] [EXPANSION expansion] [NOCREATE] [NONSCALING] ITEMS item [item ...]``: Adds items to a Bloom filter, which is made with the given properties if it does not exist."""
        call = []
        call.append(name)
        if capacity is not None:
            call += ("CAPACITY",)
            call.append(capacity)
        if error is not None:
            call += ("ERROR",)
            call.append(error)
        if expansion is not None:
            call += ("EXPANSION",)
            call.append(expansion)
        if nocreate:
            call += ("NOCREATE",)
        if nonscaling:
            call += ("NONSCALING",)
        call.append("ITEMS")
        call += _spread(items)
        return self._run(_BF_INSERT, *call)

    def bf_loadchunk(self, name, iterator, data):
        """``BF.LOADCHUNK key iterator data``: Loads a piece of a Bloom filter that `BF.SCANDUMP` returned; the first makes the filter."""
        return self._run(_BF_LOADCHUNK, name, iterator, data)

    def bf_madd(self, name, *items):
        """``BF.MADD key item [item ...]``: Adds items to a Bloom filter, which is made if it does not exist."""
        return self._run(_BF_MADD, name, *_spread(items))

    def bf_mexists(self, name, *items):
        """``BF.MEXISTS key item [item ...]``: Tells of several items whether they were added to a Bloom filter, with few false positives."""
        return self._run(_BF_MEXISTS, name, *_spread(items))

    def bf_reserve(self, name, error_rate, capacity, *, expansion=None, nonscaling=False):
        """``BF.RESERVE key error-rate capacity [EXPANSION expansion] [NONSCALING]``: Makes an empty Bloom filter for a number of items and a rate of false positives."""
        call = []
        call.append(name)
        call.append(error_rate)
        call.append(capacity)
        if expansion is not None:
            call += ("EXPANSION",)
            call.append(expansion)
        if nonscaling:
            call += ("NONSCALING",)
        return self._run(_BF_RESERVE, *call)

    def bf_scandump(self, name, iterator):
        """``BF.SCANDUMP key iterator``: Returns the next piece of a Bloom filter, for `BF.LOADCHUNK`."""
        return self._run(_BF_SCANDUMP, name, iterator)

    def bgrewriteaof(self):
        """``BGREWRITEAOF``: Rewrites the log in the background, so that it is no longer than the data needs."""
        return self._run(_BGREWRITEAOF)

    def bgsave(self, schedule=False, *, cancel=False):
        """``BGSAVE [SCHEDULE | CANCEL]``: Saves the data to disk while the server goes on."""
        call = []
        if schedule:
            call += ("SCHEDULE",)
        if cancel:
            call += ("CANCEL",)
        return self._run(_BGSAVE, *call)

    def bitfield(self, key, *, get=None, overflow=None):
        """``BITFIELD key [GET encoding offset | [OVERFLOW <WRAP | SAT | FAIL>] <SET encoding offset value | INCRBY encoding offset increment> [<GET encoding offset | [OVERFLOW <WRAP | SAT | FAIL>] <SET encoding offset value | INCRBY encoding offset increment>> ...]]``: Reads, writes and adds to integers of any width at any bit of a string."""
        call = []
        call.append(key)
        if get is not None:
            call += ("GET",)
            call += _values(get)
        if overflow is not None:
            call += ("OVERFLOW",)
            call += _values(overflow)
        return self._run(_BITFIELD, *call)

    def bitop(self, operation, dest, *names):
        """``BITOP <AND | OR | XOR | NOT | DIFF | DIFF1 | ANDOR | ONE> destkey key [key ...]``: Combines strings bit by bit and stores the result."""
        return self._run(_BITOP, operation, dest, *_spread(names))

    def cf_add(self, name, item):
        """``CF.ADD key item``: Adds an item to a cuckoo filter, which is made if it does not exist; an item may come more than once."""
        return self._run(_CF_ADD, name, item)

    def cf_addnx(self, name, item):
        """``CF.ADDNX key item``: Adds an item to a cuckoo filter that does not seem to have it."""
        return self._run(_CF_ADDNX, name, item)

    def cf_compact(self, name):
        """``CF.COMPACT key``: Moves items of a cuckoo filter to older sub-filters, and removes sub-filters that become empty."""
        return self._run(_CF_COMPACT, name)

    def cf_count(self, name, item):
        """``CF.COUNT key item``: Returns how often an item seems to be in a cuckoo filter."""
        return self._run(_CF_COUNT, name, item)

    def cf_debug(self, name):
        """``CF.DEBUG key``: Returns the properties of a cuckoo filter in a line."""
        return self._run(_CF_DEBUG, name)

    def cf_del(self, name, item):
        """``CF.DEL key item``: Deletes an item once from a cuckoo filter."""
        return self._run(_CF_DEL, name, item)

    def cf_exists(self, name, item):
        """``CF.EXISTS key item``: Tells whether an item was added to a cuckoo filter, with few false positives."""
        return self._run(_CF_EXISTS, name, item)

    def cf_info(self, name):
        """``CF.INFO key``: Returns the properties of a cuckoo filter."""
        return self._run(_CF_INFO, name)

    def cf_insert(self, name, *items, capacity=None, nocreate=False):
        """``CF.INSERT key [CAPACITY capacity] [NOCREATE] ITEMS item [item ...]``: Adds items to a cuckoo filter, which is made if it does not exist."""
        call = []
        call.append(name)
        if capacity is not None:
            call += ("CAPACITY",)
            call.append(capacity)
        if nocreate:
            call += ("NOCREATE",)
        call.append("ITEMS")
        call += _spread(items)
        return self._run(_CF_INSERT, *call)

    def cf_insertnx(self, name, *items, capacity=None, nocreate=False):
        """``CF.INSERTNX key [CAPACITY capacity] [NOCREATE] ITEMS item [item ...]``: Adds those items to a cuckoo filter that it does not seem to have."""
        call = []
        call.append(name)
        if capacity is not None:
            call += ("CAPACITY",)
            call.append(capacity)
        if nocreate:
            call += ("NOCREATE",)
        call.append("ITEMS")
        call += _spread(items)
        return self._run(_CF_INSERTNX, *call)

    def cf_loadchunk(self, name, iterator, data):
        """``CF.LOADCHUNK key iterator data``: Loads a piece of a cuckoo filter that `CF.SCANDUMP` returned; the first makes the filter."""
        return self._run(_CF_LOADCHUNK, name, iterator, data)

    def cf_mexists(self, name, *items):
        """``CF.MEXISTS key item [item ...]``: Tells of several items whether they were added to a cuckoo filter, with few false positives."""
        return self._run(_CF_MEXISTS, name, *_spread(items))

    def cf_reserve(self, name, capacity, *, bucketsize=None, maxiterations=None, expansion=None):
        """``CF.RESERVE key capacity [BUCKETSIZE bucketsize] [MAXITERATIONS maxiterations] [EXPANSION expansion]``: Makes an empty cuckoo filter for a number of items."""
        call = []
        call.append(name)
        call.append(capacity)
        if bucketsize is not None:
            call += ("BUCKETSIZE",)
            call.append(bucketsize)
        if maxiterations is not None:
            call += ("MAXITERATIONS",)
            call.append(maxiterations)
        if expansion is not None:
            call += ("EXPANSION",)
            call.append(expansion)
        return self._run(_CF_RESERVE, *call)

    def cf_scandump(self, name, iterator):
        """``CF.SCANDUMP key iterator``: Returns the next piece of a cuckoo filter, for `CF.LOADCHUNK`."""
        return self._run(_CF_SCANDUMP, name, iterator)

    def client_caching(self, mode):
        """``CLIENT CACHING <YES | NO>``: Says whether to track the keys of the next command."""
        return self._run(_CLIENT_CACHING, mode)

    def client_capa(self, *capabilitys):
        """``CLIENT CAPA capability [capability ...]``: Declares what the client is capable of."""
        return self._run(_CLIENT_CAPA, *_spread(capabilitys))

    def client_getname(self):
        """``CLIENT GETNAME``: Returns the name of the connection."""
        return self._run(_CLIENT_GETNAME)

    def client_getredir(self):
        """``CLIENT GETREDIR``: Returns the id of the client that gets this connection's tracking messages."""
        return self._run(_CLIENT_GETREDIR)

    def client_help(self):
        """``CLIENT HELP``: Lists the subcommands."""
        return self._run(_CLIENT_HELP)

    def client_id(self):
        """``CLIENT ID``: Returns the id of the connection."""
        return self._run(_CLIENT_ID)

    def client_import_source(self, enabled):
        """``CLIENT IMPORT-SOURCE <ON | OFF>``: Marks the connection as the source of an import."""
        return self._run(_CLIENT_IMPORT_SOURCE, enabled)

    def client_kill(self, address=None, *, id=None, type=None, user=None, addr=None, laddr=None, skipme=None, maxage=None, name=None, idle=None, flags=None, lib_name=None, lib_ver=None, db=None, ip=None, not_id=None, not_type=None, not_user=None, not_addr=None, not_laddr=None, not_name=None, not_flags=None, not_lib_name=None, not_lib_ver=None, not_db=None, not_ip=None):
        """``CLIENT KILL <ip:port | <[ID client-id [client-id ...]] | [TYPE <NORMAL | MASTER | PRIMARY | SLAVE | REPLICA | PUBSUB>] | [USER username] | [ADDR ip:port] | [LADDR ip:port] | [SKIPME <YES | NO>] | [MAXAGE maxage] | [NAME name] | [IDLE idle] | [FLAGS flags] | [LIB-NAME lib-name] | [LIB-VER lib-ver] | [DB db] | [IP ip] | [NOT-ID not-client-id [not-client-id ...]] | [NOT-TYPE <NORMAL | MASTER | PRIMARY | SLAVE | REPLICA | PUBSUB>] | [NOT-USER not-username] | [NOT-ADDR ip:port] | [NOT-LADDR ip:port] | [NOT-NAME not-name] | [NOT-FLAGS not-flags] | [NOT-LIB-NAME not-lib-name] | [NOT-LIB-VER not-lib-ver] | [NOT-DB not-db] | [NOT-IP not-ip]> [<[ID client-id [client-id ...]] | [TYPE <NORMAL | MASTER | PRIMARY | SLAVE | REPLICA | PUBSUB>] | [USER username] | [ADDR ip:port] | [LADDR ip:port] | [SKIPME <YES | NO>] | [MAXAGE maxage] | [NAME name] | [IDLE idle] | [FLAGS flags] | [LIB-NAME lib-name] | [LIB-VER lib-ver] | [DB db] | [IP ip] | [NOT-ID not-client-id [not-client-id ...]] | [NOT-TYPE <NORMAL | MASTER | PRIMARY | SLAVE | REPLICA | PUBSUB>] | [NOT-USER not-username] | [NOT-ADDR ip:port] | [NOT-LADDR ip:port] | [NOT-NAME not-name] | [NOT-FLAGS not-flags] | [NOT-LIB-NAME not-lib-name] | [NOT-LIB-VER not-lib-ver] | [NOT-DB not-db] | [NOT-IP not-ip]> ...]>``: Closes connections."""
        call = []
        if address is not None:
            call.append(address)
        if id is not None:
            call += ("ID",)
            call += _values(id)
        if type is not None:
            call += ("TYPE",)
            call.append(type)
        if user is not None:
            call += ("USER",)
            call.append(user)
        if addr is not None:
            call += ("ADDR",)
            call.append(addr)
        if laddr is not None:
            call += ("LADDR",)
            call.append(laddr)
        if skipme is not None:
            call += ("SKIPME",)
            call.append(skipme)
        if maxage is not None:
            call += ("MAXAGE",)
            call.append(maxage)
        if name is not None:
            call += ("NAME",)
            call.append(name)
        if idle is not None:
            call += ("IDLE",)
            call.append(idle)
        if flags is not None:
            call += ("FLAGS",)
            call.append(flags)
        if lib_name is not None:
            call += ("LIB-NAME",)
            call.append(lib_name)
        if lib_ver is not None:
            call += ("LIB-VER",)
            call.append(lib_ver)
        if db is not None:
            call += ("DB",)
            call.append(db)
        if ip is not None:
            call += ("IP",)
            call.append(ip)
        if not_id is not None:
            call += ("NOT-ID",)
            call += _values(not_id)
        if not_type is not None:
            call += ("NOT-TYPE",)
            call.append(not_type)
        if not_user is not None:
            call += ("NOT-USER",)
            call.append(not_user)
        if not_addr is not None:
            call += ("NOT-ADDR",)
            call.append(not_addr)
        if not_laddr is not None:
            call += ("NOT-LADDR",)
            call.append(not_laddr)
        if not_name is not None:
            call += ("NOT-NAME",)
            call.append(not_name)
        if not_flags is not None:
            call += ("NOT-FLAGS",)
            call.append(not_flags)
        if not_lib_name is not None:
            call += ("NOT-LIB-NAME",)
            call.append(not_lib_name)
        if not_lib_ver is not None:
            call += ("NOT-LIB-VER",)
            call.append(not_lib_ver)
        if not_db is not None:
            call += ("NOT-DB",)
            call.append(not_db)
        if not_ip is not None:
            call += ("NOT-IP",)
            call.append(not_ip)
        return self._run(_CLIENT_KILL, *call)

    def client_no_evict(self, mode):
        """``CLIENT NO-EVICT <ON | OFF>``: Exempts the connection from client eviction, or ends the exemption."""
        return self._run(_CLIENT_NO_EVICT, mode)

    def client_no_touch(self, mode):
        """``CLIENT NO-TOUCH <ON | OFF>``: Says whether the connection's commands count as accesses to keys."""
        return self._run(_CLIENT_NO_TOUCH, mode)

    def client_setname(self, name):
        """``CLIENT SETNAME connection-name``: Gives the connection a name."""
        return self._run(_CLIENT_SETNAME, name)

    def client_trackinginfo(self):
        """``CLIENT TRACKINGINFO``: Describes the state of key tracking for the connection."""
        return self._run(_CLIENT_TRACKINGINFO)

    def client_unpause(self):
        """``CLIENT UNPAUSE``: Ends the pause of clients."""
        return self._run(_CLIENT_UNPAUSE)

    def cluster_addslots(self, *slots):
        """``CLUSTER ADDSLOTS slot [slot ...]``: Takes hash slots over."""
        return self._run(_CLUSTER_ADDSLOTS, *_spread(slots))

    def cluster_addslotsrange(self, mapping):
        """``CLUSTER ADDSLOTSRANGE start-slot end-slot [start-slot end-slot ...]``: Takes ranges of hash slots over."""
        return self._run(_CLUSTER_ADDSLOTSRANGE, *_pairs(mapping))

    def cluster_bumpepoch(self):
        """``CLUSTER BUMPEPOCH``: Advances the configuration epoch."""
        return self._run(_CLUSTER_BUMPEPOCH)

    def cluster_cancelslotmigrations(self):
        """``CLUSTER CANCELSLOTMIGRATIONS``: Cancels all slot migrations."""
        return self._run(_CLUSTER_CANCELSLOTMIGRATIONS)

    def cluster_count_failure_reports(self, node_id):
        """``CLUSTER COUNT-FAILURE-REPORTS node-id``: Returns how many nodes say that a node has failed."""
        return self._run(_CLUSTER_COUNT_FAILURE_REPORTS, node_id)

    def cluster_countkeysinslot(self, slot):
        """``CLUSTER COUNTKEYSINSLOT slot``: Returns the number of keys in a hash slot."""
        return self._run(_CLUSTER_COUNTKEYSINSLOT, slot)

    def cluster_delslots(self, *slots):
        """``CLUSTER DELSLOTS slot [slot ...]``: Gives hash slots up."""
        return self._run(_CLUSTER_DELSLOTS, *_spread(slots))

    def cluster_delslotsrange(self, mapping):
        """``CLUSTER DELSLOTSRANGE start-slot end-slot [start-slot end-slot ...]``: Gives ranges of hash slots up."""
        return self._run(_CLUSTER_DELSLOTSRANGE, *_pairs(mapping))

    def cluster_failover(self, *, force=False, takeover=False):
        """``CLUSTER FAILOVER [FORCE | TAKEOVER]``: Lets a replica take its primary's place, or gives up nodes that do not return."""
        call = []
        if force:
            call += ("FORCE",)
        if takeover:
            call += ("TAKEOVER",)
        return self._run(_CLUSTER_FAILOVER, *call)

    def cluster_flushslot(self, slot, *, async_=False, sync=False):
        """``CLUSTER FLUSHSLOT slot [ASYNC | SYNC]``: Removes the keys of a hash slot."""
        call = []
        call.append(slot)
        if async_:
            call += ("ASYNC",)
        if sync:
            call += ("SYNC",)
        return self._run(_CLUSTER_FLUSHSLOT, *call)

    def cluster_flushslots(self):
        """``CLUSTER FLUSHSLOTS``: Gives all hash slots up."""
        return self._run(_CLUSTER_FLUSHSLOTS)

    def cluster_forget(self, node_id):
        """``CLUSTER FORGET node-id``: Removes a node from the list of nodes."""
        return self._run(_CLUSTER_FORGET, node_id)

    def cluster_getkeysinslot(self, slot, count):
        """``CLUSTER GETKEYSINSLOT slot count``: Returns keys of a hash slot."""
        return self._run(_CLUSTER_GETKEYSINSLOT, slot, count)

    def cluster_getslotmigrations(self):
        """``CLUSTER GETSLOTMIGRATIONS``: Describes the slot migrations."""
        return self._run(_CLUSTER_GETSLOTMIGRATIONS)

    def cluster_help(self):
        """``CLUSTER HELP``: Lists the subcommands."""
        return self._run(_CLUSTER_HELP)

    def cluster_info(self):
        """``CLUSTER INFO``: Describes the state of the node."""
        return self._run(_CLUSTER_INFO)

    def cluster_keyslot(self, name):
        """``CLUSTER KEYSLOT key``: Returns the hash slot of a key."""
        return self._run(_CLUSTER_KEYSLOT, name)

    def cluster_links(self):
        """``CLUSTER LINKS``: Describes the connections to other nodes."""
        return self._run(_CLUSTER_LINKS)

    def cluster_meet(self, ip, port, cluster_bus_port=None):
        """``CLUSTER MEET ip port [cluster-bus-port]``: Introduces another node."""
        call = []
        call.append(ip)
        call.append(port)
        if cluster_bus_port is not None:
            call.append(cluster_bus_port)
        return self._run(_CLUSTER_MEET, *call)

    def cluster_migrateslots(self, *migrations):
        """``CLUSTER MIGRATESLOTS SLOTSRANGE start-slot end-slot NODE node-id [SLOTSRANGE start-slot end-slot NODE node-id ...]``: Moves hash slots to other nodes."""
        return self._run(_CLUSTER_MIGRATESLOTS, *_spread(migrations))

    def cluster_migration(self, *, import_=None, id=None, all=False, id2=None, all2=False):
        """``CLUSTER MIGRATION <IMPORT start-slot end-slot [start-slot end-slot ...] | CANCEL <ID task-id | ALL> | STATUS <[ID task-id] | [ALL]>>``: Moves hash slots to this node."""
        call = []
        if import_ is not None:
            call += ("IMPORT",)
            call += _values(import_)
        if id is not None:
            call += ("CANCEL", "ID",)
            call.append(id)
        if all:
            call += ("CANCEL", "ALL",)
        if id2 is not None:
            call += ("STATUS", "ID",)
            call.append(id2)
        if all2:
            call += ("STATUS", "ALL",)
        return self._run(_CLUSTER_MIGRATION, *call)

    def cluster_myid(self):
        """``CLUSTER MYID``: Returns the node's id."""
        return self._run(_CLUSTER_MYID)

    def cluster_myshardid(self):
        """``CLUSTER MYSHARDID``: Returns the id of the node's shard."""
        return self._run(_CLUSTER_MYSHARDID)

    def cluster_nodes(self):
        """``CLUSTER NODES``: Describes the nodes of the cluster."""
        return self._run(_CLUSTER_NODES)

    def cluster_replicas(self, node_id):
        """``CLUSTER REPLICAS node-id``: Describes the replicas of a primary."""
        return self._run(_CLUSTER_REPLICAS, node_id)

    def cluster_replicate(self, node_id):
        """``CLUSTER REPLICATE node-id``: Makes the node a replica of another."""
        return self._run(_CLUSTER_REPLICATE, node_id)

    def cluster_reset(self, *, hard=False, soft=False):
        """``CLUSTER RESET [HARD | SOFT]``: Lets the node forget the cluster."""
        call = []
        if hard:
            call += ("HARD",)
        if soft:
            call += ("SOFT",)
        return self._run(_CLUSTER_RESET, *call)

    def cluster_saveconfig(self):
        """``CLUSTER SAVECONFIG``: Writes the cluster's configuration."""
        return self._run(_CLUSTER_SAVECONFIG)

    def cluster_set_config_epoch(self, config_epoch):
        """``CLUSTER SET-CONFIG-EPOCH config-epoch``: Sets the configuration epoch of a new node."""
        return self._run(_CLUSTER_SET_CONFIG_EPOCH, config_epoch)

    def cluster_setslot(self, slot, *, importing=None, migrating=None, node=None, stable=False):
        """``CLUSTER SETSLOT slot <IMPORTING node-id | MIGRATING node-id | NODE node-id | STABLE>``: Binds a hash slot to a node, or begins or ends its migration."""
        call = []
        call.append(slot)
        if importing is not None:
            call += ("IMPORTING",)
            call.append(importing)
        if migrating is not None:
            call += ("MIGRATING",)
            call.append(migrating)
        if node is not None:
            call += ("NODE",)
            call.append(node)
        if stable:
            call += ("STABLE",)
        return self._run(_CLUSTER_SETSLOT, *call)

    def cluster_shards(self):
        """``CLUSTER SHARDS``: Describes the shards and their nodes."""
        return self._run(_CLUSTER_SHARDS)

    def cluster_slaves(self, node_id):
        """``CLUSTER SLAVES node-id``: Describes the replicas of a primary."""
        return self._run(_CLUSTER_SLAVES, node_id)

    def cluster_slot_stats(self, *, slotsrange=None, orderby=None, limit=None, asc=False, desc=False):
        """``CLUSTER SLOT-STATS <SLOTSRANGE start-slot end-slot | ORDERBY metric [LIMIT limit] [ASC | DESC]>``: Returns figures of hash slots."""
        call = []
        if slotsrange is not None:
            call += ("SLOTSRANGE",)
            call += _values(slotsrange)
        if orderby is not None:
            call += ("ORDERBY",)
            call.append(orderby)
        if limit is not None:
            call += ("LIMIT",)
            call.append(limit)
        if asc:
            call += ("ASC",)
        if desc:
            call += ("DESC",)
        return self._run(_CLUSTER_SLOT_STATS, *call)

    def cluster_slots(self):
        """``CLUSTER SLOTS``: Says which nodes have which hash slots."""
        return self._run(_CLUSTER_SLOTS)

    def cluster_syncslots(self):
        """``CLUSTER SYNCSLOTS``: Serves nodes that move hash slots."""
        return self._run(_CLUSTER_SYNCSLOTS)

    def clusterscan(self, cursor, *, match=None, count=None, type=None, slot=None):
        """``CLUSTERSCAN cursor [MATCH pattern] [COUNT count] [TYPE type] [SLOT slot]``: Iterates over the keys of the whole cluster."""
        call = []
        call.append(cursor)
        if match is not None:
            call += ("MATCH",)
            call.append(match)
        if count is not None:
            call += ("COUNT",)
            call.append(count)
        if type is not None:
            call += ("TYPE",)
            call.append(type)
        if slot is not None:
            call += ("SLOT",)
            call.append(slot)
        return self._run(_CLUSTERSCAN, *call)

    def cms_incrby(self, name, mapping):
        """``CMS.INCRBY key item increment [item increment ...]``: Adds to the counts of items in a count-min sketch."""
        return self._run(_CMS_INCRBY, name, *_pairs(mapping))

    def cms_info(self, name):
        """``CMS.INFO key``: Returns the dimensions of a count-min sketch and the sum of its counts."""
        return self._run(_CMS_INFO, name)

    def cms_initbydim(self, name, width, depth):
        """``CMS.INITBYDIM key width depth``: Makes an empty count-min sketch of a number of rows of counters."""
        return self._run(_CMS_INITBYDIM, name, width, depth)

    def cms_initbyprob(self, name, error, probability):
        """``CMS.INITBYPROB key error probability``: Makes an empty count-min sketch for an error and the probability of a larger one."""
        return self._run(_CMS_INITBYPROB, name, error, probability)

    def cms_merge(self, destination, *sources, weights=None):
        """``CMS.MERGE destination numkeys source [source ...] [WEIGHTS weight [weight ...]]``: Sets a count-min sketch to the sum of others, each times its weight."""
        call = []
        call.append(destination)
        call += _counted(sources)
        if weights is not None:
            call += ("WEIGHTS",)
            call += _values(weights)
        return self._run(_CMS_MERGE, *call)

    def cms_query(self, name, *items):
        """``CMS.QUERY key item [item ...]``: Returns the counts of items in a count-min sketch, which are never too low."""
        return self._run(_CMS_QUERY, name, *_spread(items))

    def command_count(self):
        """``COMMAND COUNT``: Returns the number of commands."""
        return self._run(_COMMAND_COUNT)

    def command_docs(self, *command_names):
        """``COMMAND DOCS [command-name [command-name ...]]``: Returns the documentation of commands."""
        return self._run(_COMMAND_DOCS, *_spread(command_names))

    def command_getkeys(self, command_, *args):
        """``COMMAND GETKEYS command [arg [arg ...]]``: Finds the keys in a complete command."""
        return self._run(_COMMAND_GETKEYS, command_, *_spread(args))

    def command_getkeysandflags(self, command_, *args):
        """``COMMAND GETKEYSANDFLAGS command [arg [arg ...]]``: Finds the keys in a complete command, and what it does to them."""
        return self._run(_COMMAND_GETKEYSANDFLAGS, command_, *_spread(args))

    def command_help(self):
        """``COMMAND HELP``: Lists the subcommands."""
        return self._run(_COMMAND_HELP)

    def command_info(self, *command_names):
        """``COMMAND INFO [command-name [command-name ...]]``: Describes the commands named, or every command."""
        return self._run(_COMMAND_INFO, *_spread(command_names))

    def command_list(self, module=None, category=None, pattern=None):
        """``COMMAND LIST [FILTERBY <MODULE module-name | ACLCAT category | PATTERN pattern>]``: Lists the names of commands."""
        call = []
        if module is not None:
            call += ("FILTERBY", "MODULE",)
            call.append(module)
        if category is not None:
            call += ("FILTERBY", "ACLCAT",)
            call.append(category)
        if pattern is not None:
            call += ("FILTERBY", "PATTERN",)
            call.append(pattern)
        return self._run(_COMMAND_LIST, *call)

    def commandlog_get(self, count, type):
        """``COMMANDLOG GET count <SLOW | LARGE-REQUEST | LARGE-REPLY>``: Returns the latest entries of a log."""
        return self._run(_COMMANDLOG_GET, count, type)

    def commandlog_help(self):
        """``COMMANDLOG HELP``: Lists the subcommands."""
        return self._run(_COMMANDLOG_HELP)

    def commandlog_len(self, type):
        """``COMMANDLOG LEN <SLOW | LARGE-REQUEST | LARGE-REPLY>``: Returns the number of entries in a log."""
        return self._run(_COMMANDLOG_LEN, type)

    def commandlog_reset(self, type):
        """``COMMANDLOG RESET <SLOW | LARGE-REQUEST | LARGE-REPLY>``: Empties a log."""
        return self._run(_COMMANDLOG_RESET, type)

    def config_help(self):
        """``CONFIG HELP``: Lists the subcommands."""
        return self._run(_CONFIG_HELP)

    def config_resetstat(self):
        """``CONFIG RESETSTAT``: Resets the statistics of the server."""
        return self._run(_CONFIG_RESETSTAT)

    def config_rewrite(self):
        """``CONFIG REWRITE``: Writes the configuration in effect to the configuration file."""
        return self._run(_CONFIG_REWRITE)

    def dbsize(self):
        """``DBSIZE``: Returns the number of keys in the database."""
        return self._run(_DBSIZE)

    def delete(self, *names):
        """``DEL key [key ...]``: Deletes keys."""
        return self._run(_DEL, *_spread(names))

    def delex(self, name, ifeq=None, ifne=None, ifdeq=None, ifdne=None):
        """``DELEX key [IFEQ ifeq-value | IFNE ifne-value | IFDEQ ifdeq-digest | IFDNE ifdne-digest]``: Deletes a key if its string, or the digest of it, compares as demanded."""
        call = []
        call.append(name)
        if ifeq is not None:
            call += ("IFEQ",)
            call.append(ifeq)
        if ifne is not None:
            call += ("IFNE",)
            call.append(ifne)
        if ifdeq is not None:
            call += ("IFDEQ",)
            call.append(ifdeq)
        if ifdne is not None:
            call += ("IFDNE",)
            call.append(ifdne)
        return self._run(_DELEX, *call)

    def delifeq(self, name, value):
        """``DELIFEQ key value``: Deletes a key if it holds the given string."""
        return self._run(_DELIFEQ, name, value)

    def digest(self, name):
        """``DIGEST key``: Returns the digest of the string stored at a key, in hexadecimal."""
        return self._run(_DIGEST, name)

    def dump(self, name):
        """``DUMP key``: Returns the serialised form of the value stored at a key."""
        return self._run(_DUMP, name)

    def echo(self, value):
        """``ECHO message``: Answers with the message given."""
        return self._run(_ECHO, value)

    def exists(self, *names):
        """``EXISTS key [key ...]``: Counts those of the given keys that exist."""
        return self._run(_EXISTS, *_spread(names))

    def expiretime(self, key):
        """``EXPIRETIME key``: Returns the Unix time in seconds at which a key expires."""
        return self._run(_EXPIRETIME, key)

    def failover(self, *, to=None, force=False, abort=False, timeout=None):
        """``FAILOVER [TO host port [FORCE]] [ABORT] [TIMEOUT milliseconds]``: Hands the role of the primary over to a replica."""
        call = []
        if to is not None:
            call += ("TO",)
            call += _values(to)
        if force:
            call += ("FORCE",)
        if abort:
            call += ("ABORT",)
        if timeout is not None:
            call += ("TIMEOUT",)
            call.append(timeout)
        return self._run(_FAILOVER, *call)

    def ft_aggregate(self, index, query, *steps):
        """``FT.AGGREGATE index query [step [step ...]]``: Returns documents of an index that match a query, computed, grouped and sorted in steps."""
        return self._run(_FT_AGGREGATE, index, query, *_spread(steps))

    def ft_aliasadd(self, alias, index):
        """``FT.ALIASADD alias index``: Gives an index another name."""
        return self._run(_FT_ALIASADD, alias, index)

    def ft_aliasdel(self, alias):
        """``FT.ALIASDEL alias``: Removes another name of an index."""
        return self._run(_FT_ALIASDEL, alias)

    def ft_aliasupdate(self, alias, index):
        """``FT.ALIASUPDATE alias index``: Gives an index another name, which another index may have had."""
        return self._run(_FT_ALIASUPDATE, alias, index)

    def ft_alter(self, index, *fields, skipinitialscan=False):
        """``FT.ALTER index [SKIPINITIALSCAN] SCHEMA ADD field [field ...]``: Adds fields to an index."""
        call = []
        call.append(index)
        if skipinitialscan:
            call += ("SKIPINITIALSCAN",)
        call.append("SCHEMA")
        call.append("ADD")
        call += _spread(fields)
        return self._run(_FT_ALTER, *call)

    def ft_config(self, action, option, value=None):
        """``FT.CONFIG <GET | SET | HELP> option [value]``: Reads, sets or explains parameters of the query engine."""
        call = []
        call.append(action)
        call.append(option)
        if value is not None:
            call.append(value)
        return self._run(_FT_CONFIG, *call)

    def ft_create(self, index, *fields, on=None, prefix=None, language=None, language_field=None, score=None, score_field=None, payload_field=None, maxtextfields=False, nooffsets=False, nohl=False, nofields=False, nofreqs=False, stopwords=None, skipinitialscan=False, indexall=None):
        """``FT.CREATE index [ON <HASH | JSON>] [PREFIX count prefix [prefix ...]] [LANGUAGE language] [LANGUAGE_FIELD language-field] [SCORE score] [SCORE_FIELD score-field] [PAYLOAD_FIELD payload-field] [MAXTEXTFIELDS] [NOOFFSETS] [NOHL] [NOFIELDS] [NOFREQS] [STOPWORDS count stopword [stopword ...]] [SKIPINITIALSCAN] [INDEXALL <ENABLE | DISABLE>] SCHEMA field [field ...]``: Creates an index of hashes whose keys begin with a prefix."""
        call = []
        call.append(index)
        if on is not None:
            call += ("ON",)
            call.append(on)
        if prefix is not None:
            call += ("PREFIX",)
            call += _values(prefix)
        if language is not None:
            call += ("LANGUAGE",)
            call.append(language)
        if language_field is not None:
            call += ("LANGUAGE_FIELD",)
            call.append(language_field)
        if score is not None:
            call += ("SCORE",)
            call.append(score)
        if score_field is not None:
            call += ("SCORE_FIELD",)
            call.append(score_field)
        if payload_field is not None:
            call += ("PAYLOAD_FIELD",)
            call.append(payload_field)
        if maxtextfields:
            call += ("MAXTEXTFIELDS",)
        if nooffsets:
            call += ("NOOFFSETS",)
        if nohl:
            call += ("NOHL",)
        if nofields:
            call += ("NOFIELDS",)
        if nofreqs:
            call += ("NOFREQS",)
        if stopwords is not None:
            call += ("STOPWORDS",)
            call += _values(stopwords)
        if skipinitialscan:
            call += ("SKIPINITIALSCAN",)
        if indexall is not None:
            call += ("INDEXALL",)
            call.append(indexall)
        call.append("SCHEMA")
        call += _spread(fields)
        return self._run(_FT_CREATE, *call)

    def ft_cursor(self, action, index, cursor_id, *, count=None):
        """``FT.CURSOR <READ | DEL | GC> index cursor-id [COUNT read-size]``: Reads further results of an aggregation, or ends it."""
        call = []
        call.append(action)
        call.append(index)
        call.append(cursor_id)
        if count is not None:
            call += ("COUNT",)
            call.append(count)
        return self._run(_FT_CURSOR, *call)

    def ft_dictadd(self, dictionary, *terms):
        """``FT.DICTADD dictionary term [term ...]``: Adds words to a dictionary for spelling suggestions."""
        return self._run(_FT_DICTADD, dictionary, *_spread(terms))

    def ft_dictdel(self, dictionary, *terms):
        """``FT.DICTDEL dictionary term [term ...]``: Removes words from a dictionary for spelling suggestions."""
        return self._run(_FT_DICTDEL, dictionary, *_spread(terms))

    def ft_dictdump(self, dictionary):
        """``FT.DICTDUMP dictionary``: Returns the words of a dictionary."""
        return self._run(_FT_DICTDUMP, dictionary)

    def ft_dropindex(self, index, *, dd=False):
        """``FT.DROPINDEX index [DD]``: Drops an index, and with DD its documents."""
        call = []
        call.append(index)
        if dd:
            call += ("DD",)
        return self._run(_FT_DROPINDEX, *call)

    def ft_explain(self, index, query, *, dialect=None):
        """``FT.EXPLAIN index query [DIALECT dialect]``: Returns how a query is understood, as text."""
        call = []
        call.append(index)
        call.append(query)
        if dialect is not None:
            call += ("DIALECT",)
            call.append(dialect)
        return self._run(_FT_EXPLAIN, *call)

    def ft_explaincli(self, index, query, *, dialect=None):
        """``FT.EXPLAINCLI index query [DIALECT dialect]``: Returns how a query is understood, as lines."""
        call = []
        call.append(index)
        call.append(query)
        if dialect is not None:
            call += ("DIALECT",)
            call.append(dialect)
        return self._run(_FT_EXPLAINCLI, *call)

    def ft_info(self, index):
        """``FT.INFO index``: Returns the definition of an index and figures about it."""
        return self._run(_FT_INFO, index)

    def ft_search(self, index, query, *, nocontent=False, verbatim=False, nostopwords=False, withscores=False, withpayloads=False, withsortkeys=False, filter=None, geofilter=None, inkeys=None, infields=None, return_=None, summarize=False, fields=None, frags=None, len=None, separator=None, highlight=False, fields2=None, tags=None, slop=None, timeout=None, inorder=False, language=None, expander=None, scorer=None, explainscore=False, payload=None, sortby=None, asc=False, desc=False, limit=None, params=None, dialect=None):
        """``FT.SEARCH index query [NOCONTENT] [VERBATIM] [NOSTOPWORDS] [WITHSCORES] [WITHPAYLOADS] [WITHSORTKEYS] [FILTER numeric-field min max] [GEOFILTER geo-field lon lat radius unit] [INKEYS count key [key ...]] [INFIELDS count field [field ...]] [RETURN count identifier [identifier ...]] [SUMMARIZE [FIELDS count field [field ...]] [FRAGS num] [LEN fragsize] [SEPARATOR separator]] [HIGHLIGHT [FIELDS count field [field ...]] [TAGS open close]] [SLOP slop] [TIMEOUT timeout] [INORDER] [LANGUAGE language] [EXPANDER expander] [SCORER scorer] [EXPLAINSCORE] [PAYLOAD payload] [SORTBY sortby [ASC | DESC]] [LIMIT offset num] [PARAMS nargs values [values ...]] [DIALECT dialect]``: Returns documents of an index that match a query."""
        call = []
        call.append(index)
        call.append(query)
        if nocontent:
            call += ("NOCONTENT",)
        if verbatim:
            call += ("VERBATIM",)
        if nostopwords:
            call += ("NOSTOPWORDS",)
        if withscores:
            call += ("WITHSCORES",)
        if withpayloads:
            call += ("WITHPAYLOADS",)
        if withsortkeys:
            call += ("WITHSORTKEYS",)
        if filter is not None:
            call += ("FILTER",)
            call += _values(filter)
        if geofilter is not None:
            call += ("GEOFILTER",)
            call += _values(geofilter)
        if inkeys is not None:
            call += ("INKEYS",)
            call += _values(inkeys)
        if infields is not None:
            call += ("INFIELDS",)
            call += _values(infields)
        if return_ is not None:
            call += ("RETURN",)
            call += _values(return_)
        if summarize:
            call += ("SUMMARIZE",)
        if fields is not None:
            call += ("FIELDS",)
            call += _values(fields)
        if frags is not None:
            call += ("FRAGS",)
            call.append(frags)
        if len is not None:
            call += ("LEN",)
            call.append(len)
        if separator is not None:
            call += ("SEPARATOR",)
            call.append(separator)
        if highlight:
            call += ("HIGHLIGHT",)
        if fields2 is not None:
            call += ("FIELDS",)
            call += _values(fields2)
        if tags is not None:
            call += ("TAGS",)
            call += _values(tags)
        if slop is not None:
            call += ("SLOP",)
            call.append(slop)
        if timeout is not None:
            call += ("TIMEOUT",)
            call.append(timeout)
        if inorder:
            call += ("INORDER",)
        if language is not None:
            call += ("LANGUAGE",)
            call.append(language)
        if expander is not None:
            call += ("EXPANDER",)
            call.append(expander)
        if scorer is not None:
            call += ("SCORER",)
            call.append(scorer)
        if explainscore:
            call += ("EXPLAINSCORE",)
        if payload is not None:
            call += ("PAYLOAD",)
            call.append(payload)
        if sortby is not None:
            call += ("SORTBY",)
            call.append(sortby)
        if asc:
            call += ("ASC",)
        if desc:
            call += ("DESC",)
        if limit is not None:
            call += ("LIMIT",)
            call += _values(limit)
        if params is not None:
            call += ("PARAMS",)
            call += _values(params)
        if dialect is not None:
            call += ("DIALECT",)
            call.append(dialect)
        return self._run(_FT_SEARCH, *call)

    def ft_spellcheck(self, index, query, *, distance=None, terms=None, dialect=None):
        """``FT.SPELLCHECK index query [DISTANCE distance] [TERMS <INCLUDE | EXCLUDE> dictionary] [DIALECT dialect]``: Returns terms of an index and of dictionaries that are close to unknown words of a query."""
        call = []
        call.append(index)
        call.append(query)
        if distance is not None:
            call += ("DISTANCE",)
            call.append(distance)
        if terms is not None:
            call += ("TERMS",)
            call += _values(terms)
        if dialect is not None:
            call += ("DIALECT",)
            call.append(dialect)
        return self._run(_FT_SPELLCHECK, *call)

    def ft_sugadd(self, name, string, score, *, incr=False, payload=None):
        """``FT.SUGADD key string score [INCR] [PAYLOAD payload]``: Adds a term to suggestions."""
        call = []
        call.append(name)
        call.append(string)
        call.append(score)
        if incr:
            call += ("INCR",)
        if payload is not None:
            call += ("PAYLOAD",)
            call.append(payload)
        return self._run(_FT_SUGADD, *call)

    def ft_sugdel(self, name, string):
        """``FT.SUGDEL key string``: Removes a term from suggestions."""
        return self._run(_FT_SUGDEL, name, string)

    def ft_sugget(self, name, prefix, *, fuzzy=False, withscores=False, withpayloads=False, max=None):
        """``FT.SUGGET key prefix [FUZZY] [WITHSCORES] [WITHPAYLOADS] [MAX max]``: Returns the best suggestions that begin with a prefix."""
        call = []
        call.append(name)
        call.append(prefix)
        if fuzzy:
            call += ("FUZZY",)
        if withscores:
            call += ("WITHSCORES",)
        if withpayloads:
            call += ("WITHPAYLOADS",)
        if max is not None:
            call += ("MAX",)
            call.append(max)
        return self._run(_FT_SUGGET, *call)

    def ft_suglen(self, name):
        """``FT.SUGLEN key``: Returns the number of suggestions."""
        return self._run(_FT_SUGLEN, name)

    def ft_syndump(self, index):
        """``FT.SYNDUMP index``: Returns the words of an index that have synonyms, with their groups."""
        return self._run(_FT_SYNDUMP, index)

    def ft_synupdate(self, index, synonym_group_id, *terms, skipinitialscan=False):
        """``FT.SYNUPDATE index synonym-group-id [SKIPINITIALSCAN] term [term ...]``: Adds words to a group of synonyms of an index."""
        call = []
        call.append(index)
        call.append(synonym_group_id)
        if skipinitialscan:
            call += ("SKIPINITIALSCAN",)
        call += _spread(terms)
        return self._run(_FT_SYNUPDATE, *call)

    def ft_tagvals(self, index, field_name):
        """``FT.TAGVALS index field-name``: Returns the tags of a TAG field."""
        return self._run(_FT_TAGVALS, index, field_name)

    def ft__list(self):
        """``FT._LIST``: Returns the names of the indexes of the database."""
        return self._run(_FT__LIST)

    def function_delete(self, library):
        """``FUNCTION DELETE library-name``: Deletes a library with its functions."""
        return self._run(_FUNCTION_DELETE, library)

    def function_dump(self):
        """``FUNCTION DUMP``: Returns all libraries as bytes."""
        return self._run(_FUNCTION_DUMP)

    def function_help(self):
        """``FUNCTION HELP``: Lists the subcommands."""
        return self._run(_FUNCTION_HELP)

    def function_kill(self):
        """``FUNCTION KILL``: Ends the function that is running, unless it has written."""
        return self._run(_FUNCTION_KILL)

    def function_list(self, library=None, withcode=False):
        """``FUNCTION LIST [LIBRARYNAME library-name-pattern] [WITHCODE]``: Lists libraries with their functions."""
        call = []
        if library is not None:
            call += ("LIBRARYNAME",)
            call.append(library)
        if withcode:
            call += ("WITHCODE",)
        return self._run(_FUNCTION_LIST, *call)

    def function_load(self, code, replace=False):
        """``FUNCTION LOAD [REPLACE] function-code``: Creates a library."""
        call = []
        if replace:
            call += ("REPLACE",)
        call.append(code)
        return self._run(_FUNCTION_LOAD, *call)

    def function_stats(self):
        """``FUNCTION STATS``: Tells which function is running, and how many there are."""
        return self._run(_FUNCTION_STATS)

    def geohash(self, name, *members):
        """``GEOHASH key [member [member ...]]``: Returns the geohash strings of members of a geographic index."""
        return self._run(_GEOHASH, name, *_spread(members))

    def geopos(self, name, *members):
        """``GEOPOS key [member [member ...]]``: Returns longitude and latitude of members of a geographic index."""
        return self._run(_GEOPOS, name, *_spread(members))

    def georadiusbymember_ro(self, name, member, radius, unit, *, withcoord=False, withdist=False, withhash=False, count=None, any=False, asc=False, desc=False):
        """``GEORADIUSBYMEMBER_RO key member radius <M | KM | FT | MI> [WITHCOORD] [WITHDIST] [WITHHASH] [COUNT count [ANY]] [ASC | DESC]``: Finds the members of a geographic index within a distance of one of them."""
        call = []
        call.append(name)
        call.append(member)
        call.append(radius)
        call.append(unit)
        if withcoord:
            call += ("WITHCOORD",)
        if withdist:
            call += ("WITHDIST",)
        if withhash:
            call += ("WITHHASH",)
        if count is not None:
            call += ("COUNT",)
            call.append(count)
        if any:
            call += ("ANY",)
        if asc:
            call += ("ASC",)
        if desc:
            call += ("DESC",)
        return self._run(_GEORADIUSBYMEMBER_RO_WITHHASH if withhash else _GEORADIUSBYMEMBER_RO_WITHDIST if withdist else _GEORADIUSBYMEMBER_RO_WITHCOORD if withcoord else _GEORADIUSBYMEMBER_RO, *call)

    def georadius_ro(self, name, longitude, latitude, radius, unit, *, withcoord=False, withdist=False, withhash=False, count=None, any=False, asc=False, desc=False):
        """``GEORADIUS_RO key longitude latitude radius <M | KM | FT | MI> [WITHCOORD] [WITHDIST] [WITHHASH] [COUNT count [ANY]] [ASC | DESC]``: Finds the members of a geographic index within a distance of a place."""
        call = []
        call.append(name)
        call.append(longitude)
        call.append(latitude)
        call.append(radius)
        call.append(unit)
        if withcoord:
            call += ("WITHCOORD",)
        if withdist:
            call += ("WITHDIST",)
        if withhash:
            call += ("WITHHASH",)
        if count is not None:
            call += ("COUNT",)
            call.append(count)
        if any:
            call += ("ANY",)
        if asc:
            call += ("ASC",)
        if desc:
            call += ("DESC",)
        return self._run(_GEORADIUS_RO_WITHHASH if withhash else _GEORADIUS_RO_WITHDIST if withdist else _GEORADIUS_RO_WITHCOORD if withcoord else _GEORADIUS_RO, *call)

    def get(self, name):
        """``GET key``: Returns the string stored at a key."""
        return self._run(_GET, name)

    def getbit(self, name, offset):
        """``GETBIT key offset``: Reads one bit of a string; 0 beyond its end."""
        return self._run(_GETBIT, name, offset)

    def getdel(self, name):
        """``GETDEL key``: Returns the string stored at a key and deletes the key."""
        return self._run(_GETDEL, name)

    def getrange(self, key, start, end):
        """``GETRANGE key start end``: Returns a part of the string stored at a key."""
        return self._run(_GETRANGE, key, start, end)

    def getset(self, name, value):
        """``GETSET key value``: Stores a string at a key and returns the string it replaces."""
        return self._run(_GETSET, name, value)

    def hdel(self, name, *fields):
        """``HDEL key field [field ...]``: Removes fields from a hash, and the hash with its last field."""
        return self._run(_HDEL, name, *_spread(fields))

    def hello(self, *, protover=None, auth=None, setname=None):
        """``HELLO [protover [AUTH username password] [SETNAME clientname]]``: Chooses the protocol version and describes the server."""
        call = []
        if protover is not None:
            call.append(protover)
        if auth is not None:
            call += ("AUTH",)
            call += _values(auth)
        if setname is not None:
            call += ("SETNAME",)
            call.append(setname)
        return self._run(_HELLO, *call)

    def hexists(self, name, key):
        """``HEXISTS key field``: Tells whether a hash has a field."""
        return self._run(_HEXISTS, name, key)

    def hexpire(self, name, seconds, *fields, nx=False, xx=False, gt=False, lt=False):
        """``HEXPIRE key seconds [NX | XX | GT | LT] FIELDS numfields field [field ...]``: Gives fields a time to live in seconds."""
        call = []
        call.append(name)
        call.append(seconds)
        if nx:
            call += ("NX",)
        if xx:
            call += ("XX",)
        if gt:
            call += ("GT",)
        if lt:
            call += ("LT",)
        call.append("FIELDS")
        call += _counted(fields)
        return self._run(_HEXPIRE, *call)

    def hexpireat(self, name, unix_time_seconds, *fields, nx=False, xx=False, gt=False, lt=False):
        """``HEXPIREAT key unix-time-seconds [NX | XX | GT | LT] FIELDS numfields field [field ...]``: Sets the Unix time, in seconds, at which fields expire."""
        call = []
        call.append(name)
        call.append(unix_time_seconds)
        if nx:
            call += ("NX",)
        if xx:
            call += ("XX",)
        if gt:
            call += ("GT",)
        if lt:
            call += ("LT",)
        call.append("FIELDS")
        call += _counted(fields)
        return self._run(_HEXPIREAT, *call)

    def hexpiretime(self, key, *fields):
        """``HEXPIRETIME key FIELDS numfields field [field ...]``: Returns the Unix time, in seconds, at which fields expire."""
        return self._run(_HEXPIRETIME, key, "FIELDS", *_counted(fields))

    def hget(self, name, key):
        """``HGET key field``: Returns the value of a field."""
        return self._run(_HGET, name, key)

    def hgetall(self, name):
        """``HGETALL key``: Returns every field of a hash with its value."""
        return self._run(_HGETALL, name)

    def hgetdel(self, name, *fields):
        """``HGETDEL key FIELDS numfields field [field ...]``: Returns the values of fields and removes the fields."""
        return self._run(_HGETDEL, name, "FIELDS", *_counted(fields))

    def hgetex(self, name, *fields, ex=None, px=None, exat=None, pxat=None, persist=False):
        """``HGETEX key [EX seconds | PX milliseconds | EXAT unix-time-seconds | PXAT unix-time-milliseconds | PERSIST] FIELDS numfields field [field ...]``: Returns the values of fields and changes their expiry."""
        call = []
        call.append(name)
        if ex is not None:
            call += ("EX",)
            call.append(ex)
        if px is not None:
            call += ("PX",)
            call.append(px)
        if exat is not None:
            call += ("EXAT",)
            call.append(exat)
        if pxat is not None:
            call += ("PXAT",)
            call.append(pxat)
        if persist:
            call += ("PERSIST",)
        call.append("FIELDS")
        call += _counted(fields)
        return self._run(_HGETEX, *call)

    def himport_discard(self, fieldset_name):
        """``HIMPORT DISCARD fieldset-name``: Forgets a fieldset of this connection."""
        return self._run(_HIMPORT_DISCARD, fieldset_name)

    def himport_discardall(self):
        """``HIMPORT DISCARDALL``: Forgets all fieldsets of this connection."""
        return self._run(_HIMPORT_DISCARDALL)

    def himport_prepare(self, fieldset_name, fields):
        """``HIMPORT PREPARE fieldset-name field [field ...]``: Names the fields of hashes that this connection is going to make."""
        return self._run(_HIMPORT_PREPARE, fieldset_name, *_spread(fields))

    def himport_set(self, key, fieldset_name, values):
        """``HIMPORT SET key fieldset-name value [value ...]``: Makes a hash of values, one for each field of a fieldset."""
        return self._run(_HIMPORT_SET, key, fieldset_name, *_spread(values))

    def hkeys(self, name):
        """``HKEYS key``: Returns every field of a hash."""
        return self._run(_HKEYS, name)

    def hlen(self, name):
        """``HLEN key``: Returns how many fields a hash has."""
        return self._run(_HLEN, name)

    def hmget(self, name, keys, *args):
        """``HMGET key field [field ...]``: Returns the values of several fields."""
        return self._run(_HMGET, name, *_spread((keys, *args)))

    def hmset(self, name, mapping):
        """``HMSET key field value [field value ...]``: Sets fields of a hash."""
        return self._run(_HMSET, name, *_pairs(mapping))

    def hotkeys_get(self):
        """``HOTKEYS GET``: Returns the keys that cost most."""
        return self._run(_HOTKEYS_GET)

    def hotkeys_help(self):
        """``HOTKEYS HELP``: Lists the subcommands."""
        return self._run(_HOTKEYS_HELP)

    def hotkeys_reset(self):
        """``HOTKEYS RESET``: Forgets what was collected."""
        return self._run(_HOTKEYS_RESET)

    def hotkeys_stop(self):
        """``HOTKEYS STOP``: Ends the collection, and keeps what was collected."""
        return self._run(_HOTKEYS_STOP)

    def hpersist(self, name, *fields):
        """``HPERSIST key FIELDS numfields field [field ...]``: Makes fields persist that have a time to live."""
        return self._run(_HPERSIST, name, "FIELDS", *_counted(fields))

    def hpexpire(self, name, milliseconds, *fields, nx=False, xx=False, gt=False, lt=False):
        """``HPEXPIRE key milliseconds [NX | XX | GT | LT] FIELDS numfields field [field ...]``: Gives fields a time to live in milliseconds."""
        call = []
        call.append(name)
        call.append(milliseconds)
        if nx:
            call += ("NX",)
        if xx:
            call += ("XX",)
        if gt:
            call += ("GT",)
        if lt:
            call += ("LT",)
        call.append("FIELDS")
        call += _counted(fields)
        return self._run(_HPEXPIRE, *call)

    def hpexpireat(self, name, unix_time_milliseconds, *fields, nx=False, xx=False, gt=False, lt=False):
        """``HPEXPIREAT key unix-time-milliseconds [NX | XX | GT | LT] FIELDS numfields field [field ...]``: Sets the Unix time, in milliseconds, at which fields expire."""
        call = []
        call.append(name)
        call.append(unix_time_milliseconds)
        if nx:
            call += ("NX",)
        if xx:
            call += ("XX",)
        if gt:
            call += ("GT",)
        if lt:
            call += ("LT",)
        call.append("FIELDS")
        call += _counted(fields)
        return self._run(_HPEXPIREAT, *call)

    def hpexpiretime(self, key, *fields):
        """``HPEXPIRETIME key FIELDS numfields field [field ...]``: Returns the Unix time, in milliseconds, at which fields expire."""
        return self._run(_HPEXPIRETIME, key, "FIELDS", *_counted(fields))

    def hpttl(self, key, *fields):
        """``HPTTL key FIELDS numfields field [field ...]``: Returns the time that fields have to live, in milliseconds."""
        return self._run(_HPTTL, key, "FIELDS", *_counted(fields))

    def hrandfield(self, key, count=None, withvalues=False):
        """``HRANDFIELD key [count [WITHVALUES]]``: Returns fields drawn at random from a hash."""
        call = []
        call.append(key)
        if count is not None:
            call.append(count)
        if withvalues:
            call += ("WITHVALUES",)
        return self._run(_HRANDFIELD_WITHVALUES if withvalues else _HRANDFIELD_COUNT if count is not None else _HRANDFIELD, *call)

    def hsetnx(self, name, key, value):
        """``HSETNX key field value``: Sets a field of a hash if the hash does not have it."""
        return self._run(_HSETNX, name, key, value)

    def hstrlen(self, name, key):
        """``HSTRLEN key field``: Returns the length of a field's value."""
        return self._run(_HSTRLEN, name, key)

    def httl(self, key, *fields):
        """``HTTL key FIELDS numfields field [field ...]``: Returns the time that fields have to live, in seconds."""
        return self._run(_HTTL, key, "FIELDS", *_counted(fields))

    def hvals(self, name):
        """``HVALS key``: Returns every value of a hash."""
        return self._run(_HVALS, name)

    def increx(self, name, *, byfloat=None, byint=None, saturate=False, lbound=None, ubound=None, ex=None, px=None, exat=None, pxat=None, persist=False, enx=False):
        """``INCREX key [BYFLOAT float | BYINT integer] [SATURATE] [LBOUND lowerbound] [UBOUND upperbound] [EX seconds | PX milliseconds | EXAT unix-time-seconds | PXAT unix-time-milliseconds | PERSIST] [ENX]``: Adds to the number stored at a key within bounds and sets the key's expiry."""
        call = []
        call.append(name)
        if byfloat is not None:
            call += ("BYFLOAT",)
            call.append(byfloat)
        if byint is not None:
            call += ("BYINT",)
            call.append(byint)
        if saturate:
            call += ("SATURATE",)
        if lbound is not None:
            call += ("LBOUND",)
            call.append(lbound)
        if ubound is not None:
            call += ("UBOUND",)
            call.append(ubound)
        if ex is not None:
            call += ("EX",)
            call.append(ex)
        if px is not None:
            call += ("PX",)
            call.append(px)
        if exat is not None:
            call += ("EXAT",)
            call.append(exat)
        if pxat is not None:
            call += ("PXAT",)
            call.append(pxat)
        if persist:
            call += ("PERSIST",)
        if enx:
            call += ("ENX",)
        return self._run(_INCREX, *call)

    def json_arrappend(self, name, *values, path=None):
        """``JSON.ARRAPPEND key [path] value [value ...]``: Appends values to the arrays at a path of a JSON document."""
        call = []
        call.append(name)
        if path is not None:
            call.append(path)
        call += _spread(values)
        return self._run(_JSON_ARRAPPEND, *call)

    def json_arrindex(self, name, path, value, *, start=None, stop=None):
        """``JSON.ARRINDEX key path value [start [stop]]``: Returns where a value is first found in the arrays at a path of a JSON document."""
        call = []
        call.append(name)
        call.append(path)
        call.append(value)
        if start is not None:
            call.append(start)
        if stop is not None:
            call.append(stop)
        return self._run(_JSON_ARRINDEX, *call)

    def json_arrinsert(self, name, path, index, *values):
        """``JSON.ARRINSERT key path index value [value ...]``: Inserts values into the arrays at a path of a JSON document."""
        return self._run(_JSON_ARRINSERT, name, path, index, *_spread(values))

    def json_arrlen(self, name, path=None):
        """``JSON.ARRLEN key [path]``: Returns the lengths of the arrays at a path of a JSON document."""
        call = []
        call.append(name)
        if path is not None:
            call.append(path)
        return self._run(_JSON_ARRLEN, *call)

    def json_arrpop(self, name, *, path=None, index=None):
        """``JSON.ARRPOP key [path [index]]``: Removes an element of each of the arrays at a path of a JSON document and returns them as text."""
        call = []
        call.append(name)
        if path is not None:
            call.append(path)
        if index is not None:
            call.append(index)
        return self._run(_JSON_ARRPOP, *call)

    def json_arrtrim(self, name, path, start, stop):
        """``JSON.ARRTRIM key path start stop``: Removes the elements outside of a range from the arrays at a path of a JSON document."""
        return self._run(_JSON_ARRTRIM, name, path, start, stop)

    def json_clear(self, name, path=None):
        """``JSON.CLEAR key [path]``: Empties the arrays and objects at a path of a JSON document, and sets its numbers to 0."""
        call = []
        call.append(name)
        if path is not None:
            call.append(path)
        return self._run(_JSON_CLEAR, *call)

    def json_debug(self, *, help=False, memory=None, path=None):
        """``JSON.DEBUG <HELP | MEMORY key [path]>``: Returns how many bytes the values at a path of a JSON document take, or which subcommands there are."""
        call = []
        if help:
            call += ("HELP",)
        if memory is not None:
            call += ("MEMORY",)
            call += _values(memory)
        if path is not None:
            call.append(path)
        return self._run(_JSON_DEBUG, *call)

    def json_del(self, name, path=None):
        """``JSON.DEL key [path]``: Removes the values at a path of a JSON document, or the document."""
        call = []
        call.append(name)
        if path is not None:
            call.append(path)
        return self._run(_JSON_DEL, *call)

    def json_forget(self, name, path=None):
        """``JSON.FORGET key [path]``: Removes the values at a path of a JSON document, or the document."""
        call = []
        call.append(name)
        if path is not None:
            call.append(path)
        return self._run(_JSON_FORGET, *call)

    def json_get(self, name, *paths, indent=None, newline=None, space=None):
        """``JSON.GET key [INDENT indent] [NEWLINE newline] [SPACE space] [path [path ...]]``: Returns the values at paths of a JSON document as text."""
        call = []
        call.append(name)
        if indent is not None:
            call += ("INDENT",)
            call.append(indent)
        if newline is not None:
            call += ("NEWLINE",)
            call.append(newline)
        if space is not None:
            call += ("SPACE",)
            call.append(space)
        call += _spread(paths)
        return self._run(_JSON_GET, *call)

    def json_merge(self, name, path, value):
        """``JSON.MERGE key path value``: Merges a JSON value into those at a path, as RFC 7396 merges a patch."""
        return self._run(_JSON_MERGE, name, path, value)

    def json_mget(self, names, path):
        """``JSON.MGET key [key ...] path``: Returns the values at a path of each of several JSON documents as text."""
        return self._run(_JSON_MGET, *_spread(names), path)

    def json_mset(self, *triplets):
        """``JSON.MSET key path value [key path value ...]``: Sets values at a path of each of several JSON documents: all, or none if anything is wrong with a path or a value."""
        return self._run(_JSON_MSET, *_spread(triplets))

    def json_numincrby(self, name, path, value):
        """``JSON.NUMINCRBY key path value``: Adds to the numbers at a path of a JSON document."""
        return self._run(_JSON_NUMINCRBY, name, path, value)

    def json_nummultby(self, name, path, value):
        """``JSON.NUMMULTBY key path value``: Multiplies the numbers at a path of a JSON document."""
        return self._run(_JSON_NUMMULTBY, name, path, value)

    def json_numpowby(self, name, path, value):
        """``JSON.NUMPOWBY key path value``: Raises the numbers at a path of a JSON document to a power."""
        return self._run(_JSON_NUMPOWBY, name, path, value)

    def json_objkeys(self, name, path=None):
        """``JSON.OBJKEYS key [path]``: Returns the names of the members of the objects at a path of a JSON document."""
        call = []
        call.append(name)
        if path is not None:
            call.append(path)
        return self._run(_JSON_OBJKEYS, *call)

    def json_objlen(self, name, path=None):
        """``JSON.OBJLEN key [path]``: Returns how many members the objects at a path of a JSON document have."""
        call = []
        call.append(name)
        if path is not None:
            call.append(path)
        return self._run(_JSON_OBJLEN, *call)

    def json_resp(self, name, path=None):
        """``JSON.RESP key [path]``: Returns the values at a path of a JSON document as replies."""
        call = []
        call.append(name)
        if path is not None:
            call.append(path)
        return self._run(_JSON_RESP, *call)

    def json_set(self, name, path, value, *, nx=False, xx=False, fpha=None):
        """``JSON.SET key path value [NX | XX] [FPHA <FP16 | BF16 | FP32 | FP64>]``: Sets the values at a path of a JSON document, adds a member to an object, or makes the document."""
        call = []
        call.append(name)
        call.append(path)
        call.append(value)
        if nx:
            call += ("NX",)
        if xx:
            call += ("XX",)
        if fpha is not None:
            call += ("FPHA",)
            call.append(fpha)
        return self._run(_JSON_SET, *call)

    def json_strappend(self, name, value, *, path=None):
        """``JSON.STRAPPEND key [path] value``: Appends to the strings at a path of a JSON document."""
        call = []
        call.append(name)
        if path is not None:
            call.append(path)
        call.append(value)
        return self._run(_JSON_STRAPPEND, *call)

    def json_strlen(self, name, path=None):
        """``JSON.STRLEN key [path]``: Returns the lengths of the strings at a path of a JSON document."""
        call = []
        call.append(name)
        if path is not None:
            call.append(path)
        return self._run(_JSON_STRLEN, *call)

    def json_toggle(self, name, path):
        """``JSON.TOGGLE key path``: Turns the booleans at a path of a JSON document over."""
        return self._run(_JSON_TOGGLE, name, path)

    def json_type(self, name, path=None):
        """``JSON.TYPE key [path]``: Returns the types of the values at a path of a JSON document."""
        call = []
        call.append(name)
        if path is not None:
            call.append(path)
        return self._run(_JSON_TYPE, *call)

    def lastsave(self):
        """``LASTSAVE``: Returns the Unix time at which the data was last saved."""
        return self._run(_LASTSAVE)

    def latency_doctor(self):
        """``LATENCY DOCTOR``: Reports on problems with latency."""
        return self._run(_LATENCY_DOCTOR)

    def latency_graph(self, event):
        """``LATENCY GRAPH event``: Draws the recent latency of an event."""
        return self._run(_LATENCY_GRAPH, event)

    def latency_help(self):
        """``LATENCY HELP``: Lists the subcommands."""
        return self._run(_LATENCY_HELP)

    def latency_histogram(self, *commands):
        """``LATENCY HISTOGRAM [command [command ...]]``: Returns the distribution of the latency of commands."""
        return self._run(_LATENCY_HISTOGRAM, *_spread(commands))

    def latency_history(self, event):
        """``LATENCY HISTORY event``: Returns the recent latency spikes of an event."""
        return self._run(_LATENCY_HISTORY, event)

    def latency_latest(self):
        """``LATENCY LATEST``: Returns the latest latency spike of each event."""
        return self._run(_LATENCY_LATEST)

    def latency_reset(self, *events):
        """``LATENCY RESET [event [event ...]]``: Forgets the latency spikes of events."""
        return self._run(_LATENCY_RESET, *_spread(events))

    def lcs(self, key1, key2, len=False, idx=False, minmatchlen=None, withmatchlen=False):
        """``LCS key1 key2 [LEN] [IDX] [MINMATCHLEN min-match-len] [WITHMATCHLEN]``: Finds the longest common subsequence of two strings."""
        call = []
        call.append(key1)
        call.append(key2)
        if len:
            call += ("LEN",)
        if idx:
            call += ("IDX",)
        if minmatchlen is not None:
            call += ("MINMATCHLEN",)
            call.append(minmatchlen)
        if withmatchlen:
            call += ("WITHMATCHLEN",)
        return self._run(_LCS_LEN if len else _LCS_IDX if idx else _LCS, *call)

    def lindex(self, name, index):
        """``LINDEX key index``: Returns the element at a place of a list."""
        return self._run(_LINDEX, name, index)

    def linsert(self, name, where, refvalue, value):
        """``LINSERT key <BEFORE | AFTER> pivot element``: Puts an element beside the first one that equals a pivot."""
        return self._run(_LINSERT, name, where, refvalue, value)

    def llen(self, name):
        """``LLEN key``: Returns how many elements a list has."""
        return self._run(_LLEN, name)

    def lpop(self, name, count=None):
        """``LPOP key [count]``: Takes elements from the front of a list."""
        call = []
        call.append(name)
        if count is not None:
            call.append(count)
        return self._run(_LPOP_COUNT if count is not None else _LPOP, *call)

    def lpos(self, name, value, rank=None, count=None, maxlen=None):
        """``LPOS key element [RANK rank] [COUNT num-matches] [MAXLEN len]``: Tells at which places of a list an element is."""
        call = []
        call.append(name)
        call.append(value)
        if rank is not None:
            call += ("RANK",)
            call.append(rank)
        if count is not None:
            call += ("COUNT",)
            call.append(count)
        if maxlen is not None:
            call += ("MAXLEN",)
            call.append(maxlen)
        return self._run(_LPOS_COUNT if count is not None else _LPOS, *call)

    def lpush(self, name, *elements):
        """``LPUSH key element [element ...]``: Puts elements in front of a list, creating it if need be."""
        return self._run(_LPUSH, name, *_spread(elements))

    def lpushx(self, name, *elements):
        """``LPUSHX key element [element ...]``: Puts elements in front of a list that exists."""
        return self._run(_LPUSHX, name, *_spread(elements))

    def lrange(self, name, start, end):
        """``LRANGE key start stop``: Returns a run of a list's elements."""
        return self._run(_LRANGE, name, start, end)

    def lrem(self, name, count, value):
        """``LREM key count element``: Removes elements that equal a given one."""
        return self._run(_LREM, name, count, value)

    def lset(self, name, index, value):
        """``LSET key index element``: Replaces the element at a place of a list."""
        return self._run(_LSET, name, index, value)

    def ltrim(self, name, start, end):
        """``LTRIM key start stop``: Removes all of a list but a run of its elements."""
        return self._run(_LTRIM, name, start, end)

    def memory_doctor(self):
        """``MEMORY DOCTOR``: Reports on problems with memory."""
        return self._run(_MEMORY_DOCTOR)

    def memory_help(self):
        """``MEMORY HELP``: Lists the subcommands."""
        return self._run(_MEMORY_HELP)

    def memory_malloc_stats(self):
        """``MEMORY MALLOC-STATS``: Returns the statistics of the allocator."""
        return self._run(_MEMORY_MALLOC_STATS)

    def memory_purge(self):
        """``MEMORY PURGE``: Asks the allocator to return free memory to the system."""
        return self._run(_MEMORY_PURGE)

    def memory_stats(self):
        """``MEMORY STATS``: Returns a breakdown of the memory in use."""
        return self._run(_MEMORY_STATS)

    def memory_usage(self, key, samples=None):
        """``MEMORY USAGE key [SAMPLES count]``: Estimates the bytes that a key and its value take."""
        call = []
        call.append(key)
        if samples is not None:
            call += ("SAMPLES",)
            call.append(samples)
        return self._run(_MEMORY_USAGE, *call)

    def module_help(self):
        """``MODULE HELP``: Lists the subcommands."""
        return self._run(_MODULE_HELP)

    def module_list(self):
        """``MODULE LIST``: Lists the modules that are loaded."""
        return self._run(_MODULE_LIST)

    def module_load(self, path, *args):
        """``MODULE LOAD path [arg [arg ...]]``: Loads a module."""
        return self._run(_MODULE_LOAD, path, *_spread(args))

    def module_loadex(self, path, options=None, args=None):
        """``MODULE LOADEX path [CONFIG name value [CONFIG name value ...]] [ARGS args [args ...]]``: Loads a module with parameters of its own."""
        call = []
        call.append(path)
        if options is not None:
            for one in _values(options):
                call += ("CONFIG", *_values(one))
        if args is not None:
            call += ("ARGS",)
            call += _values(args)
        return self._run(_MODULE_LOADEX, *call)

    def module_unload(self, name):
        """``MODULE UNLOAD name``: Unloads a module."""
        return self._run(_MODULE_UNLOAD, name)

    def move(self, name, db):
        """``MOVE key db``: Moves a key to another database."""
        return self._run(_MOVE, name, db)

    def mset(self, mapping):
        """``MSET key value [key value ...]``: Stores strings at several keys at once."""
        return self._run(_MSET, *_pairs(mapping))

    def msetnx(self, mapping):
        """``MSETNX key value [key value ...]``: Stores strings at several keys if none of them exists."""
        return self._run(_MSETNX, *_pairs(mapping))

    def object_encoding(self, name):
        """``OBJECT ENCODING key``: Returns the name of the representation in which a value is stored."""
        return self._run(_OBJECT_ENCODING, name)

    def object_freq(self, name):
        """``OBJECT FREQ key``: Returns the access frequency of a key, on a logarithmic scale."""
        return self._run(_OBJECT_FREQ, name)

    def object_help(self):
        """``OBJECT HELP``: Lists the subcommands."""
        return self._run(_OBJECT_HELP)

    def object_idletime(self, name):
        """``OBJECT IDLETIME key``: Returns the seconds since a key was last accessed."""
        return self._run(_OBJECT_IDLETIME, name)

    def object_refcount(self, name):
        """``OBJECT REFCOUNT key``: Returns the number of references to the value of a key."""
        return self._run(_OBJECT_REFCOUNT, name)

    def persist(self, name):
        """``PERSIST key``: Removes the expiry of a key."""
        return self._run(_PERSIST, name)

    def pexpiretime(self, key):
        """``PEXPIRETIME key``: Returns the Unix time in milliseconds at which a key expires."""
        return self._run(_PEXPIRETIME, key)

    def pfadd(self, name, *elements):
        """``PFADD key [element [element ...]]``: Makes a HyperLogLog take note of elements."""
        return self._run(_PFADD, name, *_spread(elements))

    def pfcount(self, *names):
        """``PFCOUNT key [key ...]``: Estimates how many different elements HyperLogLogs have taken note of together."""
        return self._run(_PFCOUNT, *_spread(names))

    def pfdebug(self, subcommand, key):
        """``PFDEBUG subcommand key``: Shows the inside of a HyperLogLog."""
        return self._run(_PFDEBUG, subcommand, key)

    def pfmerge(self, dest, *sourcekeys):
        """``PFMERGE destkey [sourcekey [sourcekey ...]]``: Makes a HyperLogLog take note of all elements that others have."""
        return self._run(_PFMERGE, dest, *_spread(sourcekeys))

    def pfselftest(self):
        """``PFSELFTEST``: Checks registers and estimates of HyperLogLogs against what they should be."""
        return self._run(_PFSELFTEST)

    def pttl(self, name):
        """``PTTL key``: Returns the milliseconds left until a key expires."""
        return self._run(_PTTL, name)

    def publish(self, channel, message):
        """``PUBLISH channel message``: Sends a message to whoever listens to a channel."""
        return self._run(_PUBLISH, channel, message)

    def pubsub_channels(self, pattern=None):
        """``PUBSUB CHANNELS [pattern]``: Lists the channels that have subscribers."""
        call = []
        if pattern is not None:
            call.append(pattern)
        return self._run(_PUBSUB_CHANNELS, *call)

    def pubsub_help(self):
        """``PUBSUB HELP``: Lists the subcommands."""
        return self._run(_PUBSUB_HELP)

    def pubsub_numpat(self):
        """``PUBSUB NUMPAT``: Counts the patterns that have subscribers."""
        return self._run(_PUBSUB_NUMPAT)

    def pubsub_numsub(self, *channels):
        """``PUBSUB NUMSUB [channel [channel ...]]``: Counts the subscribers of channels."""
        return self._run(_PUBSUB_NUMSUB, *_spread(channels))

    def pubsub_shardchannels(self, pattern=None):
        """``PUBSUB SHARDCHANNELS [pattern]``: Lists the channels of the shard that have subscribers."""
        call = []
        if pattern is not None:
            call.append(pattern)
        return self._run(_PUBSUB_SHARDCHANNELS, *call)

    def pubsub_shardnumsub(self, *shardchannels):
        """``PUBSUB SHARDNUMSUB [shardchannel [shardchannel ...]]``: Counts the subscribers of channels of the shard."""
        return self._run(_PUBSUB_SHARDNUMSUB, *_spread(shardchannels))

    def quit(self):
        """``QUIT``: Closes the connection."""
        return self._run(_QUIT)

    def randomkey(self):
        """``RANDOMKEY``: Returns a key drawn at random."""
        return self._run(_RANDOMKEY)

    def readonly(self):
        """``READONLY``: Lets the connection read from a replica of the cluster."""
        return self._run(_READONLY)

    def readwrite(self):
        """``READWRITE``: Ends what `READONLY` allows."""
        return self._run(_READWRITE)

    def rename(self, src, dst):
        """``RENAME key newkey``: Renames a key, replacing the key of the new name."""
        return self._run(_RENAME, src, dst)

    def renamenx(self, src, dst):
        """``RENAMENX key newkey``: Renames a key if no key has the new name."""
        return self._run(_RENAMENX, src, dst)

    def replconf(self, *arguments):
        """``REPLCONF [argument [argument ...]]``: Says something of a replica: its address, what it understands, what it has executed."""
        return self._run(_REPLCONF, *_spread(arguments))

    def reset(self):
        """``RESET``: Puts the connection back into its initial state."""
        return self._run(_RESET)

    def role(self):
        """``ROLE``: Says whether the server is a primary or a replica."""
        return self._run(_ROLE)

    def rpop(self, name, count=None):
        """``RPOP key [count]``: Takes elements from the end of a list."""
        call = []
        call.append(name)
        if count is not None:
            call.append(count)
        return self._run(_RPOP_COUNT if count is not None else _RPOP, *call)

    def rpoplpush(self, src, dst):
        """``RPOPLPUSH source destination``: Moves the last element of one list to the front of another, and returns it."""
        return self._run(_RPOPLPUSH, src, dst)

    def rpush(self, name, *elements):
        """``RPUSH key element [element ...]``: Puts elements at the end of a list, creating it if need be."""
        return self._run(_RPUSH, name, *_spread(elements))

    def rpushx(self, name, *elements):
        """``RPUSHX key element [element ...]``: Puts elements at the end of a list that exists."""
        return self._run(_RPUSHX, name, *_spread(elements))

    def sadd(self, name, *members):
        """``SADD key member [member ...]``: Adds members to a set, which is made if it does not exist."""
        return self._run(_SADD, name, *_spread(members))

    def save(self):
        """``SAVE``: Saves the data to disk; nobody else is served meanwhile."""
        return self._run(_SAVE)

    def scard(self, name):
        """``SCARD key``: Returns how many members a set has."""
        return self._run(_SCARD, name)

    def script_debug(self, mode):
        """``SCRIPT DEBUG <YES | SYNC | NO>``: Chooses how the scripts that follow are debugged."""
        return self._run(_SCRIPT_DEBUG, mode)

    def script_exists(self, *sha1s):
        """``SCRIPT EXISTS sha1 [sha1 ...]``: Tells which scripts the server knows."""
        return self._run(_SCRIPT_EXISTS, *_spread(sha1s))

    def script_help(self):
        """``SCRIPT HELP``: Lists the subcommands."""
        return self._run(_SCRIPT_HELP)

    def script_kill(self):
        """``SCRIPT KILL``: Ends the script that is running, unless it has written."""
        return self._run(_SCRIPT_KILL)

    def script_load(self, script):
        """``SCRIPT LOAD script``: Makes a script known to the server, and returns its sum."""
        return self._run(_SCRIPT_LOAD, script)

    def script_show(self, sha1):
        """``SCRIPT SHOW sha1``: Returns the text of a script by its sum."""
        return self._run(_SCRIPT_SHOW, sha1)

    def sdiff(self, keys, *args):
        """``SDIFF key [key ...]``: Returns the members of the first set that no other given set has."""
        return self._run(_SDIFF, *_spread((keys, *args)))

    def sdiffstore(self, dest, keys, *args):
        """``SDIFFSTORE destination key [key ...]``: Stores the members of the first set that no other given set has at a key."""
        return self._run(_SDIFFSTORE, dest, *_spread((keys, *args)))

    def select(self, index):
        """``SELECT index``: Makes another database the current one of the connection."""
        return self._run(_SELECT, index)

    def setbit(self, name, offset, value):
        """``SETBIT key offset value``: Writes one bit of a string, which grows with zeros to reach it."""
        return self._run(_SETBIT, name, offset, value)

    def setnx(self, name, value):
        """``SETNX key value``: Stores a string at a key that does not exist."""
        return self._run(_SETNX, name, value)

    def setrange(self, name, offset, value):
        """``SETRANGE key offset value``: Overwrites a part of the string stored at a key, padding with zero bytes."""
        return self._run(_SETRANGE, name, offset, value)

    def shutdown(self, save=False, nosave=False, now=False, force=False, abort=False):
        """``SHUTDOWN [NOSAVE | SAVE] [NOW] [FORCE] [ABORT]``: Saves the data as configured and stops the server."""
        call = []
        if nosave:
            call += ("NOSAVE",)
        if save:
            call += ("SAVE",)
        if now:
            call += ("NOW",)
        if force:
            call += ("FORCE",)
        if abort:
            call += ("ABORT",)
        return self._run(_SHUTDOWN, *call)

    def sinter(self, keys, *args):
        """``SINTER key [key ...]``: Returns the members that all the given sets share."""
        return self._run(_SINTER, *_spread((keys, *args)))

    def sinterstore(self, dest, keys, *args):
        """``SINTERSTORE destination key [key ...]``: Stores the members that all the given sets share at a key."""
        return self._run(_SINTERSTORE, dest, *_spread((keys, *args)))

    def sismember(self, name, value):
        """``SISMEMBER key member``: Tells whether a set has a member."""
        return self._run(_SISMEMBER, name, value)

    def slowlog_get(self, num=None):
        """``SLOWLOG GET [count]``: Returns the latest entries of the slow log."""
        call = []
        if num is not None:
            call.append(num)
        return self._run(_SLOWLOG_GET, *call)

    def slowlog_help(self):
        """``SLOWLOG HELP``: Lists the subcommands."""
        return self._run(_SLOWLOG_HELP)

    def slowlog_len(self):
        """``SLOWLOG LEN``: Returns the number of entries in the slow log."""
        return self._run(_SLOWLOG_LEN)

    def slowlog_reset(self):
        """``SLOWLOG RESET``: Empties the slow log."""
        return self._run(_SLOWLOG_RESET)

    def smembers(self, name):
        """``SMEMBERS key``: Returns every member of a set."""
        return self._run(_SMEMBERS, name)

    def smismember(self, name, values, *args):
        """``SMISMEMBER key member [member ...]``: Tells of several members whether a set has them."""
        return self._run(_SMISMEMBER, name, *_spread((values, *args)))

    def smove(self, src, dst, value):
        """``SMOVE source destination member``: Moves a member from one set to another."""
        return self._run(_SMOVE, src, dst, value)

    def spop(self, name, count=None):
        """``SPOP key [count]``: Removes members drawn at random from a set and returns them."""
        call = []
        call.append(name)
        if count is not None:
            call.append(count)
        return self._run(_SPOP_COUNT if count is not None else _SPOP, *call)

    def spublish(self, shard_channel, message):
        """``SPUBLISH shardchannel message``: Sends a message to whoever listens to a channel of the shard."""
        return self._run(_SPUBLISH, shard_channel, message)

    def srandmember(self, name, number=None):
        """``SRANDMEMBER key [count]``: Returns members drawn at random from a set."""
        call = []
        call.append(name)
        if number is not None:
            call.append(number)
        return self._run(_SRANDMEMBER_NUMBER if number is not None else _SRANDMEMBER, *call)

    def srem(self, name, *members):
        """``SREM key member [member ...]``: Removes members from a set, and the set with its last member."""
        return self._run(_SREM, name, *_spread(members))

    def strlen(self, name):
        """``STRLEN key``: Returns the length of the string stored at a key."""
        return self._run(_STRLEN, name)

    def sunion(self, keys, *args):
        """``SUNION key [key ...]``: Returns the members that any of the given sets has."""
        return self._run(_SUNION, *_spread((keys, *args)))

    def sunionstore(self, dest, keys, *args):
        """``SUNIONSTORE destination key [key ...]``: Stores the members that any of the given sets has at a key."""
        return self._run(_SUNIONSTORE, dest, *_spread((keys, *args)))

    def swapdb(self, first, second):
        """``SWAPDB index1 index2``: Exchanges two databases, for every client at once."""
        return self._run(_SWAPDB, first, second)

    def tdigest_add(self, name, *values):
        """``TDIGEST.ADD key value [value ...]``: Adds numbers to a t-digest."""
        return self._run(_TDIGEST_ADD, name, *_spread(values))

    def tdigest_byrank(self, name, *ranks):
        """``TDIGEST.BYRANK key rank [rank ...]``: Returns estimates of the numbers of ranks, the lowest being 0."""
        return self._run(_TDIGEST_BYRANK, name, *_spread(ranks))

    def tdigest_byrevrank(self, name, *reverse_ranks):
        """``TDIGEST.BYREVRANK key reverse-rank [reverse-rank ...]``: Returns estimates of the numbers of ranks, the highest being 0."""
        return self._run(_TDIGEST_BYREVRANK, name, *_spread(reverse_ranks))

    def tdigest_cdf(self, name, *values):
        """``TDIGEST.CDF key value [value ...]``: Returns estimates of the shares of numbers up to the given ones."""
        return self._run(_TDIGEST_CDF, name, *_spread(values))

    def tdigest_create(self, name, *, compression=None):
        """``TDIGEST.CREATE key [COMPRESSION compression]``: Makes an empty t-digest."""
        call = []
        call.append(name)
        if compression is not None:
            call += ("COMPRESSION",)
            call.append(compression)
        return self._run(_TDIGEST_CREATE, *call)

    def tdigest_info(self, name):
        """``TDIGEST.INFO key``: Returns the properties of a t-digest."""
        return self._run(_TDIGEST_INFO, name)

    def tdigest_max(self, name):
        """``TDIGEST.MAX key``: Returns the highest number of a t-digest."""
        return self._run(_TDIGEST_MAX, name)

    def tdigest_merge(self, destination, *sources, compression=None, override=False):
        """``TDIGEST.MERGE destination numkeys source [source ...] [COMPRESSION compression] [OVERRIDE]``: Adds the numbers of t-digests to another one, which is made if it does not exist."""
        call = []
        call.append(destination)
        call += _counted(sources)
        if compression is not None:
            call += ("COMPRESSION",)
            call.append(compression)
        if override:
            call += ("OVERRIDE",)
        return self._run(_TDIGEST_MERGE, *call)

    def tdigest_min(self, name):
        """``TDIGEST.MIN key``: Returns the lowest number of a t-digest."""
        return self._run(_TDIGEST_MIN, name)

    def tdigest_quantile(self, name, *quantiles):
        """``TDIGEST.QUANTILE key quantile [quantile ...]``: Returns estimates of the numbers below which shares of all are."""
        return self._run(_TDIGEST_QUANTILE, name, *_spread(quantiles))

    def tdigest_rank(self, name, *values):
        """``TDIGEST.RANK key value [value ...]``: Returns estimates of how many numbers are below the given ones."""
        return self._run(_TDIGEST_RANK, name, *_spread(values))

    def tdigest_reset(self, name):
        """``TDIGEST.RESET key``: Empties a t-digest."""
        return self._run(_TDIGEST_RESET, name)

    def tdigest_revrank(self, name, *values):
        """``TDIGEST.REVRANK key value [value ...]``: Returns estimates of how many numbers are above the given ones."""
        return self._run(_TDIGEST_REVRANK, name, *_spread(values))

    def tdigest_trimmed_mean(self, name, low_cut_quantile, high_cut_quantile):
        """``TDIGEST.TRIMMED_MEAN key low-cut-quantile high-cut-quantile``: Returns an estimate of the mean of the numbers between two quantiles."""
        return self._run(_TDIGEST_TRIMMED_MEAN, name, low_cut_quantile, high_cut_quantile)

    def time(self):
        """``TIME``: Returns the time of the server, in seconds and microseconds."""
        return self._run(_TIME)

    def topk_add(self, name, *items):
        """``TOPK.ADD key item [item ...]``: Counts items, and returns those that leave the list for them."""
        return self._run(_TOPK_ADD, name, *_spread(items))

    def topk_count(self, name, *items):
        """``TOPK.COUNT key item [item ...]``: Returns counts of items, which are not how often they came."""
        return self._run(_TOPK_COUNT, name, *_spread(items))

    def topk_incrby(self, name, mapping):
        """``TOPK.INCRBY key item increment [item increment ...]``: Counts items by increments, and returns those that leave the list for them."""
        return self._run(_TOPK_INCRBY, name, *_pairs(mapping))

    def topk_info(self, name):
        """``TOPK.INFO key``: Returns the properties of a list of the most frequent items."""
        return self._run(_TOPK_INFO, name)

    def topk_list(self, name, *, withcount=False):
        """``TOPK.LIST key [WITHCOUNT]``: Returns the most frequent items."""
        call = []
        call.append(name)
        if withcount:
            call += ("WITHCOUNT",)
        return self._run(_TOPK_LIST_WITHCOUNT if withcount else _TOPK_LIST, *call)

    def topk_query(self, name, *items):
        """``TOPK.QUERY key item [item ...]``: Tells whether items are in a list of the most frequent items."""
        return self._run(_TOPK_QUERY, name, *_spread(items))

    def topk_reserve(self, name, topk, *, params=None):
        """``TOPK.RESERVE key topk [width depth decay]``: Makes an empty list of the most frequent items."""
        call = []
        call.append(name)
        call.append(topk)
        if params is not None:
            call += _values(params)
        return self._run(_TOPK_RESERVE, *call)

    def touch(self, *names):
        """``TOUCH key [key ...]``: Counts those of the given keys that exist and marks them as accessed."""
        return self._run(_TOUCH, *_spread(names))

    def ttl(self, name):
        """``TTL key``: Returns the seconds left until a key expires."""
        return self._run(_TTL, name)

    def type(self, name):
        """``TYPE key``: Returns the type of the value stored at a key."""
        return self._run(_TYPE, name)

    def unlink(self, *names):
        """``UNLINK key [key ...]``: Deletes keys and frees their memory in the background."""
        return self._run(_UNLINK, *_spread(names))

    def unwatch(self):
        """``UNWATCH``: Forgets the keys watched by the connection."""
        return self._run(_UNWATCH)

    def wait(self, num_replicas, timeout):
        """``WAIT numreplicas timeout``: Waits until replicas have received the connection's writes."""
        return self._run(_WAIT, num_replicas, timeout)

    def waitaof(self, num_local, num_replicas, timeout):
        """``WAITAOF numlocal numreplicas timeout``: Waits until the connection's writes are in the append-only files of the server and of replicas."""
        return self._run(_WAITAOF, num_local, num_replicas, timeout)

    def watch(self, *names):
        """``WATCH key [key ...]``: Lets the next transaction fail if one of the keys changes before it runs."""
        return self._run(_WATCH, *_spread(names))

    def xack(self, name, groupname, *ids):
        """``XACK key group id [id ...]``: Acknowledges entries that are pending in a consumer group."""
        return self._run(_XACK, name, groupname, *_spread(ids))

    def xcfgset(self, name, idmp_duration=None, idmp_maxsize=None):
        """``XCFGSET key [IDMP-DURATION idmp-duration] [IDMP-MAXSIZE idmp-maxsize]``: Sets for how long, and of how many entries, a stream remembers the producers' own IDs."""
        call = []
        call.append(name)
        if idmp_duration is not None:
            call += ("IDMP-DURATION",)
            call.append(idmp_duration)
        if idmp_maxsize is not None:
            call += ("IDMP-MAXSIZE",)
            call.append(idmp_maxsize)
        return self._run(_XCFGSET, *call)

    def xdel(self, name, *ids):
        """``XDEL key id [id ...]``: Deletes entries of a stream and returns how many there were."""
        return self._run(_XDEL, name, *_spread(ids))

    def xgroup_createconsumer(self, name, groupname, consumername):
        """``XGROUP CREATECONSUMER key group consumer``: Adds a consumer to a consumer group."""
        return self._run(_XGROUP_CREATECONSUMER, name, groupname, consumername)

    def xgroup_delconsumer(self, name, groupname, consumername):
        """``XGROUP DELCONSUMER key group consumer``: Removes a consumer from a consumer group, with what it had pending."""
        return self._run(_XGROUP_DELCONSUMER, name, groupname, consumername)

    def xgroup_destroy(self, name, groupname):
        """``XGROUP DESTROY key group``: Removes a consumer group."""
        return self._run(_XGROUP_DESTROY, name, groupname)

    def xgroup_help(self):
        """``XGROUP HELP``: Lists the subcommands."""
        return self._run(_XGROUP_HELP)

    def xgroup_setid(self, name, groupname, id, entries_read=None):
        """``XGROUP SETID key group <id | $> [ENTRIESREAD entries-read]``: Sets the ID up to which a consumer group has had the entries delivered."""
        call = []
        call.append(name)
        call.append(groupname)
        call.append(id)
        if entries_read is not None:
            call += ("ENTRIESREAD",)
            call.append(entries_read)
        return self._run(_XGROUP_SETID, *call)

    def xidmprecord(self, name, pid, iid, stream_id):
        """``XIDMPRECORD key pid iid stream-id``: Notes which producer added an entry under which ID; servers use it among themselves."""
        return self._run(_XIDMPRECORD, name, pid, iid, stream_id)

    def xinfo_consumers(self, name, groupname):
        """``XINFO CONSUMERS key group``: Tells about the consumers of a consumer group."""
        return self._run(_XINFO_CONSUMERS, name, groupname)

    def xinfo_groups(self, name):
        """``XINFO GROUPS key``: Tells about the consumer groups of a stream."""
        return self._run(_XINFO_GROUPS, name)

    def xinfo_help(self):
        """``XINFO HELP``: Lists the subcommands."""
        return self._run(_XINFO_HELP)

    def xinfo_stream(self, name, full=False, *, count=None):
        """``XINFO STREAM key [FULL [COUNT count]]``: Tells about a stream."""
        call = []
        call.append(name)
        if full:
            call += ("FULL",)
        if count is not None:
            call += ("COUNT",)
            call.append(count)
        return self._run(_XINFO_STREAM, *call)

    def xlen(self, name):
        """``XLEN key``: Returns the number of entries in a stream."""
        return self._run(_XLEN, name)

    def xnack(self, name, groupname, mode, *ids, retrycount=None, force=False):
        """``XNACK key group <SILENT | FAIL | FATAL> IDS numids id [id ...] [RETRYCOUNT count] [FORCE]``: Gives pending entries back to their consumer group, to be delivered again at once."""
        call = []
        call.append(name)
        call.append(groupname)
        call.append(mode)
        call.append("IDS")
        call += _counted(ids)
        if retrycount is not None:
            call += ("RETRYCOUNT",)
            call.append(retrycount)
        if force:
            call += ("FORCE",)
        return self._run(_XNACK, *call)

    def xsetid(self, name, last_id, *, entriesadded=None, maxdeletedid=None):
        """``XSETID key last-id [ENTRIESADDED entries-added] [MAXDELETEDID max-deleted-id]``: Sets the last ID of a stream and its counters; servers use it among themselves."""
        call = []
        call.append(name)
        call.append(last_id)
        if entriesadded is not None:
            call += ("ENTRIESADDED",)
            call.append(entriesadded)
        if maxdeletedid is not None:
            call += ("MAXDELETEDID",)
            call.append(maxdeletedid)
        return self._run(_XSETID, *call)

    def zcard(self, name):
        """``ZCARD key``: Returns the number of members of a sorted set."""
        return self._run(_ZCARD, name)

    def zcount(self, name, min, max):
        """``ZCOUNT key min max``: Counts the members of a sorted set with scores within bounds."""
        return self._run(_ZCOUNT, name, min, max)

    def zdiffstore(self, dest, keys):
        """``ZDIFFSTORE destination numkeys key [key ...]``: Stores the members of a sorted set that are in none of several others at a key."""
        return self._run(_ZDIFFSTORE, dest, *_counted(keys))

    def zlexcount(self, name, min, max):
        """``ZLEXCOUNT key min max``: Counts the members of a sorted set of equal scores that lie within bounds."""
        return self._run(_ZLEXCOUNT, name, min, max)

    def zmscore(self, key, members):
        """``ZMSCORE key member [member ...]``: Returns the scores of several members of a sorted set."""
        return self._run(_ZMSCORE, key, *_spread(members))

    def zpopmax(self, name, count=None):
        """``ZPOPMAX key [count]``: Removes and returns the members of a sorted set with the highest scores."""
        call = []
        call.append(name)
        if count is not None:
            call.append(count)
        return self._run(_ZPOPMAX, *call)

    def zpopmin(self, name, count=None):
        """``ZPOPMIN key [count]``: Removes and returns the members of a sorted set with the lowest scores."""
        call = []
        call.append(name)
        if count is not None:
            call.append(count)
        return self._run(_ZPOPMIN, *call)

    def zrandmember(self, key, count=None, withscores=False):
        """``ZRANDMEMBER key [count [WITHSCORES]]``: Returns members of a sorted set drawn at random."""
        call = []
        call.append(key)
        if count is not None:
            call.append(count)
        if withscores:
            call += ("WITHSCORES",)
        return self._run(_ZRANDMEMBER_WITHSCORES if withscores else _ZRANDMEMBER_COUNT if count is not None else _ZRANDMEMBER, *call)

    def zrank(self, name, value, withscore=False):
        """``ZRANK key member [WITHSCORE]``: Returns how many members of a sorted set come before a member."""
        call = []
        call.append(name)
        call.append(value)
        if withscore:
            call += ("WITHSCORE",)
        return self._run(_ZRANK_WITHSCORE if withscore else _ZRANK, *call)

    def zrem(self, name, *members):
        """``ZREM key member [member ...]``: Removes members from a sorted set."""
        return self._run(_ZREM, name, *_spread(members))

    def zremrangebylex(self, name, min, max):
        """``ZREMRANGEBYLEX key min max``: Removes the members of a sorted set of equal scores that lie within bounds."""
        return self._run(_ZREMRANGEBYLEX, name, min, max)

    def zremrangebyrank(self, name, min, max):
        """``ZREMRANGEBYRANK key start stop``: Removes the members of a sorted set within a range of ranks."""
        return self._run(_ZREMRANGEBYRANK, name, min, max)

    def zremrangebyscore(self, name, min, max):
        """``ZREMRANGEBYSCORE key min max``: Removes the members of a sorted set with scores within bounds."""
        return self._run(_ZREMRANGEBYSCORE, name, min, max)

    def zrevrank(self, name, value, withscore=False):
        """``ZREVRANK key member [WITHSCORE]``: Returns how many members of a sorted set come after a member."""
        call = []
        call.append(name)
        call.append(value)
        if withscore:
            call += ("WITHSCORE",)
        return self._run(_ZREVRANK_WITHSCORE if withscore else _ZREVRANK, *call)

    def zscore(self, name, value):
        """``ZSCORE key member``: Returns the score of a member of a sorted set."""
        return self._run(_ZSCORE, name, value)
