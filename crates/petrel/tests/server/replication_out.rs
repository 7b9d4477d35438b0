//! Replicas of Petrel: simulated ones, and other servers: those on the PATH, and the ones in
//! `PETREL_TEST_PEERS`.

use crate::harness::{Client, PATIENCE, Server, encode, eventually, free_port, show};
use crate::replication_primary::{Peer, Release};
use petrel_resp::{DecodeLimits, Decoder};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

const AT_ONCE: &[&str] = &["--repl-diskless-sync-delay", "0"];

/// A connection that speaks as a replica does.
pub struct Follower {
    stream: UnixStream,
    received: Vec<u8>,
}

impl Follower {
    pub fn new(server: &Server) -> Self {
        let stream = UnixStream::connect(server.socket()).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        Follower { stream, received: Vec::new() }
    }

    pub fn send(&mut self, line: &str) {
        self.stream.write_all(format!("{line}\r\n").as_bytes()).unwrap();
    }

    fn read_some(&mut self) {
        let mut chunk = [0; 4096];
        let count = self.stream.read(&mut chunk).unwrap();
        assert!(count > 0, "closed behind {}", self.received.escape_ascii());
        self.received.extend_from_slice(&chunk[..count]);
    }

    /// The next line that is no sign of life.
    pub fn line(&mut self) -> String {
        loop {
            if let Some(at) = self.received.iter().position(|&byte| byte == b'\n') {
                let line: Vec<u8> = self.received.drain(..=at).collect();
                let line = String::from_utf8(line).unwrap().trim_end().to_string();
                if !line.is_empty() {
                    return line;
                }
                continue;
            }
            self.read_some();
        }
    }

    /// Whether the connection is closed without a word when this is sent.
    fn is_closed_by(&mut self, line: &str) -> bool {
        self.send(line);
        loop {
            let mut chunk = [0; 4096];
            match self.stream.read(&mut chunk) {
                Ok(0) => break,
                Ok(count) => self.received.extend_from_slice(&chunk[..count]),
                Err(error) if error.kind() == ErrorKind::ConnectionReset => break,
                Err(error) => panic!("{line}: {error}"),
            }
        }
        let rest = std::mem::take(&mut self.received);
        let mut text = String::from_utf8_lossy(&rest).into_owned();
        // Commands that the stream itself may contain by then.
        const GET_ACK: &str = "*3\r\n$8\r\nREPLCONF\r\n$6\r\nGETACK\r\n$1\r\n*\r\n";
        for command in ["*1\r\n$4\r\nPING\r\n", GET_ACK] {
            text = text.replace(command, "");
        }
        text.is_empty()
    }

    /// The copy, and the history's name and the offset that it is of.
    pub fn full_sync(&mut self) -> (Vec<u8>, String, u64) {
        self.send("REPLCONF listening-port 4321 capa eof capa psync2");
        assert_eq!(self.line(), "+OK");
        self.send("PSYNC ? -1");
        let answer = self.line();
        let mut words = answer.strip_prefix("+FULLRESYNC ").expect(&answer).split(' ');
        let (id, at) = (words.next().unwrap().to_string(), words.next().unwrap().parse().unwrap());
        let head = self.line();
        let mark = head.strip_prefix("$EOF:").expect(&head).as_bytes().to_vec();
        assert_eq!(mark.len(), 40);
        while !self.received.ends_with(&mark) {
            self.read_some();
        }
        let copy = std::mem::take(&mut self.received);
        (copy[..copy.len() - mark.len()].to_vec(), id, at)
    }

    /// The next `count` commands of the stream, except commands sent beside changes; and the bytes
    /// of everything read.
    pub fn commands(&mut self, count: usize) -> (Vec<String>, u64) {
        let (mut commands, mut bytes) = (Vec::new(), 0);
        while commands.len() < count {
            let mut decoder = Decoder::new(DecodeLimits::default());
            let (consumed, value) = decoder.decode(&self.received).unwrap();
            let Some(value) = value else {
                self.read_some();
                continue;
            };
            self.received.drain(..consumed);
            bytes += consumed as u64;
            let text = show(&value);
            if !text.contains("PING") && !text.contains("GETACK") {
                commands.push(text);
            }
        }
        (commands, bytes)
    }
}

pub fn commands_of(lines: &[&str]) -> Vec<String> {
    let shown = |line: &&str| {
        let args: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
        let mut bytes = Vec::new();
        petrel_resp::encode_command(&args, &mut bytes);
        let (_, value) = Decoder::new(DecodeLimits::default()).decode(&bytes).unwrap();
        show(&value.unwrap())
    };
    lines.iter().map(shown).collect()
}

#[test]
fn a_replica_gets_a_copy_and_what_follows_on_it_and_goes_on_where_it_was() {
    let server = Server::start("epoll", AT_ONCE);
    let mut client = server.connect();
    client.text(&["SET", "before", "1"]);
    let mut follower = Follower::new(&server);
    let (copy, id, at) = follower.full_sync();
    assert!(copy.starts_with(b"REDIS0009") && copy.windows(6).any(|at| at == b"before"));
    client.text(&["SELECT", "3"]);
    client.text(&["SET", "k", "v"]);
    follower.send(&format!("REPLCONF ACK {at}"));
    let (commands, bytes) = follower.commands(2);
    assert_eq!(commands, commands_of(&["SELECT 3", "SET k v"]));
    let mut offset = at + bytes;
    assert_eq!(server.info("connected_slaves"), 1);
    client.text(&["MULTI"]);
    client.text(&["INCR", "n"]);
    client.text(&["DEL", "k"]);
    client.text(&["EXEC"]);
    let (commands, bytes) = follower.commands(4);
    assert_eq!(commands, commands_of(&["MULTI", "INCR n", "DEL k", "EXEC"]));
    offset += bytes;
    follower.send(&format!("REPLCONF ACK {offset}"));
    assert_eq!(client.text(&["WAIT", "1", "30000"]), "1");
    assert_eq!(client.text(&["CLIENT", "KILL", "TYPE", "replica"]), "1");
    client.text(&["SET", "missed", "1"]);
    // A second replica that requests the part that the first has yet to get.
    let mut again = Follower::new(&server);
    again.send("REPLCONF capa psync2");
    assert_eq!(again.line(), "+OK");
    again.send(&format!("PSYNC {id} {}", offset + 1));
    assert_eq!(again.line(), format!("+CONTINUE {id}"));
    assert_eq!(again.commands(1).0, commands_of(&["SET missed 1"]));
    assert_eq!((server.info("sync_full"), server.info("sync_partial_ok")), (1, 1));
    // A command with a reply, even an error, closes a replica: the reply would break the stream.
    assert!(again.is_closed_by("GET missed"));
    let at_once = ["PING", "CLIENT ID", "SELECT 1", "NOSUCH", "WAIT 0 0", "REPLCONF capa eof"];
    for request in at_once.into_iter().chain(["WAIT 9 10", "BLPOP none 0.01"]) {
        let mut other = Follower::new(&server);
        let (_, _, at) = other.full_sync();
        other.send(&format!("REPLCONF ACK {at}"));
        other.send("REPLCONF GETACK *");
        assert!(other.is_closed_by(request), "{request}");
    }
    // Of another history nothing is kept.
    let mut stranger = Follower::new(&server);
    stranger.send(&format!("PSYNC {} 5", "0".repeat(40)));
    assert!(stranger.line().starts_with("+FULLRESYNC"));
    let counts = ["sync_full", "sync_partial_ok", "sync_partial_err"];
    assert_eq!(counts.map(|count| server.info(count)), [10, 1, 1]);
    assert!(server.info("total_net_repl_output_bytes") > 0);
    client.text(&["CONFIG", "RESETSTAT"]);
    assert_eq!(counts.map(|count| server.info(count)), [0; 3]);
}

#[test]
fn a_replica_that_knows_no_mark_is_told_the_length() {
    let server = Server::start("epoll", &[]);
    server.connect().text(&["SET", "before", "1"]);
    let mut follower = Follower::new(&server);
    follower.send("SYNC");
    let head = follower.line();
    let len: usize = head.strip_prefix('$').expect(&head).parse().unwrap();
    while follower.received.len() < len {
        follower.read_some();
    }
    let copy: Vec<u8> = follower.received.drain(..len).collect();
    assert!(copy.starts_with(b"REDIS0009") && copy[copy.len() - 9] == 0xff);
    server.connect().text(&["SET", "after", "1"]);
    assert_eq!(follower.commands(2).0, commands_of(&["SELECT 0", "SET after 1"]));
}

#[test]
fn a_key_that_has_expired_before_a_waiter_is_served_is_removed_by_the_next_read() {
    let args = [AT_ONCE, &["--enable-debug-command", "yes"]].concat();
    let server = Server::start("epoll", &args);
    let mut client = server.connect();
    client.text(&["DEBUG", "SET-ACTIVE-EXPIRE", "0"]);
    let mut follower = Follower::new(&server);
    let (_, _, at) = follower.full_sync();
    follower.send(&format!("REPLCONF ACK {at}"));
    let mut waiter = server.connect();
    waiter.text(&["SELECT", "9"]);
    let mut check = |change: &[&str], stream: &[&str]| {
        waiter.send(&["BRPOP", "k", "0"]);
        eventually("it waits", || server.info("blocked_clients") == 1);
        for line in change {
            client.text(&line.split(' ').collect::<Vec<_>>());
        }
        let clients = client.text(&["CLIENT", "LIST"]);
        let line = clients.lines().find(|line| line.contains("cmd=brpop")).expect("it waits on");
        let id = line.strip_prefix("id=").and_then(|rest| rest.split(' ').next()).unwrap();
        assert_eq!(client.text(&["CLIENT", "UNBLOCK", id]), "1");
        waiter.receive().expect("an answer");
        waiter.text(&["SET", "other", "v"]);
        assert_eq!(waiter.text(&["EXISTS", "k"]), "0");
        let (commands, _) = follower.commands(stream.len());
        let without_time = |command: String| match command.split_once("PEXPIREAT k ") {
            Some((before, _)) => format!("{before}PEXPIREAT k at]"),
            None => command,
        };
        let commands: Vec<String> = commands.into_iter().map(without_time).collect();
        assert_eq!(commands, commands_of(stream));
    };
    check(
        &["SELECT 1", "RPUSH k a", "PEXPIRE k 1", "DEBUG SLEEP 0.1", "SWAPDB 1 9"],
        &[
            "SELECT 1",
            "RPUSH k a",
            "PEXPIREAT k at",
            "SWAPDB 1 9",
            "SELECT 9",
            "SET other v",
            "DEL k",
        ],
    );
    check(
        &["SELECT 9", "MULTI", "RPUSH k a", "PEXPIRE k 60", "DEBUG SLEEP 0.1", "EXEC"],
        &["MULTI", "RPUSH k a", "PEXPIREAT k at", "EXEC", "SET other v", "DEL k"],
    );
}

#[test]
fn replicas_are_shown_as_the_dialect_has_them() {
    for (dialect, is_valkey) in [("redis", false), ("valkey", true)] {
        let server = Server::start("epoll", &[AT_ONCE, &["--dialect", dialect]].concat());
        let mut follower = Follower::new(&server);
        follower.full_sync();
        let shown = server.connect().text(&["INFO", "replication"]);
        let line = shown.lines().find(|line| line.starts_with("slave0:ip=")).expect(&shown);
        assert_eq!(line.ends_with(",lag=0,type=replica"), is_valkey, "{line}");
        assert_eq!(shown.contains("\nreplicas_waiting_psync:0"), is_valkey, "{shown}");
    }
}

#[test]
fn a_copy_that_no_replica_wants_any_more_is_given_up_at_once() {
    for diskless in ["yes", "no"] {
        // A second for each key.
        let args = [AT_ONCE, &["--rdb-key-save-delay", "1000000"]].concat();
        let server = Server::start("epoll", &[&args[..], &["--save", ""]].concat());
        let mut client = server.connect();
        client.text(&["CONFIG", "SET", "repl-diskless-sync", diskless]);
        for key in 0..60 {
            client.text(&["SET", &key.to_string(), "v"]);
        }
        let mut followers = [Follower::new(&server), Follower::new(&server)];
        followers.iter_mut().for_each(|follower| follower.send("PSYNC ? -1"));
        eventually("it begins", || server.output().contains("sending a copy"));
        assert!(client.text(&["INFO", "replication"]).contains("state=wait_bgsave"));
        drop(followers);
        let given_up = || server.info("rdb_bgsave_in_progress") == 0;
        eventually("it is given up", || given_up() && server.info("connected_slaves") == 0);
        assert!(server.output().contains("was abandoned: the replicas have left"));
    }
}

#[test]
fn a_replica_that_never_reads_is_closed_with_a_line_in_the_log() {
    let limit = "replica 4mb 0 0";
    let args = [AT_ONCE, &["--client-output-buffer-limit", limit]].concat();
    let server = Server::start("epoll", &args);
    let mut follower = Follower::new(&server);
    let (_, _, at) = follower.full_sync();
    follower.send(&format!("REPLCONF ACK {at}"));
    let mut client = server.connect();
    let value = "x".repeat(1 << 20);
    let deadline = Instant::now() + PATIENCE;
    let mut written = 0;
    while server.info("connected_slaves") == 1 {
        assert!(Instant::now() < deadline, "it is kept though {written} MiB wait for it");
        client.text(&["SET", "k", &value]);
        written += 1;
    }
    assert!(server.output().contains("client-output-buffer-limit allows for replicas"));
    client.text(&["SET", "k", &value]);
    let kept = server.info("mem_replication_backlog");
    assert!(kept < 4 << 20, "{kept} bytes are kept for nobody");
    let ended = loop {
        match follower.stream.read(&mut [0; 1 << 16]) {
            Ok(0) => break true,
            Ok(_) => {}
            Err(error) => break error.kind() == ErrorKind::ConnectionReset,
        }
    };
    assert!(ended);
}

#[test]
fn a_replica_that_was_closed_for_one_long_command_comes_back_to_it() {
    let limit = "replica 128kb 0 0";
    let args = [AT_ONCE, &["--client-output-buffer-limit", limit, "--repl-backlog-size", "16kb"]];
    let primary = crate::failover::Node::new(&args.concat());
    let replica = crate::failover::Node::following(primary.port, &[]);
    replica.await_field("master_link_status", "up");
    let mut client = primary.connect();
    for (round, letter) in ["x", "y"].into_iter().enumerate() {
        client.text(&["SET", "k", &letter.repeat(128 << 10)]);
        let begin = ["GETRANGE", "k", "0", "0"];
        eventually("it has it", || replica.connect().text(&begin) == letter);
        replica.await_field("master_link_status", "up");
        let closed = primary.server.output().matches("allows for replicas").count();
        assert!((1..=round + 1).contains(&closed), "{}", primary.server.output());
    }
}

#[test]
fn a_replica_that_never_reads_its_copy_is_closed_and_takes_no_memory() {
    let args = [AT_ONCE, &["--repl-timeout", "1", "--rdbcompression", "no", "--save", ""]].concat();
    let server = Server::start("epoll", &args);
    let mut client = server.connect();
    let value = "x".repeat(1 << 20);
    for key in 0..64 {
        client.text(&["SET", &key.to_string(), &value]);
    }
    let before = server.info("used_memory");
    for diskless in ["yes", "no"] {
        client.text(&["CONFIG", "SET", "repl-diskless-sync", diskless]);
        let mut follower = Follower::new(&server);
        follower.send("REPLCONF listening-port 4321 capa eof capa psync2");
        follower.send("PSYNC ? -1");
        eventually("it waits for a copy", || server.info("connected_slaves") == 1);
        let deadline = Instant::now() + PATIENCE;
        while server.info("connected_slaves") == 1 {
            let added = server.info("used_memory") - before;
            assert!(added < 24 << 20, "{added} bytes wait for a replica that does not read");
            assert!(Instant::now() < deadline, "it is kept");
            std::thread::sleep(Duration::from_millis(20));
        }
        eventually("the copy ends", || server.info("rdb_bgsave_in_progress") == 0);
        assert_eq!(client.text(&["STRLEN", "0"]), value.len().to_string());
    }
    let closed = server.output().matches("is closed: it reads nothing").count();
    assert_eq!(closed, 2, "{}", server.output());
}

#[test]
fn writes_are_refused_without_enough_replicas() {
    let args = [AT_ONCE, &["--min-replicas-to-write", "1"]].concat();
    let server = Server::start("epoll", &args);
    let mut client = server.connect();
    let await_answer = |client: &mut Client, is_expected: fn(&str) -> bool| {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let answer = client.text(&["SET", "k", "v"]);
            if is_expected(&answer) {
                return;
            }
            assert!(Instant::now() < deadline, "{answer}");
            std::thread::sleep(Duration::from_millis(20));
        }
    };
    await_answer(&mut client, |answer| answer.contains("NOREPLICAS"));
    assert_eq!(client.text(&["WAIT", "1", "10"]), "0");
    let mut follower = Follower::new(&server);
    let (_, _, at) = follower.full_sync();
    follower.send(&format!("REPLCONF ACK {at}"));
    await_answer(&mut client, |answer| answer == "OK");
    // A change of the configuration counts them, and refuses nothing meanwhile.
    for (setting, expected) in [("2", "NOREPLICAS"), ("1", "OK"), ("1", "OK")] {
        client.text(&["CONFIG", "SET", "min-replicas-to-write", setting]);
        let answer = client.text(&["SET", "k", "v"]);
        assert!(answer.contains(expected), "{answer}");
    }
    drop(follower);
    await_answer(&mut client, |answer| answer.contains("NOREPLICAS"));
}

#[test]
fn who_turns_replica_in_a_transaction_refuses_the_next_write() {
    let server = Server::start("epoll", &[]);
    let mut client = server.connect();
    for _ in 0..20 {
        for line in [&["MULTI"][..], &["SET", "k", "v"], &["REPLICAOF", "127.0.0.1", "1"]] {
            client.text(line);
        }
        assert_eq!(client.text(&["EXEC"]), "[OK OK]");
        let answer = client.text(&["SET", "k", "w"]);
        assert!(answer.contains("READONLY"), "{answer}");
        assert!(client.text(&["ROLE"]).starts_with("[slave 127.0.0.1 1 "));
        assert_eq!(client.text(&["REPLICAOF", "NO", "ONE"]), "OK");
        assert_eq!(client.text(&["SET", "k", "w"]), "OK");
        // What stands behind it in the transaction was let in by a primary.
        for line in [&["MULTI"][..], &["REPLICAOF", "127.0.0.1", "1"], &["SET", "k", "x"]] {
            client.text(line);
        }
        assert_eq!(client.text(&["EXEC"]), "[OK OK]");
        assert_eq!(client.text(&["GET", "k"]), "x");
        for line in [&["MULTI"][..], &["GET", "k"], &["REPLICAOF", "NO", "ONE"]] {
            client.text(line);
        }
        assert_eq!(client.text(&["EXEC"]), "[x OK]");
        // At once, though its transaction held the key.
        assert_eq!(client.text(&["SET", "k", "w"]), "OK");
        assert!(client.text(&["ROLE"]).starts_with("[master "));
    }
}

/// Numbers that are as good as random.
struct Draws(u64);

impl Draws {
    fn below(&mut self, count: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 33) % count
    }

    fn pick<'t>(&mut self, of: &[&'t str]) -> &'t str {
        of[self.below(of.len() as u64) as usize]
    }
}

/// Commands of every family; `K` is one of a few keys of the type, `V` a value, `N` a number.
const COMMANDS: &[&str] = &[
    "SET sK V",
    "SET sK V PX 40",
    "SET sK V PX 100000",
    "INCRBY nK N",
    "INCRBYFLOAT nK 0.5",
    "APPEND sK V",
    "SETRANGE sK N V",
    "SETBIT sK N 1",
    "GETDEL sK",
    "GETEX sK PX 500",
    "MSET sK V sK V",
    "BITOP OR sK sK sK",
    "PFADD pK V V",
    "PFMERGE pK pK",
    "LPUSH lK V V",
    "RPUSH lK V V V",
    "LPOP lK",
    "RPOP lK 2",
    "LSET lK 0 V",
    "LINSERT lK BEFORE V V",
    "LINSERT lK AFTER V V",
    "LREM lK 0 V",
    "LREM lK -2 V",
    "LREM lK 1 V",
    "LTRIM lK 1 6",
    "LMOVE lK lK LEFT RIGHT",
    "LMPOP 2 lK lK LEFT COUNT 2",
    "SORT lK ALPHA STORE lK",
    "HSET hK V V V N",
    "HDEL hK V V",
    "HINCRBY hK N N",
    "HINCRBYFLOAT hK f 0.5",
    "SADD tK V V N",
    "SREM tK V N",
    "SPOP tK",
    "SPOP tK 3",
    "SMOVE tK tK V",
    "SUNIONSTORE tK tK tK",
    "SINTERSTORE tK tK tK",
    "ZADD zK N V 0.5 N",
    "ZADD zK inf V",
    "ZREM zK V",
    "ZINCRBY zK 2 V",
    "ZPOPMIN zK",
    "ZPOPMAX zK 3",
    "ZRANGESTORE zK zK 0 2",
    "ZUNIONSTORE zK 2 zK zK",
    "XADD xK * f V",
    "XADD xK MAXLEN = 5 * f V g V",
    "XTRIM xK MAXLEN 3",
    "XGROUP CREATE xK g 0 MKSTREAM",
    "XGROUP DESTROY xK g",
    "XGROUP CREATECONSUMER xK g c",
    "XREADGROUP GROUP g c COUNT 2 STREAMS xK >",
    "XREADGROUP GROUP g d NOACK STREAMS xK >",
    "XAUTOCLAIM xK g d 0 0 COUNT 2",
    "XGROUP DELCONSUMER xK g c",
    "DEL lK tK",
    "UNLINK hK",
    "PEXPIRE lK 40",
    "PEXPIRE zK 100000",
    "PERSIST zK",
    "RENAME lK lK",
    "RENAME sK hK",
    "COPY zK zK REPLACE",
    "COPY tK tK DB 1 REPLACE",
    "MOVE sK 1",
    "SELECT 0",
    "SELECT 1",
    "SELECT 2",
    "SWAPDB 0 1",
    "FUNCTION FLUSH",
    "MULTI",
    "EXEC",
    "EXEC",
];

/// Commands that not every version knows.
const COMMANDS_FOR_FIELDS: &[&str] = &[
    "HPEXPIRE hK 40 FIELDS 1 V",
    "HEXPIRE hK 1000 FIELDS 2 V V",
    "HPERSIST hK FIELDS 1 V",
    "HSETEX hK PX 60000 FIELDS 1 V N",
    "HGETDEL hK FIELDS 1 V",
    "HGETEX hK PX 50 FIELDS 1 V",
    "RENAME hK hK",
    "COPY hK hK REPLACE",
    "COPY hK hK DB 1 REPLACE",
];

const SCRIPT: &str =
    "redis.call('set', KEYS[1], ARGV[1]); redis.call('rpush', KEYS[2], ARGV[1], 'z')";

/// A client that does `count` things at random.
fn change(port: u16, release: Release, seed: u64, count: usize) {
    let with_fields = [COMMANDS, COMMANDS_FOR_FIELDS].concat();
    let commands = if release.expires_fields() { &with_fields[..] } else { COMMANDS };
    let (mut client, mut draws) = (Client::tcp(port), Draws(seed));
    let mut is_open = false;
    for _ in 0..count {
        let special = draws.below(200);
        if special < 8 {
            let (key, list) = (format!("s{}", draws.below(5)), format!("l{}", draws.below(5)));
            client.call(&["EVAL", SCRIPT, "2", &key, &list, "from a script"]);
            continue;
        } else if special == 8 {
            client.call(&[if draws.below(2) == 0 { "FLUSHALL" } else { "FLUSHDB" }]);
            continue;
        } else if special == 9 && !is_open {
            let text = format!(
                "#!lua name=lib{}\nredis.register_function('f{}', function() return 1 end)",
                draws.below(2),
                draws.below(90)
            );
            client.call(&["FUNCTION", "LOAD", "REPLACE", &text]);
            continue;
        }
        let line = draws.pick(commands);
        match line {
            "MULTI" if is_open => continue,
            "EXEC" if !is_open => continue,
            "MULTI" => is_open = true,
            "EXEC" => is_open = false,
            _ => {}
        }
        let args: Vec<String> = line
            .split(' ')
            .map(|word| match word {
                "V" => draws.pick(&["a", "b", "c", "d", "17", "some longer text"]).to_string(),
                "N" => draws.below(40).to_string(),
                word if word.len() == 2 && word.ends_with('K') => {
                    word.replace('K', &draws.below(5).to_string())
                }
                word => word.to_string(),
            })
            .collect();
        client.call(&args.iter().map(String::as_str).collect::<Vec<_>>());
    }
    if is_open {
        client.call(&["EXEC"]);
    }
}

/// A key's value, in a form that does not depend on how a server orders or prints it.
fn read(client: &mut Client, release: Release, key: &str) -> String {
    let sorted = |text: String| {
        let words = text.split([' ', '\n', '[', ']']);
        let mut lines: Vec<&str> = words.filter(|word| !word.is_empty()).collect();
        lines.sort_unstable();
        lines.join("\n")
    };
    let value = match &client.text(&["TYPE", key])[..] {
        "string" => client.text(&["GET", key]),
        "list" => client.text(&["LRANGE", key, "0", "-1"]),
        "set" => sorted(client.text(&["SMEMBERS", key])),
        "hash" => sorted(client.text(&["HGETALL", key])),
        "zset" => client.text(&["ZRANGE", key, "0", "-1", "WITHSCORES"]),
        "stream" => {
            let entries = client.text(&["XRANGE", key, "-", "+"]);
            entries + &client.text(&["XPENDING", key, "g"])
        }
        other => other.to_string(),
    };
    if release.number < (7, 0) {
        // The digest knows that there is one.
        return value;
    }
    value + " until " + &client.text(&["PEXPIRETIME", key])
}

/// Everything that a server holds.
fn read_all(client: &mut Client, release: Release) -> Vec<String> {
    let mut all = Vec::new();
    for db in ["0", "1", "2"] {
        client.text(&["SELECT", db]);
        for kind in ["s", "n", "p", "l", "h", "t", "z", "x"] {
            for number in 0..5 {
                let key = format!("{kind}{number}");
                all.push(format!("{db} {key} {}", read(client, release, &key)));
            }
        }
    }
    client.text(&["SELECT", "0"]);
    all
}

fn field(text: &str, name: &str) -> Option<i64> {
    text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')?.trim().parse().ok())
}

/// Waits until a replica has executed everything.
fn settle(server: &Server, release: Release, replica: &mut Client) {
    // The primary removes expired keys.
    std::thread::sleep(Duration::from_millis(600));
    read_all(&mut server.connect(), release);
    let deadline = Instant::now() + PATIENCE;
    loop {
        let text = replica.text(&["INFO", "replication"]);
        let there = server.info("master_repl_offset");
        if text.contains("master_link_status:up")
            && field(&text, "slave_repl_offset") == Some(there)
        {
            return;
        }
        assert!(Instant::now() < deadline, "{there}: {text}\n{}", server.output());
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Both ends hold the same.
fn assert_same(server: &Server, release: Release, replica: &mut Client) {
    let mut here = server.connect();
    let both = [&mut here, replica].map(|client| read_all(client, release));
    assert_eq!(both[0], both[1], "{}", server.output());
    let digests = [&mut here, replica].map(|client| client.text(&["DEBUG", "DIGEST"]));
    assert_eq!(digests[0], digests[1], "{}", server.output());
}

#[test]
fn other_servers_follow_under_changes_of_every_family() {
    for program in Peer::programs() {
        let (release, port) = (Release::of(&program), free_port());
        let text = port.to_string();
        let args = ["--port", &text, "--rdb-version", release.rdb_version()];
        let own = ["--enable-debug-command", "yes", "--dialect", release.dialect()];
        let server = Server::start("epoll", &[AT_ONCE, &args, &own].concat());
        change(port, release, 1, 2_000);
        let redis = std::thread::scope(|scope| {
            (2..5).for_each(|seed| drop(scope.spawn(move || change(port, release, seed, 3_000))));
            Peer::start_debugged(&program, &["--replicaof", "127.0.0.1", &text]).expect("it starts")
        });
        let mut replica = redis.connect();
        settle(&server, release, &mut replica);
        assert_same(&server, release, &mut replica);
        for round in 0..3u64 {
            std::thread::scope(|scope| {
                for seed in 0..3 {
                    scope.spawn(move || change(port, release, 10 * round + seed + 10, 1_500));
                }
                std::thread::sleep(Duration::from_millis(100));
                server.connect().text(&["CLIENT", "KILL", "TYPE", "replica"]);
            });
            settle(&server, release, &mut replica);
            assert_same(&server, release, &mut replica);
        }
        assert!(server.info("sync_partial_ok") > 0, "{}", server.output());
        let mut client = server.connect();
        assert_eq!(client.text(&["SET", "k", "v"]), "OK");
        assert_eq!(client.text(&["WAIT", "1", "30000"]), "1");
    }
}

#[test]
fn a_server_of_another_dialect_reads_the_copy_of_a_hash_whose_fields_expire() {
    for program in Peer::programs() {
        let (release, port) = (Release::of(&program), free_port());
        if !release.expires_fields() {
            continue;
        }
        let text = port.to_string();
        let server = Server::start("epoll", &[AT_ONCE, &["--port", &text]].concat());
        let mut client = server.connect();
        client.text(&["HSET", "h", "f", "v", "g", "w"]);
        let at = "9999999999999";
        client.text(&["HPEXPIREAT", "h", at, "FIELDS", "1", "f"]);
        let peer = Peer::start_debugged(&program, &["--replicaof", "127.0.0.1", &text])
            .expect("it starts");
        let mut replica = peer.connect();
        settle(&server, release, &mut replica);
        client.text(&["COPY", "h", "h", "DB", "1"]);
        let dump = {
            client.send(&["DUMP", "h"]);
            client.receive().unwrap()
        };
        let dump = dump.as_bytes().unwrap();
        client.send_bytes(&encode(&[b"RESTORE", b"again", b"0", dump]));
        assert_eq!(client.receive().map(|reply| show(&reply)).as_deref(), Some("OK"));
        settle(&server, release, &mut replica);
        for (db, key) in [("0", "h"), ("0", "again"), ("1", "h")] {
            replica.text(&["SELECT", db]);
            let asked = ["HPEXPIRETIME", key, "FIELDS", "2", "f", "g"];
            assert_eq!(replica.text(&asked), format!("[{at} -1]"), "{key} {}", server.output());
        }
    }
}

#[test]
fn subscribers_of_a_replica_get_the_messages_of_the_primary() {
    let primary = crate::failover::Node::new(&[]);
    let replica = crate::failover::Node::following(primary.port, &[]);
    replica.await_field("master_link_status", "up");
    let mut subscriber = replica.connect();
    assert_eq!(subscriber.text(&["SUBSCRIBE", "news"]), "[subscribe news 1]");
    assert_eq!(subscriber.text(&["SSUBSCRIBE", "shard"]), "[ssubscribe shard 1]");
    let mut client = primary.connect();
    client.text(&["PUBLISH", "news", "one"]);
    for words in [&["MULTI"][..], &["SET", "k", "v"], &["PUBLISH", "news", "two"], &["EXEC"]] {
        client.text(words);
    }
    client.text(&["SPUBLISH", "shard", "three"]);
    client.text(&["EVAL", "return redis.call('publish', 'news', 'four')", "0"]);
    let received: Vec<_> = (0..4).map(|_| show(&subscriber.receive().unwrap())).collect();
    let expected =
        ["message news one", "message news two", "smessage shard three", "message news four"];
    assert_eq!(received, expected.map(|text| format!("[{text}]")));
    assert_eq!(replica.connect().text(&["GET", "k"]), "v");
}

#[test]
fn a_replica_says_what_is_on_its_disk() {
    let primary = crate::failover::Node::new(&["--appendonly", "yes"]);
    let replica = crate::failover::Node::following(primary.port, &["--appendonly", "yes"]);
    replica.await_field("master_link_status", "up");
    let mut client = primary.connect();
    for n in 0..3 {
        client.text(&["SET", "k", &n.to_string()]);
        assert_eq!(client.text(&["WAITAOF", "1", "1", "20000"]), "[1 1]");
    }
    replica.connect().text(&["CONFIG", "SET", "appendonly", "no"]);
    client.text(&["SET", "k", "last"]);
    assert_eq!(client.text(&["WAITAOF", "1", "1", "300"]), "[1 0]");
}
