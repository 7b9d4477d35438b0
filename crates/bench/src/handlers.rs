//! `handlers`: what a command costs between the bytes of a request and the bytes of its reply,
//! without sockets.

use std::sync::{Arc, Barrier};
use std::thread;
use std::time::{Duration, Instant};

use petrel_commands::{Executor, Session};
use petrel_net::{Endpoint, Output, Slot};
use petrel_resp::Resume;
use petrel_server::client::Client;
use petrel_server::config::{Config, SharedConfig};
use petrel_server::event_loop::batch::Engine;
use petrel_server::event_loop::connection::Conn;
use petrel_server::host::ServerHost;
use petrel_server::lifecycle::process::Indifferent;
use petrel_server::server::Server;
use serde::{Deserialize, Serialize};

use crate::command::{Template, Variables};
use crate::engine::parse_threads;
use crate::experiment::{
    Better, Cells, Description, FIGURE, Figure, Plot, SERVER, THROUGHPUT, View, at, grid, texts,
};
use crate::in_process::{InProcess, usual_threads};
use crate::load::{Protocol, Reply, ReplyReader};
use crate::random::Random;
use crate::result::{Measurement, Point};

/// Keys of each type; a few where tests fill them without optimisation.
const KEYS: u64 = if cfg!(test) { 100 } else { 10_000 };

/// Requests that a thread repeats, at most, and their bytes.
const REQUESTS_MAX: u64 = if cfg!(test) { 1 << 8 } else { 1 << 14 };
const REQUEST_BYTES_MAX: usize = 32 << 20;

/// Measure commands in process: bytes of a request in, bytes of its reply out, no socket.
#[derive(Clone, Debug, Deserialize, Serialize, clap::Args)]
pub struct HandlersArgs {
    /// Workloads to measure [default: all]
    #[arg(long, value_delimiter = ',', value_name = "NAME,...", value_parser = parse_name)]
    workloads: Vec<String>,

    /// Commands that come in one piece
    #[arg(long, value_delimiter = ',', value_name = "N,...", default_value = "1,16",
          value_parser = clap::value_parser!(u16).range(1..=1000))]
    pipelines: Vec<u16>,

    /// Threads, each with a connection of its own to the same keys [default: 1, and as many as
    /// there are processors]
    #[arg(long, value_delimiter = ',', value_name = "N,...", value_parser = parse_threads)]
    threads: Vec<usize>,

    /// Commands of a measurement, over all threads
    #[arg(long, default_value_t = 1_000_000, default_value_if("quick", "true", "100000"),
          value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1_000_000_000))]
    operations: u64,
}

/// What it is.
pub const DESCRIPTION: &Description = &Description {
    name: "handlers",
    title: "Commands in process",
    about: "Petrel's own loop around a command without its sockets: the bytes of a request are parsed, the command is \
            looked up, admitted, executed, and its reply written as bytes. 10 K keys of each type, drawn at random; \
            strings of 64 B, lists that are filled with all that is popped, hashes of 10 fields. 80/20: GET to SET. \
            LPUSH to N: one list from its first element to so many, one thread. Requests are made before the clock \
            runs, and all replies are looked through for errors once.",
    axes: &[("workload", "{}"), ("pipeline", "P{}"), ("threads", "{} threads")],
    figures: &[
        Figure::new("ns", "Time of a command", "ns", 1, Better::Less),
        THROUGHPUT,
        Figure::new("scaling", "Time over that on one thread", "ratio", 2, Better::Neither),
    ],
    views: &[
        View::new("", &["ns"], &["pipeline", FIGURE], &["workload"], &["threads", SERVER])
            .plot(Plot::Bars)
            .in_summary(),
        View::new("", &["throughput"], &["pipeline", FIGURE], &["workload"], &[SERVER, "threads"])
            .cells(Cells::Against("threads", "1")),
    ],
};

/// One measured command or mix.
struct Workload {
    name: &'static str,
    /// Makes what key `n` holds before: a command, what is added to it for each element, and how
    /// many elements.
    fill: Option<(&'static str, &'static str, u64)>,
    /// Commands of which one in so many is sent; `n` is a key drawn at random.
    mix: &'static [(u64, &'static str)],
    /// It takes one element of a list away: the lists are filled with so many that none is empty.
    pops: bool,
}

const STRING: &str =
    "SET string:{n:08} 0123456789012345678901234567890123456789012345678901234567890123";
const STRINGS: Option<(&str, &str, u64)> = Some((STRING, "", 0));
const LISTS: Option<(&str, &str, u64)> = Some(("RPUSH list:{n:08}", "element-{at:06}", 100));
const HASHES: Option<(&str, &str, u64)> = Some(("HSET hash:{n:08}", "field{at} {n+at}", 10));

const fn one(
    name: &'static str,
    fill: Option<(&'static str, &'static str, u64)>,
    mix: &'static [(u64, &'static str)],
) -> Workload {
    Workload { name, fill, mix, pops: false }
}

const WORKLOADS: [Workload; 17] = [
    one("SET", STRINGS, &[(1, STRING)]),
    one("GET", STRINGS, &[(1, "GET string:{n:08}")]),
    one("INCR", None, &[(1, "INCR count:{n:08}")]),
    one("INCRBY", None, &[(1, "INCRBY count:{n:08} {?1000}")]),
    one("LPUSH", None, &[(1, "LPUSH list:{n:08} element-{?1000000:06}")]),
    one("RPUSH", None, &[(1, "RPUSH list:{n:08} element-{?1000000:06}")]),
    Workload { pops: true, ..one("LPOP", LISTS, &[(1, "LPOP list:{n:08}")]) },
    Workload { pops: true, ..one("RPOP", LISTS, &[(1, "RPOP list:{n:08}")]) },
    one("LRANGE of 10", LISTS, &[(1, "LRANGE list:{n:08} {at} {at+9}")]),
    one("LINDEX", LISTS, &[(1, "LINDEX list:{n:08} {at}")]),
    one("HSET", HASHES, &[(1, "HSET hash:{n:08} field{?10} {?100000}")]),
    one("HGET", HASHES, &[(1, "HGET hash:{n:08} field{?10}")]),
    one("HGETALL", HASHES, &[(1, "HGETALL hash:{n:08}")]),
    one("HINCRBY", HASHES, &[(1, "HINCRBY hash:{n:08} field{?10} {?100}")]),
    one("80/20", STRINGS, &[(80, "GET string:{n:08}"), (20, STRING)]),
    one("SET of 10 KB", Some((LARGE, "", 0)), &[(1, LARGE)]),
    one("GET of 10 KB", Some((LARGE, "", 0)), &[(1, "GET large:{n:08}")]),
];

/// [`template`] makes the value.
const LARGE: &str = "SET large:{n:08} 10KB";

/// Lists of so many elements are made by LPUSH.
const LPUSH_TO: [(&str, u64); 5] = [
    ("LPUSH to 1 K", 1_000),
    ("LPUSH to 10 K", 10_000),
    ("LPUSH to 100 K", 100_000),
    ("LPUSH to 1 M", 1_000_000),
    ("LPUSH to 10 M", 10_000_000),
];

fn template(text: &str) -> Template {
    Template::known(&text.replace("10KB", &"v".repeat(10_000)))
}

fn workload_names() -> impl Iterator<Item = &'static str> {
    let lists = LPUSH_TO.iter().map(|(name, _)| *name);
    WORKLOADS.iter().map(|workload| workload.name).chain(lists)
}

fn parse_name(text: &str) -> Result<String, String> {
    match workload_names().find(|name| name.eq_ignore_ascii_case(text)) {
        Some(name) => Ok(name.to_owned()),
        None => Err(format!("there are {}", workload_names().collect::<Vec<_>>().join(", "))),
    }
}

impl InProcess for HandlersArgs {
    const DESCRIPTION: &'static Description = DESCRIPTION;
    const SUBJECTS: &'static [(&'static str, &'static str)] = &[("petrel", "petrel-server")];

    fn points(&self) -> Vec<Point> {
        let asked = |name: &&str| {
            self.workloads.is_empty() || self.workloads.iter().any(|asked| asked == name)
        };
        let threads = if self.threads.is_empty() { &usual_threads() } else { &self.threads };
        let names = workload_names().filter(asked).map(str::to_owned).collect();
        let mut points = grid([
            ("pipeline", texts(&self.pipelines)),
            ("workload", names),
            ("threads", texts(threads)),
        ]);
        points.retain(|point| elements(point).is_none() || point["threads"] == "1");
        points
    }

    fn measure_here(&self, _: &str, point: &Point, round: usize) -> Result<Measurement, String> {
        let (threads, pipeline) = (at(point, "threads"), at::<u64>(point, "pipeline"));
        let server = server();
        let mut first = Lane::new(&server);
        if let Some(elements) = elements(point) {
            let push = Template::known("LPUSH list element-{?1000000:06}");
            let script = Script::new(
                elements,
                pipeline,
                &mut Random::new(round as u64),
                |_, random, out| {
                    push.put(Variables::default(), random, out);
                },
            );
            return Ok(figures(elements, 1, first.time(&script, elements)?));
        }
        let same = WORKLOADS.iter().find(|workload| workload.name == point["workload"]);
        let workload = same.ok_or("no such workload")?;
        // Of what is popped there is as much as is popped, and a pass that looks for errors.
        let share = self.operations.div_ceil(threads as u64);
        workload.fill(&mut first, (share + REQUESTS_MAX) * threads as u64)?;
        let scripts: Vec<Script> = (0..threads)
            .map(|thread| workload.script(share, pipeline, (round << 10 | thread) as u64))
            .collect();
        let barrier = Barrier::new(threads);
        let times = thread::scope(|scope| {
            let work = |script| {
                let (server, barrier) = (&server, &barrier);
                scope.spawn(move || {
                    let mut lane = Lane::new(server);
                    let checked = lane.check(script);
                    barrier.wait();
                    checked.and_then(|()| lane.time(script, share))
                })
            };
            let threads: Vec<_> = scripts.iter().map(work).collect();
            let join = |thread: thread::ScopedJoinHandle<'_, _>| {
                thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            };
            threads.into_iter().map(join).collect::<Result<Vec<Duration>, String>>()
        })?;
        let slowest = times.into_iter().max().unwrap_or_default();
        Ok(figures(share * threads as u64, threads, slowest))
    }
}

/// Elements of the list that a point makes, if it is one of those.
fn elements(point: &Point) -> Option<u64> {
    LPUSH_TO.iter().find(|(name, _)| *name == point["workload"]).map(|(_, elements)| *elements)
}

fn figures(operations: u64, threads: usize, time: Duration) -> Measurement {
    let seconds = time.as_secs_f64();
    Measurement::default()
        .with("ns", seconds * 1e9 * threads as f64 / operations as f64)
        .with("throughput", operations as f64 / seconds)
}

impl Workload {
    /// Stores the keys; lists that are popped from get so many elements together.
    fn fill(&self, lane: &mut Lane, elements: u64) -> Result<(), String> {
        let Some((head, element, count)) = self.fill else { return Ok(()) };
        let (head, element) = (template(head), Template::known(element));
        // Keys are drawn at random, so some lists lose more than their share.
        let count = if self.pops { count.max(elements / KEYS * 2 + 100) } else { count };
        let mut random = Random::new(0);
        for first in (0..KEYS).step_by(100) {
            let script = Script::new(100, 1, &mut random, |number, random, out| {
                let variables = Variables { n: first + number, ..Variables::default() };
                head.put_with(&element, 0..count, variables, random, out);
            });
            lane.check(&script)?;
        }
        Ok(())
    }

    /// Requests for a thread to repeat.
    fn script(&self, operations: u64, pipeline: u64, seed: u64) -> Script {
        let mix: Vec<(u64, Template)> =
            self.mix.iter().map(|(weight, text)| (*weight, template(text))).collect();
        let weights = mix.iter().map(|(weight, _)| weight).sum();
        let count = operations.min(REQUESTS_MAX);
        Script::new(count, pipeline, &mut Random::new(seed + 1), |_, random, out| {
            let mut drawn = random.below(weights);
            let chosen = mix.iter().find(|(weight, _)| {
                let is_here = drawn < *weight;
                drawn = drawn.wrapping_sub(*weight);
                is_here
            });
            let (_, template) = chosen.unwrap_or(&mix[0]);
            let variables = Variables { n: random.below(KEYS), at: random.below(90), size: KEYS };
            template.put(variables, random, out);
        })
    }
}

/// Requests, in pieces of a pipeline.
struct Script {
    bytes: Vec<u8>,
    /// Where each piece ends, and how many commands there are up to there.
    ends: Vec<(usize, u64)>,
}

impl Script {
    /// As many requests as were asked for, or as there is room for.
    fn new(
        count: u64,
        pipeline: u64,
        random: &mut Random,
        mut make: impl FnMut(u64, &mut Random, &mut Vec<u8>),
    ) -> Script {
        let (mut bytes, mut ends, mut number) = (Vec::new(), Vec::new(), 0);
        while number < count && bytes.len() < REQUEST_BYTES_MAX {
            for _ in 0..pipeline.min(count - number) {
                make(number, random, &mut bytes);
                number += 1;
            }
            ends.push((bytes.len(), number));
        }
        Script { bytes, ends }
    }

    fn commands(&self) -> u64 {
        self.ends.last().map_or(0, |(_, commands)| *commands)
    }
}

fn server() -> Arc<Server> {
    let config = Arc::new(SharedConfig::new(Config::default(), None));
    let (registry, _) = petrel_server::commands::registry(config.renames());
    Server::new(config, registry, Box::new(Indifferent))
}

/// A connection without a socket, and the thread's engine.
struct Lane {
    engine: Engine,
    conn: Conn,
    output: Output,
}

impl Lane {
    fn new(server: &Arc<Server>) -> Lane {
        let client = Client::new(1, 0, Slot::NOWHERE, 0, -1, Endpoint::Unix, Endpoint::Unix);
        let client = Arc::new(client);
        let exec = Executor::new(server.keyspace.attach(), server.commands.clone());
        let engine = Engine::new(exec, ServerHost::new(server.clone(), client.clone()));
        let conn = Conn::new(Slot::NOWHERE, client, Session::new(true));
        Lane { engine, conn, output: Output::default() }
    }

    /// Carries out one piece of commands; its replies are in `output`.
    #[inline]
    fn piece(&mut self, bytes: &[u8]) -> Result<(), String> {
        self.output.bytes.clear();
        self.engine.exec.begin();
        let resume = Resume::default();
        let done = self.engine.run(&mut self.conn, bytes, resume, None, &mut self.output);
        self.engine.exec.end();
        match done.consumed == bytes.len() {
            true => Ok(()),
            false => Err(format!("it stopped amid a piece of commands: {:?}", done.stop)),
        }
    }

    /// Carries out a script and looks through all replies.
    fn check(&mut self, script: &Script) -> Result<(), String> {
        let (mut begin, mut replies, mut first_error) = (0, 0, None);
        for (end, _) in &script.ends {
            self.piece(&script.bytes[begin..*end])?;
            begin = *end;
            let mut reader = ReplyReader::new(Protocol::Resp);
            let read = reader.read(&self.output.bytes, |reply| {
                replies += 1;
                if let Reply::Error(text) = reply {
                    first_error.get_or_insert_with(|| String::from_utf8_lossy(text).into_owned());
                }
            });
            read.map_err(|bad| bad.0)?;
        }
        match first_error {
            Some(error) => Err(format!("an error: {error}")),
            None if replies != script.commands() => {
                Err(format!("{replies} replies to {} commands", script.commands()))
            }
            None => Ok(()),
        }
    }

    /// How long so many commands of a script, from its beginning again and again, take.
    fn time(&mut self, script: &Script, operations: u64) -> Result<Duration, String> {
        let begin = Instant::now();
        let mut done = 0;
        while done < operations {
            let (mut from, mut commands) = (0, 0);
            for (end, count) in &script.ends {
                self.piece(&script.bytes[from..*end])?;
                (from, commands) = (*end, *count);
                if done + commands >= operations {
                    break;
                }
            }
            done += commands;
        }
        Ok(begin.elapsed())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_workload_is_carried_out_without_an_error_by_one_thread_and_by_two() {
        let args = HandlersArgs {
            workloads: Vec::new(),
            pipelines: vec![1, 16],
            threads: vec![1, 2],
            operations: 300,
        };
        let mut points = InProcess::points(&args);
        assert_eq!(points.len(), 2 * (WORKLOADS.len() * 2 + LPUSH_TO.len()));
        points.retain(|point| elements(point).is_none_or(|elements| elements <= 10_000));
        for point in points.iter().step_by(3) {
            let measured = args.measure_here("petrel", point, 0);
            let measured = measured.unwrap_or_else(|why| panic!("{point:?}: {why}"));
            assert!(measured.figures["ns"] > 0.0, "{point:?}");
        }
    }

    #[test]
    fn errors_are_found() {
        let mut lane = Lane::new(&server());
        let script = |command: &str| {
            let template = Template::known(command);
            Script::new(3, 2, &mut Random::new(1), |_, random, out| {
                template.put(Variables::default(), random, out);
            })
        };
        assert_eq!(lane.check(&script("SET k text")), Ok(()));
        let error = lane.check(&script("INCR k")).unwrap_err();
        assert!(error.contains("not an integer"), "{error}");
    }
}
