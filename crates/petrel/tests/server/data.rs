//! Keys over sockets: transactions, expiry, several databases, what INFO says of them.

use crate::harness::*;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

with_each_backend!(
    transactions_are_whole,
    keys_expire_to_the_millisecond,
    nothing_expires_while_time_stands_still,
    who_imports_sees_what_has_expired,
    watches_of_closed_connections_are_forgotten,
);

fn who_imports_sees_what_has_expired(backend: &str) {
    let server = Server::start(backend, &[]);
    let mut client = server.connect();
    let refused = client.text(&["CLIENT", "IMPORT-SOURCE", "ON"]);
    assert_eq!(refused, "ERR Server is not in import mode");
    assert_eq!(client.text(&["CONFIG", "SET", "import-mode", "yes"]), "OK");
    assert_eq!(client.text(&["SET", "k", "1", "PX", "1"]), "OK");
    eventually("its end", || server.connect().text(&["GET", "k"]) == "nil");
    assert_eq!(client.text(&["CLIENT", "IMPORT-SOURCE", "ON"]), "OK");
    assert_eq!(client.text(&["GET", "k"]), "1");
    assert!(client.text(&["CLIENT", "INFO"]).contains(" flags=UI "));
    assert_eq!(client.text(&["RESET"]), "RESET");
    assert_eq!(client.text(&["GET", "k"]), "nil");
    assert_eq!(client.text(&["DBSIZE"]), "1");
    assert_eq!(client.text(&["CONFIG", "SET", "import-mode", "no"]), "OK");
    eventually("its removal", || server.connect().text(&["DBSIZE"]) == "0");
}

fn transactions_are_whole(backend: &str) {
    let server = Server::start(backend, &[]);
    let mut one = server.connect();
    let mut two = server.connect();
    one.send_bytes(b"MULTI\r\nSET a 1\r\nINCR a\r\nINCR b\r\nEXEC\r\n");
    let replies: Vec<String> = (0..5).map(|_| show(&one.receive().unwrap())).collect();
    assert_eq!(replies, ["OK", "QUEUED", "QUEUED", "QUEUED", "[OK 2 1]"]);

    one.text(&["WATCH", "a"]);
    one.text(&["MULTI"]);
    one.text(&["INCR", "b"]);
    assert_eq!(two.text(&["SET", "a", "3"]), "OK");
    assert_eq!(one.text(&["EXEC"]), "nil");
    assert_eq!(two.text(&["GET", "b"]), "1");

    one.text(&["MULTI"]);
    one.text(&["NOSUCH"]);
    assert!(one.text(&["EXEC"]).starts_with("EXECABORT"));
    one.send_bytes(b"MULTI\r\nINCR a\r\n");
    drop(one);
    assert_eq!(two.text(&["GET", "a"]), "3");
}

fn now_ms() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis() as i64
}

fn keys_expire_to_the_millisecond(backend: &str) {
    let server = Server::start(backend, &["--enable-debug-command", "yes"]);
    let mut client = server.connect();
    client.text(&["DEBUG", "SET-ACTIVE-EXPIRE", "0"]);
    assert_eq!(client.text(&["SET", "k", "v", "PX", "120"]), "OK");
    let expiry: i64 = client.text(&["PEXPIRETIME", "k"]).parse().unwrap();
    loop {
        let before = now_ms();
        let reply = client.text(&["GET", "k"]);
        let after = now_ms();
        if reply == "nil" {
            assert!(after >= expiry, "gone {} ms early", expiry - after);
            break;
        }
        assert!(before < expiry, "alive {} ms late", before - expiry);
    }
    client.text(&["SET", "unread", "v", "PX", "20"]);
    std::thread::sleep(Duration::from_millis(150));
    assert_eq!(client.text(&["DBSIZE"]), "1", "nobody looks for it");
    client.text(&["DEBUG", "SET-ACTIVE-EXPIRE", "1"]);
    eventually("it is found", || client.text(&["DBSIZE"]) == "0");
    assert_eq!(server.info("expired_keys"), 2);
}

fn nothing_expires_while_time_stands_still(backend: &str) {
    let server = Server::start(backend, &["--enable-debug-command", "yes", "--threads", "2"]);
    let mut clients = [server.connect(), server.connect()];
    assert_eq!(clients[0].text(&["DEBUG", "SET-ALLOW-ACCESS-EXPIRED", "1"]), "OK");
    clients[0].text(&["SET", "k", "v", "PX", "1"]);
    clients[0].text(&["HSET", "h", "f", "v", "g", "w"]);
    clients[1].text(&["HPEXPIRE", "h", "1", "FIELDS", "1", "f"]);
    std::thread::sleep(Duration::from_millis(5));
    for client in &mut clients {
        assert_eq!(client.text(&["GET", "k"]), "v");
        assert_eq!(client.text(&["HGETALL", "h"]), "[f v g w]");
    }
    assert_eq!(clients[1].text(&["DEBUG", "SET-ALLOW-ACCESS-EXPIRED", "0"]), "OK");
    for client in &mut clients {
        assert_eq!(client.text(&["GET", "k"]), "nil");
        assert_eq!(client.text(&["HGETALL", "h"]), "[g w]");
    }
}

fn watches_of_closed_connections_are_forgotten(backend: &str) {
    let server = Server::start(backend, &[]);
    let mut client = server.connect();
    client.text(&["WATCH", "a", "b"]);
    assert_eq!((server.info("watching_clients"), server.info("total_watched_keys")), (1, 2));
    drop(client);
    eventually("nobody watches", || server.info("watching_clients") == 0);
    assert_eq!(server.info("total_watched_keys"), 0);
}

#[test]
fn info_describes_the_databases() {
    let server = Server::start("epoll", &["--enable-debug-command", "yes"]);
    let mut client = server.connect();
    client.text(&["SELECT", "2"]);
    assert_eq!(client.text(&["DEBUG", "POPULATE", "1000", "p", "50"]), "OK");
    client.text(&["SET", "v", "1", "EX", "1000"]);
    let text = client.text(&["INFO", "keyspace"]);
    let line = text.lines().find(|line| line.starts_with("db2:")).unwrap();
    assert!(line.starts_with("db2:keys=1001,expires=1,avg_ttl="), "{line}");
    assert!(!text.contains("db0:"), "{text}");
    assert!(server.info("used_memory") > 50_000);
    let digest = client.text(&["DEBUG", "DIGEST"]);
    client.text(&["SET", "p:0", "other"]);
    assert_ne!(client.text(&["DEBUG", "DIGEST"]), digest);
    assert_eq!(client.text(&["MEMORY", "PURGE"]), "OK");
    assert_eq!(client.text(&["FLUSHALL"]), "OK");
    // Only the connections' memory is left.
    eventually("all is freed", || server.info("used_memory") == server.info("mem_clients_normal"));
}

#[test]
fn nobody_is_served_while_the_server_sleeps() {
    let server = Server::start("epoll", &["--enable-debug-command", "yes"]);
    // Of two workers each has one.
    let (mut one, mut other) = (server.connect(), server.connect());
    // The other worker may notice the first command just before it sleeps, so there are several
    // attempts.
    let is_held = (0..5).any(|_| {
        one.call(&["DEL", "n"]);
        for command in [&["SET", "k", "v", "PX", "300"][..], &["SET", "n", "1"]] {
            one.send(command);
        }
        one.send(&["DEBUG", "SLEEP", "0.4"]);
        while other.text(&["GET", "n"]) != "1" {}
        let seen = other.text(&["GET", "k"]);
        (0..3).for_each(|_| assert_eq!(show(&one.receive().unwrap()), "OK"));
        // A command that was kept out knows how late it is.
        seen == "nil"
    });
    assert!(is_held);
}
