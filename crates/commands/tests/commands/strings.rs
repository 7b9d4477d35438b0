//! Strings: replies as Redis gives them.

use crate::client::Client;

#[test]
fn whole_values() {
    Client::new().follow(
        r#"
        GET a => nil
        SET a 1 => OK
        SET a 2 NX => nil
        SET a 2 XX GET => "1"
        SET b 2 XX => nil
        SET b 2 NX GET => nil
        SET b 3 NX GET => "2"
        SET a x EX 0 => ERR invalid expire time in 'set' command
        SET a x EX 10 PX 10 => ERR syntax error
        SET a x EX => ERR syntax error
        SET a x KEEPTTL EX 10 => ERR syntax error
        SET a x NX XX => ERR syntax error
        SET a x EX abc => ERR value is not an integer or out of range
        SET a x EX 9223372036854775807 => ERR invalid expire time in 'set' command
        SET a x px 9223372036854775807 => ERR invalid expire time in 'set' command
        SET a x EX 0 NOPE => ERR syntax error
        SET a x EX abc PX 1 => ERR syntax error
        SET a x EX abc EX 0 => ERR invalid expire time in 'set' command
        SET b x XX EX 0 EX 10 XX GET GET => "2"
        TTL b => 10
        SET b 2 => OK
        GET a => "2"
        GETSET a 3 => "2"
        GETDEL a => "3"
        GETDEL a => nil
        SETNX a 1 => 1
        SETNX a 2 => 0
        SETEX a 10 v => OK
        TTL a => 10
        SET a w KEEPTTL => OK
        PTTL a => 10000
        SET a w => OK
        TTL a => -1
        PSETEX a 1500 v => OK
        PTTL a => 1500
        SETEX a -1 v => ERR invalid expire time in 'setex' command
        GETEX a PERSIST => "v"
        TTL a => -1
        GETEX a EX 5 => "v"
        TTL a => 5
        GETEX a PERSIST EX 5 => ERR syntax error
        GETEX a EX 0 EX 7 => "v"
        TTL a => 7
        GETEX a EX 5 PX 5 => ERR syntax error
        GETEX a EX 5 NOPE => ERR syntax error
        GETEX a EX => ERR syntax error
        GETEX none EX abc => nil
        GETEX a EX 0 => ERR invalid expire time in 'getex' command
        GETEX a PXAT 1 => "v"
        EXISTS a => 0
        SET a v PXAT 1 => OK
        EXISTS a => 0
        MSET a 1 b 2 a 3 => OK
        MGET a b c => ["3" "2" nil]
        MSET a 1 b => ERR wrong number of arguments for 'mset' command
        MSETNX c 1 a 2 => 0
        GET c => nil
        MSETNX c 1 d 2 => 1
        GET => ERR wrong number of arguments for 'get' command
        SET "\x00\xff" "\x00" => OK
        GET "\x00\xff" => "\x00"
        "#,
    );
}

#[test]
fn values_compared() {
    Client::new().follow(
        r#"
        SET a hello => OK
        SET a x IFEQ world => nil
        SET a world IFEQ hello => OK
        SET a x IFNE world => nil
        SET a x IFNE hello GET => "world"
        SET none x IFEQ "" => nil
        SET a x IFEQ => ERR syntax error
        DELEX a IFEQ y => 0
        DELEX a IFEQ x => 1
        DELEX a => 0
        SET a x => OK
        DELIFEQ a y => 0
        DELIFEQ a x => 1
        SET a Hello => OK
        DIGEST none => nil
        DELEX a IFDEQ 0000000000000000 => 0
        DELEX a IFDEQ 12 => ERR must be exactly 16 hexadecimal characters
        SET a y IFDNE 12 => ERR must be exactly 16 hexadecimal characters
        SET none y IFDEQ 12 => nil
        DELEX none IFDEQ 12 => 0
        DELEX none WHAT 12 => 0
        DELEX a WHAT 12 => ERR Invalid condition. Use IFEQ, IFNE, IFDEQ, or IFDNE
        DELEX a IFEQ => ERR wrong number of arguments for 'delex' command
        DELEX a IFDNE 0000000000000000 => 1
        "#,
    );
}

#[test]
fn digests_compare_whatever_the_representation() {
    let mut client = Client::new();
    client.follow("SET a 123 => OK");
    let digest = client.run("DIGEST a");
    client.follow("SETRANGE a 0 123 => 3");
    assert_eq!(client.run("DIGEST a"), digest);
    client.follow(&format!("SET a 4 IFDEQ {digest} => OK"));
    client.follow(&format!("DELEX a IFDEQ {digest} => 0"));
}

#[test]
fn parts() {
    Client::new().follow(
        r#"
        APPEND n 12 => 2
        OBJECT ENCODING n => "int"
        APPEND n 3 => 3
        OBJECT ENCODING n => "raw"
        INCR n => 124
        APPEND e "" => 0
        EXISTS e => 1
        SETRANGE m 5 "" => 0
        EXISTS m => 0
        SETRANGE m -1 x => ERR offset is out of range
        SETRANGE m x x => ERR value is not an integer or out of range
        SETRANGE m 3 ab => 5
        GET m => "\x00\x00\x00ab"
        SETRANGE m 536870912 a => ERR string exceeds maximum allowed size (proto-max-bulk-len)
        SETRANGE m 536870911 "" => 5
        SETRANGE m 9223372036854775807 a => ERR string exceeds maximum allowed size (proto-max-bulk-len)
        STRLEN m => 5
        STRLEN zz => 0
        SET a ohmytext EX 100 => OK
        GETRANGE a 0 -1 => "ohmytext"
        GETRANGE a -3 -1 => "ext"
        GETRANGE a -100 2 => "ohm"
        GETRANGE a -100 -8 => "o"
        GETRANGE a -100 -9 => "o"
        GETRANGE a 0 -100 => "o"
        GETRANGE a -9 -100 => ""
        GETRANGE a 5 2 => ""
        GETRANGE a -1 -5 => ""
        GETRANGE a 8 9 => ""
        GETRANGE a x 5 => ERR value is not an integer or out of range
        GETRANGE a 0 99999999999999999999 => ERR value is not an integer or out of range
        GETRANGE a 0 9223372036854775807 => "ohmytext"
        GETRANGE a -9223372036854775808 -9223372036854775808 => "o"
        GETRANGE zz 0 5 => ""
        GETRANGE zz x 5 => ERR value is not an integer or out of range
        SUBSTR a 0 1 => "oh"
        SETRANGE a 2 YO => 8
        APPEND a ! => 9
        GET a => "ohYOtext!"
        TTL a => 100
        "#,
    );
}

#[test]
fn strings_grow_to_the_limit_and_no_further() {
    let mut client = Client::new();
    client.host.string_len_max = 10;
    client.follow(
        r#"
        SET a 12345 => OK
        APPEND a 67890 => 10
        APPEND a 1 => ERR string exceeds maximum allowed size (proto-max-bulk-len)
        APPEND a "" => 10
        SETRANGE a 9 0 => 10
        SETRANGE a 9 01 => ERR string exceeds maximum allowed size (proto-max-bulk-len)
        GET a => "1234567890"
        "#,
    );
}

#[test]
fn long_strings_are_read_in_part() {
    let mut client = Client::new();
    let long = vec![b'x'; 100_000];
    client.call(&[b"SET", b"a", &long]);
    client.follow(
        r#"
        APPEND a end => 100003
        GETRANGE a -4 -1 => "xend"
        SETRANGE a 99999 END => 100003
        GETRANGE a -4 -1 => "ENDd"
        "#,
    );
    client.call(&[b"COPY", b"a", b"b"]);
    client.follow(
        r#"
        APPEND a 1 => 100004
        STRLEN b => 100003
        "#,
    );
}

#[test]
fn common_subsequences() {
    Client::new().follow(
        r#"
        MSET a ohmytext b mynewtext => OK
        LCS a b => "mytext"
        LCS a b LEN => 6
        LCS a b IDX => ["matches" [[[4 7] [5 8]] [[2 3] [0 1]]] "len" 6]
        LCS a b IDX MINMATCHLEN 4 => ["matches" [[[4 7] [5 8]]] "len" 6]
        LCS a b IDX MINMATCHLEN 4 WITHMATCHLEN => ["matches" [[[4 7] [5 8] 4]] "len" 6]
        LCS a b IDX MINMATCHLEN -5 => ["matches" [[[4 7] [5 8]] [[2 3] [0 1]]] "len" 6]
        LCS a b IDX LEN => ERR If you want both the length and indexes, please just use IDX.
        LCS a b WITHMATCHLEN => "mytext"
        LCS a b MINMATCHLEN => ERR syntax error
        LCS a b MINMATCHLEN x => ERR value is not an integer or out of range
        LCS a b FOO => ERR syntax error
        LCS a zz => ""
        LCS a zz IDX => ["matches" [] "len" 0]
        LCS zz zz LEN => 0
        LCS a a IDX WITHMATCHLEN => ["matches" [[[0 7] [0 7] 8]] "len" 8]
        "#,
    );
    Client::new().resp3().follow(r#"LCS a b IDX => {"matches": [], "len": 0}"#);
    let mut client = Client::new();
    client.host.string_len_max = 4 * 4 * 4;
    client.follow(
        r#"
        MSET a abc b abd c abcd => OK
        LCS a b => "ab"
        LCS a c => ERR Insufficient memory, transient memory for LCS exceeds proto-max-bulk-len
        "#,
    );
}

#[test]
fn integers() {
    Client::new().follow(
        r#"
        INCR a => 1
        DECR b => -1
        INCRBY a 9223372036854775806 => 9223372036854775807
        INCR a => ERR increment or decrement would overflow
        DECRBY a -9223372036854775808 => ERR decrement would overflow
        INCRBY a x => ERR value is not an integer or out of range
        INCRBY a 1.5 => ERR value is not an integer or out of range
        SET a "12 " => OK
        INCR a => ERR value is not an integer or out of range
        SET a 012 => OK
        INCR a => ERR value is not an integer or out of range
        SET a 5 EX 100 => OK
        DECRBY a 7 => -2
        TTL a => 100
        OBJECT ENCODING a => "int"
        "#,
    );
}

#[test]
fn floats() {
    Client::new().follow(
        r#"
        SET f 10.5 EX 100 => OK
        INCRBYFLOAT f 0.1 => "10.6"
        TTL f => 100
        INCRBYFLOAT f inf => ERR increment would produce NaN or Infinity
        INCRBYFLOAT f nan => ERR value is not a valid float
        INCRBYFLOAT f " 1" => ERR value is not a valid float
        INCRBYFLOAT f "" => ERR value is not a valid float
        INCRBYFLOAT f 0x1.8p1 => "13.6"
        INCRBYFLOAT f 1e5000 => ERR value is not a valid float
        INCRBYFLOAT f 1e17 => "100000000000000013.6015625"
        OBJECT ENCODING f => "embstr"
        INCRBYFLOAT g 5 => "5"
        INCR g => 6
        INCRBYFLOAT g -6 => "0"
        SET s abc => OK
        INCRBYFLOAT s 1 => ERR value is not a valid float
        SET s inf => OK
        INCRBYFLOAT s 1 => ERR increment would produce NaN or Infinity
        SET s 1e4932 => OK
        INCRBYFLOAT s 1e4932 => ERR increment would produce NaN or Infinity
        "#,
    );
}
