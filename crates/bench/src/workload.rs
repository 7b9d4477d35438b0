//! Commands on collections: how the keys of each are filled, and what is then sent again and again.

use std::fmt;
use std::fmt::Write as _;

use petrel_resp::encode_command;

use crate::load::Random;

/// A command that is measured, with the keys that it needs.
#[derive(Clone, Copy, Debug, Eq, PartialEq, clap::ValueEnum)]
#[value(rename_all = "UPPER")]
pub enum Workload {
    /// `INCR key`
    Incr,
    /// `HSET key field value`: one of ten fields
    Hset,
    /// `HGET key field`: one of ten fields
    Hget,
    /// `SADD key member`: one of 32, half of which are there at first
    Sadd,
    /// `LPUSH key element`
    Lpush,
    /// `RPOP key`: of lists of 100 elements
    Rpop,
    /// `ZADD key score member`: one of 100 members
    Zadd,
    /// `ZRANGE key start stop`: 10 of 100
    Zrange,
    /// `ZRANGEBYSCORE key min max LIMIT 0 10`: of 100
    Zrangebyscore,
    /// `XADD key * field value field value`
    Xadd,
    /// Four times `SET key value`, as one operation
    Sets,
    /// `MULTI`, four times `SET key value`, `EXEC`
    Multi,
    /// `EVAL "return redis.call('GET', KEYS[1])" 1 key`
    Eval,
}

impl fmt::Display for Workload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match self {
            Workload::Incr => "INCR",
            Workload::Hset => "HSET",
            Workload::Hget => "HGET",
            Workload::Sadd => "SADD",
            Workload::Lpush => "LPUSH",
            Workload::Rpop => "RPOP",
            Workload::Zadd => "ZADD",
            Workload::Zrange => "ZRANGE (10)",
            Workload::Zrangebyscore => "ZRANGEBYSCORE (10)",
            Workload::Xadd => "XADD",
            Workload::Sets => "SET, four times",
            Workload::Multi => "MULTI, SET four times, EXEC",
            Workload::Eval => "EVAL of a GET",
        };
        f.write_str(name)
    }
}

/// Fields of a hash.
const FIELDS: u64 = 10;
/// Members of a set, of which the first half is there from the beginning.
const MEMBERS: u64 = 32;
/// Strings that are stored as one operation.
const SETS: u64 = 4;
/// Elements of a list and members of a sorted set.
const ELEMENTS: u64 = 100;

impl Workload {
    /// All of them.
    pub const ALL: [Workload; 13] = [
        Workload::Incr,
        Workload::Hset,
        Workload::Hget,
        Workload::Sadd,
        Workload::Lpush,
        Workload::Rpop,
        Workload::Zadd,
        Workload::Zrange,
        Workload::Zrangebyscore,
        Workload::Xadd,
        Workload::Sets,
        Workload::Multi,
        Workload::Eval,
    ];

    /// Replies to one operation.
    pub fn replies(self) -> u64 {
        match self {
            Workload::Sets => SETS,
            Workload::Multi => SETS + 2,
            _ => 1,
        }
    }

    /// Appends the command that makes key `n`; none for those that begin without.
    pub fn fill(self, n: u64, out: &mut Vec<u8>) -> bool {
        let mut args = Args::new();
        match self {
            Workload::Hset | Workload::Hget => {
                args.add(format_args!("HSET")).add(format_args!("hash:{n:08}"));
                for field in 0..FIELDS {
                    args.add(format_args!("field{field}"));
                    args.add(format_args!("value-{:04}", (n + field) % 10_000));
                }
            }
            Workload::Sadd => {
                args.add(format_args!("SADD")).add(format_args!("set:{n:08}"));
                for member in 0..MEMBERS / 2 {
                    args.add(format_args!("member{member:02}"));
                }
            }
            Workload::Lpush | Workload::Rpop => {
                args.add(format_args!("RPUSH")).add(format_args!("list:{n:08}"));
                for at in 0..ELEMENTS {
                    args.add(format_args!("element-{at:04}"));
                }
            }
            Workload::Zadd | Workload::Zrange | Workload::Zrangebyscore => {
                args.add(format_args!("ZADD")).add(format_args!("zset:{n:08}"));
                for member in 0..ELEMENTS {
                    args.add(format_args!("{}", (n + member * 37) % 1_000));
                    args.add(format_args!("member{member:02}"));
                }
            }
            Workload::Sets | Workload::Multi | Workload::Eval => {
                args.add(format_args!("SET")).add(format_args!("string:{n:08}"));
                args.add(format_args!("value-{n:04}"));
            }
            Workload::Incr | Workload::Xadd => return false,
        }
        args.encode(out);
        true
    }

    /// Appends one operation on keys drawn from the first `keys`.
    pub fn make(self, keys: u64, random: &mut Random, out: &mut Vec<u8>) {
        let mut below = |bound: u64| ((u128::from(random.next()) * u128::from(bound)) >> 64) as u64;
        let (n, any) = (below(keys), below(10_000));
        let mut args = Args::new();
        match self {
            Workload::Incr => args.add(format_args!("INCR")).add(format_args!("count:{n:08}")),
            Workload::Hset => args
                .add(format_args!("HSET"))
                .add(format_args!("hash:{n:08}"))
                .add(format_args!("field{}", below(FIELDS)))
                .add(format_args!("value-{any:04}")),
            Workload::Hget => args
                .add(format_args!("HGET"))
                .add(format_args!("hash:{n:08}"))
                .add(format_args!("field{}", below(FIELDS))),
            Workload::Sadd => args
                .add(format_args!("SADD"))
                .add(format_args!("set:{n:08}"))
                .add(format_args!("member{:02}", below(MEMBERS))),
            Workload::Lpush => args
                .add(format_args!("LPUSH"))
                .add(format_args!("list:{n:08}"))
                .add(format_args!("element-{any:04}")),
            Workload::Rpop => args.add(format_args!("RPOP")).add(format_args!("list:{n:08}")),
            Workload::Zadd => args
                .add(format_args!("ZADD"))
                .add(format_args!("zset:{n:08}"))
                .add(format_args!("{}", below(1_000)))
                .add(format_args!("member{:02}", below(ELEMENTS))),
            Workload::Zrange => {
                let start = below(ELEMENTS - 10);
                args.add(format_args!("ZRANGE"))
                    .add(format_args!("zset:{n:08}"))
                    .add(format_args!("{start}"))
                    .add(format_args!("{}", start + 9))
            }
            Workload::Zrangebyscore => args
                .add(format_args!("ZRANGEBYSCORE"))
                .add(format_args!("zset:{n:08}"))
                .add(format_args!("{}", below(900)))
                .add(format_args!("+inf"))
                .add(format_args!("LIMIT"))
                .add(format_args!("0"))
                .add(format_args!("10")),
            Workload::Xadd => args
                .add(format_args!("XADD"))
                .add(format_args!("stream:{n:08}"))
                .add(format_args!("*"))
                .add(format_args!("sensor"))
                .add(format_args!("{any}"))
                .add(format_args!("temperature"))
                .add(format_args!("{}", any / 3)),
            Workload::Sets => return (0..SETS).for_each(|_| set(below(keys), any, out)),
            Workload::Multi => {
                encode_command(&[b"MULTI"], out);
                (0..SETS).for_each(|_| set(below(keys), any, out));
                args.add(format_args!("EXEC"))
            }
            Workload::Eval => args
                .add(format_args!("EVAL"))
                .add(format_args!("return redis.call('GET', KEYS[1])"))
                .add(format_args!("1"))
                .add(format_args!("string:{n:08}")),
        };
        args.encode(out);
    }
}

fn set(n: u64, value: u64, out: &mut Vec<u8>) {
    let mut args = Args::new();
    args.add(format_args!("SET")).add(format_args!("string:{n:08}"));
    args.add(format_args!("value-{value:04}")).encode(out);
}

/// Arguments of one command, printed one behind the other.
#[derive(Default)]
pub struct Args {
    text: String,
    ends: Vec<usize>,
}

impl Args {
    /// None yet.
    pub fn new() -> Args {
        Args::default()
    }

    /// Adds one.
    pub fn add(&mut self, text: fmt::Arguments<'_>) -> &mut Args {
        // Writing to a string does not fail.
        let _ = self.text.write_fmt(text);
        self.ends.push(self.text.len());
        self
    }

    /// Appends the command.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let mut begin = 0;
        let args: Vec<&[u8]> = self
            .ends
            .iter()
            .map(|&end| &self.text.as_bytes()[std::mem::replace(&mut begin, end)..end])
            .collect();
        encode_command(&args, out);
    }
}
