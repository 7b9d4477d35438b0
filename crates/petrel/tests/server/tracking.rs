//! Client-side caching: receivers and order of invalidations.

use crate::harness::*;
use petrel_resp::Value;
use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Barrier};

with_each_backend!(
    a_change_is_told_once,
    own_changes_are_told_behind_the_reply,
    time_tells_too,
    options_choose_what_is_tracked,
    prefixes_are_told_at_once,
    prefixes_hear_of_pending_entries,
    what_is_flushed_is_told_as_a_whole,
    another_connection_can_be_told_instead,
    a_broken_redirection_is_told,
    who_is_told_changes_at_once,
    names_of_all_lengths_are_told,
    keys_of_all_databases_are_told,
    the_table_is_bounded,
    memory_limits_tell_before_the_reply,
    a_served_client_is_told_behind_its_answer,
    what_was_waited_for_comes_before_what_makes_it_stale,
    the_state_is_shown,
    messages_do_not_overtake_invalidations,
    replies_do_not_overtake_invalidations_that_wait,
    near_caches_are_never_left_stale,
    near_caches_of_prefixes_are_never_left_stale,
);

fn start(backend: &str) -> Server {
    Server::start(backend, &["--threads", "4"])
}

/// A connection that speaks RESP3 and tracks.
fn tracking(server: &Server, options: &[&str]) -> Client {
    let mut client = server.connect();
    client.call(&["HELLO", "3"]);
    assert_eq!(client.text(&[&["CLIENT", "TRACKING", "ON"], options].concat()), "OK");
    client
}

/// The next push or reply.
fn next(client: &mut Client) -> String {
    show(&client.receive().expect("a push or a reply"))
}

/// Asserts that nothing was pushed: a reply would come behind it. Other workers have had their time
/// before, since the tests give them a key to tell of last.
fn nothing_else(client: &mut Client) {
    assert_eq!(client.text(&["PING"]), "PONG");
}

fn a_change_is_told_once(backend: &str) {
    let server = start(backend);
    let mut reader = tracking(&server, &[]);
    let mut writers: Vec<Client> = (0..4).map(|_| server.connect()).collect();
    for round in 0..20 {
        let (key, last) = (format!("key{round}"), format!("last{round}"));
        reader.call(&["MGET", &key, &last]);
        for writer in &mut writers {
            writer.call(&["SET", &key, "value"]);
        }
        writers[0].call(&["INCR", &last]);
        let told = [next(&mut reader), next(&mut reader)];
        assert!(told.contains(&format!("[invalidate [{key}]]")), "{told:?}");
        assert!(told.contains(&format!("[invalidate [{last}]]")), "{told:?}");
        nothing_else(&mut reader);
    }
    assert_eq!(server.info("tracking_total_keys"), 0);
    assert_eq!(server.info("tracking_clients"), 1);
    drop(reader);
    eventually("it is forgotten", || server.info("tracking_clients") == 0);
}

fn own_changes_are_told_behind_the_reply(backend: &str) {
    let server = start(backend);
    let mut client = tracking(&server, &[]);
    client.call(&["MGET", "a", "b"]);
    assert_eq!(client.text(&["SET", "a", "1"]), "OK");
    assert_eq!(next(&mut client), "[invalidate [a]]");
    client.call(&["GET", "a"]);
    // In a transaction: after the reply of EXEC, and keys that it reads itself are tracked again.
    client.send_bytes(b"MULTI\r\nINCR a\r\nGET a\r\nINCR a\r\nDEL b\r\nEXEC\r\nPING\r\n");
    for expected in ["OK", "QUEUED", "QUEUED", "QUEUED", "QUEUED", "[2 2 3 0]"] {
        assert_eq!(next(&mut client), expected);
    }
    assert_eq!(next(&mut client), "[invalidate [a]]");
    assert_eq!(next(&mut client), "[invalidate [a]]");
    assert_eq!(next(&mut client), "PONG");
    // NOLOOP omits invalidations of the connection's own changes.
    let mut silent = tracking(&server, &["NOLOOP"]);
    silent.call(&["MGET", "x", "y"]);
    assert_eq!(silent.text(&["SET", "x", "1"]), "OK");
    client.call(&["SET", "y", "1"]);
    assert_eq!(next(&mut silent), "[invalidate [y]]");
    nothing_else(&mut silent);
    // Replies that are not wanted do not silence pushes.
    silent.send_bytes(b"GET y\r\nCLIENT REPLY OFF\r\n");
    assert_eq!(next(&mut silent), "1");
    client.call(&["SET", "y", "2"]);
    assert_eq!(next(&mut silent), "[invalidate [y]]");
}

/// With this number of receivers, invalidations are delayed; but later output still arrives after
/// them.
fn messages_do_not_overtake_invalidations(backend: &str) {
    let server = start(backend);
    let mut writer = server.connect();
    let mut readers: Vec<Client> = (0..40).map(|_| tracking(&server, &[])).collect();
    for reader in &mut readers {
        reader.call(&["SUBSCRIBE", "news"]);
    }
    for round in 0..20 {
        let key = |reader: usize| format!("key{reader}");
        for (number, reader) in readers.iter_mut().enumerate() {
            reader.call(&["GET", &key(number)]);
        }
        for number in 0..readers.len() {
            writer.call(&["SET", &key(number), "value"]);
        }
        writer.call(&["PUBLISH", "news", "changed"]);
        for (number, reader) in readers.iter_mut().enumerate() {
            assert_eq!(next(reader), format!("[invalidate [{}]]", key(number)), "round {round}");
            assert_eq!(next(reader), "[message news changed]");
        }
    }
}

/// While this many invalidations are being sent, later ones wait.
fn replies_do_not_overtake_invalidations_that_wait(backend: &str) {
    let server = Server::start(backend, &["--threads", "1"]);
    let mut writer = server.connect();
    let mut readers: Vec<Client> = (0..60).map(|_| tracking(&server, &[])).collect();
    let mut waiting = tracking(&server, &[]);
    for round in 0..20 {
        for reader in &mut readers {
            reader.call(&["GET", "all"]);
        }
        waiting.call(&["MGET", "asked", "awaited"]);
        writer.call(&["SET", "all", "new"]);
        writer.call(&["SET", "asked", "new"]);
        // Its own command.
        waiting.send(&["ECHO", "reply"]);
        assert_eq!(next(&mut waiting), "[invalidate [asked]]", "round {round}");
        assert_eq!(next(&mut waiting), "reply");
        // The command of another, which serves it.
        waiting.send(&["BLPOP", "list", "0"]);
        eventually("it waits", || server.info("blocked_clients") == 1);
        for reader in &mut readers {
            assert_eq!(next(reader), "[invalidate [all]]");
            reader.call(&["GET", "all"]);
        }
        writer.call(&["SET", "all", "newer"]);
        writer.call(&["SET", "awaited", "new"]);
        writer.call(&["RPUSH", "list", "item"]);
        assert_eq!(next(&mut waiting), "[invalidate [awaited]]", "round {round}");
        assert_eq!(next(&mut waiting), "[list item]");
        for reader in &mut readers {
            assert_eq!(next(reader), "[invalidate [all]]");
        }
    }
}

fn time_tells_too(backend: &str) {
    let server = start(backend);
    let mut client = tracking(&server, &["NOLOOP"]);
    client.send_bytes(
        b"SET a 1 PX 30\r\nGET a\r\nHSET h f v\r\nHPEXPIRE h 30 FIELDS 1 f\r\nHGET h f\r\n",
    );
    for expected in ["OK", "1", "1", "[1]", "v"] {
        assert_eq!(next(&mut client), expected);
    }
    let mut told = [next(&mut client), next(&mut client)];
    told.sort();
    assert_eq!(told, ["[invalidate [a]]", "[invalidate [h]]"]);
}

fn options_choose_what_is_tracked(backend: &str) {
    let server = start(backend);
    let mut writer = server.connect();
    let mut client = tracking(&server, &["OPTIN"]);
    client.call(&["GET", "a"]);
    assert_eq!(client.text(&["CLIENT", "CACHING", "YES"]), "OK");
    client.call(&["GET", "b"]);
    client.call(&["GET", "c"]);
    // The announcement holds for a whole transaction.
    client.send_bytes(b"CLIENT CACHING YES\r\nMULTI\r\nGET d\r\nGET e\r\nEXEC\r\nGET f\r\n");
    (0..6).for_each(|_| drop(next(&mut client)));
    for key in ["a", "b", "c", "d", "f", "e"] {
        writer.call(&["SET", key, "1"]);
    }
    for key in ["b", "d", "e"] {
        assert_eq!(next(&mut client), format!("[invalidate [{key}]]"));
    }
    nothing_else(&mut client);
    let mut client = tracking(&server, &["OPTOUT"]);
    client.call(&["CLIENT", "CACHING", "NO"]);
    client.call(&["GET", "a"]);
    client.call(&["GET", "b"]);
    client.call(&["CLIENT", "TRACKING", "ON", "NOLOOP", "OPTOUT"]);
    for key in ["a", "b"] {
        writer.call(&["SET", key, "2"]);
    }
    assert_eq!(next(&mut client), "[invalidate [b]]");
    client.call(&["GET", "b"]);
    assert_eq!(client.text(&["RESET"]), "RESET");
    writer.call(&["SET", "b", "3"]);
    nothing_else(&mut client);
}

fn prefixes_are_told_at_once(backend: &str) {
    let server = start(backend);
    let mut writer = server.connect();
    let mut all = tracking(&server, &["BCAST"]);
    let mut some = tracking(&server, &["BCAST", "NOLOOP", "PREFIX", "a:", "PREFIX", "b:"]);
    writer.call(&["MSET", "b:2", "1", "a:1", "1", "b:1", "1", "c", "1"]);
    assert_eq!(next(&mut all), "[invalidate [a:1 b:1 b:2 c]]");
    assert_eq!(next(&mut some), "[invalidate [a:1]]");
    assert_eq!(next(&mut some), "[invalidate [b:1 b:2]]");
    some.call(&["SET", "a:2", "1"]);
    assert_eq!(next(&mut all), "[invalidate [a:2]]");
    nothing_else(&mut some);
    assert_eq!(server.info("tracking_total_prefixes"), 3);
    assert_eq!(some.text(&["CLIENT", "TRACKING", "OFF"]), "OK");
    assert_eq!(server.info("tracking_total_prefixes"), 1);
    drop(all);
    eventually("it is forgotten", || server.info("tracking_total_prefixes") == 0);
}

fn prefixes_hear_of_pending_entries(backend: &str) {
    let server = start(backend);
    let mut writer = server.connect();
    for id in ["1-1", "2-1"] {
        writer.call(&["XADD", "x", id, "f", "v"]);
    }
    writer.call(&["XGROUP", "CREATE", "x", "g", "0"]);
    for consumer in ["c", "d"] {
        writer.call(&["XGROUP", "CREATECONSUMER", "x", "g", consumer]);
    }
    let mut client = tracking(&server, &["BCAST", "PREFIX", "x"]);
    let delivering: [&[&str]; 5] = [
        &["XREADGROUP", "GROUP", "g", "c", "COUNT", "1", "STREAMS", "x", ">"],
        &["XCLAIM", "x", "g", "d", "0", "1-1"],
        &["XCLAIM", "x", "g", "c", "0", "1-1", "JUSTID"],
        &["XNACK", "x", "g", "FAIL", "IDS", "1", "1-1"],
        &["XACK", "x", "g", "1-1"],
    ];
    for command in delivering {
        writer.call(command);
        assert_eq!(next(&mut client), "[invalidate [x]]", "{command:?}");
    }
}

fn what_is_flushed_is_told_as_a_whole(backend: &str) {
    let server = start(backend);
    let mut writer = server.connect();
    let mut clients: Vec<Client> = (0..5).map(|_| tracking(&server, &[])).collect();
    clients.push(tracking(&server, &["BCAST", "PREFIX", "x"]));
    for flush in [&["FLUSHALL"][..], &["FLUSHDB", "ASYNC"], &["SWAPDB", "0", "1"]] {
        for client in &mut clients {
            client.call(&["GET", "a"]);
        }
        writer.call(flush);
        assert_eq!(server.info("tracking_total_keys"), 0);
        for client in &mut clients {
            assert_eq!(next(client), "[invalidate nil]");
        }
    }
    assert_eq!(clients[0].text(&["FLUSHALL"]), "OK");
    assert_eq!(next(&mut clients[0]), "[invalidate nil]");
}

fn another_connection_can_be_told_instead(backend: &str) {
    let server = start(backend);
    let (mut client, mut writer, mut target) =
        (server.connect(), server.connect(), server.connect());
    let id = target.text(&["CLIENT", "ID"]);
    target.call(&["SUBSCRIBE", "__redis__:invalidate"]);
    assert_eq!(client.text(&["CLIENT", "TRACKING", "ON", "REDIRECT", &id]), "OK");
    assert_eq!(client.text(&["CLIENT", "GETREDIR"]), id);
    client.call(&["GET", "a"]);
    writer.call(&["SET", "a", "1"]);
    assert_eq!(next(&mut target), "[message __redis__:invalidate [a]]");
    client.call(&["GET", "a"]);
    client.call(&["SET", "a", "2"]);
    assert_eq!(next(&mut target), "[message __redis__:invalidate [a]]");
    writer.call(&["FLUSHALL"]);
    assert_eq!(next(&mut target), "[message __redis__:invalidate nil]");
    nothing_else(&mut client);
    // A connection of RESP3 gets pushes whether or not it is subscribed.
    let mut modern = server.connect();
    modern.call(&["HELLO", "3"]);
    let id = modern.text(&["CLIENT", "ID"]);
    assert_eq!(client.text(&["CLIENT", "TRACKING", "ON", "REDIRECT", &id]), "OK");
    client.call(&["GET", "a"]);
    writer.call(&["SET", "a", "3"]);
    assert_eq!(next(&mut modern), "[invalidate [a]]");
}

fn who_is_told_changes_at_once(backend: &str) {
    let server = start(backend);
    let mut target = server.connect();
    target.call(&["HELLO", "3"]);
    let id = target.text(&["CLIENT", "ID"]);
    let mut writers: Vec<Client> = (0..4).map(|_| server.connect()).collect();
    // Every writer's worker has sent the reader an invalidation before, so its route is cached.
    let teach = |reader: &mut Client, writers: &mut Vec<Client>| {
        for writer in writers {
            for _ in 0..2 {
                reader.call(&["GET", "key"]);
                writer.call(&["SET", "key", "value"]);
                assert_eq!(next(reader), "[invalidate [key]]");
            }
        }
    };
    for round in 0..3 {
        let mut reader = tracking(&server, &[]);
        teach(&mut reader, &mut writers);
        // Not any more.
        reader.call(&["GET", "key"]);
        assert_eq!(reader.text(&["CLIENT", "TRACKING", "OFF"]), "OK");
        writers[round].call(&["SET", "key", "value"]);
        nothing_else(&mut reader);
        // Another in its place.
        assert_eq!(reader.text(&["CLIENT", "TRACKING", "ON", "REDIRECT", &id]), "OK");
        reader.call(&["GET", "key"]);
        writers[round].call(&["SET", "key", "value"]);
        assert_eq!(next(&mut target), "[invalidate [key]]");
        nothing_else(&mut reader);
        // Itself again.
        assert_eq!(reader.text(&["CLIENT", "TRACKING", "ON"]), "OK");
        teach(&mut reader, &mut writers);
        // Nothing can be said to it in RESP2.
        reader.call(&["HELLO", "2"]);
        reader.call(&["GET", "key"]);
        writers[round].call(&["SET", "key", "value"]);
        nothing_else(&mut reader);
        reader.call(&["HELLO", "3"]);
        teach(&mut reader, &mut writers);
        // The next reader has the place of this one.
        reader.call(&["GET", "key"]);
        drop(reader);
        eventually("it is gone", || server.info("tracking_clients") == 0);
        nothing_else(&mut target);
    }
}

fn names_of_all_lengths_are_told(backend: &str) {
    let server = start(backend);
    let (mut reader, mut writer) = (tracking(&server, &[]), server.connect());
    for round in 0..2 {
        for len in [0, 1, 9, 10, 11, 99, 100, 101, 999, 1000, 4000, 4032, 4033, 4096, 100_000] {
            let key = "k".repeat(len);
            reader.call(&["GET", &key]);
            writer.call(&["SET", &key, "value"]);
            assert_eq!(next(&mut reader), format!("[invalidate [{key}]]"), "{round} {len}");
        }
    }
    nothing_else(&mut reader);
}

fn keys_of_all_databases_are_told(backend: &str) {
    let server = start(backend);
    let (mut reader, mut writer) = (tracking(&server, &[]), server.connect());
    // Names are the same in all databases, whether there is such a key or not.
    for (read_in, there) in [(0, false), (0, true), (3, false), (3, true)] {
        for written_in in [0, 3, 5] {
            for db in ["0", "3", "5"] {
                writer.call(&["SELECT", db]);
                writer.call(if there { &["SET", "key", "old"] } else { &["DEL", "key"] });
            }
            reader.call(&["SELECT", &read_in.to_string()]);
            reader.call(&["GET", "key"]);
            writer.call(&["SELECT", &written_in.to_string()]);
            writer.call(&["SET", "key", "new"]);
            assert_eq!(next(&mut reader), "[invalidate [key]]", "{read_in} {there} {written_in}");
            nothing_else(&mut reader);
        }
    }
    writer.call(&["SELECT", "0"]);
    for (change, expected) in [
        (&["RENAME", "a", "b"][..], &["[invalidate [a]]", "[invalidate [b]]"][..]),
        (&["COPY", "a", "b"], &["[invalidate [b]]"]),
        (&["MOVE", "a", "7"], &["[invalidate [a]]"]),
        (&["EXPIRE", "a", "-1"], &["[invalidate [a]]"]),
        (&["APPEND", "a", &"x".repeat(500)], &["[invalidate [a]]"]),
    ] {
        writer.call(&["DEL", "b"]);
        writer.call(&["SET", "a", "1"]);
        let mut reader = tracking(&server, &[]);
        reader.call(&["MGET", "a", "b"]);
        writer.call(change);
        let mut told: Vec<String> = expected.iter().map(|_| next(&mut reader)).collect();
        told.sort();
        assert_eq!(told, expected, "{change:?}");
        nothing_else(&mut reader);
    }
}

fn a_broken_redirection_is_told(backend: &str) {
    let server = start(backend);
    let (mut target, mut writer) = (server.connect(), server.connect());
    let id = target.text(&["CLIENT", "ID"]);
    let mut client = tracking(&server, &["REDIRECT", &id]);
    client.call(&["GET", "a"]);
    target.call(&["QUIT"]);
    writer.call(&["SET", "a", "1"]);
    assert_eq!(next(&mut client), format!("[tracking-redir-broken {id}]"));
    let info = client.text(&["CLIENT", "TRACKINGINFO"]);
    assert!(info.contains("broken_redirect"), "{info}");
}

fn the_table_is_bounded(backend: &str) {
    let server = start(backend);
    let mut client = tracking(&server, &[]);
    for n in 0..100 {
        client.call(&["GET", &format!("key{n}")]);
    }
    server.connect().call(&["CONFIG", "SET", "tracking-table-max-keys", "10"]);
    // Workers that make it smaller at the same time may forget some keys more.
    eventually("the table is smaller", || server.info("tracking_total_keys") <= 10);
    let forgotten = 100 - server.info("tracking_total_keys") as usize;
    let mut told: Vec<String> = (0..forgotten).map(|_| next(&mut client)).collect();
    told.sort();
    told.dedup();
    assert_eq!(told.len(), forgotten);
    nothing_else(&mut client);
}

fn memory_limits_tell_before_the_reply(backend: &str) {
    let server = start(backend);
    let mut client = tracking(&server, &[]);
    let mut writer = server.connect();
    writer.call(&["SET", "volatile", "value", "EX", "1000"]);
    client.call(&["GET", "volatile"]);
    let limit = (server.info("used_memory") + 100_000).to_string();
    writer.call(&["CONFIG", "SET", "maxmemory", &limit, "maxmemory-policy", "volatile-random"]);
    writer.call(&["SETBIT", "big", "1600000", "0"]);
    client.send(&["SETBIT", "small", "0", "1"]);
    assert_eq!(next(&mut client), "[invalidate [volatile]]");
}

fn a_served_client_is_told_behind_its_answer(backend: &str) {
    let server = start(backend);
    let mut pusher = server.connect();
    let mut clients: Vec<Client> = (0..4).map(|_| tracking(&server, &[])).collect();
    for client in &mut clients {
        client.call(&["LRANGE", "to", "0", "-1"]);
        client.send(&["BLMOVE", "from", "to", "LEFT", "LEFT", "0"]);
        eventually("it waits", || server.info("blocked_clients") == 1);
        pusher.call(&["RPUSH", "from", "x"]);
        assert_eq!(next(client), "x");
        assert_eq!(next(client), "[invalidate [to]]");
    }
}

fn what_was_waited_for_comes_before_what_makes_it_stale(backend: &str) {
    let server = start(backend);
    let mut reader = tracking(&server, &[]);
    // On all workers, that of the reader included.
    let mut writers: Vec<Client> = (0..4).map(|_| server.connect()).collect();
    for round in 0..100 {
        reader.send(&["XREAD", "BLOCK", "0", "STREAMS", "s", "$"]);
        eventually("it waits", || server.info("blocked_clients") == 1);
        writers.iter_mut().for_each(|writer| writer.send(&["XADD", "s", "*", "f", "v"]));
        writers.iter_mut().for_each(|writer| _ = writer.receive().unwrap());
        reader.send(&["PING"]);
        // The stream may have been read once before, when there was nothing to answer.
        let mut heard = Vec::new();
        while heard.last().is_none_or(|last| last != "PONG") {
            heard.push(next(&mut reader));
        }
        let answer = heard.iter().position(|text| text.starts_with("{s:"));
        let told = heard.iter().rposition(|text| text == "[invalidate [s]]");
        assert!(answer.is_some() && answer < told, "{round}: {heard:?}");
    }
}

fn the_state_is_shown(backend: &str) {
    let server = start(backend);
    let mut client = tracking(&server, &["BCAST", "PREFIX", "b", "PREFIX", "a", "NOLOOP"]);
    assert_eq!(
        client.text(&["CLIENT", "TRACKINGINFO"]),
        "{flags:[on bcast noloop] redirect:0 prefixes:[a b]}"
    );
    let line = client.text(&["CLIENT", "INFO"]);
    assert!(line.contains(" flags=tBU ") && line.contains(" redir=0 "), "{line}");
    client.call(&["CLIENT", "TRACKING", "OFF"]);
    assert_eq!(client.text(&["CLIENT", "TRACKINGINFO"]), "{flags:[off] redirect:-1 prefixes:[]}");
    let line = client.text(&["CLIENT", "INFO"]);
    assert!(line.contains(" flags=U ") && line.contains(" redir=-1 "), "{line}");
    for (options, error) in [
        (&["ON", "BCAST", "OPTIN"][..], "ERR OPTIN and OPTOUT are not compatible with BCAST"),
        (&["ON", "OPTOUT", "OPTIN"], "ERR You can't specify both OPTIN mode and OPTOUT mode"),
        (&["ON", "PREFIX", "a"], "ERR PREFIX option requires BCAST mode to be enabled"),
        (&["ON", "REDIRECT", "0"], "ERR The client ID you want redirect to does not exist"),
        (&["ON", "BCAST", "PREFIX"], "ERR syntax error"),
        (
            &["ON", "BCAST", "PREFIX", "x", "PREFIX", "ab", "PREFIX", "a"],
            "ERR Prefix 'ab' overlaps with another provided prefix 'a'. Prefixes for a single client must not overlap.",
        ),
    ] {
        let text = client.text(&[&["CLIENT", "TRACKING"], options].concat());
        assert_eq!(text, error, "{options:?}");
    }
}

fn near_caches_are_never_left_stale(backend: &str) {
    keep_caches(backend, &[]);
}

fn near_caches_of_prefixes_are_never_left_stale(backend: &str) {
    keep_caches(backend, &["BCAST", "PREFIX", "key"]);
}

const CACHES: usize = 6;
const WRITERS: usize = 4;
const KEYS: u64 = 16;
const ROUNDS: u64 = 40;

/// Several connections cache values while others write; when the writers pause, every cache equals
/// the server's data, by invalidations alone.
fn keep_caches(backend: &str, options: &'static [&'static str]) {
    let server = Arc::new(start(backend));
    let barrier = Arc::new(Barrier::new(CACHES + WRITERS));
    let writing = Arc::new(AtomicUsize::new(0));
    let mut threads = Vec::new();
    for writer in 0..WRITERS as u64 {
        let (server, barrier, writing) = (server.clone(), barrier.clone(), writing.clone());
        threads.push(std::thread::spawn(move || {
            let mut client = server.connect();
            let mut random = Random(writer + 1);
            for round in 0..ROUNDS {
                writing.fetch_add(1, SeqCst);
                barrier.wait();
                for n in 0..30 {
                    change(&mut client, &mut random, &format!("{writer}-{round}-{n}"));
                }
                writing.fetch_sub(1, SeqCst);
                barrier.wait();
            }
        }));
    }
    for cache in 0..CACHES as u64 {
        let (server, barrier, writing) = (server.clone(), barrier.clone(), writing.clone());
        threads.push(std::thread::spawn(move || {
            let mut cache = Cache::new(&server, options, cache + 100);
            let mut plain = server.connect();
            for _ in 0..ROUNDS {
                barrier.wait();
                while writing.load(SeqCst) > 0 {
                    cache.read();
                }
                barrier.wait();
                cache.settles(&mut plain);
            }
        }));
    }
    for thread in threads {
        thread.join().unwrap();
    }
}

fn change(client: &mut Client, random: &mut Random, value: &str) {
    let key = random.key();
    match random.next() % 8 {
        0 => drop(client.call(&["DEL", &key])),
        1 => drop(client.call(&["SET", &key, value, "PX", "5"])),
        2 => drop(client.call(&["RENAME", &key, &random.key()])),
        3 => {
            let other = random.key();
            client.send_bytes(
                format!("MULTI\r\nSET {key} {value}\r\nAPPEND {other} x\r\nEXEC\r\n").as_bytes(),
            );
            (0..4).for_each(|_| drop(client.receive().unwrap()));
        }
        _ => drop(client.call(&["SET", &key, value])),
    }
}

/// A connection with the values that it has read.
struct Cache {
    client: Client,
    held: HashMap<String, Value>,
    random: Random,
}

impl Cache {
    fn new(server: &Server, options: &[&str], seed: u64) -> Self {
        Cache { client: tracking(server, options), held: HashMap::new(), random: Random(seed) }
    }

    fn read(&mut self) {
        let key = self.random.key();
        let value = self.ask(&["GET", &key]);
        self.held.insert(key, value);
    }

    /// Returns the reply of a command, after applying invalidations that arrive before it.
    fn ask(&mut self, args: &[&str]) -> Value {
        self.client.send(args);
        loop {
            match self.client.receive().unwrap() {
                Value::Push(items) => self.obey(&items),
                reply => return reply,
            }
        }
    }

    fn obey(&mut self, items: &[Value]) {
        match &items[1] {
            Value::Array(keys) => keys.iter().for_each(|key| drop(self.held.remove(&show(key)))),
            other => panic!("{other:?}"),
        }
    }

    /// Waits until all cached values equal the server's.
    fn settles(&mut self, plain: &mut Client) {
        eventually("the cache is right", || {
            self.ask(&["PING"]);
            self.held.iter().all(|(key, value)| plain.call(&["GET", key]) == *value)
        });
    }
}

struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn key(&mut self) -> String {
        format!("key{}", self.next() % KEYS)
    }
}
