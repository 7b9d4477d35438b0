//! Files that cannot be loaded: the server's error, and that following its advice leads to a server
//! that starts.

use crate::harness::*;
use std::process::Output;

/// An RDB file of these records, without a checksum.
fn rdb(version: &str, records: &[&[u8]]) -> Vec<u8> {
    [version.as_bytes(), &records.concat(), &[0xff], &[0; 8]].concat()
}

fn string(key: &str) -> Vec<u8> {
    [&[0, key.len() as u8], key.as_bytes(), b"\x01v"].concat()
}

/// A set in which a member is twice.
fn broken(key: &str) -> Vec<u8> {
    [&[2, key.len() as u8], key.as_bytes(), b"\x02\x01m\x01m"].concat()
}

fn commands(lines: &[&str]) -> Vec<u8> {
    let line = |line: &&str| encode(&line.split(' ').map(str::as_bytes).collect::<Vec<_>>());
    lines.iter().flat_map(line).collect()
}

fn text_of(output: &Output) -> String {
    let all = [&output.stdout[..], &output.stderr].concat();
    String::from_utf8_lossy(&all).into_owned()
}

/// A directory with files that do not load, and the arguments with which a server is started there.
struct Case {
    what: &'static str,
    files: Vec<(&'static str, Vec<u8>)>,
    args: &'static [&'static str],
    /// Pieces of advice that the error gives.
    advice: &'static [&'static str],
    /// Further text of the error.
    says: &'static str,
    /// Keys that there are at least when the advice was followed.
    keys: &'static [&'static str],
}

impl Case {
    fn make(&self) -> Scratch {
        let scratch = Scratch::new();
        for (name, bytes) in &self.files {
            let path = scratch.path(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, bytes).unwrap();
        }
        scratch
    }

    /// The error with which a server does not start.
    fn fail(&self, scratch: &Scratch) -> String {
        let usual = ["--port", "0", "--unixsocket", "s", "--save", "", "--threads", "2"];
        let output = run_to_end(scratch, &[&usual[..], self.args].concat());
        assert!(!output.status.success(), "{}: it starts", self.what);
        let text = text_of(&output);
        let error =
            text.lines().find(|line| line.contains("cannot load") || line.contains(": at byte"));
        let error = error.or_else(|| text.lines().find(|line| line.contains('`')));
        error.unwrap_or_else(|| panic!("{}: {text}", self.what)).to_owned()
    }
}

/// Texts between backquotes, apart from `petrel check` without arguments.
fn advice(error: &str) -> Vec<&str> {
    error.split('`').skip(1).step_by(2).filter(|advice| *advice != "petrel check").collect()
}

fn snapshots() -> Vec<Case> {
    let (a, z) = (string("a"), string("z"));
    let case = |what, bytes: Vec<u8>, advice, says, keys| Case {
        what,
        files: vec![("dump.rdb", bytes)],
        args: &[],
        advice,
        says,
        keys,
    };
    let whole = rdb("REDIS0012", &[&a, &z]);
    let damaged: &[&str] = &["petrel check --fix dump.rdb"];
    let mut sum = whole.clone();
    let end = sum.len();
    sum[end - 8] = 1;
    vec![
        case(
            "a key that is broken",
            rdb("REDIS0012", &[&a, &broken("b\n"), &z]),
            damaged,
            "key \"b\\n\" of database 0: an element is there twice",
            &["a", "z"],
        ),
        case("a key twice", rdb("REDIS0012", &[&a, &z, &a]), damaged, "key \"a\"", &["a", "z"]),
        case("an end that is missing", whole[..end - 11].to_vec(), damaged, "key \"z\"", &["a"]),
        case(
            "an unknown type",
            rdb("REDIS0012", &[&a, b"\x22\x01b"]),
            damaged,
            "key \"b\"",
            &["a"],
        ),
        case("another checksum", sum, damaged, "the checksum is", &["a", "z"]),
        case(
            "no library of functions",
            rdb("REDIS0012", &[b"\xf5\x03bad", &a]),
            damaged,
            "cannot load the functions",
            &["a"],
        ),
        case(
            "a version that is not known",
            rdb("REDIS0099", &[&a, &z]),
            &["rdb-version-check relaxed"],
            "RDB version 99",
            &["a", "z"],
        ),
        case(
            "too few databases",
            rdb("REDIS0012", &[&a, b"\xfe\x14", &z]),
            &["databases 21"],
            "database 20",
            &["a"],
        ),
        case(
            "more databases than there can be",
            rdb("REDIS0012", &[&a, b"\xfe\x80\0\x01\0\0", &z]),
            damaged,
            "database 65536",
            &["a"],
        ),
        Case {
            args: &["--appendonly", "yes"],
            advice: &["petrel check --fix /"],
            ..case(
                "the base of a new log",
                rdb("REDIS0012", &[&a, &broken("b"), &z]),
                &[],
                "key \"b\" of database 0",
                &["a", "z"],
            )
        },
    ]
}

fn logs() -> Vec<Case> {
    let (a, z) = (commands(&["SELECT 0", "SET a 1"]), commands(&["SET z 1"]));
    let single = |what, bytes: &[&[u8]], args, advice, says, keys| Case {
        what,
        files: vec![("appendonly.aof", bytes.concat())],
        args,
        advice,
        says,
        keys,
    };
    let manifest = b"file appendonly.aof.1.base.rdb seq 1 type b\n\
                     file appendonly.aof.1.incr.aof seq 1 type i\n";
    let base = rdb("REDIS0012", &[&string("a"), &broken("b")]);
    vec![
        single(
            "damage amid commands",
            &[&a, b"garbage\r\n", &z],
            &["--appendonly", "yes"],
            &["aof-load-corrupt-tail-max-size 36", "petrel check --cut "],
            "at byte ",
            &["a"],
        ),
        single(
            "garbage at the end",
            &[&a, &z, b"garbage\r\n"],
            &["--appendonly", "yes"],
            &["aof-load-corrupt-tail-max-size 9", "petrel check --fix "],
            "at byte ",
            &["a", "z"],
        ),
        single(
            "an end that is missing",
            &[&a, &z, b"*2\r\n$3\r\nDE"],
            &["--appendonly", "yes", "--aof-load-truncated", "no"],
            &["aof-load-truncated yes", "petrel check --fix "],
            "amid the command",
            &["a", "z"],
        ),
        single(
            "a transaction without its end",
            &[&a, &commands(&["MULTI", "SET z 1"])],
            &["--appendonly", "yes", "--aof-load-truncated", "no"],
            &["aof-load-truncated yes", "petrel check --fix "],
            "amid the command",
            &["a"],
        ),
        single(
            "nothing that it could be",
            &[b"garbage\r\n", &a],
            &["--appendonly", "yes"],
            &[],
            "no append-only file",
            &[],
        ),
        Case {
            what: "a base of Redis that is broken",
            files: vec![
                ("appendonlydir/appendonly.aof.1.base.rdb", base),
                ("appendonlydir/appendonly.aof.1.incr.aof", commands(&["SELECT 0", "SET z 1"])),
                ("appendonlydir/appendonly.aof.manifest", manifest.to_vec()),
            ],
            args: &["--appendonly", "yes"],
            advice: &["petrel check --fix /"],
            says: "key \"b\" of database 0",
            keys: &["a", "z"],
        },
    ]
}

/// Follows a piece of advice and starts the server, which then has the keys.
fn follow(case: &Case, scratch: Scratch, advice: &str) {
    let mut words: Vec<&str> = advice.split(' ').collect();
    let mut option = String::new();
    if words[0] == "petrel" {
        let output = run_to_end(&scratch, &words[1..]);
        assert!(output.status.success(), "{}: {advice}: {}", case.what, text_of(&output));
        words.clear();
    } else {
        option = format!("--{}", words[0]);
        words[0] = &option;
    }
    let server = Server::start_in(scratch, "epoll", &[case.args, &words].concat());
    let mut client = server.connect();
    for key in case.keys {
        assert_eq!(client.text(&["EXISTS", key]), "1", "{}: {advice}{option}: {key}", case.what);
    }
}

#[test]
fn what_an_error_advises_leads_to_a_server_that_starts() {
    for case in snapshots().into_iter().chain(logs()) {
        let error = case.fail(&case.make());
        assert!(error.contains(case.says), "{}: {error}", case.what);
        let given = advice(&error).len();
        assert_eq!(given, case.advice.len(), "{}: {error}", case.what);
        for (at, wanted) in case.advice.iter().enumerate() {
            // Each in a directory of its own, which is named in the advice.
            let scratch = case.make();
            let error = case.fail(&scratch);
            let advice = advice(&error)[at];
            assert!(advice.starts_with(wanted), "{}: {error}", case.what);
            follow(&case, scratch, advice);
        }
    }
}

#[test]
fn the_end_of_petrels_log_is_dropped_as_advised() {
    let make = || {
        let mut server = Server::start("epoll", &["--appendonly", "yes"]);
        let mut client = server.connect();
        for key in ["a", "z"] {
            assert_eq!(client.text(&["SET", key, "1"]), "OK");
            assert_eq!(client.text(&["WAITAOF", "1", "0", "30000"]), "[1 0]");
        }
        client.send(&["SHUTDOWN", "NOSAVE"]);
        assert_eq!(server.exit_code(), Some(0));
        let scratch = server.into_scratch();
        let files = std::fs::read_dir(scratch.path("appendonlydir")).unwrap();
        let logs = files.map(|file| file.unwrap().path());
        let mut logs: Vec<_> =
            logs.filter(|path| path.to_string_lossy().ends_with(".effects.log")).collect();
        logs.sort();
        let log = logs.pop().unwrap();
        // Into the mark of an end on purpose, or the last block.
        let len = log.metadata().unwrap().len();
        std::fs::File::options().write(true).open(log).unwrap().set_len(len - 3).unwrap();
        scratch
    };
    let case = Case {
        what: "a block that is torn",
        files: vec![],
        args: &["--appendonly", "yes", "--aof-load-truncated", "no"],
        advice: &[],
        says: "",
        keys: &["a"],
    };
    for at in 0..2 {
        let scratch = make();
        let error = case.fail(&scratch);
        let advice = advice(&error);
        assert_eq!(advice.len(), 2, "{error}");
        follow(&case, scratch, advice[at]);
    }
}

fn check(scratch: &Scratch, args: &[&str]) -> (String, bool) {
    let output = run_to_end(scratch, &[&["check"], args].concat());
    (text_of(&output), output.status.success())
}

#[test]
fn what_is_left_out_of_a_file_is_kept_beside_it() {
    let scratch = Scratch::new();
    let (path, exists) = (scratch.path("dump.rdb"), |name: &str| exists(&scratch.path(name)));
    let bytes = rdb("REDIS0012", &[&string("a"), &broken("b"), &string("z")]);
    std::fs::write(&path, &bytes).unwrap();
    let (text, is_whole) = check(&scratch, &["dump.rdb"]);
    assert!(!is_whole && text.contains("--fix keeps 2 keys"), "{text}");
    let part = "8 bytes from byte 14 on: key \"b\" of database 0: an element is there twice";
    assert!(text.contains(&format!("dump.rdb: {part}\n")), "{text}");
    assert!(!exists("dump.rdb.skipped") && std::fs::read(&path).unwrap() == bytes);
    // Nothing is done where something else is kept already.
    std::fs::write(scratch.path("dump.rdb.damaged"), "mine").unwrap();
    let (text, is_whole) = check(&scratch, &["--fix", "dump.rdb"]);
    assert!(
        !is_whole && text.contains("dump.rdb.damaged is there already: move it away"),
        "{text}"
    );
    assert!(!exists("dump.rdb.skipped") && !exists("dump.rdb.fixing"));
    assert_eq!(std::fs::read(&path).unwrap(), bytes);
    std::fs::remove_file(scratch.path("dump.rdb.damaged")).unwrap();
    let (text, is_whole) = check(&scratch, &["--fix", "dump.rdb"]);
    assert!(is_whole && text.contains("fixed: 2 keys are kept, 1 part of 8 bytes"), "{text}");
    let kept = |name: &str| std::fs::read(scratch.path(name)).unwrap();
    assert_eq!(kept("dump.rdb.damaged"), bytes);
    let wanted = [format!("# {part}\n").as_bytes(), &broken("b"), b"\n"].concat();
    assert_eq!(kept("dump.rdb.skipped"), wanted);
    assert!(!exists("dump.rdb.fixing"));
    let (text, is_whole) = check(&scratch, &["dump.rdb"]);
    assert!(is_whole && text.contains("whole; RDB version 12, 2 keys"), "{text}");
    let server = Server::start_in(scratch, "epoll", &[]);
    assert_eq!(server.connect().text(&["DBSIZE"]), "2");
}

#[test]
fn minus_zero_stays_across_restarts() {
    let set = b"\x0c\x01z\x12\x12\0\0\0\x0d\0\0\0\x02\0\0\x01a\x03\x02-0\xff";
    let mut scratch = Scratch::new();
    std::fs::write(scratch.path("dump.rdb"), rdb("REDIS0009", &[set])).unwrap();
    for args in [&[][..], &[], &["--appendonly", "yes"], &["--appendonly", "yes"]] {
        let mut server = Server::start_in(scratch, "epoll", args);
        let mut client = server.connect();
        assert_eq!(client.text(&["ZSCORE", "z", "a"]), "-0", "{args:?}");
        assert_eq!(client.text(&["OBJECT", "ENCODING", "z"]), "listpack");
        assert_eq!(client.text(&["ZADD", "z", "-0", "b"]), "1");
        // Of a command, as in Redis.
        assert_eq!(client.text(&["ZSCORE", "z", "b"]), "0");
        client.call(&["ZREM", "z", "b"]);
        assert_eq!(client.text(&["COPY", "z", "copy"]), "1");
        assert_eq!(client.text(&["ZSCORE", "copy", "a"]), "-0");
        client.call(&["DEL", "copy"]);
        client.send(&["SHUTDOWN", "SAVE"]);
        assert_eq!(server.exit_code(), Some(0));
        scratch = server.into_scratch();
    }
}

#[test]
fn a_stream_whose_length_is_wrong_is_loaded_with_a_warning() {
    let node = [
        &b"\x17\x17\0\0\0\x0a\0\x01\x01\x00\x01\x01\x01\x81f\x02\x00\x01"[..],
        b"\x02\x01\x00\x01\x00\x01\x81v\x02\x04\x01\xff",
    ]
    .concat();
    let mut node = node;
    let len = node.len() as u8 - 1;
    (node[0], node[1]) = (len, len);
    let id = [0, 0, 0, 0, 0, 0, 0, 5, 0, 0, 0, 0, 0, 0, 0, 1];
    let stream = [&b"\x0f\x01x\x01\x10"[..], &id, &node, b"\x03\x05\x01\x00"].concat();
    let scratch = Scratch::new();
    std::fs::write(scratch.path("dump.rdb"), rdb("REDIS0009", &[&stream])).unwrap();
    let (text, is_whole) = check(&scratch, &["dump.rdb"]);
    let note = "; key \"x\" of database 0 states the length of a stream wrongly";
    assert!(is_whole && text.contains(note), "{text}");
    let server = Server::start_in(scratch, "epoll", &[]);
    let mut client = server.connect();
    assert_eq!(client.text(&["XLEN", "x"]), "1");
    assert_eq!(client.text(&["XRANGE", "x", "-", "+"]), "[[5-1 [f v]]]");
    let warning = "loaded, but key \"x\" of database 0 states the length of a stream wrongly";
    assert!(server.output().contains(warning), "{}", server.output());
}
