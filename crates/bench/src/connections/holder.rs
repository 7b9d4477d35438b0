//! A process that holds connections for the benchmark: one process cannot hold as many as a server
//! with rings of its own can. Parent and holder exchange one JSON line each per step.

use std::env;
use std::io::{self, BufRead, BufReader, Write};
use std::net::Ipv4Addr;
use std::process::{ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::load::{self, Extent, Plan};
use crate::sys::{self, Guarded};
use crate::wire::{Stream, read_line};

/// Name of the hidden subcommand.
pub const HOLDER: &str = "hold-connections";

/// TCP connections that leave from one loopback address; the usual range has 28,000 ports.
const PER_ADDRESS: usize = 20_000;

/// Longest time until a new connection answers its PING.
const ANSWER_MAX: Duration = Duration::from_secs(5);

/// Order to a holder.
#[derive(Debug, Deserialize, Serialize)]
enum Order {
    /// Open `count` more connections and send a PING over each; `first` is the number of the first
    /// among those of all holders.
    Open { count: usize, first: usize },
    /// Load the first `active` connections, with a number of requests if one is given.
    Run { active: usize, operations: Option<u64>, seed: u64 },
}

/// Answer of a holder.
#[derive(Debug, Deserialize, Serialize)]
enum Answer {
    Opened { count: usize, error: Option<String> },
    Ran(Box<Part>),
}

/// Measurement of one holder.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub struct Part {
    /// Replies.
    pub operations: u64,
    /// Seconds measured.
    pub seconds: f64,
    /// Latencies: nanoseconds and counts.
    pub latency: Vec<(u64, u64)>,
    /// CPU time of the holder, nanoseconds.
    pub client_cpu_ns: u64,
    /// CPU time of the server, nanoseconds.
    pub server_cpu_ns: u64,
    /// By Little's law; 1.0 is right.
    pub little: Option<f64>,
    /// Slowest over fastest connection.
    pub slowest_to_fastest: f64,
    /// Errors, misses and values of a wrong length.
    pub bad_replies: u64,
}

/// A holder process, seen from the parent; killed when dropped.
#[derive(Debug)]
pub struct Holder {
    _child: Guarded,
    orders: ChildStdin,
    answers: BufReader<ChildStdout>,
    /// Connections open.
    pub open: usize,
}

impl Holder {
    /// Starts a holder without connections.
    pub fn start(plan: &Plan) -> Result<Holder, String> {
        let failed = |error: io::Error| format!("cannot start a client process: {error}");
        let program = env::current_exe().map_err(failed)?;
        let mut command = Command::new(program);
        command.arg(HOLDER).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = sys::die_with_parent(&mut command).spawn().map_err(failed)?;
        let (Some(orders), Some(answers)) = (child.stdin.take(), child.stdout.take()) else {
            return Err("a client process has no pipes".to_owned());
        };
        let mut holder =
            Holder { _child: Guarded(child), orders, answers: BufReader::new(answers), open: 0 };
        holder.send(plan)?;
        Ok(holder)
    }

    /// Opens connections. Returns the reason if it stopped early.
    pub fn open(&mut self, count: usize, first: usize) -> Result<Option<String>, String> {
        self.send(&Order::Open { count, first })?;
        match self.receive()? {
            Answer::Opened { count, error } => {
                self.open += count;
                Ok(error)
            }
            other => Err(format!("a client process gave an unexpected answer: {other:?}")),
        }
    }

    /// Begins a load; [`Holder::finish`] waits for its end.
    pub fn begin(
        &mut self,
        active: usize,
        operations: Option<u64>,
        seed: u64,
    ) -> Result<(), String> {
        self.send(&Order::Run { active, operations, seed })
    }

    /// Waits for the measurement of the load.
    pub fn finish(&mut self) -> Result<Part, String> {
        match self.receive()? {
            Answer::Ran(part) => Ok(*part),
            other => Err(format!("a client process gave an unexpected answer: {other:?}")),
        }
    }

    fn send(&mut self, message: &impl Serialize) -> Result<(), String> {
        let mut line = serde_json::to_string(message).map_err(|error| error.to_string())?;
        line.push('\n');
        let sent = self.orders.write_all(line.as_bytes());
        sent.map_err(|error| format!("a client process is gone: {error}"))
    }

    fn receive(&mut self) -> Result<Answer, String> {
        let mut line = String::new();
        match self.answers.read_line(&mut line) {
            Ok(count) if count > 0 => {
                serde_json::from_str::<Result<Answer, String>>(&line).map_err(|e| e.to_string())?
            }
            Ok(_) => Err("a client process ended".to_owned()),
            Err(error) => Err(format!("a client process is gone: {error}")),
        }
    }
}

/// The holder's own side: carries out orders until its input ends.
pub fn hold() -> Result<(), String> {
    let mut lines = io::stdin().lock().lines();
    let mut next = || lines.next().transpose().map_err(|error| error.to_string());
    let Some(line) = next()? else { return Ok(()) };
    let plan: Plan = serde_json::from_str(&line).map_err(|error| error.to_string())?;
    let mut streams = Vec::new();
    while let Some(line) = next()? {
        let order: Order = serde_json::from_str(&line).map_err(|error| error.to_string())?;
        let answer: Result<Answer, String> = match order {
            Order::Open { count, first } => Ok(open(&plan, &mut streams, count, first)),
            Order::Run { active, operations, seed } => {
                let extent = operations.map_or(plan.extent, Extent::Operations);
                let plan = Plan { extent, seed, ..plan.clone() };
                load(&plan, &mut streams, active)
            }
        };
        let mut line = serde_json::to_string(&answer).map_err(|error| error.to_string())?;
        line.push('\n');
        io::stdout().write_all(line.as_bytes()).map_err(|error| error.to_string())?;
    }
    Ok(())
}

fn open(plan: &Plan, streams: &mut Vec<Stream>, count: usize, first: usize) -> Answer {
    for number in 0..count {
        match open_one(plan, first + number) {
            Ok(stream) => streams.push(stream),
            Err(error) => {
                return Answer::Opened { count: number, error: Some(error.to_string()) };
            }
        }
    }
    Answer::Opened { count, error: None }
}

fn open_one(plan: &Plan, number: usize) -> io::Result<Stream> {
    let source = 2 + number / PER_ADDRESS;
    let source = Ipv4Addr::new(127, 0, (source >> 8) as u8, source as u8);
    let mut stream = plan.endpoint.connect(Some(source))?;
    stream.set_read_timeout(ANSWER_MAX)?;
    let (request, reply) = plan.protocol.ping();
    stream.write_all(request)?;
    let line = read_line(&mut stream)?;
    match line.starts_with(reply) {
        true => Ok(stream),
        false => Err(io::Error::other(String::from_utf8_lossy(&line).into_owned())),
    }
}

fn load(plan: &Plan, streams: &mut Vec<Stream>, active: usize) -> Result<Answer, String> {
    let idle = streams.split_off(active.min(streams.len()));
    let plan = Plan { connections: streams.len(), ..plan.clone() };
    let ran = load::run_over(&plan, std::mem::take(streams));
    let (outcome, back) = ran.map_err(|error| error.0)?;
    streams.extend(back.into_iter().chain(idle));
    let recorded = outcome.latency.iter_recorded();
    let replies = &outcome.replies;
    let strange = if plan.check_lengths { replies.misses + replies.wrong_lengths } else { 0 };
    Ok(Answer::Ran(Box::new(Part {
        operations: outcome.operations,
        seconds: outcome.elapsed.as_secs_f64(),
        latency: recorded.map(|step| (step.value_iterated_to(), step.count_at_value())).collect(),
        client_cpu_ns: outcome.client_cpu_ns,
        server_cpu_ns: outcome.server_cpu_ns.unwrap_or(0),
        little: outcome.little,
        slowest_to_fastest: outcome.slowest_to_fastest,
        bad_replies: replies.errors + strange,
    })))
}
