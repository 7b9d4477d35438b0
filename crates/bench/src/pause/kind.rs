//! Kinds of large values, and how one is filled.

use std::io::{self, Write};

use super::PauseArgs;
use crate::exchange::{Exchange, connect, read_same};
use crate::load::Endpoint;

/// Elements of one command, where it takes many.
const ELEMENTS_PER_COMMAND: u64 = 1_000;

/// Bytes of a string written at once.
const PIECE_BYTES: usize = 1 << 20;

/// A kind of value: its option, its name, the command that fills it, one element.
pub type PauseCase = (&'static str, &'static str, &'static str, &'static str);

/// All of them.
pub const KINDS: [PauseCase; 7] = [
    ("integers", "set of integers", "SADD", "{at*1021}"),
    ("set", "set of strings", "SADD", "member:{at:08}"),
    ("hash", "hash", "HSET", "field:{at} value:{at*7%100000}"),
    ("zset", "sorted set", "ZADD", "{at*7919%1000000} member:{at:08}"),
    ("list", "list", "RPUSH", "element:{at:08}"),
    (
        "stream",
        "stream",
        "XADD",
        "{at*1000+1700000000000}-0 sensor {at%1000} temperature {at*7%40}.{at%10}",
    ),
    ("string", "string", "SET", ""),
];

/// Makes one at `key`.
pub fn fill(
    (_, _, command, element): &PauseCase,
    endpoint: &Endpoint,
    key: &[u8],
    args: &PauseArgs,
) -> Result<(), String> {
    let key = String::from_utf8_lossy(key);
    if *command == "SET" {
        let filled = fill_string(endpoint, &key, args.string_bytes);
        return filled.map_err(|error| error.to_string());
    }
    let per_command = if *command == "XADD" { 1 } else { ELEMENTS_PER_COMMAND };
    let mut exchange = Exchange::connect(endpoint, 1)?;
    let head = format!("{command} {key}");
    crate::scaling::fill(&mut exchange, (&head, element), args.elements, per_command)
}

fn fill_string(endpoint: &Endpoint, key: &str, bytes: usize) -> io::Result<()> {
    let mut stream = connect(endpoint)?;
    let head = format!("*3\r\n$3\r\nSET\r\n${}\r\n{key}\r\n${bytes}\r\n", key.len());
    stream.write_all(head.as_bytes())?;
    let piece = vec![b'x'; PIECE_BYTES];
    for begin in (0..bytes).step_by(PIECE_BYTES) {
        stream.write_all(&piece[..PIECE_BYTES.min(bytes - begin)])?;
    }
    stream.write_all(b"\r\n")?;
    read_same(&mut stream, b"+OK\r\n", 1)
}
