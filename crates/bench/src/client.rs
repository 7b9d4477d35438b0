//! `client`: cost of a command to a program, by its client library; and of one without a server.

mod driver;
mod foreign;
mod libraries;
mod measure;

use std::env;
use std::process::{Command, Stdio};

use petrel_client::{Commands, FromReply, Pipeline, Value, blocking};

use crate::experiment::{Case, Description, Experiment, Options, grid, texts};
use crate::result::{Measured, Measurement, Point};
use crate::server::{Server, Setting, Transport};
use crate::sys;
use crate::text::Entry;
use crate::wire::Endpoint;

use foreign::{Foreign, GO, PYTHON, RUST};
use measure::{Answer, Operation, Order, key_name};

pub use driver::{DRIVER, drive};

/// Commands in one piece while keys are stored.
const PIECE: usize = 1000;

/// Connections of a client at most: go-redis opens ten for each processor.
const CONNECTIONS: usize = 4096;

/// Tasks of libraries of asyncio.
const ASYNCIO_TASKS: usize = 100;

/// `client`: client libraries.
#[derive(Default)]
pub struct ClientLibraries;

impl Experiment for ClientLibraries {
    const NAME: &'static str = "client";
    /// Keys that are stored, and bytes of their values.
    type State = Option<(usize, usize)>;

    fn points(&self, options: &Options) -> Vec<Point> {
        let wanted = |work: &&Entry| options.wants("libraries", work.rest);
        let wanted: Vec<&Entry> =
            Description::named(Self::NAME).works.iter().filter(wanted).collect();
        for foreign in [&RUST, &GO, &PYTHON] {
            let is_wanted = wanted.iter().any(|work| work.get("by") == Some(foreign.language));
            if is_wanted && !foreign.is_available() {
                let (tool, language) = (foreign.tool, foreign.language);
                eprintln!("`{tool}` or packages are missing: clients of {language} are left out");
            }
        }
        let axis = |option| options.texts(option).to_vec();
        let of = |kind: &str, operations: &[&str], [keys, values, tasks]: [Vec<String>; 3]| {
            let operations = operations.iter().filter(|name| options.wants("operations", name));
            let clients = wanted.iter().filter(|work| {
                work.words("is").contains(&kind)
                    && driver_of(work).is_none_or(Foreign::is_available)
            });
            grid([
                ("operation", operations.map(|name| (*name).to_owned()).collect()),
                ("keys", keys),
                ("value", values),
                ("parallelism", tasks),
                ("client", clients.map(|work| work.rest.to_owned()).collect()),
            ])
        };
        let own = [axis("keys"), axis("values"), axis("parallelism")];
        let near = || [axis("near-keys"), texts(&[64]), texts(&[1])];
        let asyncio = [10_000, 64, ASYNCIO_TASKS].map(|value| texts(&[value]));
        [
            of("single", &["set", "get"], own),
            of("asyncio", &["set", "get"], asyncio),
            of("near", &["near"], near()),
            of("embedded", &["embedded"], near()),
        ]
        .concat()
    }

    fn setting(&self, _: &Case<'_>, setting: Setting) -> Setting {
        // The published table was measured over TCP.
        Setting { transport: Transport::Tcp, connections: CONNECTIONS, ..setting }
    }

    fn prepare(&self, _: &Case<'_>, _: &Server) -> Result<Self::State, String> {
        Ok(None)
    }

    fn measure(&self, case: &Case<'_>, server: &Server, stored: &mut Self::State) -> Measured {
        let operation = match case.text("operation") {
            "set" => Operation::Set,
            "get" => Operation::Get,
            "near" => Operation::Near,
            _ => Operation::Embedded,
        };
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        let library = Description::named(Self::NAME).work(case.text("client"));
        let threads = match library.words("is").contains(&"asyncio") {
            true => 1,
            false => case.options.some("client-threads").unwrap_or(processors),
        };
        let Endpoint::Tcp(address) = server.endpoint() else {
            return Err("clients are measured over TCP".to_owned());
        };
        let order = Order {
            client: case.text("client").to_owned(),
            address: address.to_string(),
            operation,
            value: case.at("value"),
            keys: case.at("keys"),
            tasks: case.at::<usize>("parallelism") * threads,
            threads,
            milliseconds: case.get("milliseconds"),
        };
        if operation == Operation::Embedded {
            return in_process(&order);
        }
        if *stored != Some((order.keys, order.value)) {
            *stored = None;
            store(&order).map_err(|error| format!("keys: {error}"))?;
            *stored = Some((order.keys, order.value));
        }
        if operation == Operation::Near {
            return in_process(&order);
        }
        let answer = ask(&order)?;
        let each = |total: u64| total as f64 / answer.operations.max(1) as f64;
        let measured = Measurement::default()
            .with("ns", each(answer.nanoseconds))
            .with("iterations", answer.operations as f64)
            .with("client_cpu", each(answer.cpu_nanoseconds));
        Ok(with_allocations(measured, &answer))
    }
}

/// Measures reads that need no server, on one thread and on all.
fn in_process(order: &Order) -> Measured {
    let one = ask(&Order { threads: 1, tasks: 1, ..order.clone() })?;
    let all = ask(&Order { tasks: order.threads, ..order.clone() })?;
    let each = |answer: &Answer| answer.nanoseconds as f64 / answer.operations.max(1) as f64;
    let scaling = if order.threads > 1 { each(&one) / each(&all) } else { f64::NAN };
    let measured = Measurement::default().with("hit", each(&one)).with("scaling", scaling);
    Ok(with_allocations(measured, &one))
}

fn with_allocations(measured: Measurement, answer: &Answer) -> Measurement {
    let each = |total: u64| total as f64 / answer.counted_operations as f64;
    let allocations = each(answer.counted_allocations);
    measured.with("allocations", allocations).with("bytes", each(answer.counted_bytes))
}

/// The program that drives a library if this one does not.
fn driver_of(library: &Entry) -> Option<&'static Foreign> {
    let by = library.get("by")?;
    [&RUST, &GO, &PYTHON].into_iter().find(|foreign| foreign.language == by)
}

/// Lets a process of the library measure.
fn ask(order: &Order) -> Result<Answer, String> {
    let failed = |what: &dyn std::fmt::Display| format!("{}: {what}", order.client);
    let mut command = match driver_of(Description::named(ClientLibraries::NAME).work(&order.client))
    {
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

/// Stores the keys that an order reads.
fn store(order: &Order) -> petrel_client::Result<()> {
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
    Ok(())
}
