//! `sketches` and `arrays`: server CPU per operation on one value, and its bytes.

use std::time::Duration;

use petrel_client::RawCommand;

use crate::command::{Template, Variables};
use crate::exchange::Exchange;
use crate::experiment::{Case, Description, Experiment};
use crate::random::Random;
use crate::result::{Measured, Measurement};
use crate::server::{Peer, Server};
use crate::sys::text;
use crate::text::Entry;
use crate::wire::client;
use crate::work::{Mix, Until, drive};

/// Commands sent to a fresh server before its memory is read, and bytes of each.
const WARM_UP_COMMANDS: u64 = 5_000;
const WARM_UP_BYTES: usize = 100;

/// Longest wait until memory rests.
const REST: Duration = Duration::from_secs(5);

/// `sketches`: sketches.
#[derive(Default)]
pub struct Sketches;

/// `arrays`: arrays.
#[derive(Default)]
pub struct Arrays;

/// Implements an experiment with the works of its file on the value at a key.
macro_rules! values {
    ($type:ident $name:literal $key:literal) => {
        impl Experiment for $type {
            const NAME: &'static str = $name;
            type State = Exchange;

            fn admits(&self, peer: &Peer) -> bool {
                peer.is_petrel() || peer.may_have_types_of_redis_8()
            }

            fn prepare(&self, case: &Case<'_>, server: &Server) -> Result<Exchange, String> {
                Exchange::connect(server.endpoint(), case.get("connections"))
            }

            fn measure(
                &self,
                case: &Case<'_>,
                server: &Server,
                exchange: &mut Exchange,
            ) -> Measured {
                let work = Description::named(Self::NAME).work(case.text("work"));
                match work.get("empty") {
                    Some(create) => measure_empty(case, &server.fresh()?, &Template::known(create)),
                    None => measure_operations(case, (server, $key), exchange, work),
                }
            }
        }
    };
}

values!(Sketches "sketches" "sketch");
values!(Arrays "arrays" "array");

/// Makes the value, and measures operations on it.
fn measure_operations(
    case: &Case<'_>,
    (server, key): (&Server, &str),
    exchange: &mut Exchange,
    work: &Entry,
) -> Measured {
    let (items, pipeline): (u64, usize) = (case.get("items"), case.get("pipeline"));
    let grows = work.get("grows").is_some();
    let size = if grows { items / 2 } else { items };
    let create = match work.get("create") {
        Some(create) => format!("DEL {key} ; {create}"),
        None => format!("DEL {key}"),
    };
    send(exchange, &Template::known(&create), 1, size, 1)?;
    if let Some(store) = work.get("store") {
        send(exchange, &Template::known(store), size / 2, size, pipeline)?;
    }
    let adds_each = grows && work.get("store").is_none();
    let until = Until::Operations(if adds_each { size } else { case.get("operations") });
    let mut next = 0;
    let count = |_: &mut Random| {
        next += 1;
        Variables { n: next - 1, at: 0, size }
    };
    let subject = (server, exchange, &Mix::of(work));
    let measured = drive(subject, pipeline, until, case.seed(), count)?;
    Ok(measured.with("bytes", memory_usage(server, key)? as f64))
}

/// Measures the growth of resident memory by small values.
fn measure_empty(case: &Case<'_>, server: &Server, create: &Template) -> Measured {
    let count: u64 = case.get("empty");
    let mut exchange = Exchange::connect(server.endpoint(), 1)?;
    let warm_up = Template::known(&format!("ECHO {}", "v".repeat(WARM_UP_BYTES)));
    send(&mut exchange, &warm_up, WARM_UP_COMMANDS, 0, 16)?;
    let before = server.rss_at_rest(REST)?.0;
    send(&mut exchange, create, count, count, 16)?;
    let grown = server.rss_at_rest(REST)?.0.saturating_sub(before);
    Ok(Measurement::default().with("empty", grown as f64 / count as f64))
}

/// Sends a template `count` times.
fn send(
    exchange: &mut Exchange,
    template: &Template,
    count: u64,
    size: u64,
    pipeline: usize,
) -> Result<(), String> {
    let (mut n, mut random) = (0, Random::new(0));
    exchange.run(template.replies(), count, pipeline, |out| {
        template.put(Variables { n, at: 0, size }, &mut random, out);
        n += 1;
    })?;
    exchange.check()
}

/// Asks for `MEMORY USAGE` of the value at a key.
fn memory_usage(server: &Server, key: &str) -> Result<i64, String> {
    let client = client(server.endpoint()).map_err(text)?;
    client.command("MEMORY").args(["USAGE", key]).reply().run().map_err(text)
}
