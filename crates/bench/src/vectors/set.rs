//! A vector set of a server, over its socket.

use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use petrel_resp::{Value, encode_command};

use crate::server::Server;
use crate::sys::joined;
use crate::wire::{Values, broken, connect};

use super::data::{Data, NEAREST, Share, attribute};
use super::engine::{Answers, Beside, Engine, Form, Loaded};
use super::{BUILD, LINKS};

/// Commands in flight on a connection.
const INSERTS: usize = 16;
const QUERIES: usize = 8;

const KEY: &[u8] = b"vectors";

/// Nodes that a search with a filter may visit for each neighbour that it keeps: one in a hundred
/// may pass.
const LOOKS_PER_KEPT: u32 = 100;

/// Longest wait until memory rests.
const REST: Duration = Duration::from_secs(5);

/// The set at one key.
pub struct VectorSet {
    connections: Vec<Connection>,
    form: &'static [u8],
    has_attributes: bool,
    inserted: usize,
}

impl VectorSet {
    /// Connects to a server; its set will have this form.
    pub fn new(server: &Server, form: Form, threads: usize) -> Result<VectorSet, String> {
        let connect = |_| connect(server.endpoint()).map(|stream| Connection(Values::new(stream)));
        let connections =
            (0..threads.max(2)).map(connect).collect::<Result<_, _>>().map_err(broken)?;
        let form: &[u8] = match form {
            Form::Floats => b"NOQUANT",
            Form::Int8 => b"Q8",
            Form::Coded => b"RABITQ",
        };
        Ok(VectorSet { connections, form, has_attributes: false, inserted: 0 })
    }

    /// Executes `count` commands, a share on each connection and some at a time; returns the
    /// replies in the order of the commands.
    fn all<T: Send>(
        &mut self,
        count: usize,
        at_once: usize,
        put: impl Fn(usize, &mut Vec<u8>) + Sync,
        reply: impl Fn(Value) -> Result<T, String> + Sync,
    ) -> Result<Vec<T>, String> {
        let part = count.div_ceil(self.connections.len()).max(1);
        let (put, reply) = (&put, &reply);
        let carry_out = |connection: &mut Connection, begin: usize| {
            let (end, mut replies) = ((begin + part).min(count), Vec::new());
            for begin in (begin..end).step_by(at_once) {
                let commands = begin..(begin + at_once).min(end);
                let values = connection.exchange(commands, |number, out| put(number, out))?;
                for value in values {
                    replies.push(reply(value)?);
                }
            }
            Ok::<_, String>(replies)
        };
        thread::scope(|scope| {
            let begins = self.connections.iter_mut().zip((0..count).step_by(part));
            let threads: Vec<_> = begins
                .map(|(connection, begin)| scope.spawn(move || carry_out(connection, begin)))
                .collect();
            let mut all = Vec::with_capacity(count);
            for thread in threads {
                all.extend(joined(thread)?);
            }
            Ok(all)
        })
    }

    fn put_vadd(form: &[u8], number: usize, vector: &[u8], out: &mut Vec<u8>) {
        let (name, links, build) = (name(number), LINKS.to_string(), BUILD.to_string());
        let name = name.as_bytes();
        let head: [&[u8]; 7] = [b"VADD", KEY, b"FP32", vector, name, b"CAS", form];
        let tail: [&[u8]; 4] = [b"EF", build.as_bytes(), b"M", links.as_bytes()];
        encode_command(&[&head[..], &tail[..]].concat(), out);
    }

    /// Gives every element its attribute.
    fn set_attributes(&mut self, data: &Data) -> Result<(), String> {
        let put = |number: usize, out: &mut Vec<u8>| {
            let (name, attributes) = (name(number), format!("{{\"n\":{}}}", attribute(number)));
            encode_command(&[b"VSETATTR", KEY, name.as_bytes(), attributes.as_bytes()], out);
        };
        self.all(data.shape.count, INSERTS, put, expect_one)?;
        self.has_attributes = true;
        Ok(())
    }
}

impl Engine for VectorSet {
    fn load(&mut self, server: &Server, data: &Data) -> Result<Loaded, String> {
        let (empty, form) = (server.rss_at_rest(REST)?.0, self.form);
        let (begin, cpu) = (Instant::now(), server.cpu_ns()?);
        let put = |number: usize, out: &mut Vec<u8>| {
            Self::put_vadd(form, number, data.row(number), out);
        };
        self.all(data.shape.count, INSERTS, put, expect_one)?;
        let (seconds, cpu) = (begin.elapsed().as_secs_f64(), server.cpu_ns()? - cpu);
        server.wait_for_rest()?;
        let bytes = server.rss_at_rest(REST)?.0.saturating_sub(empty);
        let connection = &mut self.connections[0];
        let counted = connection.exchange(0..1, |_, out| {
            encode_command(&[b"MEMORY", b"USAGE", KEY], out);
        })?;
        let counted = match counted.first() {
            Some(Value::Integer(bytes)) => Some(*bytes as f64),
            _ => None,
        };
        Ok(Loaded { seconds, cpu: cpu as f64 / 1e9, bytes: Some(bytes as f64), counted })
    }

    fn search(
        &mut self,
        server: &Server,
        data: &Data,
        share: Share,
        effort: u32,
    ) -> Result<Answers, String> {
        if share != Share::ALL && !self.has_attributes {
            self.set_attributes(data)?;
        }
        let (begin, cpu) = (Instant::now(), server.cpu_ns()?);
        let put = |query: usize, out: &mut Vec<u8>| put_vsim(data.query(query), share, effort, out);
        let found = self.all(data.shape.queries, QUERIES, put, numbers)?;
        let (seconds, cpu) = (begin.elapsed().as_secs_f64(), server.cpu_ns()? - cpu);
        Ok(Answers { seconds, cpu: cpu as f64 / 1e9, found })
    }

    fn insert(&mut self, data: &Data, effort: u32, seconds: f64) -> Result<Beside, String> {
        let (until, form) = (Duration::from_secs_f64(seconds), self.form);
        let (begin, first, is_over) = (Instant::now(), self.inserted, AtomicBool::new(false));
        let [inserting, querying, ..] = &mut self.connections[..] else {
            return Err("it takes two connections".to_owned());
        };
        let query = || {
            let mut done = 0;
            while !is_over.load(Relaxed) {
                let values = querying.exchange(0..QUERIES, |at, out| {
                    let query = (done + at) % data.shape.queries;
                    put_vsim(data.query(query), Share::ALL, effort, out);
                })?;
                done += values.into_iter().map(numbers).collect::<Result<Vec<_>, _>>()?.len();
            }
            Ok::<usize, String>(done)
        };
        let (inserted, took, queries) = thread::scope(|scope| {
            let queries = scope.spawn(query);
            let mut inserted = 0;
            let mut insert = || {
                while begin.elapsed() < until && first + inserted < data.shape.spare {
                    let end = (inserted + INSERTS).min(data.shape.spare - first);
                    let values = inserting.exchange(inserted..end, |at, out| {
                        let number = first + at;
                        let name = data.shape.count + number;
                        Self::put_vadd(form, name, data.spare(number), out);
                    })?;
                    values.into_iter().try_for_each(expect_one)?;
                    inserted = end;
                }
                Ok::<(), String>(())
            };
            let done = insert();
            let took = begin.elapsed();
            thread::sleep(until.saturating_sub(took));
            is_over.store(true, Relaxed);
            let queries = joined(queries)?;
            done.map(|()| (inserted, took, queries))
        })?;
        self.inserted += inserted;
        Ok(Beside {
            inserts: inserted as u64,
            seconds: took.as_secs_f64(),
            queries: queries as u64,
            whole: begin.elapsed().as_secs_f64(),
        })
    }
}

fn name(number: usize) -> String {
    format!("e{number}")
}

fn put_vsim(query: &[u8], share: Share, effort: u32, out: &mut Vec<u8>) {
    let (count, ef) = (NEAREST.to_string(), effort.to_string());
    let (filter, looks) =
        (format!(".n < {}", share.0), effort.saturating_mul(LOOKS_PER_KEPT).to_string());
    let (count, ef) = (count.as_bytes(), ef.as_bytes());
    let mut words: Vec<&[u8]> = vec![b"VSIM", KEY, b"FP32", query, b"COUNT", count, b"EF", ef];
    if share != Share::ALL {
        words.extend([&b"FILTER"[..], filter.as_bytes(), b"FILTER-EF", looks.as_bytes()]);
    }
    encode_command(&words, out);
}

/// The numbers of the elements in a reply.
fn numbers(reply: Value) -> Result<Vec<i64>, String> {
    let Value::Array(names) = &reply else { return Err(unexpected(&reply)) };
    let number = |name: &Value| {
        let text = std::str::from_utf8(name.as_bytes()?).ok()?;
        text.strip_prefix('e')?.parse().ok()
    };
    let numbers: Option<Vec<i64>> = names.iter().map(number).collect();
    numbers.ok_or_else(|| unexpected(&reply))
}

fn expect_one(reply: Value) -> Result<(), String> {
    if reply == Value::Integer(1) { Ok(()) } else { Err(unexpected(&reply)) }
}

fn unexpected(reply: &Value) -> String {
    match reply.as_bytes() {
        Some(text) => text.escape_ascii().to_string(),
        None => format!("replied {reply:?}"),
    }
}

/// A connection that waits for all replies to its commands.
struct Connection(Values);

impl Connection {
    fn exchange(
        &mut self,
        commands: std::ops::Range<usize>,
        mut put: impl FnMut(usize, &mut Vec<u8>),
    ) -> Result<Vec<Value>, String> {
        let (mut out, mut values) = (Vec::new(), Vec::with_capacity(commands.len()));
        let count = commands.len();
        commands.for_each(|number| put(number, &mut out));
        self.0.stream.write_all(&out).map_err(broken)?;
        while values.len() < count {
            values.extend(self.0.receive().map_err(broken)?);
        }
        Ok(values)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_are_read_and_what_is_none_is_told() {
        let bulk = |text: &'static str| Value::Bulk(text.into());
        assert_eq!(numbers(Value::Array(vec![bulk("e7"), bulk("e0")])), Ok(vec![7, 0]));
        assert!(numbers(Value::Array(vec![bulk("x7")])).is_err());
        let refused = expect_one(Value::Error("ERR unknown command".into())).unwrap_err();
        assert_eq!(refused, "ERR unknown command");
        let mut out = Vec::new();
        put_vsim(b"q", Share(10), 20, &mut out);
        let text = String::from_utf8(out).unwrap();
        assert!(text.starts_with("*12\r\n$4\r\nVSIM") && text.contains(".n < 10"), "{text}");
        assert!(text.ends_with("$4\r\n2000\r\n"), "{text}");
    }
}
