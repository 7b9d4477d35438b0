//! Lists: replies as Redis gives them.

use crate::client::Client;

#[test]
fn pushed_and_popped() {
    Client::new().follow(
        r#"
        RPUSH l a b c => 3
        LPUSH l 1 -2 => 5
        LRANGE l 0 -1 => ["-2" "1" "a" "b" "c"]
        LLEN l => 5
        TYPE l => list
        OBJECT ENCODING l => "listpack"
        LPUSHX l x => 6
        RPUSHX l y z => 8
        LPUSHX none x => 0
        RPUSHX none x => 0
        EXISTS none => 0
        LPOP l => "x"
        RPOP l => "z"
        LPOP l 2 => ["-2" "1"]
        RPOP l 2 => ["y" "c"]
        LPOP l 0 => []
        LPOP none => nil
        LPOP none 0 => nil-array
        RPOP none 5 => nil-array
        LPOP l -1 => ERR value is out of range, must be positive
        RPOP l abc => ERR value is out of range, must be positive
        LPOP l 1 2 => ERR wrong number of arguments for 'lpop' command
        RPOP l 9223372036854775807 => ["b" "a"]
        EXISTS l => 0
        LLEN l => 0
        SET s x => OK
        LPUSH s x => WRONGTYPE Operation against a key holding the wrong kind of value
        RPUSHX s x => WRONGTYPE Operation against a key holding the wrong kind of value
        LPOP s => WRONGTYPE Operation against a key holding the wrong kind of value
        LPOP s -1 => ERR value is out of range, must be positive
        LLEN s => WRONGTYPE Operation against a key holding the wrong kind of value
        LRANGE s 0 0 => WRONGTYPE Operation against a key holding the wrong kind of value
        LPUSH l => ERR wrong number of arguments for 'lpush' command
        GET l => nil
        RPUSH l "" => 1
        GET l => WRONGTYPE Operation against a key holding the wrong kind of value
        LPOP l => ""
        "#,
    );
    Client::new().resp3().follow(
        r#"
        LPOP none => nil
        LPOP none 1 => nil
        LRANGE none 0 -1 => []
        "#,
    );
}

#[test]
fn read_and_changed_by_index() {
    Client::new().follow(
        r#"
        RPUSH l a b c d e => 5
        LRANGE l 1 3 => ["b" "c" "d"]
        LRANGE l -2 -1 => ["d" "e"]
        LRANGE l 0 9223372036854775807 => ["a" "b" "c" "d" "e"]
        LRANGE l -9223372036854775808 0 => ["a"]
        LRANGE l 3 1 => []
        LRANGE l 5 9 => []
        LRANGE l x 0 => ERR value is not an integer or out of range
        LRANGE none 0 x => ERR value is not an integer or out of range
        LRANGE none 0 -1 => []
        LINDEX l 0 => "a"
        LINDEX l -1 => "e"
        LINDEX l 5 => nil
        LINDEX l -6 => nil
        LINDEX l -9223372036854775808 => nil
        LINDEX l x => ERR value is not an integer or out of range
        LINDEX none x => nil
        LSET l 1 B => OK
        LSET l -1 99999 => OK
        LSET l 5 x => ERR index out of range
        LSET l -6 x => ERR index out of range
        LSET l x x => ERR value is not an integer or out of range
        LSET none x x => ERR no such key
        LINSERT l BEFORE a first => 6
        LINSERT l after 99999 last => 7
        LINSERT l AFTER B 2 => 8
        LINSERT l BEFORE none x => -1
        LINSERT none BEFORE none x => 0
        LINSERT l NEAR a x => ERR syntax error
        LRANGE l 0 -1 => ["first" "a" "B" "2" "c" "d" "99999" "last"]
        LTRIM l 1 -2 => OK
        LRANGE l 0 -1 => ["a" "B" "2" "c" "d" "99999"]
        LTRIM l -3 9223372036854775807 => OK
        LTRIM l x 1 => ERR value is not an integer or out of range
        LTRIM none 0 0 => OK
        LRANGE l 0 -1 => ["c" "d" "99999"]
        LTRIM l 5 9 => OK
        EXISTS l => 0
        SET s x => OK
        LSET s x x => WRONGTYPE Operation against a key holding the wrong kind of value
        LINDEX s x => WRONGTYPE Operation against a key holding the wrong kind of value
        LINSERT s BEFORE x x => WRONGTYPE Operation against a key holding the wrong kind of value
        LTRIM s 0 0 => WRONGTYPE Operation against a key holding the wrong kind of value
        "#,
    );
}

#[test]
fn searched() {
    Client::new().follow(
        r#"
        RPUSH l a b c 1 2 3 c c => 8
        LPOS l c => 2
        LPOS l x => nil
        LPOS l 1 => 3
        LPOS l c RANK 2 => 6
        LPOS l c RANK -1 => 7
        LPOS l c RANK -3 => 2
        LPOS l c RANK 4 => nil
        LPOS l c COUNT 0 => [2 6 7]
        LPOS l c COUNT 2 => [2 6]
        LPOS l c COUNT 2 RANK -1 => [7 6]
        LPOS l c COUNT 5 RANK 3 => [7]
        LPOS l c COUNT 0 MAXLEN 3 => [2]
        LPOS l c COUNT 0 MAXLEN 2 => []
        LPOS l c COUNT 0 MAXLEN 2 RANK -1 => [7 6]
        LPOS l c COUNT 0 MAXLEN 0 => [2 6 7]
        LPOS l c RANK 0 => ERR RANK can't be zero: use 1 to start from the first match, 2 from the second ... or use negative to start from the end of the list
        LPOS l c RANK -9223372036854775808 => ERR value is out of range, value must between -9223372036854775807 and 9223372036854775807
        LPOS l c RANK x => ERR value is not an integer or out of range
        LPOS l c COUNT -1 => ERR COUNT can't be negative
        LPOS l c MAXLEN -1 => ERR MAXLEN can't be negative
        LPOS l c MAXLEN x => ERR MAXLEN can't be negative
        LPOS l c COUNT => ERR syntax error
        LPOS l c FOO 1 => ERR syntax error
        LPOS none c => nil
        LPOS none c COUNT 1 => []
        LREM l 1 c => 1
        LREM l -1 c => 1
        LRANGE l 0 -1 => ["a" "b" "1" "2" "3" "c"]
        LREM l 0 none => 0
        LREM none 0 x => 0
        LREM l -9223372036854775808 x => ERR value is out of range, value must between -9223372036854775807 and 9223372036854775807
        LREM l x x => ERR value is not an integer or out of range
        RPUSH l c c b => 9
        LREM l 0 c => 3
        LREM l 5 b => 2
        LREM l -5 1 => 1
        LREM l -5 2 => 1
        LREM l -5 3 => 1
        LREM l -5 a => 1
        EXISTS l => 0
        "#,
    );
}

#[test]
fn moved() {
    Client::new().follow(
        r#"
        RPUSH a 1 2 3 4 => 4
        LMOVE a b LEFT RIGHT => "1"
        LMOVE a b right left => "4"
        RPOPLPUSH a b => "3"
        LRANGE b 0 -1 => ["3" "4" "1"]
        LMOVE a a LEFT RIGHT => "2"
        EXPIRE a 100 => 1
        LMOVE a a LEFT LEFT => "2"
        RPOPLPUSH a a => "2"
        TTL a => 100
        LMOVE a b UP LEFT => ERR syntax error
        LMOVE none b LEFT LEFT => nil
        RPOPLPUSH none b => nil
        LMOVE b b LEFT RIGHT => "3"
        LMOVE b b RIGHT LEFT => "3"
        LMOVE b b RIGHT RIGHT => "1"
        LRANGE b 0 -1 => ["3" "4" "1"]
        SET s x => OK
        LMOVE b s LEFT LEFT => WRONGTYPE Operation against a key holding the wrong kind of value
        LMOVE s b LEFT LEFT => WRONGTYPE Operation against a key holding the wrong kind of value
        LMOVE none s LEFT LEFT => nil
        LRANGE b 0 -1 => ["3" "4" "1"]
        "#,
    );
}

#[test]
fn many_moved() {
    Client::new().follow(
        r#"
        RPUSH a 1 2 3 4 5 6 7 8 => 8
        LMOVEM a b LEFT RIGHT => ["1"]
        LMOVEM a b LEFT LEFT COUNT 2 OBO => ["3" "2"]
        LMOVEM a b LEFT LEFT COUNT 2 BULK => ["4" "5"]
        LRANGE b 0 -1 => ["4" "5" "3" "2" "1"]
        LMOVEM a b RIGHT RIGHT EXACTLY 2 OBO => ["8" "7"]
        LMOVEM a b RIGHT RIGHT EXACTLY 2 BULK => nil-array
        LMOVEM a b RIGHT LEFT COUNT 2 BULK => ["6"]
        EXISTS a => 0
        LRANGE b 0 -1 => ["6" "4" "5" "3" "2" "1" "8" "7"]
        LMOVEM b b LEFT RIGHT COUNT 3 BULK => ["6" "4" "5"]
        LMOVEM b b RIGHT LEFT COUNT 3 OBO => ["6" "4" "5"]
        LMOVEM b b LEFT LEFT COUNT 3 OBO => ["5" "4" "6"]
        LRANGE b 0 -1 => ["5" "4" "6" "3" "2" "1" "8" "7"]
        EXPIRE b 100 => 1
        LMOVEM b b LEFT LEFT COUNT 9 OBO => ["7" "8" "1" "2" "3" "6" "4" "5"]
        LMOVEM b b LEFT RIGHT COUNT 9 BULK => ["7" "8" "1" "2" "3" "6" "4" "5"]
        TTL b => 100
        LMOVEM b b LEFT RIGHT EXACTLY 9 BULK => nil-array
        LMOVEM b a LEFT RIGHT COUNT 0 OBO => ERR count should be greater than 0
        LMOVEM b a LEFT RIGHT EXACTLY x OBO => ERR count should be greater than 0
        LMOVEM b a LEFT RIGHT COUNT 1 => ERR syntax error
        LMOVEM b a LEFT RIGHT COUNT 1 OBO x => ERR syntax error
        LMOVEM b a LEFT RIGHT ABOUT 1 OBO => ERR syntax error
        LMOVEM b a LEFT RIGHT COUNT 1 ABO => ERR syntax error
        LMOVEM b a LEFT => ERR wrong number of arguments for 'lmovem' command
        LMOVEM none a LEFT LEFT => nil-array
        SET s x => OK
        LMOVEM b s LEFT LEFT COUNT 2 OBO => WRONGTYPE Operation against a key holding the wrong kind of value
        LLEN b => 8
        "#,
    );
}

#[test]
fn popped_from_the_first_list_of_several() {
    Client::new().follow(
        r#"
        RPUSH b 1 2 3 4 => 4
        LMPOP 2 a b LEFT => ["b" ["1"]]
        LMPOP 2 a b RIGHT COUNT 2 => ["b" ["4" "3"]]
        LMPOP 1 b LEFT COUNT 9 => ["b" ["2"]]
        LMPOP 1 b LEFT => nil-array
        LMPOP 0 b LEFT => ERR numkeys should be greater than 0
        LMPOP x b LEFT => ERR numkeys should be greater than 0
        LMPOP 2 b LEFT => ERR syntax error
        LMPOP 1 b UP => ERR syntax error
        LMPOP 1 b LEFT COUNT => ERR syntax error
        LMPOP 1 b LEFT COUNT 0 => ERR count should be greater than 0
        LMPOP 1 b LEFT COUNT 1 COUNT 1 => ERR syntax error
        LMPOP 9223372036854775807 b LEFT => ERR syntax error
        SET s x => OK
        LMPOP 2 s b LEFT => WRONGTYPE Operation against a key holding the wrong kind of value
        BLPOP a b 0 => nil-array
        RPUSH b 1 2 3 4 5 6 => 6
        BLPOP a b 0 => ["b" "1"]
        BRPOP a b 0 => ["b" "6"]
        BLMPOP 0 2 a b LEFT COUNT 2 => ["b" ["2" "3"]]
        BLMOVE b a LEFT RIGHT 0 => "4"
        BRPOPLPUSH b a 0 => "5"
        BLMOVEM a b LEFT LEFT 0 EXACTLY 2 BULK => ["5" "4"]
        BLMOVE a b LEFT RIGHT 0 => nil
        BLMOVEM a b LEFT RIGHT 0 => nil-array
        BLPOP a -1 => ERR timeout is negative
        BLPOP a x => ERR timeout is not a float or out of range
        BLMPOP x 0 a LEFT => ERR numkeys should be greater than 0
        BLMPOP x 1 a LEFT => ERR timeout is not a float or out of range
        BLPOP s 0 => WRONGTYPE Operation against a key holding the wrong kind of value
        "#,
    );
}

#[test]
fn encodings_follow_the_limit_and_come_back_at_half_of_it() {
    let mut client = Client::new();
    let limits = || client.exec.ks.keyspace().clone();
    let limits = limits();
    limits.limits().set_list_max_listpack_size(4);
    client.follow(
        r#"
        RPUSH l 1 2 3 4 => 4
        OBJECT ENCODING l => "listpack"
        RPUSH l 5 => 5
        OBJECT ENCODING l => "quicklist"
        LPOP l 2 => ["1" "2"]
        OBJECT ENCODING l => "quicklist"
        LPOP l => "3"
        OBJECT ENCODING l => "listpack"
        LINSERT l BEFORE 4 1 => 3
        RPUSH l 5 6 => 5
        OBJECT ENCODING l => "quicklist"
        LREM l 2 5 => 2
        LSET l 0 4 => OK
        OBJECT ENCODING l => "quicklist"
        LTRIM l 0 0 => OK
        OBJECT ENCODING l => "listpack"
        "#,
    );
    limits.limits().set_list_max_listpack_size(-1);
    let (half, most) = (vec![b'x'; 2020], vec![b'x'; 4089]);
    client.call(&[b"RPUSH", b"m", &most]);
    client.call(&[b"RPUSH", b"n", &most, b"x"]);
    client.follow(
        r#"
        OBJECT ENCODING m => "listpack"
        OBJECT ENCODING n => "quicklist"
        "#,
    );
    client.call(&[b"LSET", b"n", b"0", &half]);
    client.call(&[b"RPUSH", b"m", &half]);
    client.follow(
        r#"
        OBJECT ENCODING n => "listpack"
        OBJECT ENCODING m => "quicklist"
        LINDEX m 0 => "xxx...
        RPOP m => "xxx...
        OBJECT ENCODING m => "quicklist"
        COPY m o => 1
        OBJECT ENCODING o => "quicklist"
        "#,
    );
}
