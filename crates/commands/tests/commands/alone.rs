//! Commands about replication, cluster and modules, on a server without them.

use crate::client::Client;

#[test]
fn replication() {
    Client::new().follow(
        r#"
        "#,
    );
}

#[test]
fn nobody_acknowledges() {
    Client::new().follow(
        r#"
        WAIT 0 0 => 0
        WAIT -1 0 => 0
        WAIT x 0 => ERR value is not an integer or out of range
        WAIT 0 x => ERR timeout is not an integer or out of range
        WAIT 0 -1 => ERR timeout is negative
        WAIT 1 9223372036854775807 => ERR timeout is out of range
        WAITAOF 0 0 0 => [0 0]
        WAITAOF 2 0 0 => ERR value is out of range, value must between 0 and 1
        WAITAOF -1 0 0 => ERR value is out of range, value must between 0 and 1
        WAITAOF x 0 0 => ERR value is not an integer or out of range
        WAITAOF 1 x 0 => ERR value is out of range, must be positive
        WAITAOF 0 -1 0 => ERR value is out of range, must be positive
        WAITAOF 1 0 -1 => ERR timeout is negative
        WAITAOF 1 0 0 => ERR WAITAOF cannot be used when numlocal is set but appendonly is disabled.
        MULTI => OK
        WAIT 1 0 => QUEUED
        WAITAOF 0 1 0 => QUEUED
        EXEC => [0 [0 0]]
        "#,
    );
}

#[test]
fn cluster_mode_is_off() {
    let mut client = Client::new();
    client.follow(
        r#"
        CLUSTER => ERR wrong number of arguments for 'cluster' command
        CLUSTER FOO => ERR unknown subcommand 'FOO'. Try CLUSTER HELP.
        CLUSTER NODES x => ERR wrong number of arguments for 'cluster|nodes' command
        CLUSTER ADDSLOTS => ERR wrong number of arguments for 'cluster|addslots' command
        "#,
    );
    let calls =
        ["CLUSTER HELP", "CLUSTER INFO", "CLUSTER NODES", "CLUSTER SLOTS", "CLUSTER KEYSLOT k"];
    for call in calls.into_iter().chain(["ASKING", "CLUSTERSCAN 0"]) {
        client.follow(&format!("{call} => ERR This instance has cluster support disabled"));
    }
}

#[test]
fn modules_are_those_that_are_built_in() {
    Client::new().follow(
        r#"
        MODULE LIST => [["name" "vectorset" "ver" 1 "path" "" "args" []] ["name" "ReJSON" "ver" 81000 "path" "" "args" []] ["name" "bf" "ver" 81000 "path" "" "args" []] ["name" "search" "ver" 81000 "path" "" "args" []]]
        MODULE LIST x => ERR wrong number of arguments for 'module|list' command
        MODULE LOAD => ERR wrong number of arguments for 'module|load' command
        MODULE HELP => [MODULE <subcommand>...
        "#,
    );
}
