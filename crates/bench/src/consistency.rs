//! `consistency`: the same commands to each server and to a reference, every answer compared.

use std::io::{self, Write};

use serde::Serialize;

use crate::command::{Template, Variables};
use crate::exchange::{connect, read_line};
use crate::experiment::{
    Better, Description, Experiment, FIGURE, Figure, Lifetime, RunArgs, SERVER, View, grid, texts,
};
use crate::load::{Random, Stream};
use crate::result::{Measurement, Point};
use crate::server::{Peer, Server, Setting};

/// Connections that take turns, so that every thread of a server answers.
const CONNECTIONS: usize = 12;

/// Replies are no deeper and no longer than this.
const DEPTH_MAX: usize = 16;
const BULK_MAX: usize = 16 * 1024 * 1024;

/// Compare the answers of each server with those of a reference, by type of data.
///
/// Both get the same commands one after the other over twelve connections in turn; every reply must
/// be the same to the byte.
#[derive(Clone, Debug, Serialize, clap::Args)]
pub struct ConsistencyArgs {
    /// The program of the reference, started as Redis is
    #[arg(long, default_value = "redis-server", value_name = "PROGRAM")]
    #[serde(skip)]
    reference: String,

    /// Threads of the servers, measured apart
    #[arg(long, value_delimiter = ',', value_name = "N,...", default_value = "1,4,12",
          value_parser = clap::value_parser!(u16).range(1..=1024))]
    server_threads: Vec<u16>,

    /// Commands of each type
    #[arg(long, default_value_t = 20_000, default_value_if("quick", "true", "3000"),
          value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    commands: u64,
}

/// What it is.
pub const DESCRIPTION: &Description = &Description {
    name: "consistency",
    title: "Answers beside Redis's",
    about: "The same commands, drawn at random, to each server and to a fresh Redis, one after the other over 12 connections \
            in turn. Each reply must be the same to the byte, errors included. Commands whose order of elements \
            is not defined are left out. The first answer that differs stands in the checks.",
    axes: &[("threads", "{} server threads"), ("type", "{}")],
    figures: &[
        Figure::new("agreed", "Equal answers", "", 0, Better::More),
        Figure::new("checked", "Answers", "", 0, Better::Neither),
        Figure::new("different", "Different answers", "", 0, Better::Less),
    ],
    views: &[
        View::new(
            "",
            &["agreed", "checked", "different"],
            &["threads"],
            &["type"],
            &[SERVER, FIGURE],
        ),
        View::new("Different answers", &["different"], &[], &["type"], &["threads", SERVER])
            .in_summary(),
    ],
};

/// Commands of a type: `n` is one of a few keys, `at` and random numbers are small, so that
/// commands meet what others have stored.
const TYPES: [(&str, &[&str]); 9] = [
    (
        "strings",
        &[
            "SET s{n} value{?50}",
            "GET s{n}",
            "SET s{n} {?1000}",
            "SET s{n} x NX",
            "SET s{n} y XX GET",
            "APPEND s{n} tail{?9}",
            "STRLEN s{n}",
            "GETRANGE s{n} {?4} -{?4}",
            "SETRANGE s{n} {?40} zz",
            "INCR c{n}",
            "DECR c{n}",
            "INCRBY c{n} {?99}",
            "DECRBY c{n} {?99}",
            "INCRBYFLOAT f{n} 0.{?99}",
            "INCR s{n}",
            "GETSET s{n} new{?9}",
            "GETDEL s{n}",
            "MSET s{n} a s{?8} b",
            "MGET s{n} s{?8} none",
            "MSETNX m{n} a m{?8} b",
            "SETNX s{n} q",
            "LCS s{n} s{?8}",
            "SET s{n}",
            "GETEX s{n} PERSIST",
        ],
    ),
    (
        "bitmaps",
        &[
            "SETBIT b{n} {?200} {?2}",
            "GETBIT b{n} {?200}",
            "BITCOUNT b{n}",
            "BITCOUNT b{n} {?5} -{?5} BIT",
            "BITPOS b{n} {?2}",
            "BITPOS b{n} {?2} {?9}",
            "BITOP AND d{n} b{n} b{?8}",
            "BITOP XOR d{n} b{n} b{?8}",
            "BITOP NOT d{n} b{n}",
            "BITFIELD b{n} SET u8 {?99} {?255} GET i5 {?99}",
            "BITFIELD b{n} OVERFLOW SAT INCRBY i6 {?99} {?40}",
            "GET d{n}",
            "SETBIT b{n} -1 0",
            "STRLEN b{n}",
        ],
    ),
    (
        "lists",
        &[
            "RPUSH l{n} a{?9} b{?9}",
            "LPUSH l{n} c{?9}",
            "LPOP l{n}",
            "RPOP l{n} {?3}",
            "LRANGE l{n} 0 -1",
            "LRANGE l{n} {?9} {?20}",
            "LINDEX l{n} {?20}",
            "LSET l{n} {?9} set{?9}",
            "LLEN l{n}",
            "LINSERT l{n} BEFORE a{?9} mid",
            "LREM l{n} {?3} a{?9}",
            "LTRIM l{n} {?3} {?30}",
            "LMOVE l{n} l{?8} LEFT RIGHT",
            "RPOPLPUSH l{n} l{?8}",
            "LPOS l{n} a{?9} RANK -1 COUNT 0",
            "LPUSHX none{n} x",
            "LMPOP 2 l{n} l{?8} RIGHT COUNT 2",
            "LSET l{n} 500 x",
            "GET l{n}",
        ],
    ),
    (
        "hashes",
        &[
            "HSET h{n} f{?9} v{?99}",
            "HSET h{n} f{?9} {?99} g{?9} {?99}",
            "HGET h{n} f{?9}",
            "HMGET h{n} f{?9} g{?9} none",
            "HDEL h{n} f{?9} g{?9}",
            "HLEN h{n}",
            "HEXISTS h{n} f{?9}",
            "HINCRBY h{n} g{?9} {?50}",
            "HINCRBYFLOAT h{n} g{?9} 1.{?9}",
            "HSETNX h{n} f{?9} nx",
            "HSTRLEN h{n} f{?9}",
            "HSET h{n} f",
            "HINCRBY h{n} f{?9} 1",
            "DEL h{n}",
            "LPUSH h{n} x",
        ],
    ),
    (
        "sets",
        &[
            "SADD t{n} {?30} {?30}",
            "SADD t{n} m{?9}",
            "SREM t{n} {?30}",
            "SISMEMBER t{n} {?30}",
            "SMISMEMBER t{n} {?30} {?30} m{?9}",
            "SCARD t{n}",
            "SMOVE t{n} t{?8} {?30}",
            "SINTERCARD 2 t{n} t{?8}",
            "SINTERCARD 2 t{n} t{?8} LIMIT 3",
            "SUNIONSTORE u{n} t{n} t{?8}",
            "SINTERSTORE u{n} t{n} t{?8}",
            "SDIFFSTORE u{n} t{n} t{?8}",
            "SCARD u{n}",
            "SORT t{n} ALPHA LIMIT 0 5",
            "INCR t{n}",
        ],
    ),
    (
        "sorted sets",
        &[
            "ZADD z{n} {?99} m{?30}",
            "ZADD z{n} NX {?99} m{?30}",
            "ZADD z{n} GT CH {?99} m{?30}",
            "ZINCRBY z{n} {?9} m{?30}",
            "ZSCORE z{n} m{?30}",
            "ZMSCORE z{n} m{?30} none",
            "ZRANK z{n} m{?30}",
            "ZREVRANK z{n} m{?30}",
            "ZCARD z{n}",
            "ZRANGE z{n} {?9} {?30} WITHSCORES",
            "ZRANGE z{n} {?50} 99 BYSCORE LIMIT 1 5",
            "ZREVRANGEBYSCORE z{n} +inf ({?50}",
            "ZRANGEBYLEX z{n} [m1 [m2",
            "ZCOUNT z{n} {?50} 99",
            "ZREM z{n} m{?30}",
            "ZPOPMIN z{n}",
            "ZPOPMAX z{n} 2",
            "ZREMRANGEBYRANK z{n} 20 -1",
            "ZUNIONSTORE y{n} 2 z{n} z{?8} AGGREGATE MAX",
            "ZINTER 2 z{n} z{?8} WITHSCORES",
            "ZDIFF 2 z{n} z{?8}",
            "ZRANGESTORE y{n} z{n} 0 4",
            "ZADD z{n} nan m",
            "ZADD z{n} 1",
        ],
    ),
    (
        "streams",
        &[
            "XADD x{n} {at}-{?1000} f v{?99}",
            "XADD x{n} 0-0 f v",
            "XLEN x{n}",
            "XRANGE x{n} - + COUNT 3",
            "XREVRANGE x{n} + - COUNT 2",
            "XDEL x{n} {at}-{?1000}",
            "XTRIM x{n} MAXLEN 20",
            "XREAD COUNT 2 STREAMS x{n} 0",
            "XGROUP CREATE x{n} g 0 MKSTREAM",
            "XPENDING x{n} g",
            "XACK x{n} g {at}-{?1000}",
            "XGROUP DESTROY x{n} g",
            "XSETID x{n} {at}-5",
        ],
    ),
    (
        "keys",
        &[
            "SET k{n} {?99}",
            "LPUSH k{n} x",
            "DEL k{n} k{?8}",
            "EXISTS k{n} k{?8} k{n}",
            "TYPE k{n}",
            "RENAME k{n} k{?8}",
            "RENAMENX k{n} k{?8}",
            "COPY k{n} k{?8} REPLACE",
            "EXPIRE k{n} 1000",
            "EXPIRE k{n} 500 GT",
            "PERSIST k{n}",
            "EXPIREAT k{n} 1",
            "TTL none",
            "TOUCH k{n} k{?8}",
            "UNLINK k{n}",
            "DBSIZE",
            "OBJECT ENCODING k{n}",
            "DUMP none",
            "NOSUCHCOMMAND x",
            "PFADD p{n} a{?99} b{?99}",
            "PFCOUNT p{n}",
            "GEOADD g{n} 13.{?99} 38.{?99} m{?9}",
            "GEODIST g{n} m{?9} m{?9}",
        ],
    ),
    (
        "transactions and scripts",
        &[
            "MULTI ; SET w{n} {?9} ; INCR w{n} ; LPUSH w{n} x ; EXEC",
            "MULTI ; NOSUCH ; EXEC",
            "MULTI ; SET w{n} a ; DISCARD",
            "GET w{n}",
            "EVAL 'return redis.call(\"INCRBY\", KEYS[1], ARGV[1])' 1 w{n} {?9}",
            "EVAL 'return redis.call(\"HMGET\", KEYS[1], \"a\")' 1 none{n}",
            "EVAL 'return redis.pcall(\"LPUSH\", KEYS[1], 1)' 1 w{n}",
            "EVAL 'return redis.sha1hex(ARGV[1])' 0 {?99}",
            "EXEC",
            "DISCARD",
        ],
    ),
];

impl Experiment for ConsistencyArgs {
    const DESCRIPTION: &'static Description = DESCRIPTION;
    const ROUNDS: (usize, usize) = (1, 1);
    type Session = (Server, Server);

    fn points(&self) -> Vec<Point> {
        let types = TYPES.map(|(name, _)| name.to_owned()).to_vec();
        grid([("threads", texts(&self.server_threads)), ("type", types)])
    }

    fn lifetime(&self) -> Lifetime {
        Lifetime::Measurement
    }

    fn setting(&self, run: &RunArgs, point: &Point) -> Setting {
        run.setting(crate::experiment::at(point, "threads"), 1024)
    }

    fn prepare(&self, server: Server, _: &Point) -> Result<Self::Session, String> {
        let reference = Peer::redis(&self.reference).ok_or_else(|| {
            format!("there is no program {}; give one with --reference", self.reference)
        })?;
        let setting = Setting { threads: 1, ..server.setting().clone() };
        let reference = Server::start(&reference, &setting)?;
        Ok((server, reference))
    }

    fn measure(
        &self,
        (server, reference): &mut Self::Session,
        point: &Point,
        round: usize,
    ) -> Result<Measurement, String> {
        let known = TYPES.iter().find(|(name, _)| *name == point["type"]);
        let (_, commands) = known.expect("the grid is made of them");
        let templates: Vec<Template> = commands.iter().map(|text| Template::known(text)).collect();
        let open = |server: &Server| -> io::Result<Vec<Stream>> {
            (0..CONNECTIONS).map(|_| connect(server.endpoint())).collect()
        };
        let failed = |error: io::Error| error.to_string();
        let (mut own, mut others) =
            (open(server).map_err(failed)?, open(reference).map_err(failed)?);
        let mut random = Random::new(round as u64 + 1);
        let (mut checked, mut different, mut first) = (0u64, 0u64, None);
        for number in 0..self.commands {
            let template = &templates[random.below(templates.len() as u64) as usize];
            let mut request = Vec::new();
            let n = random.below(8);
            template.put(Variables { n, at: number + 1, size: 8 }, &mut random, &mut request);
            let place = number as usize % CONNECTIONS;
            let replies = template.replies();
            let got = send(&mut own[place], &request, replies).map_err(failed)?;
            let want = send(&mut others[place], &request, replies);
            let want = want.map_err(|error| format!("the reference: {error}"))?;
            checked += 1;
            if got != want {
                different += 1;
                let shown = |bytes: &[u8]| {
                    let text = bytes.escape_ascii().to_string();
                    text.chars().take(200).collect::<String>()
                };
                first.get_or_insert_with(|| {
                    format!("{}: {}, not {}", shown(&request), shown(&got), shown(&want))
                });
            }
        }
        let mut measured = Measurement::default()
            .with("agreed", (checked - different) as f64)
            .with("checked", checked as f64)
            .with("different", different as f64);
        measured.doubts.extend(first.map(|first| format!("{different} answers differ; {first}")));
        Ok(measured)
    }
}

/// Sends commands and reads so many replies, as they are.
fn send(stream: &mut Stream, request: &[u8], replies: u64) -> io::Result<Vec<u8>> {
    stream.write_all(request)?;
    let mut bytes = Vec::new();
    (0..replies).try_for_each(|_| read_reply(stream, &mut bytes, 0))?;
    Ok(bytes)
}

fn read_reply(stream: &mut Stream, bytes: &mut Vec<u8>, depth: usize) -> io::Result<()> {
    use std::io::Read;
    let line = read_line(stream)?;
    let bad = || io::Error::other(format!("no reply: {}", line.escape_ascii()));
    let number = || std::str::from_utf8(&line[1..]).ok()?.parse::<i64>().ok();
    bytes.extend_from_slice(&line);
    bytes.extend_from_slice(b"\r\n");
    match line.first() {
        Some(b'+' | b'-' | b':') => Ok(()),
        Some(b'$') => {
            let len = number().ok_or_else(bad)?;
            if len >= 0 {
                let len =
                    usize::try_from(len).ok().filter(|len| *len <= BULK_MAX).ok_or_else(bad)?;
                let begin = bytes.len();
                bytes.resize(begin + len + 2, 0);
                stream.read_exact(&mut bytes[begin..])?;
            }
            Ok(())
        }
        Some(b'*') if depth < DEPTH_MAX => {
            let count = number().ok_or_else(bad)?;
            (0..count).try_for_each(|_| read_reply(stream, bytes, depth + 1))
        }
        _ => Err(bad()),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn all_commands_can_be_read() {
        for text in TYPES.iter().flat_map(|(_, commands)| commands.iter()) {
            assert!(Template::known(text).replies() > 0);
        }
    }

    #[test]
    fn replies_are_read_as_they_are() {
        let (left, mut right) = UnixStream::pair().unwrap();
        let replies = b"*2\r\n*1\r\n:1\r\n$3\r\na\r\n\r\n-ERR no\r\n$-1\r\n*-1\r\n";
        right.write_all(replies).unwrap();
        let mut stream = Stream::Unix(left);
        assert_eq!(send(&mut stream, b"", 4).unwrap(), replies);
        right.write_all(b"what\r\n").unwrap();
        assert!(send(&mut stream, b"", 1).unwrap_err().to_string().contains("what"));
    }
}
