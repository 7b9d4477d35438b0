//! `handlers`: cost of a command from the bytes of a request to the bytes of its reply, without
//! sockets.

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

use crate::command::Variables;
use crate::experiment::{Case, Description, Options, points};
use crate::in_process::{InProcess, rate};
use crate::random::Random;
use crate::result::{Measured, Point};
use crate::sys;
use crate::text::Entry;
use crate::wire::{Protocol, Reply, ReplyReader};
use crate::work::{Filling, Mix};

/// Keys of each type; a few where tests fill them without optimisation.
const KEYS: u64 = if cfg!(test) { 100 } else { 10_000 };

/// Requests that a thread repeats, at most, and their bytes.
const REQUESTS_MAX: u64 = if cfg!(test) { 1 << 8 } else { 1 << 14 };
const REQUEST_BYTES_MAX: usize = 32 << 20;

/// `handlers`: commands in process.
#[derive(Default)]
pub struct Handlers;

fn work(point: &Point) -> &'static Entry {
    Description::named(Handlers::NAME).work(&point["workload"])
}

/// Elements of the list that a point makes, if it is one of those.
fn elements(point: &Point) -> Option<u64> {
    work(point).number("list")
}

impl InProcess for Handlers {
    const NAME: &'static str = "handlers";
    const SUBJECTS: &'static [(&'static str, &'static str)] = &[("petrel", "petrel-server")];

    /// Grid in which lists are made by one thread only.
    fn points(&self, options: &Options) -> Vec<Point> {
        let mut points = points(Description::named(Self::NAME), options);
        points.retain(|point| elements(point).is_none() || point["threads"] == "1");
        points
    }

    fn measure_here(&self, _: &str, case: &Case<'_>) -> Measured {
        let (threads, pipeline) = (case.at::<usize>("threads"), case.at::<u64>("pipeline"));
        let server = server();
        let mut first = Lane::new(&server);
        let work = work(case.point);
        let mix = Mix::of(work);
        if let Some(elements) = elements(case.point) {
            let script = Script::of(&mix, elements, pipeline, case.round as u64);
            return Ok(rate(elements, 1, first.time(&script, elements)?.as_secs_f64()));
        }
        // Lists hold as much as is popped, in a pass that looks for errors, too.
        let share = case.get::<u64>("operations").div_ceil(threads as u64);
        fill(work, &mut first, (share + REQUESTS_MAX) * threads as u64)?;
        let seed = |thread: usize| ((case.round << 10 | thread) + 1) as u64;
        let scripts: Vec<Script> = (0..threads)
            .map(|thread| Script::of(&mix, share.min(REQUESTS_MAX), pipeline, seed(thread)))
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
            threads.into_iter().map(sys::joined).collect::<Result<Vec<Duration>, String>>()
        })?;
        let slowest = times.into_iter().max().unwrap_or_default();
        Ok(rate(share * threads as u64, threads, slowest.as_secs_f64()))
    }
}

/// Stores the keys of a work; lists that are popped hold at least `elements` elements together.
fn fill(work: &Entry, lane: &mut Lane, elements: u64) -> Result<(), String> {
    let Some(filling) = Filling::of(work) else { return Ok(()) };
    let each = work.number("elements").unwrap_or(1);
    // Keys are drawn at random, so some lists lose more than their share.
    let is_popped = work.get("pops").is_some();
    let each = if is_popped { each.max(elements / KEYS * 2 + 100) } else { each };
    for first in (0..KEYS).step_by(100) {
        let script = Script::new(100, 1, &mut Random::new(first), |number, random, out| {
            filling.put((first + number) * each, each, each, KEYS * each, random, out);
        });
        lane.check(&script)?;
    }
    Ok(())
}

/// Requests, in pieces of a pipeline.
struct Script {
    bytes: Vec<u8>,
    /// End of each piece, and the number of commands up to there.
    ends: Vec<(usize, u64)>,
}

impl Script {
    /// Draws requests of a mix.
    fn of(mix: &Mix, count: u64, pipeline: u64, seed: u64) -> Script {
        Script::new(count, pipeline, &mut Random::new(seed), |_, random, out| {
            let variables = Variables { n: random.below(KEYS), at: random.below(90), size: KEYS };
            mix.put(variables, random, out);
        })
    }

    /// Makes `count` requests, fewer if they exceed [`REQUEST_BYTES_MAX`].
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

    /// Executes one piece of commands; its replies are in `output`.
    #[inline]
    fn piece(&mut self, bytes: &[u8]) -> Result<(), String> {
        self.output.bytes.clear();
        self.engine.exec.begin();
        let resume = Resume::default();
        let done = self.engine.run(&mut self.conn, bytes, resume, None, &mut self.output);
        self.engine.exec.end();
        match done.consumed == bytes.len() {
            true => Ok(()),
            false => Err(format!("it stopped within a piece of commands: {:?}", done.stop)),
        }
    }

    /// Executes a script and checks all replies.
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

    /// Time of a number of commands of a script, which is repeated from its beginning.
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
    use crate::command::Template;
    use crate::experiment::texts;

    #[test]
    fn every_workload_is_carried_out_without_an_error_by_one_thread_and_by_two() {
        let options = Options::new([
            ("pipelines", texts(&[1, 16])),
            ("threads", texts(&[1, 2])),
            ("operations", texts(&[300])),
        ]);
        let mut points = InProcess::points(&Handlers, &options);
        assert_eq!(points.len(), 2 * (17 * 2 + 5));
        points.retain(|point| elements(point).is_none_or(|elements| elements <= 10_000));
        for point in points.iter().step_by(3) {
            let case = Case { options: &options, point, round: 0 };
            let measured = Handlers.measure_here("petrel", &case);
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
