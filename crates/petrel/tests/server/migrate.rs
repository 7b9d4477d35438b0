//! MIGRATE: to another Petrel, and to a target with replies controlled by the test.

use crate::harness::*;
use petrel_resp::{DecodeLimits, Decoder, Value};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};

with_each_backend!(
    values_of_every_type_move,
    events_tell_of_what_has_moved,
    caches_hear_of_what_has_moved,
    nothing_is_lost_that_is_written_meanwhile,
    what_is_removed_meanwhile_is_removed_there,
    others_are_served_while_a_target_is_silent,
    who_leaves_leaves_nothing_undone,
    a_pause_holds_a_migration_back,
    a_migration_is_logged_with_all_of_its_time,
);

/// Another Petrel, and its port.
fn target(backend: &str, args: &[&str]) -> (Server, String) {
    let port = free_port().to_string();
    let server = Server::start(backend, &[&["--port", &port][..], args].concat());
    (server, port)
}

fn values_of_every_type_move(backend: &str) {
    let source = Server::start(backend, &["--enable-debug-command", "yes"]);
    let (target, port) = target(backend, &["--enable-debug-command", "yes"]);
    let (mut here, mut there) = (source.connect(), target.connect());
    let migrate = |client: &mut Client, key: &str, options: &[&str]| {
        let call = [&["MIGRATE", "127.0.0.1", &port, key, "0", "5000"][..], options].concat();
        client.text(&call)
    };
    assert_eq!(migrate(&mut here, "k", &[]), "NOKEY");
    let large: Vec<String> = (0..3000).map(|n| format!("element {n}")).collect();
    for (key, command) in [("l", "RPUSH"), ("s", "SADD")] {
        let call = [command, key].into_iter().chain(large.iter().map(|text| &text[..]));
        here.call(&call.collect::<Vec<_>>());
    }
    for call in [
        &["SET", "k", "text"][..],
        &["ZADD", "z", "1.5", "a", "-2", "b"],
        &["HSET", "h", "f", "v", "g", "w"],
        &["HPEXPIREAT", "h", "4000000000000", "FIELDS", "1", "f"],
        &["XADD", "x", "1-1", "f", "v"],
        &["XGROUP", "CREATE", "x", "group", "0"],
        &["PEXPIREAT", "z", "4000000000000"],
    ] {
        here.call(call);
    }
    let digest = here.text(&["DEBUG", "DIGEST"]);
    // Many keys, some of which do not exist, and one by one.
    let keys = ["KEYS", "k", "l", "none", "s", "z", "h", "x"];
    assert_eq!(migrate(&mut here, "", &[&["COPY"][..], &keys].concat()), "OK");
    assert_eq!(there.text(&["DEBUG", "DIGEST"]), digest);
    assert!(migrate(&mut here, "", &keys).contains("BUSYKEY"));
    assert_eq!(here.text(&["DEBUG", "DIGEST"]), digest);
    assert_eq!(migrate(&mut here, "", &[&["REPLACE"][..], &keys].concat()), "OK");
    assert_eq!(here.text(&["DBSIZE"]), "0");
    assert_eq!(there.text(&["DEBUG", "DIGEST"]), digest);
    let ttl: i64 = there.text(&["PEXPIRETIME", "z"]).parse().unwrap();
    assert!((3_999_999_990_000..4_000_000_010_000).contains(&ttl), "{ttl}");
    assert!(source.info("migrate_cached_sockets") == 1);

    // More keys than are sent at a time, into another database, with a password; from a server that
    // has no connection from before it was set.
    let source = Server::start(backend, &[]);
    let mut here = source.connect();
    for n in 0..200 {
        here.call(&["SET", &format!("key:{n}"), "x"]);
    }
    there.text(&["CONFIG", "SET", "requirepass", "secret"]);
    let names: Vec<String> = (0..200).map(|n| format!("key:{n}")).collect();
    let names: Vec<&str> = ["KEYS"].into_iter().chain(names.iter().map(|name| &name[..])).collect();
    let to_9 = ["MIGRATE", "127.0.0.1", &port, "", "9", "5000"];
    let refused = here.text(&[&to_9[..], &names].concat());
    assert_eq!(refused, "ERR Target instance replied with error: NOAUTH Authentication required.");
    assert_eq!(here.text(&["DBSIZE"]), "200");
    assert_eq!(here.text(&[&to_9[..], &["AUTH", "secret"], &names].concat()), "OK");
    assert_eq!(here.text(&["DBSIZE"]), "0");
    there.text(&["SELECT", "9"]);
    assert_eq!(there.text(&["DBSIZE"]), "200");
}

fn events_tell_of_what_has_moved(backend: &str) {
    let source = Server::start(backend, &["--notify-keyspace-events", "Egm"]);
    let (_target, port) = target(backend, &[]);
    let (mut here, mut listener) = (source.connect(), source.connect());
    listener.call(&["PSUBSCRIBE", "__key*"]);
    here.call(&["MSET", "a", "1", "b", "2"]);
    let call = ["MIGRATE", "127.0.0.1", &port, "", "0", "5000", "KEYS", "a", "none", "b"];
    assert_eq!(here.text(&call), "OK");
    for event in ["keymiss none", "del a", "del b"] {
        let message = show(&listener.receive().expect("a message"));
        assert_eq!(message, format!("[pmessage __key* __keyevent@0__:{event}]"));
    }
}

/// A target that answers on request.
struct Slow {
    listener: TcpListener,
    stream: Option<TcpStream>,
    received: Vec<u8>,
}

impl Slow {
    fn new() -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        Slow { listener, stream: None, received: Vec::new() }
    }

    fn port(&self) -> String {
        self.listener.local_addr().unwrap().port().to_string()
    }

    /// The next command that was sent.
    fn receive(&mut self) -> Vec<Vec<u8>> {
        let stream = self.stream.get_or_insert_with(|| self.listener.accept().unwrap().0);
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut decoder = Decoder::new(DecodeLimits::default());
        loop {
            let (consumed, value) = decoder.decode(&self.received).unwrap();
            self.received.drain(..consumed);
            if let Some(Value::Array(args)) = value {
                let args = args.into_iter().map(|arg| match arg {
                    Value::Bulk(arg) => arg.to_vec(),
                    other => panic!("{other:?}"),
                });
                return args.collect();
            }
            let mut chunk = [0; 4096];
            let len = stream.read(&mut chunk).unwrap();
            assert!(len > 0, "closed");
            self.received.extend_from_slice(&chunk[..len]);
        }
    }

    fn answer(&mut self, reply: &[u8]) {
        self.stream.as_mut().unwrap().write_all(reply).unwrap();
    }
}

fn caches_hear_of_what_has_moved(backend: &str) {
    let source = Server::start(backend, &["--threads", "3"]);
    let (_target, port) = target(backend, &[]);
    let (mut here, mut reader) = (source.connect(), source.connect());
    reader.call(&["HELLO", "3"]);
    assert_eq!(reader.text(&["CLIENT", "TRACKING", "ON"]), "OK");
    for n in 0..6 {
        let key = format!("key:{n}");
        here.call(&["SET", &key, "x"]);
        reader.call(&["GET", &key]);
        assert_eq!(here.text(&["MIGRATE", "127.0.0.1", &port, &key, "0", "5000"]), "OK");
        let told = reader.receive().expect("a push");
        assert_eq!(show(&told), format!("[invalidate [{key}]]"));
    }
}

/// The number that a payload of DUMP holds.
fn number(payload: &[u8]) -> u8 {
    assert_eq!(payload[..2], [0, 0xc0], "{payload:x?}");
    payload[2]
}

fn nothing_is_lost_that_is_written_meanwhile(backend: &str) {
    let source = Server::start(backend, &[]);
    let (mut mover, mut writer) = (source.connect(), source.connect());
    let mut target = Slow::new();
    writer.text(&["SET", "n", "1"]);
    mover.send(&["MIGRATE", "127.0.0.1", &target.port(), "n", "0", "5000"]);
    mover.send(&["EXISTS", "n"]);
    let sent = target.receive();
    assert_eq!((&sent[0][..], sent.len(), number(&sent[3])), (&b"RESTORE"[..], 4, 1));
    assert_eq!(writer.text(&["INCR", "n"]), "2");
    target.answer(b"+OK\r\n");
    let sent = target.receive();
    assert_eq!((number(&sent[3]), &sent[4][..]), (2, &b"REPLACE"[..]));
    assert_eq!(writer.text(&["INCR", "n"]), "3");
    target.answer(b"+OK\r\n");
    assert_eq!(number(&target.receive()[3]), 3);
    // One that only reads changes nothing.
    assert_eq!(writer.text(&["GET", "n"]), "3");
    target.answer(b"+OK\r\n");
    assert_eq!(show(&mover.receive().unwrap()), "OK");
    assert_eq!(show(&mover.receive().unwrap()), "0");

    // A key refused by the target stays.
    writer.text(&["SET", "n", "7"]);
    mover.send(&["MIGRATE", "127.0.0.1", &target.port(), "n", "0", "5000"]);
    target.receive();
    target.answer(b"-OOM no room\r\n");
    let reply = show(&mover.receive().unwrap());
    assert_eq!(reply, "ERR Target instance replied with error: OOM no room");
    assert_eq!(writer.text(&["GET", "n"]), "7");
}

fn what_is_removed_meanwhile_is_removed_there(backend: &str) {
    let source = Server::start(backend, &[]);
    let (mut mover, mut other) = (source.connect(), source.connect());
    let mut target = Slow::new();
    other.text(&["SET", "n", "1"]);
    mover.send(&["MIGRATE", "127.0.0.1", &target.port(), "n", "0", "5000"]);
    target.receive();
    assert_eq!(other.text(&["DEL", "n"]), "1");
    target.answer(b"+OK\r\n");
    assert_eq!(target.receive(), [b"DEL".to_vec(), b"n".to_vec()]);
    target.answer(b":1\r\n");
    assert_eq!(show(&mover.receive().unwrap()), "OK");
}

fn others_are_served_while_a_target_is_silent(backend: &str) {
    let source = Server::start(backend, &["--threads", "1"]);
    let (mut mover, mut other) = (source.connect(), source.connect());
    let mut target = Slow::new();
    other.text(&["SET", "n", "1"]);
    mover.send(&["MIGRATE", "127.0.0.1", &target.port(), "n", "0", "500"]);
    target.receive();
    // The key itself too.
    assert_eq!(other.text(&["GET", "n"]), "1");
    assert_eq!(other.text(&["SET", "m", "2"]), "OK");
    let reply = show(&mover.receive().unwrap());
    assert_eq!(reply, "IOERR error or timeout reading to target instance");
    assert_eq!(other.text(&["GET", "n"]), "1");
    let port = target.port();
    drop(target);
    let reply = mover.text(&["MIGRATE", "127.0.0.1", &port, "n", "0", "500"]);
    assert_eq!(reply, "IOERR error or timeout writing to target instance");
    let queued = ["MULTI", "MIGRATE 127.0.0.1 1 n 0 500", "EXEC"];
    let replies = queued.map(|call| mover.text(&call.split(' ').collect::<Vec<_>>()));
    assert_eq!(replies[2], "[ERR MIGRATE is not allowed in a transaction]");
}

fn who_leaves_leaves_nothing_undone(backend: &str) {
    let source = Server::start(backend, &[]);
    let mut mover = source.connect();
    let mut target = Slow::new();
    mover.text(&["SET", "n", "1"]);
    mover.send(&["MIGRATE", "127.0.0.1", &target.port(), "n", "0", "5000"]);
    target.receive();
    drop(mover);
    target.answer(b"+OK\r\n");
    let mut other = source.connect();
    eventually("the key is gone", || other.text(&["EXISTS", "n"]) == "0");
}

fn a_pause_holds_a_migration_back(backend: &str) {
    let source = Server::start(backend, &[]);
    let (mut mover, mut other) = (source.connect(), source.connect());
    let mut target = Slow::new();
    other.text(&["SET", "n", "1"]);
    mover.send(&["MIGRATE", "127.0.0.1", &target.port(), "n", "0", "5000"]);
    target.receive();
    assert_eq!(other.text(&["CLIENT", "PAUSE", "60000", "WRITE"]), "OK");
    target.answer(b"+OK\r\n");
    std::thread::sleep(std::time::Duration::from_millis(100));
    assert_eq!(other.text(&["GET", "n"]), "1");
    assert_eq!(other.text(&["CLIENT", "UNPAUSE"]), "OK");
    assert_eq!(show(&mover.receive().unwrap()), "OK");
    assert_eq!(other.text(&["EXISTS", "n"]), "0");

    // A server that has become a replica meanwhile removes nothing.
    other.text(&["SET", "n", "2"]);
    mover.send(&["MIGRATE", "127.0.0.1", &target.port(), "n", "0", "5000"]);
    target.receive();
    let nobody = free_port().to_string();
    assert_eq!(other.text(&["REPLICAOF", "127.0.0.1", &nobody]), "OK");
    target.answer(b"+OK\r\n");
    let reply = show(&mover.receive().unwrap());
    assert_eq!(reply, "READONLY You can't write against a read only replica.");
    assert_eq!(other.text(&["GET", "n"]), "2");
}

fn a_migration_is_logged_with_all_of_its_time(backend: &str) {
    let source = Server::start(backend, &["--slowlog-log-slower-than", "50000"]);
    let (mut mover, mut other) = (source.connect(), source.connect());
    let mut target = Slow::new();
    other.text(&["SET", "n", "1"]);
    mover.text(&["CLIENT", "SETNAME", "mover"]);
    mover.send(&["MIGRATE", "127.0.0.1", &target.port(), "n", "0", "5000"]);
    target.receive();
    std::thread::sleep(std::time::Duration::from_millis(60));
    target.answer(b"+OK\r\n");
    assert_eq!(show(&mover.receive().unwrap()), "OK");
    let logged = other.text(&["SLOWLOG", "GET"]);
    assert!(logged.contains("[MIGRATE 127.0.0.1 ") && logged.contains(" mover 6]"), "{logged}");
}
