//! A value type in a folder of its own ([`crate::tally`]): a server does with its values what it
//! does with all others.

use crate::bench::{Client, Members, bulk, connect, error, key_at, ok};
use crate::tally;
use petrel_resp::Value;
use petrel_server::Running;
use petrel_server::config::{Config, Permission, SavePoints, SharedConfig};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Names of a value that is large enough to be saved in chunks.
const MANY: i64 = 2000;

/// Lets one test at a time save: servers of one process write the same temporary file, since its
/// path is relative to the directory of the process.
pub fn one_that_saves() -> MutexGuard<'static, ()> {
    static LOCK: Mutex<()> = Mutex::new(());
    LOCK.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A directory that is removed in the end.
pub struct Dir(pub PathBuf);

impl Dir {
    pub fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!("petrel-tally-{}-{}", std::process::id(), NEXT.fetch_add(1, Relaxed));
        let dir = std::env::temp_dir().join(name);
        std::fs::create_dir(&dir).unwrap();
        Dir(dir)
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A server that is no member of a cluster, with the files of the directory.
pub struct Alone(pub Option<Running>, PathBuf);

impl Alone {
    pub fn start(dir: &Path, appendonly: bool) -> Self {
        Self::start_at(dir, appendonly, 0)
    }

    /// Starts one that listens at a TCP port, too.
    pub fn start_at(dir: &Path, appendonly: bool, port: u16) -> Self {
        let socket = dir.join("s");
        let config = Config {
            port,
            unixsocket: Some(socket.clone()),
            threads: 1,
            save: SavePoints::default(),
            dbfilename: dir.join("dump.rdb"),
            appenddirname: dir.join("log").to_str().unwrap().into(),
            dir: dir.to_owned(),
            appendonly,
            enable_debug_command: Permission::Yes,
            ..Config::default()
        };
        let running = tally::start(Arc::new(SharedConfig::new(config, None)));
        while running.server.commands.is_loading() {
            if running.server.is_stopping() {
                panic!("{:?}", running.wait().err());
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        Alone(Some(running), socket)
    }

    pub fn client(&self) -> Client {
        connect(&self.1)
    }
}

impl Drop for Alone {
    fn drop(&mut self) {
        if let Some(running) = self.0.take() {
            running.server.stop();
            let _ = running.wait();
        }
    }
}

pub fn text(value: Value) -> String {
    match value {
        Value::Bulk(text) | Value::Simple(text) | Value::Verbatim { text, .. } => {
            String::from_utf8_lossy(&text).into_owned()
        }
        other => panic!("{other:?} is no text"),
    }
}

/// A small value, a large one, and one that is removed again.
fn fill(client: &mut Client) {
    let number = Value::Integer;
    assert_eq!(client.call("TALLY.ADD small a 5"), number(5));
    assert_eq!(client.call("TALLY.ADD small a -2"), number(3));
    assert_eq!(client.call("TALLY.ADD small b 1"), number(1));
    assert_eq!(client.call("TALLY.DROP small b"), number(1));
    let adds: Vec<_> = (0..MANY).map(|n| format!("TALLY.ADD large name:{n} {n}")).collect();
    client.pipeline(&adds);
    client.call("TALLY.ADD gone a 1");
    assert_eq!(client.call("TALLY.DROP gone a"), number(1));
    assert_eq!(client.call("SET string text"), ok());
}

fn check(client: &mut Client) {
    for (key, name, count) in
        [("small", "a", 3), ("small", "b", 0), ("large", "name:7", 7), ("large", "name:1999", 1999)]
    {
        assert_eq!(client.call(&format!("TALLY.GET {key} {name}")), Value::Integer(count));
    }
    assert_eq!(client.call("DBSIZE"), Value::Integer(3));
}

#[test]
fn values_are_copied_dumped_digested_and_counted() {
    let _guard = one_that_saves();
    let dir = Dir::new();
    let server = Alone::start(&dir.0, false);
    let mut client = server.client();
    fill(&mut client);
    check(&mut client);
    assert_eq!(text(client.call("TYPE small")), "tally");
    assert_eq!(text(client.call("OBJECT ENCODING small")), "raw");
    let Value::Array(found) = client.call("SCAN 0 TYPE tally COUNT 1000") else { panic!() };
    assert!(matches!(&found[1], Value::Array(keys) if keys.len() == 2), "{found:?}");
    assert!(error(&client.call("LLEN small")).starts_with("WRONGTYPE"));
    assert!(error(&client.call("TALLY.GET string a")).starts_with("WRONGTYPE"));
    let Value::Integer(memory) = client.call("MEMORY USAGE large SAMPLES 0") else { panic!() };
    assert!(memory > 100 * MANY, "{memory}");
    let sizes = text(client.call("INFO keysizes"));
    assert!(sizes.contains("db0_distrib_tallies_names:1=1,1K=1"), "{sizes}");

    let mut digest = |key: &str| client.call(&format!("DEBUG DIGEST-VALUE {key}"));
    let (small, large) = (digest("small"), digest("large"));
    assert_ne!(small, large);
    let mut client = server.client();
    assert_eq!(client.call("COPY large copy"), Value::Integer(1));
    assert_eq!(client.call("TALLY.ADD copy name:7 1"), Value::Integer(8));
    assert_eq!(client.call("TALLY.GET large name:7"), Value::Integer(7));
    assert_eq!(client.call("TALLY.ADD copy name:7 -1"), Value::Integer(7));
    assert_eq!(client.call("DEBUG DIGEST-VALUE copy"), large);
    assert_eq!(client.call("RENAME copy renamed"), ok());

    let Value::Bulk(payload) = client.call("DUMP small") else { panic!() };
    assert_eq!(restore(&mut client, "back", &payload), ok());
    assert_eq!(client.call("DEBUG DIGEST-VALUE back"), small);
    // A changed payload is refused, whatever it is read as.
    for at in 0..payload.len() {
        let mut broken = payload.to_vec();
        broken[at] ^= 0x55;
        error(&restore(&mut client, "broken", &broken));
    }
}

fn restore(client: &mut Client, key: &str, payload: &[u8]) -> Value {
    let mut bytes = Vec::new();
    petrel_resp::encode_command(&[&b"RESTORE"[..], key.as_bytes(), b"0", payload], &mut bytes);
    client.stream.write_all(&bytes).unwrap();
    client.reply()
}

#[test]
fn events_are_published() {
    let _guard = one_that_saves();
    let dir = Dir::new();
    let server = Alone::start(&dir.0, false);
    let (mut client, mut listener) = (server.client(), server.client());
    assert_eq!(client.call("CONFIG SET notify-keyspace-events KEA"), ok());
    listener.call("PSUBSCRIBE __keyevent@0__:tally*");
    client.call("TALLY.ADD k a 1");
    client.call("TALLY.DROP k a");
    for event in ["tally.add", "tally.drop"] {
        let Value::Array(parts) = listener.reply() else { panic!() };
        assert_eq!(parts[2..], [bulk(&format!("__keyevent@0__:{event}")), bulk("k")]);
    }
}

#[test]
fn values_are_logged_and_saved() {
    let _guard = one_that_saves();
    let dir = Dir::new();
    let digest = {
        let server = Alone::start(&dir.0, true);
        let mut client = server.client();
        fill(&mut client);
        client.call("DEBUG DIGEST")
    };
    // Changes of the log.
    {
        let server = Alone::start(&dir.0, true);
        let mut client = server.client();
        check(&mut client);
        assert_eq!(client.call("DEBUG DIGEST"), digest);
        assert_eq!(client.call("SAVE"), ok());
    }
    // The file, in chunks.
    let server = Alone::start(&dir.0, false);
    let mut client = server.client();
    check(&mut client);
    assert_eq!(client.call("DEBUG DIGEST"), digest);
}

#[test]
fn members_forward_commands_and_share_values() {
    let _guard = one_that_saves();
    let members = Members::start_few(4, 2, Duration::from_micros(500));
    for home in 0..4 {
        let key = key_at(home, 4, "tally");
        for node in 0..4 {
            let sum = members.client(node).call(&format!("TALLY.ADD {key} a 1"));
            assert_eq!(sum, Value::Integer(i64::from(node) + 1));
        }
        for node in 0..4 {
            members.await_reply(node, &format!("TALLY.GET {key} a"), &Value::Integer(4));
            assert_eq!(text(members.client(node).call(&format!("TYPE {key}"))), "tally");
        }
        assert_eq!(members.client(0).call(&format!("TALLY.DROP {key} a")), Value::Integer(1));
        (0..4).for_each(|node| {
            members.await_reply(node, &format!("EXISTS {key}"), &Value::Integer(0));
        });
    }
}
