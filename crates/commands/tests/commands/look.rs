//! Reading values of any type, here and in other servers.

use crate::client::{Client, show};
use crate::redis::Redis;
use petrel_resp::Value;

/// A caller that executes commands.
pub trait Server {
    fn ask(&mut self, args: &[&[u8]]) -> Value;
}

impl Server for Redis {
    fn ask(&mut self, args: &[&[u8]]) -> Value {
        self.call(args)
    }
}

impl Server for Client {
    fn ask(&mut self, args: &[&[u8]]) -> Value {
        self.exec.ks.refresh_clock();
        self.call(args)
    }
}

/// Type, content and metadata of the value at key `k`, without the fields in `unknown`.
pub fn look(server: &mut dyn Server, unknown: &[&str]) -> String {
    let kind = show(&server.ask(&[b"TYPE", b"k"]));
    let value = match &kind[..] {
        "string" => server.ask(&[b"GET", b"k"]),
        "list" => server.ask(&[b"LRANGE", b"k", b"0", b"-1"]),
        "set" => sorted(server.ask(&[b"SMEMBERS", b"k"])),
        "zset" => server.ask(&[b"ZRANGE", b"k", b"0", b"-1", b"WITHSCORES"]),
        "hash" => hash(server),
        "stream" => {
            let mut state = server.ask(&[b"XINFO", b"STREAM", b"k", b"FULL", b"COUNT", b"0"]);
            leave_out(&mut state, unknown);
            state
        }
        _ => panic!("what is a {kind}?"),
    };
    format!("{kind} {}", show(&value))
}

/// The fields of a hash in order: name, value, expiry.
fn hash(server: &mut dyn Server) -> Value {
    let Value::Array(items) = server.ask(&[b"HGETALL", b"k"]) else { panic!("no hash") };
    let mut fields = Vec::new();
    for pair in items.chunks(2) {
        let Value::Bulk(name) = &pair[0] else { panic!("no field") };
        let expiry = match server.ask(&[b"HPEXPIRETIME", b"k", b"FIELDS", b"1", name]) {
            // Servers without field expiry.
            Value::Error(_) => Value::Array(vec![Value::Integer(-1)]),
            expiry => expiry,
        };
        fields.push(Value::Array(vec![pair[0].clone(), pair[1].clone(), expiry]));
    }
    sorted(Value::Array(fields))
}

/// Fields of `XINFO STREAM` that describe the encoding rather than the stream, or that old servers
/// compute differently.
const NO_PART: [&str; 3] = ["radix-tree-keys", "radix-tree-nodes", "lag"];

/// Fields of `XINFO STREAM` that older servers lack.
const MAYBE_UNKNOWN: [&str; 8] = [
    "active-time",
    "idmp-duration",
    "idmp-maxsize",
    "pids-tracked",
    "iids-tracked",
    "iids-added",
    "iids-duplicates",
    "nacked-count",
];

/// Fields that the server lacks from which `look` was taken.
pub fn unknown_to(look: &str) -> Vec<&'static str> {
    MAYBE_UNKNOWN.into_iter().filter(|name| !look.contains(name)).collect()
}

/// Removes names and the value after each, at any depth.
fn leave_out(value: &mut Value, names: &[&str]) {
    let Value::Array(items) = value else { return };
    let is_named = |item: &Value| match item {
        Value::Bulk(name) => NO_PART.iter().chain(names).any(|known| known.as_bytes() == &name[..]),
        _ => false,
    };
    while let Some(at) = items.iter().position(is_named) {
        items.drain(at..at + 2);
    }
    items.iter_mut().for_each(|item| leave_out(item, names));
}

fn sorted(value: Value) -> Value {
    let Value::Array(mut items) = value else { panic!("{value:?}") };
    items.sort_by_key(show);
    Value::Array(items)
}
