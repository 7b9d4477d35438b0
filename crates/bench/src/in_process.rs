//! Measurements without sockets, within a process: libraries, and parts of Petrel.
//!
//! Each measurement has a process of this program to itself, which is started like a server and
//! waits on a Unix socket for orders. So memory and caches that one leaves behind are not charged
//! to the next, and the frame treats all alike: order, rounds, Ctrl-C, result files.

use std::io::{ErrorKind, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;

use bytes::Bytes;
use petrel_client::RawCommand;
use petrel_resp::Value;
use serde::{Deserialize, Serialize};

use crate::experiment::{Case, Description, Experiment, Lifetime, Options, points};
use crate::result::{Measured, Measurement, Point};
use crate::server::{Peer, Server, Setting, Transport};
use crate::sys::text;
use crate::wire::{Stream, Values, client};

/// Versions of all crates that this program is built of.
const LOCK_FILE: &str = include_str!("../../../Cargo.lock");

/// Experiment that measures within a process.
pub trait InProcess: Default {
    /// See [`Experiment::NAME`].
    const NAME: &'static str;
    /// Subjects: name, and the crate with its version.
    const SUBJECTS: &'static [(&'static str, &'static str)];

    /// See [`Experiment::points`].
    fn points(&self, options: &Options) -> Vec<Point> {
        points(Description::named(Self::NAME), options)
    }

    /// Measures a point once, in a process that has done nothing before.
    fn measure_here(&self, subject: &str, case: &Case<'_>) -> Measured;
}

/// Subjects that the option `libraries` names; all of them without it.
fn subjects<E: InProcess>(
    options: &Options,
) -> impl Iterator<Item = &'static (&'static str, &'static str)> {
    E::SUBJECTS.iter().filter(|(name, _)| options.wants("libraries", name))
}

impl<E: InProcess> Experiment for E {
    const NAME: &'static str = E::NAME;
    type State = ();

    fn check(&self, options: &Options) -> Result<(), String> {
        let names = || E::SUBJECTS.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ");
        subjects::<E>(options).next().map(|_| ()).ok_or_else(|| format!("there are {}", names()))
    }

    fn in_process(&self, options: &Options) -> Option<Vec<Peer>> {
        let peers = subjects::<E>(options).map(|(name, of)| Peer::in_process(name, version(of)));
        peers.collect::<Result<_, _>>().ok()
    }

    fn points(&self, options: &Options) -> Vec<Point> {
        InProcess::points(self, options)
    }

    fn lifetime(&self, _: &Options) -> Lifetime {
        Lifetime::Measurement
    }

    fn setting(&self, _: &Case<'_>, _: Setting) -> Setting {
        Setting::new(1, Transport::Unix, 1)
    }

    fn prepare(&self, _: &Case<'_>, _: &Server) -> Result<(), String> {
        Ok(())
    }

    fn measure(&self, case: &Case<'_>, server: &Server, (): &mut ()) -> Measured {
        let order = Order {
            experiment: E::NAME.to_owned(),
            options: case.options.clone(),
            subject: server.peer().name.clone(),
            point: case.point.clone(),
            round: case.round,
        };
        let order = serde_json::to_vec(&order).map_err(text)?;
        let client = client(server.endpoint()).map_err(text)?;
        let measured = client.command("MEASURE").arg(order).reply::<Bytes>().run();
        serde_json::from_slice(&measured.map_err(text)?).map_err(text)
    }
}

/// Time and rate of operations by some threads.
pub fn rate(operations: u64, threads: usize, seconds: f64) -> Measurement {
    Measurement::default()
        .with("ns", seconds * 1e9 * threads as f64 / operations as f64)
        .with("throughput", operations as f64 / seconds)
}

/// Crate with the version that this program is built with.
fn version(name: &str) -> String {
    let of = format!("name = \"{name}\"\nversion = \"");
    let found = LOCK_FILE.split_once(&of).and_then(|(_, rest)| rest.split_once('"'));
    found.map_or_else(|| name.to_owned(), |(version, _)| format!("{name} {version}"))
}

/// Order to a process: one measurement.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Order {
    /// Name of the experiment.
    pub experiment: String,
    options: Options,
    subject: String,
    point: Point,
    round: usize,
}

impl Order {
    /// Measures.
    pub fn measure<E: InProcess>(&self) -> Measured {
        let Order { options, subject, point, round, .. } = self;
        E::default().measure_here(subject, &Case { options, point, round: *round })
    }
}

/// Measures as an order says.
pub type Measure = fn(&Order) -> Measured;

/// Answers orders until the process is ended.
pub fn serve(socket: &Path, measure: Measure) -> Result<(), String> {
    let listener = UnixListener::bind(socket).map_err(text)?;
    for stream in listener.incoming() {
        let stream = stream.map_err(text);
        // The caller is gone, or has sent something that is no order.
        if let Err(error) = stream.and_then(|stream| answer(stream, measure)) {
            eprintln!("{error}");
        }
    }
    Ok(())
}

/// Answers the orders of one connection: `PING`, and `MEASURE` with an order in JSON.
fn answer(stream: UnixStream, by: Measure) -> Result<(), String> {
    let mut orders = Values::new(Stream::Unix(stream));
    loop {
        let received = match orders.receive() {
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(()),
            received => received.map_err(|error| format!("no command: {error}"))?,
        };
        for command in received {
            let reply = match words(&command).as_slice() {
                [b"PING"] => "+PONG\r\n".to_owned(),
                [b"MEASURE", order] => match measure(order, by) {
                    Ok(measured) => format!("${}\r\n{measured}\r\n", measured.len()),
                    Err(why) => format!("-ERR {}\r\n", why.replace(['\r', '\n'], " ")),
                },
                _ => "-ERR unknown command\r\n".to_owned(),
            };
            orders.stream.write_all(reply.as_bytes()).map_err(text)?;
        }
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

fn measure(order: &[u8], by: Measure) -> Result<String, String> {
    let order: Order = serde_json::from_slice(order).map_err(text)?;
    serde_json::to_string(&by(&order)?).map_err(text)
}

#[cfg(test)]
mod tests {
    use std::io::Read;

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
        let thread = std::thread::spawn(move || {
            answer(server, |order| Err(format!("{} is not measured here", order.experiment)))
        });
        client.write_all(b"*1\r\n$4\r\nPING\r\n*2\r\n$7\r\nMEASURE\r\n$1\r\n{\r\n").unwrap();
        let order = r#"{"experiment":"x","options":{},"subject":"","point":{},"round":0}"#;
        let order = format!("*2\r\n$7\r\nMEASURE\r\n${}\r\n{order}\r\n", order.len());
        client.write_all(order.as_bytes()).unwrap();
        client.shutdown(std::net::Shutdown::Write).unwrap();
        let mut replies = String::new();
        client.read_to_string(&mut replies).unwrap();
        let lines: Vec<&str> = replies.lines().collect();
        assert_eq!((lines[0], lines.len()), ("+PONG", 3), "{replies}");
        assert!(lines[1].starts_with("-ERR EOF") && lines[2].contains("x is not measured here"));
        assert_eq!(thread.join().unwrap(), Ok(()));
    }
}
