//! Arguments at and beyond the limits of their ranges: Redis's replies and errors.

use crate::client::Client;
use petrel_resp::Value;

#[test]
fn of_lists_and_sets() {
    Client::new().follow(
        r#"
        RPUSH l a b c => 3
        LRANGE l 0 9223372036854775807 => ["a" "b" "c"]
        LRANGE l -9223372036854775808 9223372036854775807 => ["a" "b" "c"]
        LRANGE l 0 9223372036854775808 => ERR value is not an integer or out of range
        LTRIM l -9223372036854775808 9223372036854775807 => OK
        LINDEX l -9223372036854775808 => nil
        LSET l 9223372036854775807 x => ERR index out of range
        LREM l -9223372036854775808 none => ERR value is out of range, value must between -9223372036854775807 and 9223372036854775807
        LPOS l a RANK -9223372036854775808 => ERR value is out of range, value must between -9223372036854775807 and 9223372036854775807
        LPOS l b RANK 0 => ERR RANK can't be zero: use 1 to start from the first match, 2 from the second ... or use negative to start from the end of the list
        LPOS l b COUNT -1 => ERR COUNT can't be negative
        LPOP l -1 => ERR value is out of range, must be positive
        LPOP l 9223372036854775808 => ERR value is out of range, must be positive
        LMPOP 9223372036854775807 l LEFT => ERR syntax error
        LPOP l 9223372036854775807 => ["a" "b" "c"]
        BLPOP l nan => ERR timeout is not a float or out of range
        BLPOP l -1 => ERR timeout is negative
        BLPOP l 9223372036854775807 => ERR timeout is out of range
        SADD k a => 1
        SRANDMEMBER k -9223372036854775808 => ERR value is out of range, value must between -9223372036854775807 and 9223372036854775807
        SRANDMEMBER k -9223372036854775807 => ERR value is out of range
        SRANDMEMBER k 9223372036854775807 => ["a"]
        SPOP k -1 => ERR value is out of range, must be positive
        SINTERCARD 9223372036854775807 k => ERR Number of keys can't be greater than number of args
        SINTERCARD 1 k LIMIT -1 => ERR LIMIT can't be negative
        SPOP k 9223372036854775807 => ["a"]
        "#,
    );
}

#[test]
fn of_hashes_and_sorted_sets() {
    Client::new().follow(
        r#"
        HSET h a 1 => 1
        HRANDFIELD h -9223372036854775808 => ERR value is out of range, value must between -9223372036854775807 and 9223372036854775807
        HRANDFIELD h 4611686018427387903 WITHVALUES => ["a" "1"]
        HRANDFIELD h 4611686018427387904 WITHVALUES => ERR value is out of range
        HRANDFIELD h 4611686018427387904 NOVALUES => ERR syntax error
        HINCRBY h a 9223372036854775807 => ERR increment or decrement would overflow
        HINCRBYFLOAT h a nan => ERR value is not a valid float
        HINCRBYFLOAT h a inf => ERR value is NaN or Infinity
        ZADD z nan a => ERR value is not a valid float
        ZADD z 1e400 a => ERR value is not a valid float
        ZADD z inf a => 1
        ZINCRBY z -inf a => ERR resulting score is not a number (NaN)
        ZADD z INCR -inf a => ERR resulting score is not a number (NaN)
        ZRANGE z 0 9223372036854775807 => ["a"]
        ZRANGE z (nan 5 BYSCORE => ERR min or max is not a float
        ZRANGEBYSCORE z -inf +inf LIMIT 0 -9223372036854775808 => ["a"]
        ZRANGEBYSCORE z -inf +inf LIMIT -9223372036854775808 5 => []
        ZRANDMEMBER z -9223372036854775807 WITHSCORES => ERR value is out of range
        ZRANDMEMBER z 4611686018427387904 WITHSCORES => ERR value is out of range
        ZRANDMEMBER none 4611686018427387904 WITHSCORES => ERR value is out of range
        ZMPOP 1 z MIN COUNT -1 => ERR count should be greater than 0
        ZUNION 9223372036854775807 z => ERR syntax error
        ZUNION 1 z WEIGHTS nan => ERR weight value is not a float
        ZUNIONSTORE d 2 z z WEIGHTS inf -inf => 1
        ZRANGE d 0 -1 WITHSCORES => ["a" "0"]
        BZPOPMIN z 1e400 => ERR timeout is out of range
        GEOADD g nan 1 a => ERR value is not a valid float
        GEOADD g 181 1 a => ERR invalid longitude,latitude pair 181.000000,1.000000
        GEOSEARCH g FROMLONLAT 1 1 BYRADIUS nan m => ERR need numeric radius
        GEOSEARCH g FROMLONLAT 1 1 BYRADIUS -1 m => ERR radius cannot be negative
        "#,
    );
}

#[test]
fn of_strings_streams_and_keys() {
    Client::new().follow(
        r#"
        SETRANGE s 9223372036854775807 x => ERR string exceeds maximum allowed size (proto-max-bulk-len)
        SETRANGE s 536870912 x => ERR string exceeds maximum allowed size (proto-max-bulk-len)
        SETBIT b 4294967296 1 => ERR bit offset is not an integer or out of range
        BITFIELD b GET u8 #9223372036854775807 => ERR bit offset is not an integer or out of range
        BITFIELD b GET u64 0 => ERR Invalid bitfield type. Use something like i16 u8. Note that u64 is not supported but i64 is.
        INCRBYFLOAT s nan => ERR value is not a valid float
        XADD x 18446744073709551615-18446744073709551615 a 1 => "18446744073709551615-18446744073709551615"
        XADD x * a 1 => ERR The stream has exhausted the last possible ID, unable to add more items
        XADD x 1-18446744073709551616 a 1 => ERR Invalid stream ID specified as stream command argument
        XTRIM x MAXLEN -1 => ERR The MAXLEN argument must be >= 0.
        XTRIM x MAXLEN ~ 10 LIMIT -1 => ERR The LIMIT argument must be >= 0.
        XRANGE x - + COUNT 9223372036854775807 => [["18446744073709551615-18446744073709551615" ["a" "1"]]]
        RESTORE r 0 "" => ERR DUMP payload version or checksum are wrong
        RESTORE r 0 aaaaaaaaaaaaaaaaaaaa => ERR DUMP payload version or checksum are wrong
        RESTORE r -1 aaaaaaaaaaaaaaaaaaaa => ERR Invalid TTL value, must be >= 0
        EXPIRE x 9223372036854775807 => ERR invalid expire time in 'expire' command
        PEXPIRE x 9223372036854775807 => ERR invalid expire time in 'pexpire' command
        SCAN 18446744073709551616 => ERR invalid cursor
        SCAN 0 COUNT 9223372036854775807 => ["0" ["x"]]
        SCAN 0 COUNT 0 => ERR syntax error
        RPUSH l 1 2 => 2
        SORT l LIMIT -9223372036854775808 9223372036854775807 => ["1" "2"]
        SORT l LIMIT 9223372036854775807 9223372036854775807 => []
        "#,
    );
}

#[test]
fn of_patterns() {
    let mut client = Client::new();
    let key = "a".repeat(5000);
    client.call(&[b"SET", key.as_bytes(), b"1"]);
    let no_key = Value::Array(vec![]);
    for pattern in ["*a".repeat(900) + "b", "[^".repeat(3000), "*".repeat(5000) + "[b-"] {
        assert_eq!(client.call(&[b"KEYS", pattern.as_bytes()]), no_key, "{pattern:.40}");
    }
}
