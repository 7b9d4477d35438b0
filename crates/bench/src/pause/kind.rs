//! Kinds of large values, and how one is filled.

use std::fmt;
use std::io::Write;

use serde::Serialize;

use super::{PATIENCE, PauseArgs, read_line};
use crate::element;
use crate::exchange::Exchange;
use crate::load::Endpoint;
use crate::workload::Args;

/// Elements of one command, where it takes many.
const ELEMENTS_PER_COMMAND: u64 = 1_000;

/// Commands sent at once: with many elements each, and with one.
const PIPELINE: usize = 8;
const PIPELINE_SINGLE: usize = 1_000;

/// Bytes of a string written at once.
const PIECE_BYTES: usize = 1 << 20;

/// A kind of value.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// A set of integers
    Integers,
    /// A set of strings
    Set,
    /// A hash
    Hash,
    /// A sorted set
    Zset,
    /// A list
    List,
    /// A stream
    Stream,
    /// A string
    String,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Kind::Integers => "integers",
            Kind::Set => "set",
            Kind::Hash => "hash",
            Kind::Zset => "zset",
            Kind::List => "list",
            Kind::Stream => "stream",
            Kind::String => "string",
        })
    }
}

impl Kind {
    /// All of them.
    pub const ALL: [Kind; 7] =
        [Kind::Integers, Kind::Set, Kind::Hash, Kind::Zset, Kind::List, Kind::Stream, Kind::String];

    /// Its name in a table.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Integers => "set of integers",
            Kind::Set => "set of strings",
            Kind::Hash => "hash",
            Kind::Zset => "sorted set",
            Kind::List => "list",
            Kind::Stream => "stream",
            Kind::String => "string",
        }
    }

    /// Whether a server may let a copy share the memory of what it was made of, so that removing it would free nothing.
    pub fn is_shared_by_copy(self) -> bool {
        self == Kind::String
    }

    /// Makes one at `key`.
    pub fn fill(self, endpoint: &Endpoint, key: &[u8], args: &PauseArgs) -> Result<(), String> {
        let key = String::from_utf8_lossy(key);
        let (command, put): (_, fn(&mut Args, u64, u64)) = match self {
            Kind::String => return fill_string(endpoint, &key, args.string_bytes),
            Kind::Integers => ("SADD", element::integer),
            Kind::Set => ("SADD", element::member),
            Kind::Hash => ("HSET", element::field),
            Kind::Zset => ("ZADD", element::scored),
            Kind::List => ("RPUSH", element::item),
            Kind::Stream => ("XADD", element::entry),
        };
        let (each, pipeline) = match self {
            Kind::Stream => (1, PIPELINE_SINGLE),
            _ => (ELEMENTS_PER_COMMAND, PIPELINE),
        };
        let mut exchange = Exchange::connect(endpoint, 1)?;
        let mut next = 0;
        exchange.run(args.elements.div_ceil(each), pipeline, |out| {
            let mut words = Args::new();
            words.add(format_args!("{command}")).add(format_args!("{key}"));
            let end = (next + each).min(args.elements);
            (next..end).for_each(|at| put(&mut words, 0, at));
            words.encode(out);
            next = end;
        })?;
        exchange.first_error.map_or(Ok(()), Err)
    }
}

fn fill_string(endpoint: &Endpoint, key: &str, bytes: usize) -> Result<(), String> {
    let failed = |error: std::io::Error| error.to_string();
    let mut stream = endpoint.connect(None).map_err(failed)?;
    stream.set_read_timeout(PATIENCE).map_err(failed)?;
    let head = format!("*3\r\n$3\r\nSET\r\n${}\r\n{key}\r\n${bytes}\r\n", key.len());
    stream.write_all(head.as_bytes()).map_err(failed)?;
    let piece = vec![b'x'; PIECE_BYTES];
    let mut left = bytes;
    while left > 0 {
        let step = left.min(PIECE_BYTES);
        stream.write_all(&piece[..step]).map_err(failed)?;
        left -= step;
    }
    stream.write_all(b"\r\n").map_err(failed)?;
    let line = read_line(&mut stream).map_err(failed)?;
    if line == b"+OK\r\n" { Ok(()) } else { Err(String::from_utf8_lossy(&line).into_owned()) }
}
