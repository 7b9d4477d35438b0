//! Backups of the log: uploads follow the log from file to file.

use crate::backup::{Store, name};
use crate::harness::*;

const LOG: [&str; 2] = ["--appendonly", "yes"];

impl Store {
    /// A server that ships its log, and goes on in a new file after this many seconds.
    fn logging(&self, seconds: &str) -> Server {
        self.server(&[LOG[0], LOG[1], "--backup-log-interval", seconds])
    }

    /// A server that keeps a log and starts from a backup.
    fn restored_log(&self, from: &str) -> Server {
        let from = format!("{}{from}", self.url);
        Server::start("epoll", &[LOG[0], LOG[1], "--restore-from", &from])
    }
}

/// Writes something, and waits until it is in the store.
fn write_and_ship(server: &Server, key: &str) {
    // The statistics are updated shortly afterwards.
    eventually("an end", || server.info("backup_in_progress") == 0);
    let shipped = server.info("backup_total_shipped");
    assert_eq!(server.connect().text(&["SET", key, "value"]), "OK");
    eventually("the log", || server.info("backup_total_shipped") > shipped);
    assert_eq!(server.info("backup_total_failures"), 0, "{}", server.output());
}

#[test]
fn a_log_is_shipped_as_it_grows() {
    let store = Store::new();
    let server = store.logging("1");
    for key in ["a", "b", "c"] {
        write_and_ship(&server, key);
    }
    // Nothing is written, so nothing grows.
    let files = server.info("backup_total_files");
    std::thread::sleep(std::time::Duration::from_millis(1500));
    assert_eq!(server.info("backup_total_files"), files);
    let backups = store.backups();
    assert_eq!(backups.len(), 1);
    assert!(name(&backups[0]).ends_with("Z-log"));
    assert!(store.list().contains(", up to 2"), "{}", store.list());
    // As if the machine had gone.
    drop(server);
    let restored = store.restored_log("");
    assert_eq!(restored.connect().text(&["EXISTS", "a", "b", "c"]), "3");
    // It is a log that goes on.
    restored.connect().call(&["SET", "d", "value"]);
    restored.connect().send(&["SHUTDOWN"]);
    let mut restored = restored;
    assert_eq!(restored.exit_code(), Some(0), "{}", restored.output());
    let again = Server::start_in(restored.into_scratch(), "epoll", &LOG);
    assert_eq!(again.connect().text(&["EXISTS", "a", "b", "c", "d"]), "4");
}

#[test]
fn a_log_that_was_rewritten_is_a_backup_of_its_own() {
    let store = Store::new();
    let server = store.logging("1");
    write_and_ship(&server, "a");
    server.connect().call(&["BGREWRITEAOF"]);
    eventually("the base", || store.list().lines().filter(|l| l.contains("up to")).count() == 2);
    // The new file begins with the libraries of functions, which may be shipped alone.
    write_and_ship(&server, "b");
    write_and_ship(&server, "b");
    let backups = store.backups();
    let count = |server: &Server| server.connect().text(&["EXISTS", "a", "b"]);
    assert_eq!(count(&store.restored_log("")), "2");
    assert_eq!(count(&store.restored_log(&format!("@{}", name(&backups[0])))), "1");
}

#[test]
fn a_server_that_stops_ships_the_rest_of_its_log() {
    let store = Store::new();
    let mut server = store.logging("3600");
    server.connect().call(&["RPUSH", "list", "a", "b"]);
    server.connect().send(&["SHUTDOWN"]);
    assert_eq!(server.exit_code(), Some(0), "{}", server.output());
    let restored = store.restored_log("");
    assert_eq!(restored.connect().text(&["LRANGE", "list", "0", "-1"]), "[a b]");
    // A present log is not replaced.
    let scratch = server.into_scratch();
    let args = ["--port", "0", "--unixsocket", "s", LOG[0], LOG[1], "--restore-from", &store.url];
    let output = run_to_end(&scratch, &args);
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(text.contains("appendonlydir is there already and would be replaced"), "{text}");
    // Nor does a server without a log know what to do with one.
    assert!(store.refusal("").contains("is a log: start with --appendonly yes"));
}

#[test]
fn a_log_begins_with_a_snapshot_that_was_restored() {
    let store = Store::new();
    let mut server = store.server(&[]);
    server.connect().call(&["SET", "key", "value"]);
    server.connect().send(&["SHUTDOWN", "SAVE"]);
    assert_eq!(server.exit_code(), Some(0), "{}", server.output());
    assert_eq!(store.restored_log("").connect().text(&["GET", "key"]), "value");
}

#[test]
fn what_is_shipped_under_load_is_one_moment() {
    let store = Store::new();
    let server = store.logging("1");
    let mut client = server.connect();
    let transaction: &[&[&str]] =
        &[&["MULTI"], &["INCR", "a"], &["LPUSH", "list", "element"], &["INCR", "b"], &["EXEC"]];
    let mut rounds = 0;
    for growth in 1..=3 {
        while server.info("backup_total_shipped") < growth {
            for _ in 0..20 {
                transaction.iter().for_each(|command| drop(client.call(command)));
                rounds += 1;
            }
            if growth == 2 && !server.output().contains("rewrote the log") {
                client.call(&["BGREWRITEAOF"]);
            }
        }
    }
    drop(server);
    let restored = store.restored_log("");
    let mut client = restored.connect();
    let a: i64 = client.text(&["GET", "a"]).parse().unwrap();
    assert_eq!(client.text(&["GET", "b"]), a.to_string());
    assert_eq!(client.text(&["LLEN", "list"]), a.to_string());
    assert!((1..=rounds).contains(&a), "{a} of {rounds}");
}
