//! INCREX: replies as Redis gives them.

use crate::client::Client;

#[test]
fn integers_within_bounds() {
    Client::new().follow(
        r#"
        INCREX k => [1 1]
        INCREX k BYINT 9 => [10 9]
        INCREX k BYINT 5 UBOUND 12 => [10 0]
        INCREX k BYINT 5 UBOUND 12 SATURATE => [12 2]
        INCREX k BYINT 0 UBOUND 5 => [12 0]
        INCREX k BYINT 0 UBOUND 5 SATURATE => [5 -7]
        INCREX k BYINT -100 LBOUND 0 SATURATE => [0 -5]
        INCREX n LBOUND 10 => [0 0]
        EXISTS n => 0
        INCREX n LBOUND 10 SATURATE => [10 10]
        SET k 9223372036854775800 => OK
        INCREX k BYINT 100 => [9223372036854775800 0]
        INCREX k BYINT 100 SATURATE => [9223372036854775807 7]
        OBJECT ENCODING k => "int"
        SET k -9223372036854775808 => OK
        INCREX k BYINT 0 LBOUND 9223372036854775807 SATURATE => ERR applied increment would overflow
        SET k abc => OK
        INCREX k => ERR value is not an integer or out of range
        INCREX k BYINT x nope => ERR Increment is not an integer or out of range
        INCREX k UBOUND x LBOUND y EX 0 => ERR LBOUND is not an integer or out of range
        INCREX k UBOUND 1.5 => ERR UBOUND is not an integer or out of range
        INCREX k LBOUND 2 UBOUND 1 EX 0 => ERR LBOUND can't be greater than UBOUND
        INCREX k BYINT 1 BYFLOAT 1 => ERR syntax error
        INCREX k SATURATE SATURATE => ERR syntax error
        INCREX k BYINT => ERR syntax error
        "#,
    );
}

#[test]
fn floats_within_bounds() {
    Client::new().follow(
        r#"
        SET f 1 => OK
        INCREX f BYFLOAT 0.25 UBOUND 1.5 => ["1.25" "0.25"]
        INCREX f BYFLOAT 10 UBOUND 1.5 => ["1.25" "0"]
        INCREX f BYFLOAT 10 UBOUND 1.5 SATURATE => ["1.5" "0.25"]
        GET f => "1.5"
        OBJECT ENCODING f => "embstr"
        SET f 1000000000000000000 => OK
        INCREX f BYFLOAT 0.01 => ["1000000000000000000" "0"]
        INCREX f BYFLOAT 0.04 => ["1000000000000000000.0625" "0.0625"]
        INCREX f BYFLOAT -1e30 LBOUND -0.0 SATURATE => ["0" "-1000000000000000000.0625"]
        SET f 1e4932 => OK
        INCREX f BYFLOAT 1e4932 SATURATE => ["11897314953572317650...
        INCREX f BYFLOAT 1e4932 => ["11897314953572317650...
        INCREX f BYFLOAT 1e4932 UBOUND inf SATURATE => ERR applied increment would be Infinity
        INCREX f BYFLOAT 1 LBOUND inf => ERR LBOUND can't be greater than UBOUND
        INCREX f BYFLOAT 1 LBOUND nan => ERR LBOUND is not a valid float
        INCREX f BYFLOAT -inf => ERR BYFLOAT increment cannot be Infinity
        INCREX f BYFLOAT 1e5000 => ERR Increment is not a valid float
        SET f inf => OK
        INCREX f BYFLOAT 1 => ERR value cannot be Infinity
        "#,
    );
    Client::new()
        .resp3()
        .follow("INCREX f BYFLOAT 1000000000000000000.0625 => [Double(1e18) Double(1e18)]");
}

#[test]
fn expiry_changes_with_the_value_only() {
    Client::new().follow(
        r#"
        INCREX k EX 100 => [1 1]
        INCREX k => [2 1]
        TTL k => 100
        INCREX k EX 200 ENX => [3 1]
        TTL k => 100
        INCREX k EX 200 UBOUND 3 => [3 0]
        TTL k => 100
        INCREX k EX 200 UBOUND 3 SATURATE => [3 0]
        TTL k => 200
        INCREX k PERSIST => [4 1]
        TTL k => -1
        INCREX k BYFLOAT 0.5 PX 50000 ENX => ["4.5" "0.5"]
        PTTL k => 50000
        INCREX k BYFLOAT 1 => ["5.5" "1"]
        PTTL k => 50000
        INCREX k BYFLOAT 1 PXAT 1 => ["6.5" "1"]
        EXISTS k => 0
        INCREX k EXAT 1 => [1 1]
        EXISTS k => 0
        INCREX k EX 0 => ERR invalid expire time in 'increx' command
        INCREX k EX x => ERR value is not an integer or out of range
        INCREX k ENX => ERR ENX flag requires an expiration
        INCREX k PERSIST ENX => ERR syntax error
        INCREX k EX 1 EX 2 => ERR syntax error
        INCREX k EX 1 PERSIST => ERR syntax error
        INCREX k KEEPTTL => ERR syntax error
        "#,
    );
}
