//! Backups in a directory: shipped, listed, restored.

use crate::harness::*;
use std::path::{Path, PathBuf};

const DEBUG: [&str; 2] = ["--enable-debug-command", "yes"];

/// A store of its own, and its address.
pub struct Store {
    scratch: Scratch,
    pub url: String,
}

impl Store {
    pub fn new() -> Self {
        let scratch = Scratch::new();
        let path = scratch.path("backups");
        std::fs::create_dir(&path).unwrap();
        let url = format!("file://{}", path.display());
        Store { scratch, url }
    }

    /// The directories of its backups, the oldest first.
    pub fn backups(&self) -> Vec<PathBuf> {
        let Ok(entries) = std::fs::read_dir(self.scratch.path("backups")) else {
            return Vec::new();
        };
        let mut paths: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
        paths.retain(|path| path.is_dir());
        paths.sort_unstable();
        paths
    }

    /// Output of `petrel backups`.
    pub fn list(&self) -> String {
        let output = run_to_end(&self.scratch, &["backups", &self.url]);
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// A server that ships to it.
    pub fn server(&self, args: &[&str]) -> Server {
        let usual = ["--backup-store", &self.url, DEBUG[0], DEBUG[1]];
        Server::start("epoll", &[&usual, args].concat())
    }

    /// A server that starts from it.
    fn restored(&self, from: &str) -> Server {
        let from = format!("{}{from}", self.url);
        Server::start("epoll", &["--restore-from", &from, DEBUG[0], DEBUG[1]])
    }

    /// Error of a server that cannot start from the backup `from`.
    pub fn refusal(&self, from: &str) -> String {
        let (scratch, from) = (Scratch::new(), format!("{}{from}", self.url));
        let output =
            run_to_end(&scratch, &["--port", "0", "--unixsocket", "s", "--restore-from", &from]);
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        let left: Vec<_> = std::fs::read_dir(scratch.path(".")).unwrap().collect();
        assert!(left.is_empty(), "{left:?}");
        String::from_utf8(output.stderr).unwrap()
    }
}

pub fn name(backup: &Path) -> &str {
    backup.file_name().unwrap().to_str().unwrap()
}

/// Saves, and waits until it is shipped.
fn save_and_ship(server: &Server) {
    let shipped = server.info("backup_total_shipped");
    assert_eq!(server.connect().text(&["SAVE"]), "OK");
    eventually("the backup", || server.info("backup_total_shipped") > shipped);
    eventually("its end", || server.info("backup_in_progress") == 0);
}

#[test]
fn a_server_starts_from_what_another_has_shipped() {
    let store = Store::new();
    let server = store.server(&[]);
    let mut client = server.connect();
    client.call(&["DEBUG", "POPULATE", "1000", "key", "100"]);
    client.call(&["SET", "s", "text", "EX", "1000"]);
    let digest = client.text(&["DEBUG", "DIGEST"]);
    assert_eq!(client.text(&["BGSAVE"]), "Background saving started");
    eventually("the backup", || server.info("backup_total_shipped") == 1);
    eventually("its end", || server.info("backup_in_progress") == 0);
    assert_eq!(server.info("backup_total_failures"), 0);
    assert_eq!(server.info("backup_failing"), 0);
    let size = std::fs::metadata(server.scratch.path("dump.rdb")).unwrap().len();
    assert_eq!(server.info("backup_last_bytes"), size as i64);
    assert!(server.info("backup_last_time") >= server.info("backup_last_content_time"));
    assert!(server.output().contains("shipped the backup 2"), "{}", server.output());
    let list = store.list();
    assert!(list.contains(&format!(" {size}  Petrel ")), "{list}");

    let restored = store.restored("");
    assert_eq!(restored.connect().text(&["DEBUG", "DIGEST"]), digest);
    // It was for that start only.
    let shown = restored.connect().text(&["CONFIG", "GET", "restore-from"]);
    assert_eq!(shown, "[restore-from ]");
}

#[test]
fn a_backup_is_chosen_by_its_name() {
    let store = Store::new();
    let server = store.server(&[]);
    for value in ["first", "second"] {
        server.connect().call(&["SET", "key", value]);
        save_and_ship(&server);
    }
    let backups = store.backups();
    assert_eq!(backups.len(), 2);
    let first = format!("@{}", name(&backups[0]));
    assert_eq!(store.restored(&first).connect().text(&["GET", "key"]), "first");
    assert_eq!(store.restored("@latest").connect().text(&["GET", "key"]), "second");
    let refusal = store.refusal("@20010101T000000.000Z");
    assert!(refusal.contains("there is no complete backup 20010101T000000.000Z in"), "{refusal}");
    let refusal = store.refusal("@yesterday");
    assert!(refusal.contains("'yesterday' is no name of a backup"), "{refusal}");
}

#[test]
fn what_is_there_is_not_replaced() {
    let store = Store::new();
    let server = store.server(&[]);
    save_and_ship(&server);
    let scratch = Scratch::new();
    std::fs::write(scratch.path("dump.rdb"), "mine").unwrap();
    let args = ["--port", "0", "--unixsocket", "s", "--restore-from", &store.url];
    let output = run_to_end(&scratch, &args);
    assert_eq!(output.status.code(), Some(1));
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(text.contains("dump.rdb is there already and would be replaced"), "{text}");
    assert_eq!(std::fs::read(scratch.path("dump.rdb")).unwrap(), b"mine");
    // A file of Redis 6 that would be loaded in place of the backup, and a log that is not on.
    let commands = encode(&[b"SET", b"a", b"1"]);
    for name in ["appendonly.aof", "appendonlydir/appendonly.aof.1.incr.aof"] {
        let scratch = Scratch::new();
        std::fs::create_dir(scratch.path("appendonlydir")).unwrap();
        std::fs::write(scratch.path(name), &commands).unwrap();
        let output = run_to_end(&scratch, &args);
        let text = String::from_utf8(output.stderr).unwrap();
        let part = name.split('/').next().unwrap();
        assert!(text.contains(&format!("{part} is there already and would be replaced")), "{text}");
        assert_eq!(std::fs::read(scratch.path(name)).unwrap(), commands);
        assert!(!scratch.path("dump.rdb").exists());
    }
}

/// A missing directory is not created: without its volume, backups would fill the disk
/// of its mount point.
#[test]
fn a_directory_that_has_gone_is_not_made_anew() {
    let store = Store::new();
    let (here, away) = (store.scratch.path("backups"), store.scratch.path("away"));
    let server = store.server(&[]);
    save_and_ship(&server);
    let failing = |times: i64| {
        server.info("backup_failing") == 1 && server.info("backup_total_failures") >= times
    };
    let shipped = server.info("backup_total_shipped");
    std::fs::rename(&here, &away).unwrap();
    assert_eq!(server.connect().text(&["SAVE"]), "OK");
    eventually("the failure", || failing(1));
    assert!(server.output().contains("is its volume mounted?"), "{}", server.output());
    assert!(!here.exists());
    // Like a mount point after its volume has gone.
    std::fs::create_dir(&here).unwrap();
    let failures = server.info("backup_total_failures");
    eventually("the next failure", || failing(failures + 1));
    assert!(std::fs::read_dir(&here).unwrap().next().is_none());
    std::fs::remove_dir(&here).unwrap();
    std::fs::rename(&away, &here).unwrap();
    eventually("the backup", || server.info("backup_total_shipped") > shipped);
    eventually("the end of failing", || server.info("backup_failing") == 0);
    assert_eq!(store.backups().len(), 2);
}

#[test]
fn a_server_starts_without_the_directory_of_its_backups_and_says_so() {
    let store = Store::new();
    let here = store.scratch.path("backups");
    std::fs::remove_dir(&here).unwrap();
    let output = run_to_end(&store.scratch, &["backups", &store.url]);
    let text = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.contains("there is no such directory"), "{text}");
    assert!(store.refusal("").contains("restore-from: "));
    let server = store.server(&[]);
    assert_eq!(server.info("backup_failing"), 1);
    assert!(server.output().contains("no backup can be shipped to file://"), "{}", server.output());
    assert!(!here.exists());
    std::fs::create_dir(&here).unwrap();
    eventually("it is seen", || server.info("backup_failing") == 0);
    save_and_ship(&server);
    assert_eq!(store.backups().len(), 1);
    // An empty store is none that is missing.
    std::fs::remove_dir_all(&store.backups()[0]).unwrap();
    assert_eq!(store.list(), "");
}

#[test]
fn what_was_shipped_by_half_is_no_backup() {
    let store = Store::new();
    assert!(store.refusal("").contains("there is no complete backup in file://"));
    let server = store.server(&[]);
    for value in ["first", "second"] {
        server.connect().call(&["SET", "key", value]);
        save_and_ship(&server);
    }
    std::fs::remove_file(store.backups()[1].join("manifest")).unwrap();
    assert!(store.list().contains("not complete"), "{}", store.list());
    assert_eq!(store.restored("").connect().text(&["GET", "key"]), "first");
}

#[test]
fn a_damaged_backup_is_not_restored() {
    let store = Store::new();
    let server = store.server(&[]);
    server.connect().call(&["SET", "key", "value"]);
    save_and_ship(&server);
    let backup = store.backups().remove(0);
    let flip = |file: &str, at: usize| {
        let mut bytes = std::fs::read(backup.join(file)).unwrap();
        bytes[at] ^= 1;
        std::fs::write(backup.join(file), bytes).unwrap();
    };
    flip("dump.rdb", 20);
    let refusal = store.refusal("");
    assert!(
        refusal.contains(&format!("the backup {} is damaged: dump.rdb has", name(&backup))),
        "{refusal}"
    );
    flip("dump.rdb", 20);
    flip("manifest", 30);
    let refusal = store.refusal("");
    assert!(refusal.contains("its manifest does not match its checksum"), "{refusal}");
    flip("manifest", 30);
    let bytes = std::fs::read(backup.join("dump.rdb")).unwrap();
    std::fs::write(backup.join("dump.rdb"), &bytes[..bytes.len() - 1]).unwrap();
    assert!(store.refusal("").contains("is damaged"));
    std::fs::remove_file(backup.join("dump.rdb")).unwrap();
    assert!(store.refusal("").contains("is missing"));
    std::fs::write(backup.join("dump.rdb"), &bytes).unwrap();
    assert_eq!(store.restored("").connect().text(&["GET", "key"]), "value");
}

#[test]
fn the_newest_stay() {
    let store = Store::new();
    let server = store.server(&["--backup-keep", "2"]);
    for value in ["1", "2", "3", "4"] {
        server.connect().call(&["SET", "key", value]);
        save_and_ship(&server);
        if value == "1" {
            // A file of another program, and incomplete backups: an old one, and a recent one.
            for other in ["notes", "20010101T000000.000Z", "29990101T000000.000Z"] {
                std::fs::create_dir(store.scratch.path("backups").join(other)).unwrap();
                std::fs::write(store.scratch.path("backups").join(other).join("file"), "x")
                    .unwrap();
            }
        }
    }
    assert_eq!(server.info("backup_total_removed"), 3);
    let names = |store: &Store| {
        let all = store.backups();
        let files = |path: &PathBuf| std::fs::read_dir(path).unwrap().count();
        all.iter()
            .filter(|path| files(path) > 0)
            .map(|path| name(path).to_owned())
            .collect::<Vec<_>>()
    };
    let left = names(&store);
    assert_eq!(left.len(), 4, "{left:?}");
    assert!(
        left.contains(&"notes".to_owned()) && left.contains(&"29990101T000000.000Z".to_owned())
    );
    assert_eq!(server.connect().text(&["CONFIG", "SET", "backup-keep", "1"]), "OK");
    save_and_ship(&server);
    assert_eq!(names(&store).len(), 3);
    assert_eq!(store.restored("").connect().text(&["GET", "key"]), "4");
}

#[test]
fn a_store_that_fails_stops_nothing_and_is_tried_again() {
    let store = Store::new();
    // A file where there should be a directory.
    std::fs::remove_dir(store.scratch.path("backups")).unwrap();
    std::fs::write(store.scratch.path("backups"), "").unwrap();
    let server = store.server(&[]);
    let mut client = server.connect();
    client.call(&["SET", "key", "value"]);
    assert_eq!(client.text(&["SAVE"]), "OK");
    eventually("a failure", || server.info("backup_total_failures") > 0);
    assert_eq!(server.info("backup_failing"), 1);
    assert_eq!(server.info("backup_in_progress"), 1);
    assert!(client.text(&["INFO", "persistence"]).contains("rdb_last_bgsave_status:ok"));
    assert_eq!(client.text(&["SET", "key", "other"]), "OK");
    let log = server.output();
    assert!(log.contains("failed; the next try is in 1 s"), "{log}");
    assert!(log.contains("backups: it is no directory"), "{log}");
    std::fs::remove_file(store.scratch.path("backups")).unwrap();
    std::fs::create_dir(store.scratch.path("backups")).unwrap();
    eventually("the backup", || server.info("backup_total_shipped") == 1);
    eventually("the end of failing", || server.info("backup_failing") == 0);
    assert_eq!(store.restored("").connect().text(&["GET", "key"]), "value");
}

#[test]
fn what_was_not_shipped_before_the_end_is_shipped_at_the_start() {
    let store = Store::new();
    let mut server = Server::start("epoll", &[]);
    server.connect().call(&["SET", "key", "value"]);
    server.connect().send(&["SHUTDOWN", "SAVE"]);
    assert_eq!(server.exit_code(), Some(0));
    let mut scratch = server.into_scratch();
    for _ in 0..2 {
        let args = ["--backup-store", &store.url];
        let mut server = Server::start_in(scratch, "epoll", &args);
        eventually("the backup", || store.backups().len() == 1);
        eventually("its end", || server.info("backup_in_progress") == 0);
        server.connect().send(&["SHUTDOWN", "NOSAVE"]);
        assert_eq!(server.exit_code(), Some(0), "{}", server.output());
        scratch = server.into_scratch();
    }
    assert_eq!(store.backups().len(), 1);
    assert_eq!(store.restored("").connect().text(&["GET", "key"]), "value");
}

#[test]
fn a_server_that_stops_ships_what_it_has_saved() {
    let store = Store::new();
    let mut server = store.server(&[]);
    server.connect().call(&["SET", "key", "value"]);
    server.connect().send(&["SHUTDOWN", "SAVE"]);
    assert_eq!(server.exit_code(), Some(0), "{}", server.output());
    assert_eq!(store.restored("").connect().text(&["GET", "key"]), "value");
}

#[test]
fn snapshots_are_shipped_only_if_they_are_to_be() {
    let store = Store::new();
    let server = store.server(&["--backup-snapshots", "no"]);
    assert_eq!(server.connect().text(&["SAVE"]), "OK");
    assert_eq!(server.info("backup_in_progress"), 0);
    assert_eq!(server.connect().text(&["CONFIG", "SET", "backup-snapshots", "yes"]), "OK");
    save_and_ship(&server);
    assert_eq!(store.backups().len(), 1);
}

#[test]
fn addresses_that_cannot_be_used_are_refused_at_the_start() {
    let scratch = Scratch::new();
    for (parameter, url, why) in [
        ("--backup-store", "/var/backups", "it begins with s3://, gs://, az:// or file:///"),
        (
            "--backup-store",
            "s3://key:secret@bucket/x",
            "credentials belong in the server's environment",
        ),
        ("--restore-from", "ftp://host/x", "Unable to recognise URL"),
    ] {
        let output = run_to_end(&scratch, &["--port", "0", "--unixsocket", "s", parameter, url]);
        let text = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1));
        assert!(text.contains(why) && text.contains(&parameter[2..]), "{text}");
        assert!(!text.contains("secret@"), "{text}");
    }
}
