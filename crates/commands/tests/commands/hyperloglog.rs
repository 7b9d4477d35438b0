//! HyperLogLogs: Redis's replies.

use crate::client::Client;

#[test]
fn elements_are_counted() {
    Client::new().follow(
        r#"
        PFCOUNT none => 0
        EXISTS none => 0
        PFADD a => 1
        PFADD a => 0
        GET a => "HYLL\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x80\x7f\xff"
        PFADD a a b c => 1
        PFADD a a b c => 0
        GET a => "HYLL\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x80`\xf3\x80P\xb1\x84K\xfb\x80BZ"
        PFCOUNT a => 3
        GET a => "HYLL\x01\x00\x00\x00\x03\x00\x00\x00\x00\x00\x00\x00`\xf3\x80P\xb1\x84K\xfb\x80BZ"
        PFADD b c d => 1
        PFCOUNT a b => 4
        PFMERGE m a b none => OK
        PFCOUNT m => 4
        PFMERGE n => OK
        PFCOUNT n => 0
        EXPIRE a 100 => 1
        PFADD a x y z => 1
        PFDEBUG TODENSE a => 1
        PFADD a u v w => 1
        TTL a => 100
        PFCOUNT a => 9
        PFMERGE m a => OK
        PFDEBUG ENCODING m => dense
        STRLEN m => 12304
        PFCOUNT m => 10
        "#,
    );
}

#[test]
fn the_inside_is_shown() {
    Client::new().follow(
        r#"
        PFDEBUG ENCODING none => ERR The specified key does not exist
        PFADD a a b c => 1
        PFDEBUG ENCODING a => sparse
        PFDEBUG DECODE a => "Z:8436 v:1,1 Z:4274 v:2,1 Z:3068 v:1,1 Z:603"
        PFDEBUG NOPE a => ERR Unknown PFDEBUG subcommand 'NOPE'
        PFDEBUG GETREG a => [0 0 0...
        PFDEBUG ENCODING a => dense
        PFDEBUG TODENSE a => 0
        PFDEBUG DECODE a => ERR HLL encoding is not sparse
        PFDEBUG SIMD x => ERR Argument must be ON or OFF
        PFDEBUG SIMD off => disabled
        PFCOUNT a => 3
        PFCOUNT a a => 3
        PFDEBUG SIMD ON => enabled
        PFCOUNT a a => 3
        PFSELFTEST => OK
        "#,
    );
}

#[test]
fn other_strings_are_refused() {
    Client::new().follow(
        r#"
        SET s HYLL => OK
        PFADD s a => WRONGTYPE Key is not a valid HyperLogLog string value.
        PFCOUNT s => WRONGTYPE Key is not a valid HyperLogLog string value.
        PFMERGE m s => WRONGTYPE Key is not a valid HyperLogLog string value.
        EXISTS m => 0
        PFADD a a b c => 1
        SETRANGE a 15 "\x80`" => 27
        APPEND a "\x00" => 28
        PFCOUNT a => INVALIDOBJ Corrupted HLL object detected
        PFADD a d => 1
        PFCOUNT a a => INVALIDOBJ Corrupted HLL object detected
        PFMERGE m a => INVALIDOBJ Corrupted HLL object detected
        PFDEBUG TODENSE a => INVALIDOBJ Corrupted HLL object detected
        SETRANGE a 16 "\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00" => 31
        PFADD a d => INVALIDOBJ Corrupted HLL object detected
        "#,
    );
}
