//! `BACKUP`, and starts from its files.

use crate::faults;
use crate::harness::*;
use std::path::{Path, PathBuf};

fn is_in(client: &mut Client, phase: &str) -> bool {
    client.text(&["BACKUP", "STATUS"]).starts_with(&format!("[state {phase} "))
}

fn await_phase(client: &mut Client, phase: &str) {
    eventually(phase, || is_in(client, phase));
}

fn files(client: &mut Client) -> Vec<PathBuf> {
    let text = client.text(&["BACKUP", "LIST"]);
    let paths = text.trim_matches(['[', ']']).split(' ').filter(|path| !path.is_empty());
    paths.map(PathBuf::from).collect()
}

fn lens(files: &[PathBuf]) -> Vec<u64> {
    files.iter().map(|path| path.metadata().unwrap().len()).collect()
}

fn is_empty(directory: &Path) -> bool {
    std::fs::read_dir(directory).unwrap().next().is_none()
}

/// Starts a server from a file of a backup and waits for the data.
fn preloaded(file: &str, args: &[&str]) -> Server {
    let server = Server::start("epoll", &[args, &["--preload-file", file]].concat());
    eventually("the data", || server.connect().text(&["PING"]) == "PONG");
    server
}

fn a_sealed_backup_holds_everything_until_then(appendonly: &str) {
    let server = Server::start("epoll", &["--appendonly", appendonly]);
    let mut client = server.connect();
    assert!(is_in(&mut client, "idle"));
    assert_eq!(client.text(&["SET", "a", "1"]), "OK");
    assert_eq!(client.text(&["BACKUP", "START"]), "OK");
    await_phase(&mut client, "incrementing");
    assert_eq!(server.info("backup_in_progress"), 1);
    assert!(client.text(&["BACKUP", "START"]).contains("A backup is already in progress"));
    assert!(client.text(&["BACKUP", "CLEANUP"]).contains("Backup is in progress"));
    assert_eq!(client.text(&["SET", "b", "2"]), "OK");
    let base = files(&mut client);
    assert!(base.len() == 1 && base[0].is_absolute(), "{base:?}");
    // It would take the files away.
    assert!(client.text(&["BGREWRITEAOF"]).contains("scheduled"));
    assert_eq!(client.text(&["BACKUP", "SEAL"]), "OK");
    assert!(is_in(&mut client, "sealed"));
    assert_eq!(server.info("backup_in_progress"), 0);
    let sealed = files(&mut client);
    assert!(sealed.len() == 3 && sealed[0] == base[0], "{sealed:?}");
    let before = lens(&sealed);
    assert_eq!(client.text(&["SET", "c", "3"]), "OK");
    eventually("the rewrite that was put off", || server.info("aof_rewrites") > 1);
    let is_logged = appendonly == "yes";
    eventually("the log is as it was", || {
        server.info("aof_enabled") == i64::from(is_logged)
            && exists(&server.scratch.path("appendonlydir")) == is_logged
    });
    assert_eq!(lens(&sealed), before);
    assert!(client.text(&["BACKUP", "START"]).contains("A sealed backup exists"));
    let directory = server.scratch.path("backupdir");
    let checked = run_to_end(&server.scratch, &["check", &directory.display().to_string()]);
    assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stdout));
    for appendonly in ["no", "yes"] {
        let manifest = format!("aof:{}", sealed[2].display());
        let restored = preloaded(&manifest, &["--appendonly", appendonly]);
        let mut other = restored.connect();
        assert_eq!(other.text(&["MGET", "a", "b", "c"]), "[1 2 nil]");
        if appendonly == "yes" {
            eventually("the log has its base", || restored.info("aof_rewrites") == 1);
            assert_eq!(other.text(&["SET", "d", "4"]), "OK");
            let (_again, mut other) = restored.killed_and_started(&["--appendonly", "yes"]);
            assert_eq!(other.text(&["MGET", "a", "b", "c", "d"]), "[1 2 nil 4]");
        }
    }
    let rdb = preloaded(&format!("rdb:{}", sealed[0].display()), &[]);
    assert_eq!(rdb.connect().text(&["MGET", "a", "b"]), "[1 nil]");
    assert_eq!(client.text(&["BACKUP", "CLEANUP"]), "OK");
    assert!(is_in(&mut client, "idle") && is_empty(&directory));
}

#[test]
fn a_backup_where_nothing_is_logged() {
    a_sealed_backup_holds_everything_until_then("no");
}

#[test]
fn a_backup_beside_a_log() {
    a_sealed_backup_holds_everything_until_then("yes");
}

#[test]
fn sealing_on_a_slow_disk_holds_no_other_client() {
    let Some(scratch) = faults::faulty() else { return };
    let args = ["--appendonly", "yes", "--threads", "1"];
    let Some(server) = faults::started(scratch, &args) else { return };
    let (mut client, mut other) = (server.connect(), server.connect());
    assert_eq!(client.text(&["BACKUP", "START"]), "OK");
    await_phase(&mut client, "incrementing");
    assert_eq!(client.text(&["SET", "a", "1"]), "OK");
    faults::fail(&server, "slow", ".effects.log");
    client.send(&["BACKUP", "SEAL"]);
    let log = server.scratch.path("appendonlydir");
    eventually("the log has a new file", || {
        let names = std::fs::read_dir(&log).unwrap().map(|entry| entry.unwrap().file_name());
        names.filter(|name| name.to_string_lossy().ends_with(".effects.log")).count() > 1
    });
    assert!(is_in(&mut other, "incrementing"));
    assert!(other.text(&["BACKUP", "SEAL"]).contains("No backup ready to seal"));
    assert_eq!(other.text(&["GET", "a"]), "1");
    faults::repair(&server);
    assert_eq!(show(&client.receive().unwrap()), "OK");
    assert!(is_in(&mut other, "sealed"));
    assert_eq!(files(&mut other).len(), 3);
}

#[test]
fn a_backup_is_given_up_or_fails() {
    let server = Server::start("epoll", &["--appendonly", "no"]);
    let mut client = server.connect();
    let directory = server.scratch.path("backupdir");
    let ready = "ERR No backup ready to seal (must be in the incrementing state)";
    assert!(client.text(&["BACKUP", "ABORT"]).contains("ERR No backup in progress"));
    assert!(client.text(&["BACKUP", "SEAL"]).contains(ready));
    assert_eq!(client.text(&["BACKUP", "CLEANUP"]), "OK");
    std::fs::create_dir(&directory).unwrap();
    std::fs::write(directory.join("stale"), "").unwrap();
    assert!(client.text(&["BACKUP", "START"]).contains("not empty"));
    std::fs::remove_file(directory.join("stale")).unwrap();
    // All of a transaction is in its base.
    for call in [&["MULTI"][..], &["SET", "a", "1"], &["BACKUP", "START"], &["SET", "b", "2"]] {
        client.call(call);
    }
    assert_eq!(client.text(&["EXEC"]), "[OK OK OK]");
    await_phase(&mut client, "incrementing");
    let base = format!("rdb:{}", files(&mut client)[0].display());
    assert_eq!(preloaded(&base, &[]).connect().text(&["MGET", "a", "b"]), "[1 2]");
    assert_eq!(client.text(&["BACKUP", "ABORT"]), "OK");
    assert!(is_in(&mut client, "failed") && is_empty(&directory));
    assert!(client.text(&["BACKUP", "STATUS"]).contains("aborted by user"));
    eventually("the log is off", || server.info("aof_enabled") == 0);
    // A log that is turned on meanwhile stays.
    assert_eq!(client.text(&["BACKUP", "START"]), "OK");
    await_phase(&mut client, "incrementing");
    assert_eq!(client.text(&["CONFIG", "SET", "appendonly", "yes"]), "OK");
    client.call(&["MULTI"]);
    client.call(&["BACKUP", "SEAL"]);
    assert_eq!(client.text(&["EXEC"]), "[OK]");
    await_phase(&mut client, "sealed");
    assert_eq!(client.text(&["CONFIG", "SET", "backup-sealed-ttl", "1"]), "OK");
    eventually("its files are removed", || is_in(&mut client, "idle") && is_empty(&directory));
    assert_eq!(server.info("aof_enabled"), 1);
    assert_eq!(client.text(&["BACKUP", "START"]), "OK");
    await_phase(&mut client, "incrementing");
    assert_eq!(client.text(&["CONFIG", "SET", "appendonly", "no"]), "OK");
    assert!(client.text(&["BACKUP", "STATUS"]).contains("appendonly is stopped"));
    assert!(is_in(&mut client, "failed") && is_empty(&directory));
}

#[test]
fn a_start_from_a_file_that_is_not_there_is_refused() {
    let refusals = [
        ("aof:/tmp/foo", "preload-file must end with an extension"),
        ("rdb:/tmp/foo", "preload-file must end with an extension"),
        ("rdb:foo.rdb", "argument must be in the format"),
        ("rdb:/tmp/../foo.rdb", "must be a normalized absolute file path"),
        ("other:/tmp/foo.rdb", "argument must be in the format"),
        ("rdb:/nowhere/foo.rdb", "preload-file: /nowhere/foo.rdb"),
    ];
    for (file, expected) in refusals {
        let scratch = Scratch::new();
        let output =
            run_to_end(&scratch, &["--port", "0", "--unixsocket", "s", "--preload-file", file]);
        let text = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
        assert!(!output.status.success() && text.contains(expected), "{file}: {text}");
    }
    let scratch = Scratch::new();
    let output = run_to_end(&scratch, &["--port", "0", "--backupdirname", "a/b"]);
    let text = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    assert!(text.contains("backupdirname can't be a path"), "{text}");
}
