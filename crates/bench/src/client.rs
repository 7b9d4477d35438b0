//! `client`: what one command costs a program, by the client library that it uses; and what one
//! that needs no server.

mod driver;
mod foreign;
mod libraries;
mod measure;

use std::env;
use std::process::{Command, Stdio};

use petrel_client::{Commands, FromReply, Pipeline, Value, blocking};
use serde::Serialize;

use crate::experiment::{
    Better, Cells, Description, Experiment, FIGURE, Figure, Plot, RunArgs, SERVER, Session, View,
    at, grid, texts,
};
use crate::load::Endpoint;
use crate::result::{Measurement, Point};
use crate::server::{Server, Setting};
use crate::sys;

use foreign::{Foreign, GO, PYTHON, RUST};
use measure::{Answer, Operation, Order, key_name};

pub use driver::{DRIVER, drive};

/// Commands in one piece while keys are stored.
const PIECE: usize = 1000;

/// Connections of a client at most: go-redis opens ten for each processor.
const CONNECTIONS: usize = 4096;

/// The client that the others are compared with.
const REFERENCE: &str = "rueidis";

/// The libraries: name, and what drives it if this program does not.
static LIBRARIES: [(&str, Option<&Foreign>); 12] = [
    ("petrel", None),
    (LENT, None),
    ("petrel-threads", None),
    ("redis-rs", Some(&RUST)),
    ("fred", Some(&RUST)),
    (REFERENCE, Some(&GO)),
    ("go-redis-8", Some(&GO)),
    ("go-redis-9", Some(&GO)),
    ("go-redis-9-auto", Some(&GO)),
    ("petrel-embedded", None),
    ("petrel-python", Some(&PYTHON)),
    ("redis-py", Some(&PYTHON)),
];

/// Those of asyncio, and how many tasks they are measured with.
const ASYNCIO: [&str; 2] = ["petrel-python", "redis-py"];
const ASYNCIO_TASKS: usize = 100;

/// Without a server.
const EMBEDDED: &str = "petrel-embedded";

/// Our near cache, whose values are lent instead of handed out.
const LENT: &str = "petrel-lent";

/// Those with a near cache.
const WITH_NEAR_CACHE: [&str; 3] = ["petrel", LENT, REFERENCE];

/// Measure client libraries: time, allocations and CPU of a SET, of a GET, of a near-cache hit, and
/// of a GET on an engine in the process.
///
/// Each library runs in a process of its own and uses one connection, or the pool that it makes by
/// itself. Those of others are built where `cargo` and `go` are installed; those of Python are
/// measured where `python3` has both packages, with 100 tasks of asyncio.
#[derive(Clone, Debug, Serialize, clap::Args)]
pub struct ClientArgs {
    /// Threads of the server
    #[arg(long, default_value_t = 1, value_name = "N")]
    server_threads: usize,

    /// Threads of the client, each with as many tasks as the parallelism says [default: the
    /// processors]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    client_threads: Option<u16>,

    /// Libraries
    #[arg(long, value_delimiter = ',', value_name = "NAME,...",
          default_values_t = LIBRARIES.map(|(name, _)| name.to_owned()))]
    libraries: Vec<String>,

    /// What is measured: set, get, near (hits of a near cache), embedded (GET in the process)
    #[arg(
        long,
        value_delimiter = ',',
        value_name = "NAME,...",
        default_value = "set,get,near,embedded"
    )]
    operations: Vec<Operation>,

    /// Tasks for each thread of the client; each has one command in flight
    #[arg(
        long,
        value_delimiter = ',',
        value_name = "N,...",
        default_value = "1,8,64,128",
        default_value_if("quick", "true", "1,64")
    )]
    parallelism: Vec<usize>,

    /// Bytes of a value
    #[arg(
        long,
        value_delimiter = ',',
        value_name = "BYTES,...",
        default_value = "64,256,1024",
        default_value_if("quick", "true", "64")
    )]
    values: Vec<usize>,

    /// Keys that are drawn from at random; with 1 the key is always the same
    #[arg(
        long,
        value_delimiter = ',',
        value_name = "N,...",
        default_value = "1,10000",
        default_value_if("quick", "true", "10000")
    )]
    keys: Vec<usize>,

    /// The same for hits of near caches, and for an engine in the process
    #[arg(
        long,
        value_delimiter = ',',
        value_name = "N,...",
        default_value = "10000,1000000",
        default_value_if("quick", "true", "10000")
    )]
    near_keys: Vec<usize>,

    /// How long each measurement takes
    #[arg(long, default_value_t = 1000, default_value_if("quick", "true", "300"),
          value_name = "MS", value_parser = clap::value_parser!(u64).range(10..=600_000))]
    milliseconds: u64,
}

/// What it is.
pub const DESCRIPTION: &Description = &Description {
    name: "client",
    title: "Client libraries",
    about: "Tasks of one process, as many for each thread of the client as the parallelism says, send a command, wait \
            for its reply, and send the next, over TCP on 127.0.0.1. Keys have 16 bytes. Time is the wall clock over the \
            operations of all tasks, as Go's benchmarks count; in parentheses over rueidis's. rueidis uses one \
            connection, as on its page; go-redis-8 is v8.11.4, go-redis-9-auto its AutoPipeline. Allocations of Rust \
            libraries are counted apart from the time, in the same process.",
    axes: &[
        ("client", "{}"),
        ("operation", "{}"),
        ("parallelism", "p{}"),
        ("value", "{} B"),
        ("keys", "{} keys"),
    ],
    figures: &[
        Figure::new("ns", "Time per operation", "ns", 0, Better::Less),
        Figure::new("iterations", "Iterations", "", 0, Better::More),
        Figure::new("bytes", "Allocated per operation", "B", 1, Better::Less),
        Figure::new("allocations", "Allocations per operation", "", 2, Better::Less),
        Figure::new("client_cpu", "Client CPU per operation", "ns", 0, Better::Less),
        Figure::new("hit", "Read in the process, one thread", "ns", 1, Better::Less),
        Figure::new("scaling", "Reads with all threads over those with one", "x", 2, Better::More),
    ],
    views: &[
        view("Time", &["ns"])
            .cells(Cells::Against("client", REFERENCE))
            .plot(Plot::Bars)
            .in_summary(),
        view("CPU of the client", &["client_cpu"]).cells(Cells::Against("client", REFERENCE)),
        view("Memory", &["allocations", "bytes"]),
        view("Iterations", &["iterations"]),
        View::new(
            "Hits of near caches, and GET of an engine in the process",
            &["hit", "scaling", "allocations"],
            &[SERVER, "operation"],
            &["client", "keys"],
            &[FIGURE],
        )
        .in_summary(),
    ],
};

const fn view(title: &'static str, figures: &'static [&'static str]) -> View {
    const SECTIONS: &[&str] = &[FIGURE, SERVER, "operation", "keys"];
    View::new(title, figures, SECTIONS, &["value", "parallelism"], &["client"])
}

impl clap::ValueEnum for Operation {
    fn value_variants<'a>() -> &'a [Self] {
        &[Operation::Set, Operation::Get, Operation::Near, Operation::Embedded]
    }

    fn to_possible_value(&self) -> Option<clap::builder::PossibleValue> {
        Some(self.name().into())
    }
}

impl Experiment for ClientArgs {
    const DESCRIPTION: &'static Description = DESCRIPTION;
    type Session = Scene;

    fn check(&self) -> Result<(), String> {
        let is_known = |name: &&String| LIBRARIES.iter().any(|(known, _)| known == name);
        match self.libraries.iter().find(|name| !is_known(name)) {
            Some(name) => Err(format!("--libraries: {name} is not known here")),
            None if self.keys.contains(&0) || self.near_keys.contains(&0) => {
                Err("--keys and --near-keys: at least 1".to_owned())
            }
            None => Ok(()),
        }
    }

    fn points(&self) -> Vec<Point> {
        let mut libraries: Vec<&String> = self.libraries.iter().collect();
        for foreign in [&RUST, &GO, &PYTHON] {
            let is_of = |name: &str| driver_of(name).is_some_and(|of| std::ptr::eq(of, foreign));
            if libraries.iter().any(|name| is_of(name)) && !foreign.is_available() {
                let (tool, language) = (foreign.tool, foreign.language);
                eprintln!("no `{tool}` with what it takes: clients of {language} are left out");
                libraries.retain(|name| !is_of(name));
            }
        }
        let point = |operations: &[Operation], keys, parallelism, values, libraries| {
            grid([
                ("operation", texts(operations)),
                ("keys", texts(keys)),
                ("value", texts(values)),
                ("parallelism", texts(parallelism)),
                ("client", texts(libraries)),
            ])
        };
        let among = |names: &[&str]| -> Vec<&String> {
            libraries.iter().copied().filter(|name| names.contains(&name.as_str())).collect()
        };
        let (near, embedded, asyncio) =
            (among(&WITH_NEAR_CACHE), among(&[EMBEDDED]), among(&ASYNCIO));
        libraries.retain(|name| {
            !embedded.contains(name) && !asyncio.contains(name) && name.as_str() != LENT
        });
        let of = |wanted: &[Operation]| -> Vec<Operation> {
            self.operations.iter().copied().filter(|one| wanted.contains(one)).collect()
        };
        let sent = of(&[Operation::Set, Operation::Get]);
        let mut points = point(&sent, &self.keys, &self.parallelism, &self.values, &libraries);
        points.extend(point(&sent, &[10_000], &[ASYNCIO_TASKS], &[64], &asyncio));
        points.extend(point(&of(&[Operation::Near]), &self.near_keys, &[1], &[64], &near));
        points.extend(point(&of(&[Operation::Embedded]), &self.near_keys, &[1], &[64], &embedded));
        points
    }

    fn setting(&self, _: &RunArgs, _: &Point) -> Setting {
        // Not over a Unix socket: the table that is compared with was measured over TCP.
        Setting::new(self.server_threads, crate::server::Transport::Tcp, CONNECTIONS)
    }

    fn prepare(&self, server: Server, _: &Point) -> Result<Scene, String> {
        Ok(Scene { server, stored: None })
    }

    fn measure(&self, scene: &mut Scene, point: &Point, _: usize) -> Result<Measurement, String> {
        let operation: Operation = match point["operation"].as_str() {
            "set" => Operation::Set,
            "get" => Operation::Get,
            "near" => Operation::Near,
            _ => Operation::Embedded,
        };
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        let threads = match ASYNCIO.contains(&point["client"].as_str()) {
            true => 1,
            false => self.client_threads.map_or(processors, usize::from),
        };
        let Endpoint::Tcp(address) = scene.server.endpoint() else {
            return Err("clients are measured over TCP".to_owned());
        };
        let order = Order {
            client: point["client"].clone(),
            address: address.to_string(),
            operation,
            value: at(point, "value"),
            keys: at(point, "keys"),
            tasks: at::<usize>(point, "parallelism") * threads,
            threads,
            milliseconds: self.milliseconds,
        };
        if operation == Operation::Embedded {
            return in_process(&order);
        }
        scene.store(&order).map_err(|error| format!("keys: {error}"))?;
        if operation == Operation::Near {
            return in_process(&order);
        }
        let answer = ask(&order)?;
        let each = |total: u64| total as f64 / answer.operations.max(1) as f64;
        Ok(Measurement::default()
            .with("ns", each(answer.nanoseconds))
            .with("iterations", answer.operations as f64)
            .with("client_cpu", each(answer.cpu_nanoseconds))
            .with_allocations(&answer))
    }
}

/// Measures reads that need no server, on one thread and on all.
fn in_process(order: &Order) -> Result<Measurement, String> {
    let one = ask(&Order { threads: 1, tasks: 1, ..order.clone() })?;
    let all = ask(&Order { tasks: order.threads, ..order.clone() })?;
    let each = |answer: &Answer| answer.nanoseconds as f64 / answer.operations.max(1) as f64;
    let scaling = if order.threads > 1 { each(&one) / each(&all) } else { f64::NAN };
    Ok(Measurement::default()
        .with("hit", each(&one))
        .with("scaling", scaling)
        .with_allocations(&one))
}

impl Measurement {
    fn with_allocations(self, answer: &Answer) -> Measurement {
        let each = |total: u64| total as f64 / answer.counted_operations as f64;
        self.with("allocations", each(answer.counted_allocations))
            .with("bytes", each(answer.counted_bytes))
    }
}

fn driver_of(library: &str) -> Option<&'static Foreign> {
    LIBRARIES.iter().find(|(name, _)| *name == library)?.1
}

/// Lets a process of the library's own measure.
fn ask(order: &Order) -> Result<Answer, String> {
    let failed = |what: &dyn std::fmt::Display| format!("{}: {what}", order.client);
    let mut command = match driver_of(&order.client) {
        Some(foreign) => foreign.command()?,
        None => {
            let mut own = Command::new(env::current_exe().map_err(|error| failed(&error))?);
            own.arg(DRIVER);
            own
        }
    };
    let text = serde_json::to_string(order).map_err(|error| failed(&error))?;
    command.arg(text).stdin(Stdio::null());
    let output = sys::die_with_parent(&mut command).output().map_err(|error| failed(&error))?;
    if !output.status.success() {
        return Err(failed(&String::from_utf8_lossy(&output.stderr).trim()));
    }
    serde_json::from_slice(&output.stdout).map_err(|error| failed(&error))
}

/// A server, and what was stored there.
pub struct Scene {
    server: Server,
    /// Keys, and bytes of their values.
    stored: Option<(usize, usize)>,
}

impl Session for Scene {
    fn server(&self) -> &Server {
        &self.server
    }
}

impl Scene {
    /// Stores the keys that an order reads, unless they are there.
    fn store(&mut self, order: &Order) -> petrel_client::Result<()> {
        if self.stored == Some((order.keys, order.value)) {
            return Ok(());
        }
        self.stored = None;
        let client = blocking::Client::connect(&format!("redis://{}", order.address))?;
        let value = vec![b'x'; order.value];
        for begin in (0..order.keys).step_by(PIECE) {
            let mut pipeline = Pipeline::new();
            for key in begin..(begin + PIECE).min(order.keys) {
                pipeline.set(key_name(key), &value[..]).queue();
            }
            for reply in client.run(pipeline)?.into_values() {
                Value::from_reply(reply)?;
            }
        }
        self.stored = Some((order.keys, order.value));
        Ok(())
    }
}
