//! Every command on a value of every other type: Redis's error, and the value is unchanged.

use crate::client::Client;

/// Types, with calls that create a value of each at a key.
const MAKERS: [(&str, &str); 13] = [
    ("string", "SET string 1"),
    ("list", "RPUSH list 1"),
    ("set", "SADD set 1"),
    ("zset", "ZADD zset 1 1"),
    ("hash", "HSET hash 1 1"),
    ("stream", "XADD stream 1-1 a 1"),
    ("vectorset", "VADD vectorset VALUES 2 1 2 a"),
    ("bloom", "BF.ADD bloom a"),
    ("cms", "CMS.INITBYDIM cms 10 2"),
    ("cuckoo", "CF.ADD cuckoo a"),
    ("topk", "TOPK.RESERVE topk 3"),
    ("tdigest", "TDIGEST.CREATE tdigest"),
    ("array", "ARSET array 0 a"),
];

/// Types, with calls of their commands on a key `K`. Commands for several types, and those with
/// errors of their own, are left out.
const CALLS: [(&str, &str); 13] = [
    (
        "string",
        "GET K|GETEX K|GETDEL K|GETSET K v|SET K v GET|SUBSTR K 0 1|GETRANGE K 0 1|SETRANGE K 0 x|STRLEN K|APPEND K x|INCR K|DECR K
        INCRBY K 1|DECRBY K 1|INCRBYFLOAT K 1|SETBIT K 0 1|GETBIT K 0|BITCOUNT K|BITPOS K 1|BITOP NOT d K|BITFIELD K GET u8 0
        BITFIELD_RO K GET u8 0|PFADD K x|PFCOUNT K|PFMERGE K other",
    ),
    (
        "list",
        "LPUSH K 1|RPUSH K 1|LPUSHX K 1|RPUSHX K 1|LPOP K|RPOP K 2|LLEN K|LRANGE K 0 1|LINDEX K 0|LSET K 0 x|LINSERT K BEFORE 1 x
        LREM K 0 1|LTRIM K 0 1|LPOS K 1|LMOVE K d LEFT LEFT|LMOVE list K LEFT LEFT|RPOPLPUSH K d|LMPOP 1 K LEFT|BLPOP K 0|BRPOP K 0
        BLMOVE K d LEFT LEFT 0|BRPOPLPUSH K d 0|BLMPOP 0 1 K LEFT",
    ),
    (
        "set",
        "SADD K 1|SREM K 1|SMEMBERS K|SISMEMBER K 1|SMISMEMBER K 1|SCARD K|SPOP K|SPOP K 2|SRANDMEMBER K|SRANDMEMBER K -5|SMOVE K d 1
        SMOVE set K 1|SINTER K set|SINTERSTORE d K|SINTERCARD 1 K|SUNION set K|SUNIONSTORE d K|SDIFF K|SDIFFSTORE d set K|SSCAN K 0",
    ),
    (
        "zset",
        "ZADD K 1 1|ZADD K INCR 1 1|ZINCRBY K 1 1|ZREM K 1|ZCARD K|ZCOUNT K 0 1|ZLEXCOUNT K - +|ZSCORE K 1|ZMSCORE K 1|ZRANK K 1
        ZREVRANK K 1 WITHSCORE|ZRANGE K 0 1|ZRANGE K 0 1 BYSCORE|ZRANGE K - + BYLEX|ZRANGESTORE d K 0 1|ZRANGEBYSCORE K 0 1
        ZREVRANGEBYSCORE K 1 0|ZRANGEBYLEX K - +|ZREVRANGEBYLEX K + -|ZREVRANGE K 0 1|ZREMRANGEBYRANK K 0 1|ZREMRANGEBYSCORE K 0 1
        ZREMRANGEBYLEX K - +|ZPOPMIN K|ZPOPMAX K 2|ZMPOP 1 K MIN|BZPOPMIN K 0|BZPOPMAX K 0|BZMPOP 0 1 K MIN|ZRANDMEMBER K|ZRANDMEMBER K -5
        ZSCAN K 0|GEOADD K 1 1 a|GEODIST K a b|GEOHASH K a|GEOPOS K a|GEOSEARCH K FROMLONLAT 1 1 BYRADIUS 1 m
        GEOSEARCHSTORE d K FROMLONLAT 1 1 BYRADIUS 1 m|GEORADIUS K 1 1 1 m|GEORADIUS_RO K 1 1 1 m|GEORADIUSBYMEMBER K a 1 m
        GEORADIUSBYMEMBER_RO K a 1 m",
    ),
    (
        "hash",
        "HSET K 1 1|HSETNX K 1 1|HMSET K 1 1|HGET K 1|HMGET K 1|HGETALL K|HDEL K 1|HEXISTS K 1|HLEN K|HSTRLEN K 1|HKEYS K|HVALS K
        HINCRBY K 1 1|HINCRBYFLOAT K 1 1|HRANDFIELD K|HRANDFIELD K -5|HSCAN K 0|HEXPIRE K 1 FIELDS 1 1|HPEXPIRE K 1 FIELDS 1 1
        HEXPIREAT K 1 FIELDS 1 1|HPEXPIREAT K 1 FIELDS 1 1|HTTL K FIELDS 1 1|HPTTL K FIELDS 1 1|HEXPIRETIME K FIELDS 1 1
        HPEXPIRETIME K FIELDS 1 1|HPERSIST K FIELDS 1 1|HGETDEL K FIELDS 1 1|HGETEX K FIELDS 1 1|HSETEX K FIELDS 1 1 1",
    ),
    (
        "stream",
        "XADD K * a 1|XLEN K|XRANGE K - +|XREVRANGE K + -|XREAD STREAMS K 0|XDEL K 1-1|XTRIM K MAXLEN 0|XSETID K 1-1|XGROUP CREATE K g 0
        XGROUP SETID K g 0|XGROUP DESTROY K g|XGROUP CREATECONSUMER K g c|XGROUP DELCONSUMER K g c|XREADGROUP GROUP g c STREAMS K >
        XPENDING K g|XCLAIM K g c 0 1-1|XAUTOCLAIM K g c 0 0|XINFO STREAM K|XINFO GROUPS K|XINFO CONSUMERS K g
        XACKDEL K g IDS 1 1-1|XDELEX K IDS 1 1-1",
    ),
    (
        "vectorset",
        "VADD K VALUES 2 1 2 a|VSIM K ELE a|VREM K a|VCARD K|VDIM K|VEMB K a|VLINKS K a|VINFO K|VISMEMBER K a|VSETATTR K a x
        VGETATTR K a|VRANDMEMBER K|VRANGE K - +",
    ),
    (
        "bloom",
        "BF.RESERVE K 0.1 10|BF.ADD K a|BF.MADD K a b|BF.INSERT K ITEMS a|BF.CARD K|BF.INFO K|BF.DEBUG K|BF.SCANDUMP K 0
        BF.LOADCHUNK K 1 x",
    ),
    (
        "cms",
        "CMS.INCRBY K a 1|CMS.QUERY K a|CMS.INFO K|CMS.MERGE K 1 cms|CMS.MERGE cms 1 K",
    ),
    (
        "cuckoo",
        "CF.RESERVE K 10|CF.ADD K a|CF.ADDNX K a|CF.INSERT K ITEMS a|CF.INSERTNX K ITEMS a|CF.INFO K|CF.DEBUG K|CF.SCANDUMP K 0
        CF.LOADCHUNK K 1 x",
    ),
    ("topk", "TOPK.ADD K a|TOPK.INCRBY K a 1|TOPK.QUERY K a|TOPK.COUNT K a|TOPK.LIST K|TOPK.INFO K"),
    (
        "tdigest",
        "TDIGEST.CREATE K|TDIGEST.ADD K 1|TDIGEST.RESET K|TDIGEST.MERGE K 1 tdigest|TDIGEST.MERGE tdigest 1 K|TDIGEST.MIN K
        TDIGEST.MAX K|TDIGEST.QUANTILE K 0.5|TDIGEST.CDF K 1|TDIGEST.RANK K 1|TDIGEST.REVRANK K 1|TDIGEST.BYRANK K 1
        TDIGEST.BYREVRANK K 1|TDIGEST.TRIMMED_MEAN K 0.1 0.9|TDIGEST.INFO K",
    ),
    (
        "array",
        "ARSET K 0 a|ARMSET K 0 a|ARINSERT K a|ARRING K 5 a|ARSEEK K 0|ARDEL K 0|ARDELRANGE K 0 1|ARGET K 0|ARMGET K 0 1
        ARGETRANGE K 0 1|ARSCAN K 0 1|ARGREP K - + MATCH a|AROP K 0 1 SUM|ARLEN K|ARCOUNT K|ARNEXT K|ARLASTITEMS K 5|ARINFO K",
    ),
];

/// Errors follow the order of Redis: the type is checked before the options, and the number of
/// arguments before their values.
#[test]
fn errors_come_in_the_order_of_redis() {
    let mut client = Client::new();
    client.run("SET s hello");
    client.run("RPUSH l a");
    client.follow(
        r#"
        LCS s l LEN IDX WITHMATCHLEN => ERR The specified keys must contain string values
        LCS s l MINMATCHLEN x => ERR The specified keys must contain string values
        LCS s s MINMATCHLEN x => ERR value is not an integer or out of range
        BITCOUNT s 0 x BYTE 1 => ERR syntax error
        BITCOUNT s 0 x BYTE => ERR value is not an integer or out of range
        XDELEX s IDS 3 1-1 => WRONGTYPE Operation against a key holding the wrong kind of value
        XACKDEL s g IDS 3 1-1 => WRONGTYPE Operation against a key holding the wrong kind of value
        XDELEX none IDS 3 1-1 => ERR The `numids` parameter must match the number of arguments
        "#,
    );
}

#[test]
fn is_refused_by_every_command() {
    let mut client = Client::new();
    MAKERS.iter().for_each(|(_, maker)| drop(client.run(maker)));
    let dumps =
        |client: &mut Client| MAKERS.map(|(key, _)| client.call(&[b"DUMP", key.as_bytes()]));
    let before = dumps(&mut client);
    let mut called = 0;
    for (own, calls) in CALLS {
        for call in calls.split(['|', '\n']).map(str::trim) {
            for (other, _) in MAKERS.iter().filter(|(other, _)| *other != own) {
                let line = call.split(' ').map(|word| if word == "K" { other } else { word });
                let line = line.collect::<Vec<&str>>().join(" ");
                let reply = client.run(&line);
                let expected = "WRONGTYPE Operation against a key holding the wrong kind of value";
                assert_eq!(reply, expected, "{line}");
                called += 1;
            }
        }
    }
    assert!(called > 600, "{called}");
    assert_eq!(dumps(&mut client), before);
    assert_eq!(client.run("EXISTS d"), "0");
}
