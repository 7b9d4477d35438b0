//! `petrel check` of append-only files.

use crate::harness::*;

fn commands(lines: &[&str]) -> Vec<u8> {
    let line = |line: &&str| encode(&line.split(' ').map(str::as_bytes).collect::<Vec<_>>());
    lines.iter().flat_map(line).collect()
}

/// Output of `petrel check`, and whether it succeeded.
fn check(scratch: &Scratch, args: &[&str]) -> (String, bool) {
    let output = run_to_end(scratch, &[&["check"], args].concat());
    let text = [output.stdout, output.stderr].concat();
    (String::from_utf8(text).unwrap(), output.status.success())
}

#[test]
fn an_end_that_is_not_whole_is_cut_off_where_that_is_asked_for() {
    let scratch = Scratch::new();
    let whole = commands(&["SELECT 0", "SET a 1", "MULTI", "SET b 2", "EXEC"]);
    let write = |name: &str, parts: &[&[u8]]| {
        std::fs::write(scratch.path(name), parts.concat()).unwrap();
    };
    let len = |name: &str| std::fs::metadata(scratch.path(name)).unwrap().len() as usize;
    write("a.aof", &[&whole]);
    let (text, is_whole) = check(&scratch, &["a.aof"]);
    assert!(is_whole && text == "a.aof: whole; 5 commands, 1 transaction\n", "{text}");

    write("a.aof", &[&whole, b"*2\r\n$3\r\nDE"]);
    let (text, is_whole) = check(&scratch, &["a.aof"]);
    let at = whole.len();
    let wrong = format!(
        "a.aof: it ends amid the command at byte {at}; before that: 5 commands, the last 'exec'"
    );
    assert!(!is_whole && text == format!("{wrong}; --fix cuts the last 10 bytes off\n"), "{text}");
    assert_eq!(len("a.aof"), at + 10);
    let (text, is_whole) = check(&scratch, &["--fix", "a.aof"]);
    let fixed = format!("{wrong}; its last 10 bytes were cut off, {at} are left\n");
    assert!(is_whole && text == fixed, "{text}");
    assert!(check(&scratch, &["a.aof"]).1);

    write("a.aof", &[&whole, &commands(&["MULTI", "SET c 3"])]);
    let (text, is_whole) = check(&scratch, &["a.aof", "--fix"]);
    assert!(is_whole && text.contains("has no end"), "{text}");
    assert_eq!(len("a.aof"), at);

    // Damage within commands is left to an operator, since only a person can judge the loss.
    write("a.aof", &[&whole, b"garbage\r\n", &whole]);
    let (text, is_whole) = check(&scratch, &["--fix", "a.aof"]);
    assert!(!is_whole && text.contains(&format!("at byte {at}: expected a command")), "{text}");
    assert!(text.contains("more commands follow"), "{text}");
    assert_eq!(len("a.aof"), 2 * at + 9);
    // A file of another kind is not an append-only file of which nothing is left.
    write("notes.txt", &[b"nothing that begins as a command does\r\n"]);
    let (text, is_whole) = check(&scratch, &["--fix", "notes.txt"]);
    assert!(!is_whole && text.contains("no append-only file"), "{text}");
    assert_eq!(len("notes.txt"), 39);
    assert!(!check(&scratch, &["missing.aof"]).1);
    let (text, is_whole) = check(&scratch, &[]);
    assert!(!is_whole && text.contains("Usage: petrel check"), "{text}");
    assert!(!check(&scratch, &["--fix"]).1);
}

#[test]
fn a_directory_is_checked_by_its_manifest() {
    let mut server = Server::start("epoll", &[]);
    let mut client = server.connect();
    client.call(&["SET", "a", "1"]);
    assert_eq!(client.text(&["SAVE"]), "OK");
    client.send(&["SHUTDOWN", "NOSAVE"]);
    assert_eq!(server.exit_code(), Some(0));
    let scratch = server.into_scratch();
    let dir = scratch.path("appendonlydir");
    std::fs::create_dir(&dir).unwrap();
    std::fs::copy(scratch.path("dump.rdb"), dir.join("x.1.base.rdb")).unwrap();
    let whole = commands(&["SELECT 0", "INCR a"]);
    let torn = [&whole[..], b"*1\r\n"].concat();
    std::fs::write(dir.join("x.1.incr.aof"), &whole).unwrap();
    std::fs::write(dir.join("x.2.incr.aof"), &torn).unwrap();
    let manifest = "file x.1.base.rdb seq 1 type b\nfile x.1.incr.aof seq 1 type i\n\
                    file x.2.incr.aof seq 2 type i\n";
    std::fs::write(dir.join("x.manifest"), manifest).unwrap();
    let (text, is_whole) = check(&scratch, &["appendonlydir"]);
    assert!(!is_whole && text.contains("x.2.incr.aof: it ends amid the command"), "{text}");
    let (_, is_whole) = check(&scratch, &["--fix", "appendonlydir"]);
    assert!(is_whole);
    let (text, is_whole) = check(&scratch, &["appendonlydir/x.manifest"]);
    assert!(is_whole && text.contains("x.1.base.rdb: whole; RDB version"), "{text}");
    assert!(text.ends_with("x.manifest: whole; 3 files\n"), "{text}");

    std::fs::write(dir.join("x.1.incr.aof"), &torn).unwrap();
    let (text, is_whole) = check(&scratch, &["--fix", "appendonlydir"]);
    assert!(!is_whole && text.contains("it is not the last file, and is not cut"), "{text}");
    assert_eq!(std::fs::read(dir.join("x.1.incr.aof")).unwrap(), torn);

    // An RDB file with commands behind it, as versions before Redis 7 write them.
    let old = [&std::fs::read(dir.join("x.1.base.rdb")).unwrap()[..], &whole].concat();
    std::fs::write(scratch.path("appendonly.aof"), &old).unwrap();
    let (text, is_whole) = check(&scratch, &["appendonly.aof"]);
    assert!(is_whole && text.contains("1 key, ") && text.contains("behind it: whole; 2 commands"));
    std::fs::write(dir.join("x.manifest"), "file x seq one type b\n").unwrap();
    let (text, is_whole) = check(&scratch, &["appendonlydir"]);
    assert!(!is_whole && text.contains("x.manifest: line 1: "), "{text}");
}

/// The directory of a log of several files, which was ended in an orderly way, and their names.
fn with_a_log() -> (Scratch, Vec<String>) {
    const LOG: [&str; 4] = ["--appendonly", "yes", "--appendfsync", "always"];
    let mut scratch = Scratch::new();
    for (number, key) in ["a", "b", "c"].into_iter().enumerate() {
        let mut server = Server::start_in(scratch, "epoll", &LOG);
        let mut client = server.connect();
        assert_eq!(client.text(&["SET", key, "1"]), "OK");
        if number == 0 {
            client.call(&["BGREWRITEAOF"]);
            eventually("the base", || server.info("aof_rewrites") == 1);
            assert_eq!(client.text(&["SET", "d", "1"]), "OK");
        }
        server.signal(libc::SIGTERM);
        assert_eq!(server.exit_code(), Some(0));
        scratch = server.into_scratch();
    }
    let manifest = scratch.path("appendonlydir/appendonly.aof.manifest");
    let text = std::fs::read_to_string(manifest).unwrap();
    let names = text.lines().filter_map(|line| line.strip_prefix("file "));
    let names = names.map(|line| line.split(' ').next().unwrap().to_owned()).collect();
    (scratch, names)
}

#[test]
fn each_file_of_a_log_is_whole_at_the_lengths_that_a_start_takes_for_whole() {
    let (scratch, names) = with_a_log();
    assert_eq!(names.len(), 4, "{names:?}");
    assert!(check(&scratch, &["appendonlydir"]).1);
    for (number, name) in names.iter().enumerate() {
        let path = scratch.path("appendonlydir").join(name);
        let whole = std::fs::read(&path).unwrap();
        let is_last = number + 1 == names.len();
        let ends: Vec<usize> = (0..=whole.len())
            .filter(|&at| at == whole.len() || whole[at..].starts_with(b"EPOC"))
            .collect();
        for len in 0..=whole.len() {
            std::fs::write(&path, &whole[..len]).unwrap();
            let (text, is_whole) = check(&scratch, &["appendonlydir"]);
            // Behind others only the mark of the end may be missing.
            let may_be = match is_last {
                true => ends.contains(&len),
                false => len == whole.len() || ends.iter().rev().nth(1) == Some(&len),
            };
            let may_be = may_be && (len >= 64 || number == 0);
            assert_eq!(is_whole, may_be, "{name} {len}: {text}");
            assert!(text.contains("appendonly.aof"), "{text}");
        }
        std::fs::write(&path, &whole).unwrap();
    }
    let manifest = scratch.path("appendonlydir/appendonly.aof.manifest");
    let whole = std::fs::read(&manifest).unwrap();
    for len in 0..whole.len() - 1 {
        std::fs::write(&manifest, &whole[..len]).unwrap();
        let (text, is_whole) = check(&scratch, &["appendonlydir"]);
        assert!(!is_whole && text.contains("appendonly.aof.manifest: line "), "{len}: {text}");
    }
}

#[test]
fn a_start_refuses_what_the_check_does_not_call_whole() {
    let (scratch, names) = with_a_log();
    let args = ["--port", "0", "--unixsocket", "s", "--appendonly", "yes"];
    for (number, name) in names.iter().enumerate() {
        let path = scratch.path("appendonlydir").join(name);
        let whole = std::fs::read(&path).unwrap();
        let lens = [0, 1, 63, 64, whole.len() - 57];
        for &len in &lens[..if number == 3 { 3 } else { 5 }] {
            std::fs::write(&path, &whole[..len]).unwrap();
            assert!(!check(&scratch, &["appendonlydir"]).1, "{name} {len}");
            let output = run_to_end(&scratch, &args);
            let text = String::from_utf8(output.stderr).unwrap();
            assert_eq!(output.status.code(), Some(1), "{name} {len}: {text}");
            assert!(text.contains("appendonly.aof."), "{text}");
            assert_eq!(std::fs::metadata(&path).unwrap().len(), len as u64);
        }
        std::fs::write(&path, &whole).unwrap();
    }
    let manifest = scratch.path("appendonlydir/appendonly.aof.manifest");
    let text = std::fs::read_to_string(&manifest).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    for count in 0..lines.len() {
        std::fs::write(&manifest, lines[..count].join("\n")).unwrap();
        assert_eq!(run_to_end(&scratch, &args).status.code(), Some(1), "{count}");
    }
    std::fs::remove_file(&manifest).unwrap();
    let output = run_to_end(&scratch, &args);
    let why = String::from_utf8(output.stderr).unwrap();
    assert!(why.contains("but no appendonly.aof.manifest"), "{why}");
    std::fs::write(&manifest, text).unwrap();
    let server = Server::start_in(scratch, "epoll", &["--appendonly", "yes"]);
    assert_eq!(server.connect().text(&["MGET", "a", "b", "c", "d"]), "[1 1 1 1]");
}

/// Files of servers that have not written anything yet are valid, and reported as empty.
#[test]
fn empty_files_of_other_servers_are_told() {
    let scratch = Scratch::new();
    let dir = scratch.path("appendonlydir");
    std::fs::create_dir(&dir).unwrap();
    let manifest = "file appendonly.aof.1.base.aof seq 1 type b\n\
                    file appendonly.aof.1.incr.aof seq 1 type i\n\
                    file appendonly.aof.2.incr.aof seq 2 type i\n";
    std::fs::write(dir.join("appendonly.aof.manifest"), manifest).unwrap();
    for name in ["1.base.aof", "1.incr.aof", "2.incr.aof"] {
        std::fs::write(dir.join(format!("appendonly.aof.{name}")), "").unwrap();
    }
    let (text, is_whole) = check(&scratch, &["appendonlydir"]);
    assert!(is_whole && text.contains("1.base.aof: empty: right only if"), "{text}");
    assert!(text.contains("1.incr.aof: empty: right only if"), "{text}");
    assert!(text.contains("2.incr.aof: whole; 0 commands"), "{text}");
    let server = Server::start_in(scratch, "epoll", &["--appendonly", "yes"]);
    let output = server.output();
    assert_eq!(output.matches(" is empty: right only if").count(), 2, "{output}");
}
