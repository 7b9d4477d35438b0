//! Clients that cache by prefix (`BCAST`) without permission for every key: no names leak.

use crate::harness::*;

with_each_backend!(
    names_of_unreadable_keys_are_not_told,
    later_permissions_count,
    the_user_who_tracks_counts_wherever_it_is_told,
    databases_count,
);

/// A connection of a user with these rules that speaks RESP3 and tracks all prefixes.
fn tracking_as(server: &Server, name: &str, rules: &[&str], options: &[&str]) -> Client {
    let rules = [&["ACL", "SETUSER", name, "reset", "on", "nopass", "+@all"], rules].concat();
    assert_eq!(server.connect().text(&rules), "OK");
    let mut client = server.connect();
    client.call(&["HELLO", "3", "AUTH", name, "x"]);
    let track = [&["CLIENT", "TRACKING", "ON", "BCAST"], options].concat();
    assert_eq!(client.text(&track), "OK");
    client
}

/// Sets keys by one connection, and asserts that a client gets invalidations of exactly some of
/// them. The last key must be among these.
fn assert_told(writer: &mut Client, client: &mut Client, set: &[&str], told: &[&str]) {
    set.iter().for_each(|key| drop(writer.call(&["SET", key, "1"])));
    for key in told {
        let next = show(&client.receive().expect("an invalidation"));
        assert_eq!(next, format!("[invalidate [{key}]]"), "of {set:?}");
    }
    assert_eq!(client.text(&["PING"]), "PONG");
}

fn names_of_unreadable_keys_are_not_told(backend: &str) {
    let server = Server::start(backend, &[]);
    let mut writer = server.connect();
    let keys = ["secret", "b", "a1", "%R", "w", "a2"];
    for options in [&[][..], &["NOLOOP"], &["PREFIX", "a", "PREFIX", "s", "PREFIX", "b"]] {
        let mut client = tracking_as(&server, "limited", &["~a*", "%W~w*"], options);
        assert_told(&mut writer, &mut client, &keys, &["a1", "a2"]);
        // Several in one turn.
        writer.call(&["MSET", "secret", "1", "a1", "1", "b", "1", "a2", "1"]);
        let next = show(&client.receive().expect("an invalidation"));
        assert_eq!(next, "[invalidate [a1 a2]]", "{options:?}");
        writer.call(&["MSET", "secret", "1", "b", "1"]);
        assert_told(&mut writer, &mut client, &keys, &["a1", "a2"]);
    }
    // Changed by the client itself in the same turn as by a script of it, with NOLOOP and without.
    let mut looping = tracking_as(&server, "looping", &["~a*"], &[]);
    looping.call(&["SET", "a3", "1"]);
    assert_eq!(show(&looping.receive().unwrap()), "[invalidate [a3]]");
    // A selector counts as the root does, and so does a limited default user.
    let mut client = tracking_as(&server, "selected", &["~a*", "(%R~b* +get)"], &[]);
    assert_told(&mut writer, &mut client, &keys, &["b", "a1", "a2"]);
    let mut client = tracking_as(&server, "full", &["allkeys"], &[]);
    assert_told(&mut writer, &mut client, &keys, &keys);
    let mut default = server.connect();
    default.call(&["HELLO", "3"]);
    default.call(&["CLIENT", "TRACKING", "ON", "BCAST"]);
    let mut above = server.connect();
    server.connect().call(&["ACL", "SETUSER", "above", "on", "nopass", "~*", "+@all", "&*"]);
    above.call(&["AUTH", "above", "x"]);
    above.call(&["ACL", "SETUSER", "default", "resetkeys", "~a*"]);
    assert_told(&mut above, &mut default, &keys, &["a1", "a2"]);
    // All keys have no names.
    above.call(&["FLUSHALL"]);
    assert_eq!(show(&default.receive().unwrap()), "[invalidate nil]");
}

fn later_permissions_count(backend: &str) {
    let server = Server::start(backend, &[]);
    let (mut writer, mut admin) = (server.connect(), server.connect());
    let keys = ["c", "b", "a", "b2", "a2"];
    let mut client = tracking_as(&server, "limited", &["~a*"], &[]);
    assert_told(&mut writer, &mut client, &keys, &["a", "a2"]);
    admin.call(&["ACL", "SETUSER", "limited", "%R~b*"]);
    assert_told(&mut writer, &mut client, &keys, &["b", "a", "b2", "a2"]);
    admin.call(&["ACL", "SETUSER", "limited", "allkeys"]);
    assert_told(&mut writer, &mut client, &keys, &keys);
    admin.call(&["ACL", "SETUSER", "limited", "resetkeys"]);
    assert_told(&mut writer, &mut client, &keys, &[]);
    admin.call(&["ACL", "SETUSER", "other", "on", "nopass", "+@all", "~b*"]);
    assert_eq!(client.text(&["AUTH", "other", "x"]), "OK");
    assert_told(&mut writer, &mut client, &keys, &["b", "b2"]);
    admin.call(&["ACL", "DELUSER", "other"]);
    keys.iter().for_each(|key| drop(writer.call(&["SET", key, "1"])));
    assert!(
        client.receive().is_none(),
        "a client of a removed user is closed, and told of nothing"
    );
    // A key read while it was permitted is invalidated when it changes: the copy is stale, and the
    // name is known.
    admin.call(&["ACL", "SETUSER", "reader", "on", "nopass", "+@all", "~a*"]);
    let mut client = server.connect();
    client.call(&["HELLO", "3", "AUTH", "reader", "x"]);
    client.call(&["CLIENT", "TRACKING", "ON"]);
    client.call(&["GET", "a"]);
    admin.call(&["ACL", "SETUSER", "reader", "resetkeys"]);
    assert_told(&mut writer, &mut client, &["b", "a", "a"], &["a"]);
}

fn the_user_who_tracks_counts_wherever_it_is_told(backend: &str) {
    let server = Server::start(backend, &[]);
    let mut writer = server.connect();
    let keys = ["secret", "a1", "b", "a2"];
    let mut target = server.connect();
    target.call(&["HELLO", "3"]);
    let id = target.text(&["CLIENT", "ID"]);
    let mut limited = tracking_as(&server, "limited", &["~a*"], &["REDIRECT", &id]);
    assert_told(&mut writer, &mut target, &keys, &["a1", "a2"]);
    assert_eq!(limited.text(&["CLIENT", "TRACKING", "OFF"]), "OK");
    // A connection for nothing but invalidations needs no permission of keys.
    assert_eq!(writer.text(&["ACL", "SETUSER", "deaf", "on", "nopass", "+ping", "+hello"]), "OK");
    assert_eq!(target.text(&["AUTH", "deaf", "x"]), "OK");
    let _full = tracking_as(&server, "full", &["~*"], &["REDIRECT", &id]);
    assert_told(&mut writer, &mut target, &keys, &keys);
}

fn databases_count(backend: &str) {
    let server = Server::start(backend, &[]);
    let mut writer = server.connect();
    let mut client = tracking_as(&server, "first", &["~*", "db=0"], &[]);
    writer.call(&["SELECT", "1"]);
    assert_told(&mut writer, &mut client, &["a", "b"], &[]);
    writer.call(&["SELECT", "0"]);
    assert_told(&mut writer, &mut client, &["a", "b"], &["a", "b"]);
    // A key changed in two databases in one turn is invalidated once.
    let mut full = tracking_as(&server, "full", &["~*"], &[]);
    writer.send_bytes(b"SELECT 1\r\nSET a 1\r\nSET c 1\r\nSELECT 0\r\nSET a 1\r\n");
    assert_eq!(show(&full.receive().unwrap()), "[invalidate [a c]]");
    assert_eq!(show(&client.receive().unwrap()), "[invalidate [a]]");
    (0..5).for_each(|_| drop(writer.receive()));
    let mut client = tracking_as(&server, "both", &["~b*", "db=1", "(~a* +@all db=0)"], &[]);
    writer.call(&["SELECT", "1"]);
    assert_told(&mut writer, &mut client, &["a", "b"], &["b"]);
    writer.call(&["SELECT", "0"]);
    assert_told(&mut writer, &mut client, &["a", "b"], &["a"]);
}
