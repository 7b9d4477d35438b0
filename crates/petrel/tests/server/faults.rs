//! A disk that fails: writes are refused and nothing that was acknowledged is lost.
//!
//! The server runs with `faults.c` loaded before its C library. Whatever writes or syncs a file
//! asks there whether that is to fail now, which stands in a file: what fails, and a part of the
//! names of the files that it fails for.
//!
//! ```text
//! write   nothing is written: EIO         torn    of two writes the first writes a half, the second nothing: ENOSPC
//! full    nothing is written, and no directory made: ENOSPC
//!                                         sync    EIO, and all that was not synced before is lost: it reads as zeros
//! short   a half is written               slow    a sync takes a minute
//! names   EIO for the sync of a directory, whose new names may or may not last
//! ```
//!
//! A number behind says how many such calls succeed before.

use crate::harness::*;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// Part of the names of the log's files.
const LOG: &str = ".effects.log";

/// Builds what makes a server's disk fail; none where it cannot be, which is said.
pub fn faulty() -> Option<Scratch> {
    library("faults")
}

/// Builds a library that is loaded before the C library; none where it cannot be, which is said.
pub fn library(name: &str) -> Option<Scratch> {
    let scratch = Scratch::new();
    let source = format!("{}/tests/server/{name}.c", env!("CARGO_MANIFEST_DIR"));
    let built = Command::new("cc")
        .args(["-shared", "-fPIC", "-O1", "-o"])
        .arg(scratch.path(&format!("{name}.so")))
        .args([&source, "-ldl", "-lpthread"])
        .output();
    if built.is_ok_and(|output| output.status.success()) {
        return Some(scratch);
    }
    println!("skipped: there is no C compiler to build {name}.c with");
    None
}

/// Starts a server with a disk that can be made to fail; `None` if no library can be preloaded,
/// which is printed.
pub fn started(scratch: Scratch, args: &[&str]) -> Option<Server> {
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
pub fn fail(server: &Server, what: &str, part: &str) {
    let next = server.scratch.path("faults.next");
    std::fs::write(&next, format!("{what} {part}\n")).unwrap();
    std::fs::rename(next, server.scratch.path("faults")).unwrap();
}

pub fn repair(server: &Server) {
    std::fs::remove_file(server.scratch.path("faults")).unwrap();
}

/// A server in the directory of one that is killed, with a disk that works.
fn restarted(mut server: Server) -> Server {
    server.signal(libc::SIGKILL);
    server.exit_code();
    let _ = std::fs::remove_file(server.socket());
    Server::start_in(server.into_scratch(), "epoll", &["--appendonly", "yes"])
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

/// Writes by which it shows that the disk fails: the reply to the first comes when it is durable,
/// if the policy says so.
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

/// Asserts that exactly the acknowledged values are present.
fn are_there_if(server: &Server, prefix: &str, acknowledged: [bool; 3]) {
    let mut client = server.connect();
    for (i, value) in values().iter().enumerate() {
        let expected = if acknowledged[i] { value } else { "nil" };
        assert!(client.text(&["GET", &format!("{prefix} {i}")]) == expected, "{prefix} {i}");
    }
}

/// Faults, and the system's errors for them.
const FAULTS: [(&str, &str); 4] = [
    ("write", "Input/output error (os error 5)"),
    ("full", "No space left on device (os error 28)"),
    ("torn", "No space left on device (os error 28)"),
    ("sync", "Input/output error (os error 5)"),
];

/// A server with a disk that failed after the first values were logged, and the client that wrote
/// them and, meanwhile, others.
fn failed(policy: &str, what: &str) -> Option<(Server, Client)> {
    let server = started(faulty()?, &["--appendonly", "yes", "--appendfsync", policy])?;
    let mut client = server.connect();
    write_all(&mut client, "before");
    answered(&mut client);
    // With every policy, the failure first affects later writes.
    assert_eq!(client.text(&["WAITAOF", "1", "0", "0"]), "[1 0]");
    fail(&server, what, LOG);
    write_all(&mut client, "meanwhile");
    eventually("the failure", || status(&server, "aof_last_write_status") == "err");
    Some((server, client))
}

/// Asserts that values durable before can be read. A reader waits for its key's stripe: one key may
/// share its stripe with a change that is not durable, but hardly all of them.
fn reads_what_is_durable(server: &Server) {
    let mut readers: Vec<Client> = (0..3).map(|_| server.connect()).collect();
    for (i, reader) in readers.iter_mut().enumerate() {
        reader.send(&["STRLEN", &format!("before {i}")]);
    }
    let moment = Duration::from_millis(10);
    eventually("a read of what is durable", || readers.iter_mut().any(|r| !r.is_silent(moment)));
}

fn a_failing_disk(policy: &str, (what, says): (&str, &str)) {
    let Some((server, mut client)) = failed(policy, what) else { return };
    let mut other = server.connect();
    let misconf = format!("MISCONF Errors writing to the AOF file: {says}");
    assert_eq!(other.text(&["SET", "refused", "1"]), misconf, "{what}");
    reads_what_is_durable(&server);
    // Creating a new file fails as well.
    if what == "sync" {
        eventually("the failure", || status(&server, "aof_last_bgrewrite_status") == "err");
    }
    assert_eq!(other.text(&["SET", "refused", "1"]), misconf);
    repair(&server);
    eventually("the recovery", || other.text(&["SET", "after", "1"]) == "OK");
    // Commands executed before the failure was noticed are acknowledged late, or with another
    // policy were acknowledged before.
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

/// Commands that do not depend on the data are answered while no write can become durable.
#[test]
fn commands_of_operators_are_answered_while_the_disk_is_full() {
    let Some((server, mut stuck)) = failed("always", "full") else { return };
    let ask = |command: &str| server.connect().text(&command.split(' ').collect::<Vec<_>>());
    assert_eq!(ask("SAVE"), "OK");
    assert_eq!(ask("BGSAVE"), "Background saving started");
    eventually("the snapshot", || status(&server, "rdb_bgsave_in_progress") == "0");
    assert_eq!(status(&server, "rdb_last_bgsave_status"), "ok");
    let begun = ask("BGREWRITEAOF");
    assert!(begun.starts_with("ERR Can't execute an AOF background rewriting"), "{begun}");
    for command in [
        "CONFIG SET appendfsync everysec",
        "CONFIG SET appendfsync always",
        "CONFIG SET maxmemory 1gb",
        "REPLICAOF NO ONE",
    ] {
        assert_eq!(ask(command), "OK", "{command}");
    }
    assert!(ask("ROLE").starts_with("[master "));
    assert!(ask("FAILOVER").starts_with("ERR FAILOVER requires connected replicas"));
    // Nothing at all can be written.
    fail(&server, "full", "petrel-test-");
    assert!(ask("SAVE").starts_with("ERR saving failed: "), "{}", server.output());
    let begun = ask("BGSAVE");
    assert!(begun == "Background saving started" || begun.starts_with("ERR saving failed: "));
    // While the snapshot is being saved, it is put off.
    let begun = ask("BGREWRITEAOF");
    assert!(begun.starts_with("ERR ") || begun.ends_with(" scheduled"), "{begun}");
    assert!(stuck.is_silent(Duration::from_millis(10)));
    repair(&server);
    eventually("the recovery", || server.connect().text(&["SET", "after", "1"]) == "OK");
    assert_eq!(show(&stuck.receive().unwrap()), "OK");
}

/// Keys that expire meanwhile are not seen, and no client waits until that is durable.
#[test]
fn what_expires_while_the_disk_is_full_keeps_no_client_waiting() {
    let Some(scratch) = faulty() else { return };
    let args = [&ALWAYS[..], &["--hz", "100", "--enable-debug-command", "yes"]].concat();
    let Some(server) = started(scratch, &args) else { return };
    let mut client = server.connect();
    assert_eq!(client.text(&["DEBUG", "SET-ACTIVE-EXPIRE", "0"]), "OK");
    let number = |i: usize| i.to_string();
    let keys = 200;
    for i in 0..keys {
        client.send(&["SET", &number(i), "1", "PX", "1000"]);
    }
    (0..keys).for_each(|_| assert_eq!(show(&client.receive().unwrap()), "OK"));
    fail(&server, "full", LOG);
    client.send(&["SET", "stuck", "1"]);
    eventually("the failure", || status(&server, "aof_last_write_status") == "err");
    assert_eq!(server.connect().text(&["DEBUG", "SET-ACTIVE-EXPIRE", "1"]), "OK");
    eventually("all keys have expired", || {
        // A key may share its stripe with a change that is not durable.
        let last = (keys - 3..keys).filter(|&i| {
            let mut reader = server.connect();
            reader.send(&["EXISTS", &number(i)]);
            let answer = reader.receive_within(Duration::from_millis(100));
            answer.is_some_and(|answer| show(&answer) == "0")
        });
        last.count() >= 2
    });
    for _ in 0..20 {
        assert_eq!(server.connect().text(&["ECHO", "here"]), "here");
    }
    repair(&server);
    eventually("the recovery", || server.connect().text(&["SET", "after", "1"]) == "OK");
    eventually("the keys are gone", || server.connect().text(&["DBSIZE"]) == "2");
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
        // A failure of the first write may be the reply.
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
        are_there(&server, "before");
        are_there(&server, "meanwhile");
    }
}

#[test]
fn a_process_that_dies_amid_a_long_sync_loses_nothing() {
    for policy in ["everysec", "no"] {
        let args = ["--appendonly", "yes", "--appendfsync", policy];
        let Some(scratch) = faulty() else { return };
        let Some(server) = started(scratch, &args) else { return };
        let mut client = server.connect();
        write_all(&mut client, "before");
        answered(&mut client);
        fail(&server, "slow", LOG);
        // It is wanted, whatever the policy, so that a sync begins; after two seconds nothing is
        // written any more.
        client.send(&["WAITAOF", "1", "0", "1"]);
        let mut other = server.connect();
        eventually("the sync", || {
            other.text(&["INCR", "counter"]);
            status(&server, "aof_delayed_fsync") != "0"
        });
        let size = status(&server, "aof_current_size");
        write_all(&mut other, "meanwhile");
        answered(&mut other);
        let counted = other.text(&["INCR", "counter"]);
        assert_eq!(status(&server, "aof_current_size"), size);
        let mut server = server;
        server.signal(libc::SIGKILL);
        server.exit_code();
        let _ = std::fs::remove_file(server.socket());
        let scratch = server.into_scratch();
        let output = run_to_end(&scratch, &["check", "appendonlydir"]);
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && text.contains(" pending records, of epochs "), "{text}");
        assert!(text.contains("; a start appends those that the log does not have"), "{text}");
        let server = Server::start_in(scratch, "epoll", &["--appendonly", "yes"]);
        are_there(&server, "before");
        are_there(&server, "meanwhile");
        assert_eq!(server.connect().text(&["GET", "counter"]), counted);
    }
}

#[test]
fn without_room_for_pending_records_it_goes_on_and_says_so() {
    let Some(scratch) = faulty() else { return };
    let Some(server) = started(scratch, &["--appendonly", "yes"]) else { return };
    assert_eq!(status(&server, "aof_buffer_survives_process"), "1");
    fail(&server, "full", ".pending");
    let mut client = server.connect();
    // More than the present memory has space for.
    client.call(&["SET", "large", &"x".repeat(4 << 20)]);
    assert_eq!(status(&server, "aof_buffer_survives_process"), "0");
    assert_eq!(client.text(&["SET", "small", "1"]), "OK");
    repair(&server);
    client.call(&["SET", "large", &"y".repeat(4 << 20)]);
    assert_eq!(status(&server, "aof_buffer_survives_process"), "1");
    assert_eq!(client.text(&["WAITAOF", "1", "0", "0"]), "[1 0]");
    let server = restarted(server);
    assert_eq!(server.connect().text(&["MGET", "small", "large"]).len(), "[1 ]".len() + (4 << 20));
}

/// The files of the log's directory that its manifest does not name, and whether those are there
/// that it names.
fn unnamed(directory: &Path) -> Vec<String> {
    let manifest = std::fs::read_to_string(directory.join("appendonly.aof.manifest")).unwrap();
    let named = manifest.lines().filter_map(|line| line.strip_prefix("file "));
    let named: Vec<&str> = named.map(|line| line.split(' ').next().unwrap()).collect();
    for name in &named {
        assert!(exists(&directory.join(name)), "{name} is not there: {manifest}");
    }
    let files = std::fs::read_dir(directory).unwrap();
    let names = files.map(|file| file.unwrap().file_name().into_string().unwrap());
    let is_extra = |name: &String| !named.contains(&&**name) && !name.ends_with(".manifest");
    names.filter(is_extra).filter(|name| !name.ends_with(".pending")).collect()
}

/// The answer of a rewrite that has begun.
const BEGUN: &str = "Background append only file rewriting started";
const ALWAYS: [&str; 4] = ["--appendonly", "yes", "--appendfsync", "always"];

/// A server with values in its log, and a log directory with this number of successful syncs before
/// all fail; also returns the manifest of that time.
fn with_names_that_do_not_last(spared: u32) -> Option<(Server, Client, String)> {
    let server = started(faulty()?, &ALWAYS)?;
    let mut client = server.connect();
    write_all(&mut client, "before");
    answered(&mut client);
    let manifest = server.scratch.path("appendonlydir/appendonly.aof.manifest");
    let manifest = std::fs::read_to_string(manifest).unwrap();
    fail(&server, "names", &format!("appendonlydir {spared}"));
    Some((server, client, manifest))
}

fn await_rewrite(server: &Server) {
    eventually("the end", || status(server, "aof_rewrite_in_progress") == "0");
}

#[test]
fn a_manifest_that_may_not_last_costs_nothing_that_was_acknowledged() {
    // Whatever step of rewriting the directory's sync fails at, and whether the machine stops there
    // or only the process.
    for (spared, is_power_cut) in (0..5).flat_map(|spared| [(spared, false), (spared, true)]) {
        let Some((server, mut client, before)) = with_names_that_do_not_last(spared) else {
            return;
        };
        client.call(&["BGREWRITEAOF"]);
        await_rewrite(&server);
        let failed = status(&server, "aof_last_bgrewrite_status") == "err";
        assert_eq!(failed, spared < 4, "{spared}");
        write_all(&mut client, "meanwhile");
        answered(&mut client);
        // Once more, while it fails still.
        client.call(&["BGREWRITEAOF"]);
        await_rewrite(&server);
        let directory = server.scratch.path("appendonlydir");
        if is_power_cut && failed {
            // Two syncs make it certain that the manifest names the next file, ...
            let next = "file appendonly.aof.2.effects.log seq 2 type e\n";
            let durable = match spared {
                0 | 1 => before,
                _ => before.replace("files: 1", "files: 2") + next,
            };
            std::fs::write(directory.join("appendonly.aof.manifest"), durable).unwrap();
        }
        let server = restarted(server);
        are_there(&server, "before");
        are_there(&server, "meanwhile");
        assert_eq!(server.connect().text(&["DBSIZE"]), "6");
        // Nothing more is there than is needed.
        assert_eq!(server.connect().text(&["BGREWRITEAOF"]), BEGUN);
        eventually("the rewriting", || server.info("aof_rewrites") == 1);
        let server = restarted(server);
        are_there(&server, "meanwhile");
        eventually("the sweep", || unnamed(&directory).is_empty());
    }
}

#[test]
fn rewriting_goes_on_once_names_last_again() {
    for spared in 0..4 {
        let Some((server, mut client, _)) = with_names_that_do_not_last(spared) else { return };
        for _ in 0..3 {
            client.call(&["BGREWRITEAOF"]);
            await_rewrite(&server);
        }
        assert_eq!(status(&server, "aof_last_write_status"), "ok");
        let directory = server.scratch.path("appendonlydir");
        // Files that cannot be deleted do not fill the disk.
        assert!(unnamed(&directory).len() <= 2, "{:?}", unnamed(&directory));
        repair(&server);
        assert_eq!(client.text(&["BGREWRITEAOF"]), BEGUN);
        eventually("the rewriting", || server.info("aof_rewrites") == 1);
        assert_eq!(unnamed(&directory), [""; 0]);
        write_all(&mut client, "meanwhile");
        answered(&mut client);
        let server = restarted(server);
        are_there(&server, "before");
        are_there(&server, "meanwhile");
    }
}

#[test]
#[cfg(feature = "object-store")]
fn a_log_that_is_sealed_in_vain_loses_nothing() {
    for spared in 0..3 {
        let Some(scratch) = faulty() else { return };
        let store = format!("file://{}", scratch.path("backups").display());
        let sealing = ["--backup-store", &store, "--backup-log-interval", "1"];
        let Some(server) = started(scratch, &[&ALWAYS[..], &sealing].concat()) else { return };
        let mut client = server.connect();
        // Its log has begun.
        assert_eq!(client.text(&["PING"]), "PONG");
        fail(&server, "names", &format!("appendonlydir {spared}"));
        write_all(&mut client, "before");
        answered(&mut client);
        let why = "the log cannot continue in a new file";
        if spared < 2 {
            eventually("the failure", || server.output().contains(why));
        }
        write_all(&mut client, "meanwhile");
        answered(&mut client);
        // A file that is written to is not taken for a closed one.
        assert_eq!(server.info("backup_total_shipped"), 0, "{}", server.output());
        let server = restarted(server);
        are_there(&server, "before");
        are_there(&server, "meanwhile");
    }
}

#[test]
fn a_log_that_is_turned_on_gets_its_base_once_names_last() {
    for spared in 0..4 {
        let Some(scratch) = faulty() else { return };
        let Some(server) = started(scratch, &["--appendfsync", "everysec"]) else { return };
        let mut client = server.connect();
        write_all(&mut client, "before");
        answered(&mut client);
        fail(&server, "names", &format!("appendonlydir {spared}"));
        let turned_on = client.text(&["CONFIG", "SET", "appendonly", "yes"]) == "OK";
        if turned_on && spared < 3 {
            let is_failed = || status(&server, "aof_last_bgrewrite_status") == "err";
            eventually("the failure", is_failed);
        }
        repair(&server);
        if !turned_on {
            assert_eq!(client.text(&["CONFIG", "SET", "appendonly", "yes"]), "OK");
        }
        // By itself.
        eventually("the base", || server.info("aof_rewrites") > 0);
        write_all(&mut client, "meanwhile");
        answered(&mut client);
        assert_eq!(client.text(&["WAITAOF", "1", "0", "0"]), "[1 0]");
        assert_eq!(unnamed(&server.scratch.path("appendonlydir")), [""; 0], "{spared}");
        let server = restarted(server);
        are_there(&server, "before");
        are_there(&server, "meanwhile");
    }
}

#[test]
fn a_start_whose_names_do_not_last_loses_nothing() {
    for spared in 0..4 {
        let Some(scratch) = faulty() else { return };
        let Some(server) = started(scratch, &ALWAYS) else { return };
        let mut client = server.connect();
        write_all(&mut client, "before");
        answered(&mut client);
        let mut server = server;
        server.signal(libc::SIGKILL);
        server.exit_code();
        // It starts, or prints the error.
        let scratch = server.into_scratch();
        std::fs::write(scratch.path("faults"), format!("names appendonlydir {spared}")).unwrap();
        let mut command = petrel(&scratch);
        command.env("LD_PRELOAD", scratch.path("faults.so"));
        command.env("PETREL_FAULTS", scratch.path("faults"));
        let args = "--port 0 --unixsocket s --save --io-backend epoll --threads 2".split(' ');
        let mut child = command.args(args).args(ALWAYS).spawn().unwrap();
        std::thread::sleep(std::time::Duration::from_millis(300));
        let _ = child.kill();
        child.wait().unwrap();
        let _ = std::fs::remove_file(scratch.path("s"));
        let server = Server::start_in(scratch, "epoll", &ALWAYS);
        are_there(&server, "before");
    }
}

#[test]
fn a_snapshot_that_became_a_base_in_vain_is_left_as_it_is() {
    // A start that made the first base of the log from the snapshot, and failed then, is made
    // again.
    for what in
        ["full temp-", "names appendonlydir 0", "names appendonlydir 1", "names appendonlydir 2"]
    {
        let Some(scratch) = faulty() else { return };
        let Some(mut server) = started(scratch, &[]) else { return };
        let mut client = server.connect();
        write_all(&mut client, "before");
        answered(&mut client);
        assert_eq!(client.text(&["SAVE"]), "OK");
        server.signal(libc::SIGKILL);
        server.exit_code();
        let scratch = server.into_scratch();
        let saved = std::fs::read(scratch.path("dump.rdb")).unwrap();
        std::fs::write(scratch.path("faults"), what).unwrap();
        for _ in 0..2 {
            let mut command = petrel(&scratch);
            command.env("LD_PRELOAD", scratch.path("faults.so"));
            command.env("PETREL_FAULTS", scratch.path("faults"));
            let args = "--port 0 --unixsocket s --save --io-backend epoll --threads 2".split(' ');
            let mut child = command.args(args).args(ALWAYS).spawn().unwrap();
            std::thread::sleep(std::time::Duration::from_millis(300));
            let _ = child.kill();
            child.wait().unwrap();
            let _ = std::fs::remove_file(scratch.path("s"));
            assert!(std::fs::read(scratch.path("dump.rdb")).unwrap() == saved, "{what}");
        }
        let server = Server::start_in(scratch, "epoll", &ALWAYS);
        are_there(&server, "before");
        assert!(std::fs::read(server.scratch.path("dump.rdb")).unwrap() == saved, "{what}");
    }
}

const FULL: &str = "MISCONF Errors writing to the AOF file: No space left on device (os error 28)";

/// A server is killed; its directory.
fn killed(mut server: Server) -> Scratch {
    server.signal(libc::SIGKILL);
    server.exit_code();
    let _ = std::fs::remove_file(server.socket());
    server.into_scratch()
}

/// Starts a server with a log on a disk that fails in this way from the beginning.
fn started_with(scratch: Scratch, policy: &str, what: &str) -> Server {
    std::fs::write(scratch.path("faults"), what).unwrap();
    started(scratch, &["--appendonly", "yes", "--appendfsync", policy]).unwrap()
}

/// Asserts that the server serves reads, refuses writes and returns the reason.
fn refuses_writes(server: &Server) {
    let mut client = server.connect();
    assert_eq!(client.text(&["SET", "refused", "1"]), FULL);
    assert_eq!(client.text(&["GET", "refused"]), "nil");
    assert_eq!(status(server, "aof_last_write_status"), "err");
    assert_eq!(status(server, "aof_enabled"), "1");
    let begun = client.text(&["BGREWRITEAOF"]);
    assert!(begun.starts_with("ERR Can't execute an AOF background rewriting"), "{begun}");
    let said =
        "the log cannot be written: No space left on device (os error 28); writes are refused";
    eventually("the line", || server.output().contains(said));
}

/// Asserts that the server accepts writes once there is space, and logs the recovery if it had
/// failed.
fn recovers(server: &Server) -> Client {
    let refused = status(server, "aof_last_write_status") == "err";
    repair(server);
    let mut client = server.connect();
    eventually("the room", || client.text(&["SET", "after", "1"]) == "OK");
    assert_eq!(status(server, "aof_last_write_status"), "ok");
    let survives = || status(server, "aof_buffer_survives_process") == "1";
    if refused {
        // From the first write on.
        assert!(survives());
        eventually("the line", || server.output().contains("the log is written again"));
    }
    eventually("the file", survives);
    client
}

#[test]
fn a_start_with_a_full_disk_refuses_writes_until_there_is_room() {
    // With a log that is there, and with a snapshot that is to begin one.
    for before in [&ALWAYS[..], &["--save", "1000", "1000"]] {
        let Some(scratch) = faulty() else { return };
        let Some(server) = started(scratch, before) else { return };
        let mut client = server.connect();
        write_all(&mut client, "before");
        answered(&mut client);
        client.call(&[
            "FUNCTION",
            "LOAD",
            "#!lua name=l\nredis.register_function('f', function() return 1 end)",
        ]);
        if before != ALWAYS {
            assert_eq!(client.text(&["SAVE"]), "OK");
        }
        let mut scratch = killed(server);
        // A start that is killed leaves the next one the same.
        for _ in 0..2 {
            let server = started_with(scratch, "always", "full appendonlydir");
            are_there(&server, "before");
            refuses_writes(&server);
            scratch = killed(server);
        }
        let server = started_with(scratch, "always", "full appendonlydir");
        let mut client = recovers(&server);
        write_all(&mut client, "meanwhile");
        answered(&mut client);
        let server = restarted(server);
        are_there(&server, "before");
        are_there(&server, "meanwhile");
        let mut client = server.connect();
        assert_eq!(client.text(&["MGET", "refused", "after"]), "[nil 1]");
        assert_eq!(client.text(&["FCALL", "f", "0"]), "1");
        assert_eq!(unnamed(&server.scratch.path("appendonlydir")), [""; 0]);
    }
}

#[test]
fn a_first_start_with_a_full_disk_begins_its_log_once_there_is_room() {
    let Some(scratch) = faulty() else { return };
    // Not even a directory can be made.
    std::fs::write(scratch.path("faults"), "full appendonlydir").unwrap();
    let Some(server) = started(scratch, &ALWAYS) else { return };
    assert!(!exists(&server.scratch.path("appendonlydir")));
    refuses_writes(&server);
    recovers(&server);
    assert_eq!(restarted(server).connect().text(&["MGET", "refused", "after"]), "[nil 1]");
}

/// The directory of a server that was killed while values that it had acknowledged were in its
/// file of pending records alone.
fn with_pending_records() -> Option<Scratch> {
    let server = started(faulty()?, &["--appendonly", "yes", "--appendfsync", "everysec"])?;
    let mut client = server.connect();
    write_all(&mut client, "before");
    answered(&mut client);
    assert_eq!(client.text(&["WAITAOF", "1", "0", "0"]), "[1 0]");
    fail(&server, "full", LOG);
    // In one epoch, so that none of them is refused.
    client.send(&["MULTI"]);
    write_all(&mut client, "pending");
    client.send(&["EXEC"]);
    (0..4).for_each(|_| drop(client.receive().unwrap()));
    assert_eq!(show(&client.receive().unwrap()), "[OK OK OK]");
    eventually("the failure", || status(&server, "aof_last_write_status") == "err");
    Some(killed(server))
}

#[test]
fn pending_records_that_cannot_be_written_stay_until_there_is_room() {
    // The next file of the log can be made and no record be written into it, or only some, or all
    // and no file behind it; or whatever else of the directory cannot be written.
    let logs = (1..5).map(|spared| format!("full {LOG} {spared}"));
    let all = (0..6).map(|spared| format!("full appendonlydir {spared}"));
    for what in logs.chain(all) {
        let Some(mut scratch) = with_pending_records() else { return };
        for _ in 0..2 {
            let server = started_with(scratch, "everysec", &what);
            are_there(&server, "before");
            are_there(&server, "pending");
            scratch = killed(server);
        }
        let server = started_with(scratch, "everysec", &what);
        let mut client = recovers(&server);
        write_all(&mut client, "meanwhile");
        answered(&mut client);
        let server = restarted(server);
        for prefix in ["before", "pending", "meanwhile"] {
            are_there(&server, prefix);
        }
        assert_eq!(server.connect().text(&["GET", "after"]), "1", "{what}");
        let directory = server.scratch.path("appendonlydir");
        assert_eq!(unnamed(&directory), [""; 0], "{what}");
        // The recovered records are in the log itself by now.
        let scratch = killed(server);
        std::fs::remove_file(directory.join("appendonly.aof.pending")).unwrap();
        let server = Server::start_in(scratch, "epoll", &["--appendonly", "yes"]);
        are_there(&server, "pending");
    }
}

#[test]
fn a_start_that_cannot_write_pending_records_refuses_writes() {
    for what in [format!("full {LOG} 1"), "full appendonlydir".into()] {
        let Some(scratch) = with_pending_records() else { return };
        let pending = scratch.path("appendonlydir/appendonly.aof.pending");
        let left = std::fs::read(&pending).unwrap();
        let server = started_with(scratch, "everysec", &what);
        refuses_writes(&server);
        are_there(&server, "pending");
        assert!(std::fs::read(&pending).unwrap() == left, "{what}");
        // An orderly stop leaves it as well.
        let mut server = server;
        server.signal(libc::SIGTERM);
        server.exit_code();
        let _ = std::fs::remove_file(server.socket());
        assert!(std::fs::read(&pending).unwrap() == left, "{what}");
        let server = started_with(server.into_scratch(), "everysec", &what);
        refuses_writes(&server);
        // As does a log that is turned off, and on when there is room.
        let mut client = server.connect();
        assert_eq!(client.text(&["CONFIG", "SET", "appendonly", "no"]), "OK");
        assert_eq!(client.text(&["SET", "unlogged", "1"]), "OK");
        assert!(std::fs::read(&pending).unwrap() == left, "{what}");
        repair(&server);
        assert_eq!(client.text(&["CONFIG", "SET", "appendonly", "yes"]), "OK");
        eventually("the base", || server.info("aof_rewrites") > 0);
        eventually("the file", || status(&server, "aof_buffer_survives_process") == "1");
        let server = restarted(server);
        are_there(&server, "before");
        are_there(&server, "pending");
        assert_eq!(server.connect().text(&["GET", "unlogged"]), "1");
    }
}

#[test]
fn a_start_without_room_for_pending_records_has_them_once_there_is_room() {
    let Some(scratch) = faulty() else { return };
    std::fs::write(scratch.path("faults"), "full .pending").unwrap();
    let Some(server) = started(scratch, &["--appendonly", "yes"]) else { return };
    assert_eq!(status(&server, "aof_buffer_survives_process"), "0");
    let mut client = server.connect();
    write_all(&mut client, "before");
    answered(&mut client);
    repair(&server);
    eventually("the file", || status(&server, "aof_buffer_survives_process") == "1");
    // From now on the death of the process loses nothing that the log cannot take.
    assert_eq!(client.text(&["WAITAOF", "1", "0", "0"]), "[1 0]");
    fail(&server, "full", LOG);
    client.send(&["MULTI"]);
    write_all(&mut client, "pending");
    client.send(&["EXEC"]);
    (0..4).for_each(|_| drop(client.receive().unwrap()));
    assert_eq!(show(&client.receive().unwrap()), "[OK OK OK]");
    let server = restarted(server);
    are_there(&server, "before");
    are_there(&server, "pending");
}
