//! Starting on the append-only files of Redis and Valkey, and going on from there.

use crate::harness::*;

const LOG: [&str; 2] = ["--appendonly", "yes"];

fn commands(lines: &[&str]) -> Vec<u8> {
    let line = |line: &&str| encode(&line.split(' ').map(str::as_bytes).collect::<Vec<_>>());
    lines.iter().flat_map(line).collect()
}

/// The data is there, and there again after a kill, with what was written since.
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
