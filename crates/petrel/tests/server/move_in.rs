//! Starting on the append-only files of Redis and Valkey, and going on from there.

use crate::harness::*;
use crate::replication_primary::{Peer, Release};
use std::path::Path;
use std::process::Command;

const LOG: [&str; 2] = ["--appendonly", "yes"];

fn commands(lines: &[&str]) -> Vec<u8> {
    let line = |line: &&str| encode(&line.split(' ').map(str::as_bytes).collect::<Vec<_>>());
    lines.iter().flat_map(line).collect()
}

/// Asserts that the data are present, and present after a kill together with later writes.
fn goes_on(scratch: Scratch) {
    let mut server = Server::start_in(scratch, "epoll", &LOG);
    let mut client = server.connect();
    assert_eq!(client.text(&["GET", "a"]), "2", "{}", server.output());
    assert_eq!(client.text(&["LRANGE", "l", "0", "-1"]), "[x y]");
    assert_eq!(client.text(&["EXISTS", "lost"]), "0");
    client.call(&["CONFIG", "SET", "appendfsync", "always"]);
    assert_eq!(client.text(&["INCR", "a"]), "3");
    server.signal(libc::SIGKILL);
    server.exit_code();
    let server = Server::start_in(server.into_scratch(), "epoll", &LOG);
    let mut client = server.connect();
    assert_eq!(client.text(&["GET", "a"]), "3", "{}", server.output());
    assert_eq!(client.text(&["LRANGE", "l", "0", "-1"]), "[x y]");
}

#[test]
fn files_of_a_manifest_are_taken_over() {
    let scratch = Scratch::new();
    let dir = scratch.path("appendonlydir");
    std::fs::create_dir(&dir).unwrap();
    let base = commands(&["SELECT 0", "SET a 1"]);
    let torn = commands(&["SELECT 0", "INCR a", "RPUSH l x y", "MULTI", "SET lost 1"]);
    let manifest = "file appendonly.aof.1.base.aof seq 1 type b\n\
                    file appendonly.aof.1.incr.aof seq 1 type i\n";
    std::fs::write(dir.join("appendonly.aof.1.base.aof"), base).unwrap();
    std::fs::write(dir.join("appendonly.aof.1.incr.aof"), torn).unwrap();
    std::fs::write(dir.join("appendonly.aof.manifest"), manifest).unwrap();
    goes_on(scratch);
}

#[test]
fn the_one_file_of_older_versions_is_taken_over() {
    let scratch = Scratch::new();
    let file = commands(&["SELECT 0", "SET a 1", "INCR a", "RPUSH l x y"]);
    std::fs::write(scratch.path("appendonly.aof"), [&file[..], b"*2\r\n$3"].concat()).unwrap();
    goes_on(scratch);
}

#[test]
fn a_broken_file_stops_the_start_and_is_kept() {
    let scratch = Scratch::new();
    let whole = commands(&["SELECT 0", "SET a 1"]);
    let broken = [&whole[..], b"garbage\r\n", &whole].concat();
    std::fs::write(scratch.path("appendonly.aof"), &broken).unwrap();
    let args = ["--port", "0", "--unixsocket", "s", "--appendonly", "yes"];
    let output = run_to_end(&scratch, &args);
    assert_eq!(output.status.code(), Some(1));
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(text.contains(&format!("at byte {}: expected a command", whole.len())), "{text}");
    assert_eq!(std::fs::read(scratch.path("appendonly.aof")).unwrap(), broken);
}

/// The directory in which a start keeps the files of the server before, as it says in its log.
fn kept(server: &Server) -> String {
    let output = server.output();
    let line = output.lines().find_map(|line| line.split_once(" are kept in ")).unwrap().1;
    Path::new(line.split(':').next().unwrap()).file_name().unwrap().to_str().unwrap().to_owned()
}

fn ended(mut server: Server) -> Scratch {
    server.signal(libc::SIGTERM);
    assert_eq!(server.exit_code(), Some(0), "{}", server.output());
    server.into_scratch()
}

/// Both ways back that docs/moving-in.md describes.
#[test]
fn the_server_before_starts_again_from_what_is_kept_and_from_a_snapshot() {
    for program in Peer::programs().into_iter().skip(1) {
        let release = Release::of(&program);
        if release.number < (7, 0) {
            continue;
        }
        for preamble in ["yes", "no"] {
            let scratch = Scratch::new();
            let dir = scratch.path(".").to_str().unwrap().to_owned();
            let args = ["--dir", &dir, "--appendonly", "yes", "--aof-use-rdb-preamble", preamble];
            let peer = Peer::start(&program, &[&args[..], &["--appendfsync", "always"]].concat());
            let peer = peer.expect("it starts");
            let mut client = peer.connect();
            assert_eq!(client.text(&["SET", "a", "1"]), "OK");
            client.call(&["BGREWRITEAOF"]);
            eventually("the base", || {
                let info = client.text(&["INFO", "persistence"]);
                info.contains("aof_rewrite_in_progress:0")
                    && info.contains("aof_rewrite_scheduled:0")
            });
            assert_eq!(client.text(&["INCR", "a"]), "2");
            client.call(&["RPUSH", "l", "x", "y"]);
            drop(peer);

            let server = Server::start_in(scratch, "epoll", &LOG);
            let kept = kept(&server);
            assert!(kept.starts_with("appendonlydir.before-petrel-2"), "{kept}");
            let mut client = server.connect();
            assert_eq!(client.text(&["INCR", "a"]), "3");
            // This deletes the files of the other server, but not the kept copies.
            client.call(&["BGREWRITEAOF"]);
            eventually("the base", || server.info("aof_rewrites") == 1);
            let form = ["rdb-version", release.rdb_version(), "dump-dialect", release.dialect()];
            assert_eq!(client.text(&[&["CONFIG", "SET"][..], &form].concat()), "OK");
            assert_eq!(client.text(&["SAVE"]), "OK");
            let scratch = ended(server);
            // The copy is logged once and made once.
            let server = Server::start_in(scratch, "epoll", &LOG);
            assert!(!server.output().contains(" are kept in "), "{}", server.output());
            let scratch = ended(server);
            let is_kept = |name: &String| name.contains(".before-petrel-");
            let names = std::fs::read_dir(scratch.path(".")).unwrap();
            let names = names.map(|file| file.unwrap().file_name().into_string().unwrap());
            assert_eq!(names.filter(is_kept).count(), 1);
            let mut start = Command::new("timeout");
            start.arg("20").arg(&program).args(args).args(["--port", "0"]);
            let code = start.output().unwrap().status.code();
            assert!(code == Some(1), "what Petrel writes is not for others: {code:?}");

            let mv = |from: &str, to: &str| {
                std::fs::rename(scratch.path(from), scratch.path(to)).unwrap()
            };
            mv("appendonlydir", "appendonlydir.petrel");
            mv(&kept, "appendonlydir");
            let peer = Peer::start(&program, &args).expect("it starts with what is kept");
            let mut client = peer.connect();
            eventually("the data", || client.text(&["GET", "a"]) == "2");
            assert_eq!(client.text(&["LRANGE", "l", "0", "-1"]), "[x y]");
            drop(peer);

            mv("appendonlydir", "appendonlydir.old");
            let args = ["--dir", &dir, "--appendonly", "no"];
            let peer = Peer::start(&program, &args).expect("it starts with the snapshot");
            let mut client = peer.connect();
            eventually("the data", || client.text(&["GET", "a"]) == "3");
            assert_eq!(client.text(&["CONFIG", "SET", "appendonly", "yes"]), "OK");
            drop(peer);

            // And Petrel with its own.
            std::fs::remove_dir_all(scratch.path("appendonlydir")).unwrap();
            mv("appendonlydir.petrel", "appendonlydir");
            let server = Server::start_in(scratch, "epoll", &LOG);
            assert_eq!(server.connect().text(&["GET", "a"]), "3");
        }
    }
}

/// A log that is turned on later, or rewritten where there is none, keeps them as well.
#[test]
fn files_of_another_server_are_kept_whatever_takes_their_place() {
    for command in [&["CONFIG", "SET", "appendonly", "yes"][..], &["BGREWRITEAOF"]] {
        let scratch = Scratch::new();
        let dir = scratch.path("appendonlydir");
        std::fs::create_dir(&dir).unwrap();
        let files = [
            ("appendonly.aof.1.base.aof", commands(&["SELECT 0", "SET a 1"])),
            ("appendonly.aof.1.incr.aof", commands(&["SELECT 0", "INCR a"])),
            (
                "appendonly.aof.manifest",
                b"file appendonly.aof.1.base.aof seq 1 type b\nfile appendonly.aof.1.incr.aof seq 1 type i\n".to_vec(),
            ),
        ];
        for (name, bytes) in &files {
            std::fs::write(dir.join(name), bytes).unwrap();
        }
        let server = Server::start_in(scratch, "epoll", &[]);
        server.connect().call(command);
        eventually("the base", || server.info("aof_rewrites") == 1);
        eventually("the line", || server.output().contains(" are kept in "));
        let kept = server.scratch.path(&kept(&server));
        for (name, bytes) in &files {
            assert!(&std::fs::read(kept.join(name)).unwrap() == bytes, "{name}");
        }
        assert!(!dir.join("appendonly.aof.1.incr.aof").exists());
    }
}
