//! REPLICAOF with a primary controlled by the test: a replica's replies, its requests to the
//! primary, and the effect of errors and false data from the primary.

use crate::harness::*;
use crate::replication_primary::*;
use std::time::{Duration, Instant};

with_each_backend!(
    a_copy_and_the_stream_are_followed,
    a_link_that_breaks_is_made_again_behind_the_last_whole_command,
);

/// A server that follows `primary`.
fn replica(backend: &str, primary: &Primary, args: &[&str]) -> Server {
    let port = primary.port.to_string();
    let usual = ["--replicaof", "127.0.0.1", &port, "--enable-debug-command", "yes"];
    Server::start(backend, &[&usual[..], args].concat())
}

/// A server with the copy of `ID` at this offset, and its link.
fn synced(primary: &Primary, offset: i64, args: &[&str]) -> (Server, Attached) {
    let copy = snapshot_of(&["SET kept 1"]);
    let server = replica("epoll", primary, args);
    let (mut link, _) = primary.greet();
    link.copy(ID, offset, &copy);
    link.await_ack(offset);
    (server, link)
}

fn await_value(client: &mut Client, call: &[&str], value: &str) {
    eventually(&format!("{call:?} answers {value}"), || client.text(call) == value);
}

fn a_copy_and_the_stream_are_followed(backend: &str) {
    let rdb = snapshot_of(&["SET a 1", "RPUSH l x y", "SELECT 3", "SET c 3"]);
    let primary = Primary::new();
    let server = replica(backend, &primary, &["--notify-keyspace-events", "KEA"]);
    let mut client = server.connect();
    let (mut link, asked) = primary.greet();
    assert!(asked.ends_with(" 1"), "{asked}");
    let introduction = [
        "PING",
        "REPLCONF listening-port 0",
        // It makes events of keys, which effects do not.
        "REPLCONF capa eof capa psync2 capa petrel capa petrel-effects-2 capa petrel-commands",
        "REPLCONF version 9.1.0",
    ];
    assert_eq!(link.said, introduction);
    assert_eq!(client.text(&["ROLE"]), format!("[slave 127.0.0.1 {} handshake -1]", primary.port));
    link.copy_to_mark(ID, 1000, &rdb);
    link.await_ack(1000);
    assert_eq!(client.text(&["GET", "a"]), "1");
    assert_eq!(client.text(&["LRANGE", "l", "0", "-1"]), "[x y]");
    assert_eq!(
        client.text(&["SET", "a", "2"]),
        "READONLY You can't write against a read only replica."
    );
    assert!(
        client.text(&["EVAL", "return redis.call('SET', 'a', 1)", "0"]).starts_with("READONLY")
    );
    let mut listener = server.connect();
    listener.call(&["PSUBSCRIBE", "__keyspace@0__:b", "news"]);
    listener.receive();

    let mut end = 1000;
    end += link.commands(&["SELECT 0", "SET b 1", "INCR b", "PUBLISH news hello"]);
    end += link.commands(&["MULTI", "SET d 4", "SELECT 3", "SET e 5", "EXEC", "SET f 6"]);
    link.commands(&["REPLCONF GETACK *"]);
    // The acknowledged offset excludes the request itself.
    link.await_ack(end);
    end += encoded(&["REPLCONF GETACK *"]).len() as i64;
    assert_eq!(client.text(&["MGET", "b", "d", "e"]), "[2 4 nil]");
    let heard: Vec<String> = (0..3).map(|_| show(&listener.receive().unwrap())).collect();
    assert!(heard[0].ends_with("__keyspace@0__:b set]"), "{heard:?}");
    assert!(heard[1].ends_with("__keyspace@0__:b incrby]"), "{heard:?}");
    assert!(heard[2].ends_with("news hello]"), "{heard:?}");
    client.call(&["SELECT", "3"]);
    assert_eq!(client.text(&["MGET", "c", "e", "f"]), "[3 5 6]");
    eventually("the offset is that of the stream", || server.info("master_repl_offset") == end);
    let role = client.text(&["ROLE"]);
    assert_eq!(role, format!("[slave 127.0.0.1 {} connected {end}]", primary.port));
    let shown = client.text(&["CLIENT", "LIST", "TYPE", "master"]);
    assert!(shown.contains(" user=(superuser) "), "{shown}");
    let info = client.text(&["INFO", "replication"]);
    for field in ["role:slave", "master_link_status:up", &format!("master_replid:{ID}")] {
        assert!(info.contains(field), "{info}");
    }
    assert_eq!(
        client.text(&["CONFIG", "GET", "replicaof"]),
        format!("[replicaof 127.0.0.1 {}]", primary.port)
    );
}

#[test]
fn what_clients_of_a_writable_replica_let_expire_it_removes_itself() {
    let primary = Primary::new();
    let (server, mut link) = synced(&primary, 0, &["--replica-read-only", "no"]);
    let mut client = server.connect();
    let end = link.commands(&["SELECT 0", "SET gone 5 PXAT 1000"]);
    link.commands(&["REPLCONF GETACK *"]);
    link.await_ack(end);
    assert_eq!(client.text(&["SET", "own", "1"]), "OK");
    assert_eq!(client.text(&["PEXPIRE", "own", "40"]), "1");
    assert_eq!(client.text(&["SET", "soon", "1", "PX", "40"]), "OK");
    assert_eq!(client.text(&["SET", "later", "1", "EX", "1000"]), "OK");
    assert_eq!(client.text(&["SET", "stays", "1", "PX", "40"]), "OK");
    client.call(&["PERSIST", "stays"]);
    // The key of the copy, the key of the primary, and the two keys that have not expired.
    await_value(&mut client, &["DBSIZE"], "4");
    eventually("one key is tracked", || server.info("slave_expires_tracked_keys") == 1);
    assert_eq!(client.text(&["EXISTS", "kept", "later", "stays"]), "3");
    assert_eq!(client.text(&["REPLICAOF", "NO", "ONE"]), "OK");
    assert_eq!(server.info("slave_expires_tracked_keys"), 0);
}

#[test]
fn what_has_expired_is_not_seen_and_goes_when_the_primary_says() {
    let primary = Primary::new();
    let (server, mut link) = synced(&primary, 0, &[]);
    let mut client = server.connect();
    let mut end = link.commands(&["SELECT 0", "SET gone 5 PXAT 1000", "HSET h f v g w"]);
    end += link.commands(&["HPEXPIREAT h 1000 FIELDS 1 f", "GET gone"]);
    link.commands(&["REPLCONF GETACK *"]);
    link.await_ack(end);
    assert_eq!(client.text(&["GET", "gone"]), "nil");
    assert_eq!(client.text(&["EXISTS", "gone"]), "0");
    assert_eq!(client.text(&["HGET", "h", "f"]), "nil");
    assert_eq!(client.text(&["DBSIZE"]), "3");
    // To the primary it is there.
    link.commands(&["INCR gone", "PEXPIREAT gone 99999999999999", "HINCRBY h n 1"]);
    await_value(&mut client, &["GET", "gone"], "6");
    await_value(&mut client, &["HGET", "h", "n"], "1");
    link.commands(&["DEL gone", "HDEL h f"]);
    await_value(&mut client, &["DBSIZE"], "2");
}

fn a_link_that_breaks_is_made_again_behind_the_last_whole_command(backend: &str) {
    let primary = Primary::new();
    let server = replica(backend, &primary, &[]);
    let mut client = server.connect();
    let (mut link, _) = primary.greet();
    link.copy(ID, 50, &snapshot_of(&["SET a 1"]));
    let mut end = 50;
    let stream = ["SELECT 2", "SET b 1", "MULTI", "INCR b", "INCR b", "EXEC", "INCR b"];
    let whole = encoded(&stream);
    let amid_transaction = encoded(&stream[..4]).len();
    let before_transaction = encoded(&stream[..2]).len() as i64;
    link.send(&whole[..amid_transaction + 7]);
    client.call(&["SELECT", "2"]);
    await_value(&mut client, &["GET", "b"], "1");
    drop(link);
    end += before_transaction;
    let (mut link, asked) = primary.greet();
    assert_eq!(asked, format!("{ID} {}", end + 1));
    // The primary has been replaced by another, which knows the history under both names.
    link.send(format!("+CONTINUE {OTHER_ID}\r\n").as_bytes());
    link.send(&whole[before_transaction as usize..]);
    end += whole.len() as i64 - before_transaction;
    link.await_ack(end);
    assert_eq!(client.text(&["GET", "b"]), "4");
    let info = client.text(&["INFO", "replication"]);
    assert!(info.contains(&format!("master_replid:{OTHER_ID}")), "{info}");
    assert!(info.contains(&format!("master_replid2:{ID}")), "{info}");
    assert!(info.contains(&format!("second_repl_offset:{}", 51 + before_transaction)), "{info}");

    // Promoted, it gives the history a new id; the data are present and can be written.
    assert_eq!(client.text(&["REPLICAOF", "NO", "ONE"]), "OK");
    assert_eq!(client.text(&["INCR", "b"]), "5");
    let info = client.text(&["INFO", "replication"]);
    assert!(info.contains("role:master") && info.contains(&format!("master_replid2:{OTHER_ID}")));
    assert!(info.contains(&format!("second_repl_offset:{}", end + 1)), "{info}");
    assert_eq!(client.text(&["CONFIG", "GET", "replicaof"]), "[replicaof ]");
}

#[test]
fn a_primary_that_lies_changes_nothing() {
    let good = snapshot_of(&["SET other 2"]);
    let primary = Primary::new();
    let (server, mut link) = synced(&primary, 10, &["--repl-timeout", "3"]);
    let mut client = server.connect();
    // No stream: what follows is asked for as a copy.
    link.send(b"GET / HTTP/1.1\r\n\r\n");
    let mut asked = primary.greet();
    assert_eq!(asked.1, "? -1");
    let mut flipped = good.clone();
    let at = flipped.len() - 12;
    flipped[at] ^= 1;
    let length = |len: usize| format!("+FULLRESYNC {ID} 20\r\n${len}\r\n").into_bytes();
    let mark = format!("+FULLRESYNC {ID} 20\r\n$EOF:{MARK}\r\n").into_bytes();
    let wrong_mark = [&b"n"[..], &MARK.as_bytes()[1..]].concat();
    for (lie, expected) in [
        (b"+FULLRESYNC\r\n".to_vec(), "it answers PSYNC with"),
        (b"+CONTINUE x\r\n".to_vec(), "it answers PSYNC with"),
        (b"-ERR no\r\n".to_vec(), "it refuses PSYNC"),
        (b":1\r\n".to_vec(), "it is no primary"),
        (vec![b'x'; 100_000], "it sends no line"),
        (format!("+FULLRESYNC {ID} 20\r\n$x\r\n").into(), "it announces its copy"),
        (format!("+FULLRESYNC {ID} 20\r\n-ERR full\r\n").into(), "it announces its copy"),
        // Fewer bytes than were announced, and as many, but not of a snapshot.
        ([length(good.len() + 1), good.clone()].concat(), "the copy ends after"),
        ([length(64), vec![b'x'; 64]].concat(), "is invalid"),
        ([length(good.len() - 9), good[..good.len() - 9].to_vec()].concat(), "is invalid"),
        ([length(flipped.len()), flipped.clone()].concat(), "is invalid"),
        ([mark.clone(), good.clone(), wrong_mark].concat(), "the copy ends after"),
        ([mark, good[..20].to_vec(), MARK.into()].concat(), "is invalid"),
        (length(0), "is invalid"),
    ] {
        let sent = Instant::now();
        asked.0.send(&lie);
        // A cut copy never gets its end.
        let ends = !expected.ends_with("invalid");
        if ends {
            drop(asked);
        }
        eventually(expected, || server.output().matches(expected).count() > 0);
        asked = primary.greet();
        // With the stream before, the sixth copy that was of no use.
        let waits = lie == length(0);
        assert!(!waits || sent.elapsed() > Duration::from_secs(2), "{:?}", sent.elapsed());
        assert_eq!(client.text(&["GET", "kept"]), "1", "{expected}");
        assert_eq!(asked.1, "? -1", "{expected}");
    }
    // The next pause is twice as long, unless the same primary is asked for again.
    asked.0.send(&length(0));
    eventually("it pauses", || client.text(&["ROLE"]).contains(" connect "));
    let began = Instant::now();
    let port = primary.port.to_string();
    let answer = client.text(&["REPLICAOF", "127.0.0.1", &port]);
    assert_eq!(answer, "OK Already connected to specified master");
    asked = primary.greet();
    assert!(began.elapsed() < Duration::from_secs(3), "{:?}", began.elapsed());
    // Silence ends a link too.
    let silent = asked;
    let mut asked = primary.greet();
    drop(silent);
    assert_eq!(client.text(&["MGET", "kept", "other"]), "[1 nil]");
    asked.0.copy(ID, 20, &good);
    asked.0.await_ack(20);
    assert_eq!(client.text(&["MGET", "kept", "other"]), "[nil 2]");
    let has = |text: &str| server.output().contains(text);
    assert!(
        has("its stream holds no command") && has("silent for 3 seconds"),
        "{}",
        server.output()
    );
}

#[test]
fn a_primary_that_floods_is_read_to_the_end_and_left_at_once() {
    let copy = snapshot_of(&["SET other 2"]);
    let primary = Primary::new();
    let mut server = replica("epoll", &primary, &[]);
    let mut client = server.connect();
    // Lines in place of an answer and of a copy, and in the stream.
    let lines = vec![b'\n'; 4 << 20];
    let mut link = primary.accept();
    assert_eq!(link.request(), "PING");
    link.send(&[&lines[..], b"+PONG\r\n"].concat());
    link.greet();
    link.send(&lines);
    link.copy_to_mark(ID, 10, &copy);
    link.send(&lines);
    let mut end = 10 + lines.len() as i64;
    end += link.commands(&["SELECT 0", "SET other 3"]);
    link.await_ack(end);
    // Questions, of which each is answered.
    end += link.commands(&["REPLCONF GETACK *"; 1000]);
    link.await_ack(end);
    assert_eq!(client.text(&["GET", "other"]), "3");
    // In the stream, before an answer, and in place of a copy.
    let questions = encoded(&["REPLCONF GETACK *"; 100]);
    link.flood([lines.clone(), questions].concat());
    for answers in [0, 1, 3] {
        let other = Primary::new();
        let port = other.port.to_string();
        assert_eq!(client.text(&["REPLICAOF", "127.0.0.1", &port]), "OK");
        let mut link = other.accept();
        for _ in 0..answers {
            link.request();
            link.send(b"+PONG\r\n");
        }
        link.flood(lines.clone());
    }
    assert_eq!(client.text(&["REPLICAOF", "NO", "ONE"]), "OK");
    assert_eq!(client.text(&["SET", "other", "4"]), "OK");
    let last = Primary::new();
    let port = last.port.to_string();
    assert_eq!(client.text(&["REPLICAOF", "127.0.0.1", &port]), "OK");
    let (link, _) = last.greet();
    link.flood(lines);
    client.send(&["SHUTDOWN", "NOSAVE"]);
    assert_eq!(server.exit_code(), Some(0));
}

#[test]
fn a_primary_that_falls_silent_is_asked_again_and_costs_no_data() {
    let copy = snapshot_of(&["SET other 2"]);
    let primary = Primary::new();
    let (server, silent) = synced(&primary, 10, &["--repl-timeout", "1"]);
    let mut client = server.connect();
    // During the stream.
    let mut asked = primary.greet();
    assert_eq!(asked.1, format!("{ID} 11"));
    drop(silent);
    assert!(server.output().contains("silent for 1 seconds"), "{}", server.output());
    // Before the copy, within it, and before its end is marked.
    let head = format!("+FULLRESYNC {ID} 20\r\n").into_bytes();
    let length = format!("${}\r\n", copy.len()).into_bytes();
    let mark = format!("$EOF:{MARK}\r\n").into_bytes();
    for said in [
        head.clone(),
        [&head[..], &length, &copy[..30]].concat(),
        [&head[..], &mark, &copy, &MARK.as_bytes()[..39]].concat(),
    ] {
        asked.0.send(&said);
        let silent = asked.0;
        asked = primary.greet();
        drop(silent);
    }
    assert_eq!(client.text(&["MGET", "kept", "other"]), "[1 nil]");
    asked.0.copy(ID, 20, &copy);
    asked.0.await_ack(20);
    assert_eq!(client.text(&["MGET", "kept", "other"]), "[nil 2]");
}

#[test]
fn a_script_of_the_stream_may_ask_for_the_role_while_it_is_to_change() {
    let primary = Primary::new();
    let (server, mut link) = synced(&primary, 0, &[]);
    let mut client = server.connect();
    let script = b"local n = 0 while n < 3e7 do n = n + 1 end \
                   redis.call('INFO', 'replication') redis.call('SET', 'done', '1')";
    link.send(&encode(&[b"EVAL", script, b"0"]));
    std::thread::sleep(Duration::from_millis(100));
    for line in [&["MULTI"][..], &["GET", "kept"], &["REPLICAOF", "NO", "ONE"]] {
        client.call(line);
    }
    client.call(&["EXEC"]);
    // Before the script has ended, or after.
    assert!(client.text(&["INFO", "replication"]).contains("role:"));
    eventually("it has ended", || client.text(&["GET", "done"]) == "1");
    eventually("the role has changed", || client.text(&["ROLE"]).starts_with("[master "));
    assert_eq!(client.text(&["SET", "kept", "2"]), "OK");
}

#[test]
fn a_command_without_end_is_bounded_and_one_that_is_unknown_left_out() {
    let primary = Primary::new();
    let args = ["--client-query-buffer-limit", "1mb", "--proto-max-bulk-len", "1mb"];
    let (server, mut link) = synced(&primary, 0, &args);
    let mut client = server.connect();
    let end = link.commands(&[
        "NOSUCH k v",
        "SHUTDOWN NOSAVE",
        "CONFIG SET maxclients 7",
        "LPUSH kept x",
    ]);
    link.commands(&["REPLCONF GETACK *"]);
    link.await_ack(end);
    let asked = end + encoded(&["REPLCONF GETACK *"]).len() as i64;
    let errors = server.output();
    assert!(errors.contains("'NOSUCH' 'k'") && errors.contains("WRONGTYPE"), "{errors}");
    assert_eq!(client.text(&["CONFIG", "GET", "maxclients"]), "[maxclients 10000]");
    link.send(b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$400000000\r\n");
    for _ in 0..40 {
        link.send(&[b'x'; 100_000]);
    }
    eventually("it is too long", || server.output().contains("client-query-buffer-limit"));
    let (mut link, again) = primary.greet();
    assert_eq!(again, format!("{ID} {}", asked + 1));
    link.send(b"+CONTINUE\r\n");
    link.commands(&["SET after 1"]);
    await_value(&mut client, &["GET", "after"], "1");
}

#[test]
fn a_log_that_is_asked_for_while_a_copy_is_loaded_is_written_behind_it() {
    let keys: Vec<String> = (0..100).map(|key| format!("SET {key} v")).collect();
    let copy = snapshot_of(&keys.iter().map(|key| &key[..]).collect::<Vec<_>>());
    let primary = Primary::new();
    // Ten seconds in all.
    let server = replica("epoll", &primary, &["--key-load-delay", "100000"]);
    let mut client = server.connect();
    let (mut link, _) = primary.greet();
    link.copy(ID, 20, &copy);
    eventually("it is loaded", || server.info("loading") == 1);
    assert_eq!(client.text(&["CONFIG", "SET", "appendonly", "yes"]), "OK");
    assert_eq!(server.info("aof_enabled"), 0);
    assert_eq!(client.text(&["CONFIG", "SET", "key-load-delay", "0"]), "OK");
    link.await_ack(20);
    assert_eq!((server.info("loading"), server.info("aof_enabled")), (0, 1));
    assert_eq!(client.text(&["REPLICAOF", "NO", "ONE"]), "OK");
    assert_eq!(client.text(&["SET", "own", "1"]), "OK");
    assert_eq!(client.text(&["WAITAOF", "1", "0", "30000"]), "[1 0]");
    assert_eq!(client.text(&["DBSIZE"]), "101");
    assert_eq!(client.text(&["DEBUG", "LOADAOF"]), "OK");
    assert_eq!(client.text(&["DBSIZE"]), "101");
}

#[test]
fn stale_data_is_shown_only_if_it_may_be() {
    let primary = Primary::new();
    let (server, link) = synced(&primary, 0, &[]);
    let mut client = server.connect();
    assert_eq!(client.text(&["CONFIG", "SET", "replica-serve-stale-data", "no"]), "OK");
    assert_eq!(client.text(&["GET", "kept"]), "1");
    drop(link);
    const DOWN: &str =
        "MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.";
    await_value(&mut client, &["GET", "kept"], DOWN);
    assert_eq!(client.text(&["EVAL", "return 1", "0"]), DOWN);
    assert!(client.text(&["SET", "kept", "2"]).starts_with("READONLY"));
    assert_eq!(client.text(&["MULTI"]), "OK");
    assert_eq!(client.text(&["GET", "kept"]), DOWN);
    assert!(client.text(&["EXEC"]).starts_with("EXECABORT"));
    assert!(client.text(&["INFO", "replication"]).contains("master_link_status:down"));
    assert_eq!(client.text(&["CONFIG", "SET", "replica-serve-stale-data", "yes"]), "OK");
    assert_eq!(client.text(&["GET", "kept"]), "1");
    assert_eq!(client.text(&["CONFIG", "SET", "replica-read-only", "no"]), "OK");
    assert_eq!(client.text(&["SET", "own", "1"]), "OK");
    for call in [&["WAIT", "1", "0"][..], &["WAITAOF", "0", "1", "0"], &["FAILOVER"]] {
        let refused = client.text(call);
        assert!(refused.starts_with("ERR") && refused.contains("replica"), "{refused}");
    }
}

#[test]
fn a_primary_becomes_a_replica_and_ends_what_waits() {
    let primary = Primary::new();
    let server = Server::start("epoll", &["--masterauth", "secret", "--masteruser", "follower"]);
    let mut client = server.connect();
    let mut waiting: Vec<Client> = (0..4).map(|_| server.connect()).collect();
    waiting.iter_mut().for_each(|waiting| waiting.send(&["BLPOP", "none", "0"]));
    eventually("they wait", || server.info("blocked_clients") == 4);
    assert_eq!(client.text(&["REPLICAOF", "NO", "ONE"]), "OK");
    assert_eq!(client.text(&["REPLICAOF", "localhost", "70000"]), "ERR Invalid master port");
    let port = primary.port.to_string();
    // Within a transaction that locks keys, another thread changes the role.
    client.call(&["MULTI"]);
    client.call(&["SET", "own", "1"]);
    client.call(&["REPLICAOF", "localhost", &port]);
    assert_eq!(client.text(&["EXEC"]), "[OK OK]");
    for mut waiting in waiting {
        assert_eq!(
            waiting.read_to_end(),
            "-UNBLOCKED force unblock from blocking operation, instance state changed (master -> replica?)\r\n"
        );
    }
    await_value(
        &mut client,
        &["SET", "k", "v"],
        "READONLY You can't write against a read only replica.",
    );
    let same = client.text(&["REPLICAOF", "localhost", &port]);
    assert_eq!(same, "OK Already connected to specified master");
    let (mut link, _) = primary.greet();
    assert!(link.said.contains(&"AUTH follower secret".to_owned()), "{:?}", link.said);
    // The copy replaces its data.
    link.copy(ID, 0, &snapshot_of(&["SET kept 1"]));
    link.await_ack(0);
    assert_eq!(client.text(&["MGET", "own", "kept"]), "[nil 1]");
    // As a sentinel promotes it.
    client.call(&["MULTI"]);
    client.call(&["REPLICAOF", "NO", "ONE"]);
    client.call(&["CLIENT", "KILL", "TYPE", "pubsub"]);
    assert_eq!(client.text(&["EXEC"]), "[OK 0]");
    await_value(&mut client, &["SET", "k", "v"], "OK");
}

#[test]
fn a_replica_logs_what_it_follows_and_finds_it_again() {
    let primary = Primary::new();
    let (mut server, mut link) =
        synced(&primary, 0, &["--appendonly", "yes", "--unixsocketperm", "700"]);
    let end = link.commands(&["SELECT 0", "SET a 1", "INCR a"]);
    let library = "#!lua name=lib\nredis.register_function{function_name='f', callback=function() return 7 end, flags={'no-writes'}}";
    let load = encode(&[b"FUNCTION", b"LOAD", library.as_bytes()]);
    link.send(&load);
    link.commands(&["REPLCONF GETACK *"]);
    link.await_ack(end + load.len() as i64);
    server.signal(libc::SIGTERM);
    assert_eq!(server.exit_code(), Some(0));
    let server = Server::start_in(server.into_scratch(), "epoll", &["--appendonly", "yes"]);
    let mut client = server.connect();
    await_value(&mut client, &["MGET", "kept", "a"], "[1 2]");
    assert_eq!(client.text(&["FCALL", "f", "0"]), "7");
}

#[test]
fn a_copy_is_loaded_as_it_comes_where_that_is_wanted() {
    let (first, second) = (snapshot_of(&["SET a 1", "RPUSH l x y"]), snapshot_of(&["SET b 2"]));
    let primary = Primary::new();
    let server = replica("epoll", &primary, &["--repl-diskless-load", "on-empty-db"]);
    let mut client = server.connect();
    let (mut link, _) = primary.greet();
    link.copy_to_mark(ID, 10, &first);
    let mut end = 10 + link.commands(&["SELECT 0", "INCR a"]);
    link.await_ack(end);
    assert_eq!(client.text(&["MGET", "a", "l"]), "[2 nil]");
    // Of one that breaks off nothing is shown; there are keys, so that it comes by way of a file.
    for (policy, left) in [("on-empty-db", "[2 nil]"), ("flushdb", "[nil nil]")] {
        client.call(&["CONFIG", "SET", "repl-diskless-load", policy]);
        link.send(b"no command\r\n");
        let (mut asked, what) = primary.greet();
        assert_eq!(what, "? -1");
        asked.copy(ID, 20, &second[..second.len() - 12]);
        drop(asked);
        (link, _) = primary.greet();
        assert_eq!(client.text(&["MGET", "a", "b"]), left, "{policy}");
        link.copy(ID, 30, &second);
        end = 30 + link.commands(&["SELECT 0", "INCR b"]);
        link.await_ack(end);
        assert_eq!(client.text(&["MGET", "a", "b"]), "[nil 3]");
        client.call(&["CONFIG", "SET", "replica-read-only", "no"]);
        client.call(&["MSET", "a", "2", "b", "2"]);
        client.call(&["DEL", "b"]);
    }
}

#[test]
fn a_copy_that_comes_aside_is_shown_in_info() {
    let copy = snapshot_of(&["SET other 2"]);
    let primary = Primary::new();
    let (server, mut link) = synced(&primary, 10, &["--repl-diskless-load", "swapdb"]);
    let mut client = server.connect();
    let figures = || ["loading", "async_loading"].map(|name| server.info(name));
    for is_whole in [false, true] {
        assert_eq!(figures(), [0, 0]);
        link.send(b"no command\r\n");
        let (mut asked, _) = primary.greet();
        asked.send(format!("+FULLRESYNC {ID} 20\r\n${}\r\n", copy.len()).as_bytes());
        asked.send(&copy[..20]);
        eventually("it is shown", || figures() == [0, 1]);
        assert_eq!(client.text(&["MGET", "kept", "other"]), "[1 nil]");
        if is_whole {
            asked.send(&copy[20..]);
            asked.await_ack(20);
            break;
        }
        drop(asked);
        eventually("it is over", || figures() == [0, 0]);
        assert_eq!(client.text(&["GET", "kept"]), "1");
        (link, _) = primary.greet();
        link.copy(ID, 10, &snapshot_of(&["SET kept 1"]));
        link.await_ack(10);
    }
    assert_eq!(figures(), [0, 0]);
    assert_eq!(client.text(&["MGET", "kept", "other"]), "[nil 2]");
}

#[test]
fn a_command_that_fails_stops_a_replica_that_is_not_to_go_on() {
    let primary = Primary::new();
    let (mut server, mut link) =
        synced(&primary, 0, &["--propagation-error-behavior", "panic-on-replicas"]);
    link.commands(&["SELECT 0", "SET s text", "INCR s"]);
    assert_eq!(server.exit_code(), Some(1));
    assert!(server.output().contains("the primary's command 'INCR' fails here"));
}
