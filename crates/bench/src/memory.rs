//! `memory`: resident bytes per key over the empty server, and memory returned by deleting.

use std::time::Duration;

use crate::experiment::{Case, Experiment, Options};
use crate::load::{self, Extent, KeySpace, Operation, Plan, Share, ValueSizes};
use crate::result::{Measured, Measurement};
use crate::server::Server;

/// Time to live of the rows with one: a day, so that nothing expires while it is measured.
const TTL_S: u32 = 86_400;

/// Keys looked up after loading, to see whether the server still has them.
const SAMPLE: u64 = 20_000;

/// Longest wait until the memory of an empty and of a loaded server rests.
const REST_EMPTY: Duration = Duration::from_secs(5);
const REST_LOADED: Duration = Duration::from_secs(10);

/// `memory`: resident bytes per key.
#[derive(Default)]
pub struct Memory;

impl Experiment for Memory {
    const NAME: &'static str = "memory";
    type State = ();

    fn check(&self, options: &Options) -> Result<(), String> {
        KeySpace::new(options.get("keys"), options.get("key-size")).map(|_| ())
    }

    fn prepare(&self, _: &Case<'_>, _: &Server) -> Result<(), String> {
        Ok(())
    }

    fn measure(&self, case: &Case<'_>, server: &Server, (): &mut ()) -> Measured {
        let delete: u32 = case.get("delete");
        let per_key = |growth: u64| growth as f64 / case.get::<u64>("keys") as f64;
        let (empty, growth) = store(case, server, None, Share::All)?;
        let mut measured = Measurement::default()
            .with("bytes", per_key(growth))
            .with("empty", empty as f64 / 1e6)
            .with("loaded", (empty + growth) as f64 / 1e6);
        if delete > 0 {
            let (operation, share) = (Operation::Delete, Share::First(delete));
            load::run(&Plan { operation, share, ..plan(case, server) })?;
            let (after, settled) = server.rss_at_rest(Duration::from_secs(case.get("settle")))?;
            let (_, live) = store(case, &server.fresh()?, None, Share::Rest(delete))?;
            let left = after.saturating_sub(empty) as f64 / live.max(1) as f64;
            measured = measured.with("left", left).with("settled", settled.as_secs_f64());
        }
        if !case.options.has("no-ttl") {
            let (_, with_ttl) = store(case, &server.fresh()?, Some(TTL_S), Share::All)?;
            measured = measured
                .with("bytes_ttl", per_key(with_ttl))
                .with("ttl", per_key(with_ttl) - per_key(growth));
        }
        Ok(measured)
    }
}

/// Loads an empty server; returns its resident memory before, and the growth, bytes.
fn store(
    case: &Case<'_>,
    server: &Server,
    ttl_s: Option<u32>,
    share: Share,
) -> Result<(u64, u64), String> {
    let empty = server.rss_at_rest(REST_EMPTY)?.0;
    let stored =
        load::run(&Plan { operation: Operation::Set { ttl_s }, share, ..plan(case, server) })?;
    if stored.replies.done != stored.operations {
        let (keys, done) = (stored.operations, stored.replies.done);
        let first = stored.replies.first_error.unwrap_or_default();
        return Err(format!("of {keys} keys {done} stored: {first}"));
    }
    if share == Share::All {
        let replies =
            load::run(&Plan { extent: Extent::Operations(SAMPLE), ..plan(case, server) })?;
        let replies = replies.replies;
        if replies.hits != SAMPLE || replies.wrong_lengths > 0 {
            return Err(format!("of {SAMPLE} keys looked up {} are there", replies.hits));
        }
    }
    let loaded = server.rss_at_rest(REST_LOADED)?.0;
    Ok((empty, loaded.saturating_sub(empty)))
}

fn plan(case: &Case<'_>, server: &Server) -> Plan {
    let keys = KeySpace { count: case.get("keys"), size: case.get("key-size") };
    Plan { values: case.at::<ValueSizes>("values"), ..Plan::new(server, keys) }
}
