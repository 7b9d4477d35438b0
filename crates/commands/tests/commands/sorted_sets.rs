//! Sorted sets: replies as Redis gives them.

use crate::client::Client;

#[test]
fn members() {
    Client::new().follow(
        r#"
        ZADD z 1 a 2.5 b -inf c => 3
        ZADD z 1 a 3 b 4 d => 1
        ZADD z CH 1 a 4 b 5 e => 2
        ZADD z NX 9 a 9 f => 1
        ZADD z XX CH 2 a 9 g => 1
        ZADD z GT CH 1 a 6 e => 1
        ZADD z LT CH 3 a 5 e => 1
        ZADD z XX GT CH 3 a 9 h => 1
        ZADD z INCR 1.5 a => "4.5"
        ZADD z NX INCR 1 a => nil
        ZADD z XX INCR 1 nobody => nil
        ZADD z GT INCR -1 a => nil
        ZADD z INCR inf c => ERR resulting score is not a number (NaN)
        ZINCRBY z 0.1 a => "4.6"
        ZINCRBY z -inf new => "-inf"
        ZINCRBY z inf new => ERR resulting score is not a number (NaN)
        ZADD z nx xx 1 a => ERR XX and NX options at the same time are not compatible
        ZADD z NX GT 1 a => ERR GT, LT, and/or NX options at the same time are not compatible
        ZADD z GT LT 1 a => ERR GT, LT, and/or NX options at the same time are not compatible
        ZADD z INCR 1 a 2 b => ERR INCR option supports a single increment-element pair
        ZADD z 1 a 2 => ERR syntax error
        ZADD z NX CH INCR => ERR syntax error
        ZADD z nan a => ERR value is not a valid float
        ZADD z 1 a x b => ERR value is not a valid float
        ZADD z 1e400 a => ERR value is not a valid float
        ZSCORE z a => "4.6"
        ZSCORE z nobody => nil
        ZSCORE none a => nil
        ZMSCORE z a nobody c => ["4.6" nil "-inf"]
        ZMSCORE none a b => [nil nil]
        ZCARD z => 7
        ZCARD none => 0
        ZRANK z a => 4
        ZREVRANK z a => 2
        ZRANK z a WITHSCORE => [4 "4.6"]
        ZREVRANK z c withscore => [6 "-inf"]
        ZRANK z nobody => nil
        ZRANK z nobody WITHSCORE => nil-array
        ZRANK none a => nil
        ZRANK z a b => ERR syntax error
        ZRANK z a WITHSCORE b => ERR wrong number of arguments for 'zrank' command
        ZREM z a nobody c a => 2
        ZREM none a => 0
        ZREM z b d e f new => 5
        EXISTS z => 0
        TYPE z => none
        SET s text => OK
        ZADD s 1 a => WRONGTYPE Operation against a key holding the wrong kind of value
        ZADD s x a => ERR value is not a valid float
        ZINCRBY s 1 a => WRONGTYPE Operation against a key holding the wrong kind of value
        ZREM s a => WRONGTYPE Operation against a key holding the wrong kind of value
        ZSCORE s a => WRONGTYPE Operation against a key holding the wrong kind of value
        ZRANK s a => WRONGTYPE Operation against a key holding the wrong kind of value
        ZCARD s => WRONGTYPE Operation against a key holding the wrong kind of value
        "#,
    );
}

#[test]
fn scores_are_printed_as_doubles() {
    Client::new().follow(
        r#"
        ZADD z 0.1 a 100 b 1e20 c 1e-7 d 3.0 e 123456789012345678 f inf g 5e-324 h => 8
        ZRANGE z 0 -1 WITHSCORES => ["h" "5e-324" "d" "1e-7" "a" "0.1" "e" "3" "b" "100" "f" "123456789012345680" "c" "1e+20" "g" "inf"]
        ZINCRBY z 0.2 a => "0.30000000000000004"
        "#,
    );
    Client::new().resp3().follow(
        r#"
        ZADD z 1 a 2.5 b inf c => 3
        ZSCORE z b => Double(2.5)
        ZADD z INCR 1 a => Double(2.0)
        ZADD z NX INCR 1 a => nil
        ZINCRBY z 0.5 a => Double(2.5)
        ZMSCORE z a x => [Double(2.5) nil]
        ZRANK z a WITHSCORE => [0 Double(2.5)]
        ZRANK z x WITHSCORE => nil
        ZRANGE z 0 -1 => ["a" "b" "c"]
        ZRANGE z 0 -1 WITHSCORES => [["a" Double(2.5)] ["b" Double(2.5)] ["c" Double(inf)]]
        ZUNION 2 z z WITHSCORES => [["a" Double(5.0)] ["b" Double(5.0)] ["c" Double(inf)]]
        ZINTER 1 z WEIGHTS 2 => ["a" "b" "c"]
        ZDIFF 1 z WITHSCORES => [["a" Double(2.5)] ["b" Double(2.5)] ["c" Double(inf)]]
        ZSCAN z 0 => ["0" ["a" "2.5" "b" "2.5" "c" "inf"]]
        ZMPOP 1 z MAX => ["z" [["c" Double(inf)]]]
        BZPOPMIN z 0 => ["z" "a" Double(2.5)]
        ZPOPMIN z => ["b" Double(2.5)]
        ZPOPMIN z 1 => []
        ZADD z 1 a 2 b => 2
        ZPOPMAX z 5 => [["b" Double(2.0)] ["a" Double(1.0)]]
        BZMPOP 1 1 z MIN => nil
        "#,
    );
}

#[test]
fn ranges_by_rank_and_score() {
    Client::new().follow(
        r#"
        ZADD z 1 a 2 b 3 c 3 d 4 e => 5
        ZRANGE z 0 -1 => ["a" "b" "c" "d" "e"]
        ZRANGE z 1 2 WITHSCORES => ["b" "2" "c" "3"]
        ZRANGE z -2 -1 => ["d" "e"]
        ZRANGE z 3 1 => []
        ZRANGE z 0 1 REV WITHSCORES => ["e" "4" "d" "3"]
        ZREVRANGE z 0 1 => ["e" "d"]
        ZREVRANGE z -1 -1 WITHSCORES => ["a" "1"]
        ZRANGE z 0 9223372036854775807 => ["a" "b" "c" "d" "e"]
        ZRANGE z -9223372036854775808 0 => ["a"]
        ZRANGE z x 1 => ERR value is not an integer or out of range
        ZRANGE z 0 1 LIMIT 0 1 => ERR syntax error, LIMIT is only supported in combination with either BYSCORE or BYLEX
        ZRANGE z 0 1 LIMIT 0 -1 => ["a" "b"]
        ZRANGE z 0 1 nope => ERR syntax error
        ZRANGE z (1 3 BYSCORE => ["b" "c" "d"]
        ZRANGE z 3 (1 BYSCORE REV WITHSCORES => ["d" "3" "c" "3" "b" "2"]
        ZRANGE z -inf +inf BYSCORE LIMIT 1 2 => ["b" "c"]
        ZRANGE z -inf +inf BYSCORE LIMIT -1 2 => []
        ZRANGE z -inf +inf BYSCORE LIMIT 1 -5 => ["b" "c" "d" "e"]
        ZRANGE z +inf -inf BYSCORE REV LIMIT 1 2 => ["d" "c"]
        ZRANGE z -inf +inf BYSCORE LIMIT x 2 => ERR value is not an integer or out of range
        ZRANGE z -inf +inf BYSCORE LIMIT 1 => ERR syntax error
        ZRANGE z a b BYSCORE => ERR min or max is not a float
        ZRANGEBYSCORE z 2 3 => ["b" "c" "d"]
        ZRANGEBYSCORE z (2 (4 WITHSCORES LIMIT 1 1 => ["d" "3"]
        ZRANGEBYSCORE z 3 2 => []
        ZRANGEBYSCORE z 2 3 REV => ERR syntax error
        ZREVRANGEBYSCORE z 3 2 WITHSCORES => ["d" "3" "c" "3" "b" "2"]
        ZREVRANGEBYSCORE z +inf (3 => ["e"]
        ZCOUNT z 2 3 => 3
        ZCOUNT z (3 +inf => 1
        ZCOUNT z 5 1 => 0
        ZCOUNT z nan 1 => ERR min or max is not a float
        ZCOUNT none 0 1 => 0
        ZRANGE none 0 -1 => []
        ZRANGEBYSCORE none 0 1 WITHSCORES => []
        ZREMRANGEBYRANK z 0 0 => 1
        ZREMRANGEBYRANK z 9 10 => 0
        ZREMRANGEBYSCORE z (3 4 => 1
        ZREMRANGEBYSCORE z x 4 => ERR min or max is not a float
        ZRANGE z 0 -1 => ["b" "c" "d"]
        ZREMRANGEBYRANK z 0 -1 => 3
        EXISTS z => 0
        SET s text => OK
        ZRANGE s 0 -1 => WRONGTYPE Operation against a key holding the wrong kind of value
        ZRANGE s x -1 => ERR value is not an integer or out of range
        ZCOUNT s 0 1 => WRONGTYPE Operation against a key holding the wrong kind of value
        ZREMRANGEBYRANK s 0 1 => WRONGTYPE Operation against a key holding the wrong kind of value
        "#,
    );
}

#[test]
fn ranges_by_member() {
    Client::new().follow(
        r#"
        ZADD z 0 alpha 0 bar 0 cool 0 down 0 elephant 0 10 0 9 => 7
        ZRANGE z - + BYLEX => ["10" "9" "alpha" "bar" "cool" "down" "elephant"]
        ZRANGE z [b (d BYLEX => ["bar" "cool"]
        ZRANGE z (d [b BYLEX REV => ["cool" "bar"]
        ZRANGEBYLEX z - (b => ["10" "9" "alpha"]
        ZRANGEBYLEX z - + LIMIT 1 2 => ["9" "alpha"]
        ZRANGEBYLEX z + - => []
        ZREVRANGEBYLEX z + [c => ["elephant" "down" "cool"]
        ZREVRANGEBYLEX z + - LIMIT 0 2 => ["elephant" "down"]
        ZRANGEBYLEX z a b => ERR min or max not valid string range item
        ZRANGEBYLEX z -a + => ERR min or max not valid string range item
        ZRANGE z - + BYLEX WITHSCORES => ERR syntax error, WITHSCORES not supported in combination with BYLEX
        ZLEXCOUNT z - + => 7
        ZLEXCOUNT z [bar (down => 2
        ZLEXCOUNT z x y => ERR min or max not valid string range item
        ZREMRANGEBYLEX z [bar [cool => 2
        ZREMRANGEBYLEX z x y => ERR min or max not valid string range item
        ZRANGE z 0 -1 => ["10" "9" "alpha" "down" "elephant"]
        "#,
    );
}

#[test]
fn stored_ranges() {
    Client::new().follow(
        r#"
        ZADD z 1 a 2 b 3 c 4 d => 4
        ZRANGESTORE d z 1 2 => 2
        ZRANGE d 0 -1 WITHSCORES => ["b" "2" "c" "3"]
        ZRANGESTORE d z (1 +inf BYSCORE LIMIT 1 1 => 1
        ZRANGE d 0 -1 WITHSCORES => ["c" "3"]
        ZRANGESTORE d z 0 0 REV => 1
        ZRANGE d 0 -1 => ["d"]
        ZRANGESTORE d z 0 -1 WITHSCORES => ERR syntax error
        ZRANGESTORE d none 0 -1 => 0
        EXISTS d => 0
        SET d text => OK
        ZRANGESTORE d z 9 9 => 0
        EXISTS d => 0
        EXPIRE z 100 => 1
        ZRANGESTORE z z 0 1 => 2
        TTL z => -1
        ZRANGE z 0 -1 => ["a" "b"]
        SET s text => OK
        ZRANGESTORE d s 0 -1 => WRONGTYPE Operation against a key holding the wrong kind of value
        OBJECT ENCODING z => "listpack"
        "#,
    );
}

#[test]
fn popping() {
    Client::new().follow(
        r#"
        ZADD z 1 a 2 b 3 c 4 d 5 e 6 f => 6
        ZPOPMIN z => ["a" "1"]
        ZPOPMAX z => ["f" "6"]
        ZPOPMIN z 0 => []
        ZPOPMAX z 2 => ["e" "5" "d" "4"]
        ZPOPMIN z -1 => ERR value is out of range, must be positive
        ZPOPMIN z x => ERR value is out of range, must be positive
        ZPOPMIN z 1 2 => ERR syntax error
        ZPOPMIN none => []
        ZMPOP 2 none z MIN => ["z" [["b" "2"]]]
        ZMPOP 1 none MAX COUNT 2 => nil-array
        ZMPOP 0 z MIN => ERR numkeys should be greater than 0
        ZMPOP 2 z MIN => ERR syntax error
        ZMPOP 1 z MIN COUNT 0 => ERR count should be greater than 0
        ZMPOP 1 z MIN COUNT 1 COUNT 2 => ERR syntax error
        ZMPOP 1 z MIN LIMIT 1 => ERR syntax error
        ZADD z 7 g 8 h => 2
        ZMPOP 1 z MAX COUNT 9 => ["z" [["h" "8"] ["g" "7"] ["c" "3"]]]
        EXISTS z => 0
        ZADD z 1 a 2 b => 2
        BZPOPMIN none z 0 => ["z" "a" "1"]
        BZPOPMAX z none 1.5 => ["z" "b" "2"]
        BZPOPMIN z x => ERR timeout is not a float or out of range
        BZPOPMIN z -1 => ERR timeout is negative
        BZPOPMIN z 1 => nil-array
        ZADD z 1 a => 1
        BZMPOP 1 2 none z MAX => ["z" [["a" "1"]]]
        BZMPOP x 1 z MAX => ERR timeout is not a float or out of range
        BZMPOP 1 0 z MAX => ERR numkeys should be greater than 0
        BZMPOP -1 1 z MAX COUNT 0 => ERR count should be greater than 0
        SET s text => OK
        ZPOPMIN s => WRONGTYPE Operation against a key holding the wrong kind of value
        ZPOPMIN s 0 => WRONGTYPE Operation against a key holding the wrong kind of value
        ZMPOP 2 none s MIN => WRONGTYPE Operation against a key holding the wrong kind of value
        BZPOPMIN none s 0 => WRONGTYPE Operation against a key holding the wrong kind of value
        "#,
    );
}

#[test]
fn unions_intersections_and_differences() {
    Client::new().follow(
        r#"
        ZADD a 1 x 2 y 3 z => 3
        ZADD b 10 y 20 z 30 w => 3
        SADD s y z q => 3
        ZUNION 2 a b => ["x" "y" "z" "w"]
        ZUNION 2 a b WITHSCORES => ["x" "1" "y" "12" "z" "23" "w" "30"]
        ZUNION 3 a b s WEIGHTS 1 2 3 WITHSCORES => ["x" "1" "q" "3" "y" "25" "z" "46" "w" "60"]
        ZUNION 2 a b AGGREGATE MIN WITHSCORES => ["x" "1" "y" "2" "z" "3" "w" "30"]
        ZUNION 2 a b AGGREGATE MAX WITHSCORES => ["x" "1" "y" "10" "z" "20" "w" "30"]
        ZUNION 3 a b s AGGREGATE COUNT WITHSCORES => ["q" "1" "w" "1" "x" "1" "y" "3" "z" "3"]
        ZUNION 3 a b s WEIGHTS 2 3 4 AGGREGATE COUNT WITHSCORES => ["x" "2" "w" "3" "q" "4" "y" "9" "z" "9"]
        ZINTER 3 a b s WITHSCORES => ["y" "13" "z" "24"]
        ZINTER 2 a b WEIGHTS 2 0.5 WITHSCORES AGGREGATE MIN => ["y" "4" "z" "6"]
        ZINTER 2 a none => []
        ZDIFF 2 a s WITHSCORES => ["x" "1"]
        ZDIFF 2 a none => ["x" "y" "z"]
        ZDIFF 2 none a => []
        ZDIFF 1 a WEIGHTS 1 => ERR syntax error
        ZINTERCARD 2 a b => 2
        ZINTERCARD 2 a b LIMIT 1 => 1
        ZINTERCARD 2 a b LIMIT 0 => 2
        ZINTERCARD 2 a b LIMIT -1 => ERR LIMIT can't be negative
        ZINTERCARD 2 a b WITHSCORES => ERR syntax error
        ZUNIONSTORE d 2 a b => 4
        ZRANGE d 0 -1 WITHSCORES => ["x" "1" "y" "12" "z" "23" "w" "30"]
        ZINTERSTORE d 2 a b => 2
        ZRANGE d 0 -1 WITHSCORES => ["y" "12" "z" "23"]
        ZDIFFSTORE d 2 a b => 1
        ZRANGE d 0 -1 WITHSCORES => ["x" "1"]
        ZINTERSTORE d 2 a none => 0
        EXISTS d => 0
        ZUNIONSTORE a 1 a WEIGHTS -1 => 3
        ZRANGE a 0 -1 WITHSCORES => ["z" "-3" "y" "-2" "x" "-1"]
        ZUNION 0 a => ERR at least 1 input key is needed for 'zunion' command
        ZUNION x a => ERR value is not an integer or out of range
        ZUNION 3 a b => ERR syntax error
        ZUNION 2 a b WEIGHTS 1 => ERR syntax error
        ZUNION 2 a b WEIGHTS 1 x => ERR weight value is not a float
        ZUNION 2 a b AGGREGATE AVG => ERR syntax error
        ZUNIONSTORE d 2 a b WITHSCORES => ERR syntax error
        SET t text => OK
        ZUNION 2 a t => WRONGTYPE Operation against a key holding the wrong kind of value
        ZUNION 2 a t nonsense => WRONGTYPE Operation against a key holding the wrong kind of value
        ZUNIONSTORE t 1 a => 3
        TYPE t => zset
        ZADD i inf m => 1
        ZADD j -inf m => 1
        ZUNION 2 i j WITHSCORES => ["m" "0"]
        ZINTER 2 i j WITHSCORES => ["m" "0"]
        ZUNION 1 i WEIGHTS 0 WITHSCORES => ["m" "0"]
        "#,
    );
}

#[test]
fn random_members_and_walks() {
    Client::new().follow(
        r#"
        ZADD z 1 a => 1
        ZRANDMEMBER z => "a"
        ZRANDMEMBER z 3 => ["a"]
        ZRANDMEMBER z -3 => ["a" "a" "a"]
        ZRANDMEMBER z 0 => []
        ZRANDMEMBER z -2 WITHSCORES => ["a" "1" "a" "1"]
        ZRANDMEMBER z 1 NOPE => ERR syntax error
        ZRANDMEMBER z x => ERR value is not an integer or out of range
        ZRANDMEMBER z 1 WITHSCORES x => ERR syntax error
        ZRANDMEMBER z -9223372036854775808 => ERR value is out of range, value must between -9223372036854775807 and 9223372036854775807
        ZRANDMEMBER z -9223372036854775807 WITHSCORES => ERR value is out of range
        ZRANDMEMBER none => nil
        ZRANDMEMBER none 1 => []
        ZADD z 2.5 b 3 cc => 2
        ZSCAN z 0 => ["0" ["a" "1" "b" "2.5" "cc" "3"]]
        ZSCAN z 0 MATCH [ab] => ["0" ["a" "1" "b" "2.5"]]
        ZSCAN z 0 COUNT 1 MATCH c* => ["0" ["cc" "3"]]
        ZSCAN none 0 => ["0" []]
        ZSCAN z x => ERR invalid cursor
        ZSCAN z 0 COUNT 0 => ERR syntax error
        ZSCAN z 0 NOVALUES => ERR NOVALUES option can only be used in HSCAN
        ZADD y 1 a 2 b => 2
        ZSCAN y 0 NOSCORES => ["0" ["a" "b"]]
        SET s text => OK
        ZSCAN s 0 => WRONGTYPE Operation against a key holding the wrong kind of value
        ZRANDMEMBER s => WRONGTYPE Operation against a key holding the wrong kind of value
        "#,
    );
}
