//! A disk that fails: writes are refused and nothing that was acknowledged is lost.
//!
//! The server runs with `faults.c` loaded before its C library. Whatever writes or syncs a file asks there whether that is to fail
//! now, which stands in a file: what fails, and a part of the names of the files that it fails for.
//!
//! ```text
//! write   nothing is written: EIO         torn    of two writes the first writes a half, the second nothing: ENOSPC
//! full    nothing is written: ENOSPC      sync    EIO, and all that was not synced before is lost: it reads as zeros
//! short   a half is written
//! ```

use crate::harness::*;
use std::process::Command;

/// What the files that the log is written to have in their names.
const LOG: &str = ".effects.log";

/// Builds what makes a server's disk fail; none where it cannot be, which is said.
fn faulty() -> Option<Scratch> {
    let scratch = Scratch::new();
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/server/faults.c");
    let built = Command::new("cc")
        .args(["-shared", "-fPIC", "-O1", "-o"])
        .arg(scratch.path("faults.so"))
        .args([source, "-ldl", "-lpthread"])
        .output();
    if built.is_ok_and(|output| output.status.success()) {
        return Some(scratch);
    }
    println!("skipped: there is no C compiler to make a disk fail with");
    None
}

/// Starts a server whose disk can be made to fail; none where nothing can be loaded before its C library, which is said.
fn started(scratch: Scratch, args: &[&str]) -> Option<Server> {
    let (library, faults) = (scratch.path("faults.so"), scratch.path("faults"));
    let variables = [("LD_PRELOAD", &library), ("PETREL_FAULTS", &faults)];
    let variables = variables.map(|(name, path)| (name, path.to_str().unwrap()));
    let server = Server::start_with(scratch, "epoll", args, &variables);
    if !exists(&server.scratch.path("faults.loaded")) {
        println!("skipped: this server takes no libraries");
        return None;
    }
    Some(server)
}

/// From now on this fails for files with such a name.
fn fail(server: &Server, what: &str, part: &str) {
    let next = server.scratch.path("faults.next");
    std::fs::write(&next, format!("{what} {part}\n")).unwrap();
    std::fs::rename(next, server.scratch.path("faults")).unwrap();
}

fn repair(server: &Server) {
    std::fs::remove_file(server.scratch.path("faults")).unwrap();
}

/// A server in the directory of one that is killed, with a disk that works.
fn restarted(mut server: Server) -> Server {
    server.signal(libc::SIGKILL);
    server.exit_code();
    let _ = std::fs::remove_file(server.socket());
    let server = Server::start_in(server.into_scratch(), "epoll", &["--appendonly", "yes"]);
    eventually("the data", || server.info("loading") == 0);
    server
}

fn status(server: &Server, field: &str) -> String {
    let text = server.connect().text(&["INFO", "persistence"]);
    let line = text.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
    line.unwrap_or_else(|| panic!("{field} in {text}")).into()
}

/// Values of all sizes that are written in ways of their own.
fn values() -> [String; 3] {
    ["x".into(), "y".repeat(5_000), "z".repeat(300_000)]
}

/// Writes by which it shows that the disk fails: the reply to the first comes when it is durable, if the policy says so.
fn write_all(client: &mut Client, prefix: &str) {
    for (i, value) in values().iter().enumerate() {
        client.send(&["SET", &format!("{prefix} {i}"), value]);
    }
}

fn answered(client: &mut Client) {
    values().iter().for_each(|_| assert_eq!(show(&client.receive().unwrap()), "OK"));
}

fn are_there(server: &Server, prefix: &str) {
    are_there_if(server, prefix, [true; 3]);
}

/// Those that were acknowledged are there, and no others.
fn are_there_if(server: &Server, prefix: &str, acknowledged: [bool; 3]) {
    let mut client = server.connect();
    for (i, value) in values().iter().enumerate() {
        let expected = if acknowledged[i] { value } else { "nil" };
        assert!(client.text(&["GET", &format!("{prefix} {i}")]) == expected, "{prefix} {i}");
    }
}

/// What fails, and what the system calls it.
const FAULTS: [(&str, &str); 4] = [
    ("write", "Input/output error (os error 5)"),
    ("full", "No space left on device (os error 28)"),
    ("torn", "No space left on device (os error 28)"),
    ("sync", "Input/output error (os error 5)"),
];

/// A server whose disk has failed after the first values were logged, and who wrote them and, meanwhile, others.
fn failed(policy: &str, what: &str) -> Option<(Server, Client)> {
    let server = started(faulty()?, &["--appendonly", "yes", "--appendfsync", policy])?;
    let mut client = server.connect();
    write_all(&mut client, "before");
    answered(&mut client);
    fail(&server, what, LOG);
    write_all(&mut client, "meanwhile");
    eventually("the failure", || status(&server, "aof_last_write_status") == "err");
    Some((server, client))
}

fn a_failing_disk(policy: &str, (what, says): (&str, &str)) {
    let Some((server, mut client)) = failed(policy, what) else { return };
    let mut other = server.connect();
    let misconf = format!("MISCONF Errors writing to the AOF file: {says}");
    assert_eq!(other.text(&["SET", "refused", "1"]), misconf, "{what}");
    assert_eq!(other.text(&["GET", "before 0"]), "x");
    // What it takes to go on without the old file fails as well.
    if what == "sync" {
        eventually("the failure", || status(&server, "aof_last_bgrewrite_status") == "err");
    }
    assert_eq!(other.text(&["SET", "refused", "1"]), misconf);
    repair(&server);
    eventually("the recovery", || other.text(&["SET", "after", "1"]) == "OK");
    // What was executed before the failure was noted is acknowledged late, or was before with another policy.
    let acknowledged = [(); 3].map(|()| {
        let answer = show(&client.receive().unwrap());
        assert!(answer == "OK" || answer == misconf, "{answer}");
        answer == "OK"
    });
    assert!(acknowledged[0]);
    assert_eq!(status(&server, "aof_last_write_status"), "ok");
    if what == "sync" {
        assert_eq!(status(&server, "aof_last_bgrewrite_status"), "ok");
    }
    assert_eq!(client.text(&["WAITAOF", "1", "0", "0"]), "[1 0]");
    let server = restarted(server);
    are_there(&server, "before");
    are_there_if(&server, "meanwhile", acknowledged);
    assert_eq!(server.connect().text(&["MGET", "refused", "after"]), "[nil 1]");
}

#[test]
fn a_disk_that_fails_refuses_writes_and_loses_nothing_with_always() {
    FAULTS.into_iter().for_each(|fault| a_failing_disk("always", fault));
}

#[test]
fn a_disk_that_fails_refuses_writes_and_loses_nothing_with_everysec() {
    FAULTS.into_iter().for_each(|fault| a_failing_disk("everysec", fault));
}

#[test]
fn who_is_killed_while_the_disk_fails_has_what_was_durable() {
    for (what, _) in FAULTS {
        let Some((server, _)) = failed("always", what) else { return };
        let server = restarted(server);
        are_there(&server, "before");
        // And it goes on.
        assert_eq!(server.connect().text(&["SET", "after", "1"]), "OK");
        assert_eq!(server.connect().text(&["WAITAOF", "1", "0", "0"]), "[1 0]");
        let server = restarted(server);
        are_there(&server, "before");
        assert_eq!(server.connect().text(&["GET", "after"]), "1", "{what}");
    }
}

#[test]
fn what_is_written_in_halves_is_whole() {
    let Some(scratch) = faulty() else { return };
    let args = ["--appendonly", "yes", "--appendfsync", "always"];
    let Some(server) = started(scratch, &args) else { return };
    let mut client = server.connect();
    // The base of the log too.
    fail(&server, "short", "appendonlydir");
    write_all(&mut client, "first");
    answered(&mut client);
    assert_eq!(client.text(&["BGREWRITEAOF"]), "Background append only file rewriting started");
    eventually("the rewriting", || server.info("aof_rewrites") == 1);
    write_all(&mut client, "then");
    answered(&mut client);
    let server = restarted(server);
    are_there(&server, "first");
    are_there(&server, "then");
}

#[test]
fn rewriting_that_fails_leaves_the_log_as_it_was() {
    for (what, part) in
        [("sync", "temp-"), ("full", "temp-"), ("torn", "temp-"), ("sync", "manifest")]
    {
        let Some(scratch) = faulty() else { return };
        let args = ["--appendonly", "yes", "--appendfsync", "always"];
        let Some(server) = started(scratch, &args) else { return };
        let mut client = server.connect();
        write_all(&mut client, "before");
        answered(&mut client);
        fail(&server, what, part);
        client.call(&["BGREWRITEAOF"]);
        eventually("the failure", || status(&server, "aof_last_bgrewrite_status") == "err");
        assert_eq!(status(&server, "aof_last_write_status"), "ok", "{what} {part}");
        write_all(&mut client, "meanwhile");
        answered(&mut client);
        let server = restarted(server);
        are_there(&server, "before");
        are_there(&server, "meanwhile");
        assert_eq!(server.connect().text(&["DBSIZE"]), "6");
    }
}

#[test]
fn a_snapshot_that_fails_leaves_the_one_before() {
    for what in ["sync", "full", "torn"] {
        let Some(scratch) = faulty() else { return };
        let Some(server) = started(scratch, &["--save", "1000", "1000"]) else { return };
        let mut client = server.connect();
        write_all(&mut client, "before");
        answered(&mut client);
        assert_eq!(client.text(&["SAVE"]), "OK");
        let saved = std::fs::read(server.scratch.path("dump.rdb")).unwrap();
        write_all(&mut client, "meanwhile");
        answered(&mut client);
        fail(&server, what, "temp-");
        // A failure of what is written at once is the reply.
        let begun = client.text(&["BGSAVE"]);
        assert!(begun == "Background saving started" || begun.starts_with("ERR saving failed: "));
        eventually("the failure", || status(&server, "rdb_last_bgsave_status") == "err");
        assert!(client.text(&["SAVE"]).starts_with("ERR"), "{what}");
        let refused = client.text(&["SET", "refused", "1"]);
        assert!(refused.starts_with("MISCONF Redis is configured to save RDB snapshots"));
        assert!(std::fs::read(server.scratch.path("dump.rdb")).unwrap() == saved, "{what}");
        repair(&server);
        assert_eq!(client.text(&["SAVE"]), "OK");
        assert_eq!(client.text(&["SET", "after", "1"]), "OK");
        let mut server = server;
        server.signal(libc::SIGKILL);
        server.exit_code();
        let _ = std::fs::remove_file(server.socket());
        let server = Server::start_in(server.into_scratch(), "epoll", &[]);
        eventually("the data", || server.info("loading") == 0);
        are_there(&server, "before");
        are_there(&server, "meanwhile");
    }
}
