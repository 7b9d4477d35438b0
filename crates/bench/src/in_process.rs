//! What has no sockets is measured inside of a process: libraries, and parts of Petrel.
//!
//! Each measurement has a process of this program to itself, which is started like a server and
//! waits on a Unix socket for orders. So what one leaves in memory or in caches is not charged to
//! the next, and the frame treats all alike: order, rounds, Ctrl-C, result files.

use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::time::Instant;

use bytes::Bytes;
use petrel_client::RawCommand;
use petrel_resp::{DecodeLimits, Value, decode};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::exchange::client;
use crate::experiment::{Description, Experiment, Lifetime, RunArgs};
use crate::result::{Measurement, Point};
use crate::server::{Peer, Server, Setting, Transport};
use crate::{effects, engine, handlers};

/// The subcommand of such a process.
pub const NAME: &str = "in-process";

/// The versions of all crates that this program is built of.
const LOCK_FILE: &str = include_str!("../../../Cargo.lock");

/// An experiment that measures inside of a process.
pub trait InProcess: DeserializeOwned + Serialize {
    /// What it is.
    const DESCRIPTION: &'static Description;
    /// See [`Experiment::ROUNDS`].
    const ROUNDS: (usize, usize) = (3, 1);
    /// What is measured: name, and the crate that it is of.
    const SUBJECTS: &'static [(&'static str, &'static str)];

    /// Whether a subject was asked for.
    fn wants(&self, _subject: &str) -> bool {
        true
    }

    /// See [`Experiment::points`].
    fn points(&self) -> Vec<Point>;

    /// Measures a point once, in a process that has done nothing before.
    fn measure_here(
        &self,
        subject: &str,
        point: &Point,
        round: usize,
    ) -> Result<Measurement, String>;
}

impl<E: InProcess> Experiment for E {
    const DESCRIPTION: &'static Description = E::DESCRIPTION;
    const ROUNDS: (usize, usize) = E::ROUNDS;
    type Session = Server;

    fn check(&self) -> Result<(), String> {
        match E::SUBJECTS.iter().any(|(name, _)| self.wants(name)) {
            true => Ok(()),
            false => Err(format!("there are {}", names(E::SUBJECTS).join(", "))),
        }
    }

    fn in_process(&self) -> Option<Vec<Peer>> {
        let wanted = E::SUBJECTS.iter().filter(|(name, _)| self.wants(name));
        let peers = wanted.map(|(name, of)| Peer::in_process(name, version(of)));
        peers.collect::<Result<_, _>>().ok()
    }

    fn points(&self) -> Vec<Point> {
        InProcess::points(self)
    }

    fn lifetime(&self) -> Lifetime {
        Lifetime::Measurement
    }

    fn setting(&self, _: &RunArgs, _: &Point) -> Setting {
        Setting::new(1, Transport::Unix, 1)
    }

    fn prepare(&self, server: Server, _: &Point) -> Result<Server, String> {
        Ok(server)
    }

    fn measure(
        &self,
        server: &mut Server,
        point: &Point,
        round: usize,
    ) -> Result<Measurement, String> {
        let failed = |error: &dyn std::fmt::Display| error.to_string();
        let order = Order {
            experiment: E::DESCRIPTION.name.to_owned(),
            settings: serde_json::to_value(self).map_err(|error| failed(&error))?,
            subject: server.peer().name.clone(),
            point: point.clone(),
            round,
        };
        let order = serde_json::to_vec(&order).map_err(|error| failed(&error))?;
        let client = client(server.endpoint()).map_err(|error| failed(&error))?;
        let measured = client.command("MEASURE").arg(order).reply::<Bytes>().run();
        let answer = measured.map_err(|error| failed(&error))?;
        serde_json::from_slice(&answer).map_err(|error| failed(&error))
    }
}

/// The names of subjects.
pub fn names(subjects: &[(&str, &str)]) -> Vec<String> {
    subjects.iter().map(|(name, _)| (*name).to_owned()).collect()
}

/// One thread, and all: the numbers of threads that are measured unless told otherwise.
pub fn usual_threads() -> Vec<usize> {
    let mut threads = vec![1, std::thread::available_parallelism().map_or(1, usize::from)];
    threads.dedup();
    threads
}

/// Figures of so many operations by so many threads since a moment.
pub fn rate(operations: u64, threads: usize, since: Instant) -> Measurement {
    let seconds = since.elapsed().as_secs_f64();
    Measurement::default()
        .with("ns", seconds * 1e9 * threads as f64 / operations as f64)
        .with("throughput", operations as f64 / seconds)
}

/// A crate with the version that this program is built with.
fn version(name: &str) -> String {
    let of = format!("name = \"{name}\"\nversion = \"");
    let found = LOCK_FILE.split_once(&of).and_then(|(_, rest)| rest.split_once('"'));
    found.map_or_else(|| name.to_owned(), |(version, _)| format!("{name} {version}"))
}

/// What a process is to measure.
#[derive(Clone, Debug, Deserialize, Serialize)]
struct Order {
    experiment: String,
    settings: serde_json::Value,
    subject: String,
    point: Point,
    round: usize,
}

impl Order {
    fn carry_out(self) -> Result<Measurement, String> {
        match self.experiment.as_str() {
            "engine" => self.measure::<engine::EngineArgs>(),
            "handlers" => self.measure::<handlers::HandlersArgs>(),
            "effects" => self.measure::<effects::EffectsArgs>(),
            other => Err(format!("{other} is not measured within a process")),
        }
    }

    fn measure<E: InProcess>(self) -> Result<Measurement, String> {
        let settings: E =
            serde_json::from_value(self.settings).map_err(|error| error.to_string())?;
        settings.measure_here(&self.subject, &self.point, self.round)
    }
}

/// Answers orders until the process is ended.
pub fn serve(socket: &Path) -> Result<(), String> {
    let listener = UnixListener::bind(socket).map_err(|error| error.to_string())?;
    for stream in listener.incoming() {
        // The caller has gone away, or has sent what is none of its orders.
        if let Err(error) = stream.map_err(|error| error.to_string()).and_then(answer) {
            eprintln!("{error}");
        }
    }
    Ok(())
}

/// Answers the orders of one connection: `PING`, and `MEASURE` with an order in JSON.
fn answer(mut stream: UnixStream) -> Result<(), String> {
    let (mut bytes, mut piece) = (Vec::new(), [0; 4096]);
    loop {
        let command = decode(&bytes, &DecodeLimits::default());
        let command = command.map_err(|error| format!("no command: {error:?}"))?;
        let Some((command, end)) = command else {
            match stream.read(&mut piece).map_err(|error| error.to_string())? {
                0 => return Ok(()),
                count => bytes.extend_from_slice(&piece[..count]),
            }
            continue;
        };
        bytes.drain(..end);
        let reply = match words(&command).as_slice() {
            [b"PING"] => "+PONG\r\n".to_owned(),
            [b"MEASURE", order] => match measure(order) {
                Ok(measured) => format!("${}\r\n{measured}\r\n", measured.len()),
                Err(why) => format!("-ERR {}\r\n", why.replace(['\r', '\n'], " ")),
            },
            _ => "-ERR unknown command\r\n".to_owned(),
        };
        stream.write_all(reply.as_bytes()).map_err(|error| error.to_string())?;
    }
}

fn words(command: &Value) -> Vec<&[u8]> {
    let Value::Array(words) = command else { return Vec::new() };
    let bytes = words.iter().filter_map(|word| match word {
        Value::Bulk(bytes) => Some(&bytes[..]),
        _ => None,
    });
    bytes.collect()
}

fn measure(order: &[u8]) -> Result<String, String> {
    let order: Order = serde_json::from_slice(order).map_err(|error| error.to_string())?;
    let measured = order.carry_out()?;
    serde_json::to_string(&measured).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subjects_have_the_versions_of_the_lock_file() {
        let version = version("moka");
        let number = version.strip_prefix("moka ").unwrap();
        assert!(number.starts_with(|first: char| first.is_ascii_digit()), "{version}");
        assert_eq!(super::version("std"), "std");
    }

    #[test]
    fn orders_are_answered_and_what_is_none_is_refused() {
        let (mut client, server) = UnixStream::pair().unwrap();
        let thread = std::thread::spawn(move || answer(server));
        client.write_all(b"*1\r\n$4\r\nPING\r\n*2\r\n$7\r\nMEASURE\r\n$1\r\n{\r\n").unwrap();
        let order = r#"{"experiment":"x","settings":null,"subject":"","point":{},"round":0}"#;
        let order = format!("*2\r\n$7\r\nMEASURE\r\n${}\r\n{order}\r\n", order.len());
        client.write_all(order.as_bytes()).unwrap();
        client.shutdown(std::net::Shutdown::Write).unwrap();
        let mut replies = String::new();
        client.read_to_string(&mut replies).unwrap();
        let lines: Vec<&str> = replies.lines().collect();
        assert_eq!((lines[0], lines.len()), ("+PONG", 3), "{replies}");
        assert!(lines[1].starts_with("-ERR EOF") && lines[2].contains("x is not measured"));
        assert_eq!(thread.join().unwrap(), Ok(()));
    }
}
