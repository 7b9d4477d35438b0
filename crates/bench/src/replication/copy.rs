//! Full copies: their time, their effect on GETs, and their memory.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use petrel_client::Commands;
use petrel_client::blocking::Client;

use super::{PATIENCE, address, plan};
use crate::experiment::{Case, SET};
use crate::load::{self, Extent, KeyOrder, Lengths, Operation, Outcome, Plan, latency_histogram};
use crate::result::{Measured, Measurement};
use crate::server::Server;
use crate::wire::{client, order};

/// Interval of questions to a replica.
const LOOK_EVERY: Duration = Duration::from_millis(2);

/// Interval of readings of a primary's memory, which cost it some time.
const WEIGH_EVERY: Duration = Duration::from_millis(20);

/// Seconds of a load beside a copy, before the next look whether the copy is complete.
const STEP_S: f64 = 0.25;

/// Connections of the load beside a copy.
const CONNECTIONS: usize = 8;

/// Measures three copies: alone, beside GETs, beside SETs.
pub(super) fn measure_copies(case: &Case<'_>, server: &Server) -> Measured {
    let keys = case.get("copy-keys");
    let gets = Plan {
        operation: Operation::Get,
        order: KeyOrder::Random,
        connections: CONNECTIONS,
        pipeline: 64,
        rate: Some(case.get("rate")),
        ..plan(case, server)
    };
    let before = Plan { extent: Extent::window(STEP_S, case.get("seconds")), ..gets.clone() };
    let before = load::run(&before)?;
    let (replica, copy) = follow(server, keys, || Ok(()))?;
    drop(replica);
    server.wait_for_rest()?;
    let mut latency = latency_histogram();
    let note = |outcome: Outcome| latency.add(outcome.latency).map_err(|error| error.to_string());
    let (replica, _) = beside(&gets, note, || follow(server, keys, || Ok(())))?;
    drop(replica);
    server.wait_for_rest()?;
    let sets = Plan { operation: SET, lengths: Lengths::Random, pipeline: 16, rate: None, ..gets };
    let level = server.memory_with_children()?;
    let mut most = level;
    beside(
        &sets,
        |_| Ok(()),
        || {
            let mut weighed = Instant::now();
            follow(server, keys, || {
                if weighed.elapsed() >= WEIGH_EVERY {
                    most = most.max(server.memory_with_children()?);
                    weighed = Instant::now();
                }
                Ok(())
            })
        },
    )?;
    let p999_ms = |latency: &Histogram<u64>| latency.value_at_quantile(0.999) as f64 / 1e6;
    Ok(Measurement::default()
        .with("copy", copy.as_secs_f64())
        .with("get_before", p999_ms(&before.latency))
        .with("get_beside", p999_ms(&latency))
        .with("copy_memory", 100.0 * (most - level) as f64 / level as f64))
}

/// Does some work beside a load, and passes on each step of the load that began before its end.
fn beside<T>(
    plan: &Plan,
    mut note: impl FnMut(Outcome) -> Result<(), String> + Send,
    work: impl FnOnce() -> Result<T, String>,
) -> Result<T, String> {
    let (is_over, plan) =
        (AtomicBool::new(false), Plan { extent: Extent::window(0.0, STEP_S), ..plan.clone() });
    thread::scope(|scope| {
        let load = scope.spawn(|| {
            while !is_over.load(Relaxed) {
                note(load::run(&plan)?)?;
            }
            Ok(())
        });
        let worked = work();
        is_over.store(true, Relaxed);
        let loaded = load.join().unwrap_or_else(|_| Err("the load panicked".to_owned()));
        worked.and_then(|worked| loaded.map(|()| worked))
    })
}

/// Starts a replica and waits until it has all keys and serves. Returns it and the time. Calls
/// `look` meanwhile.
pub(super) fn follow(
    server: &Server,
    keys: u64,
    mut look: impl FnMut() -> Result<(), String>,
) -> Result<(Server, Duration), String> {
    let failed = |error: petrel_client::Error| format!("no replica follows: {error}");
    let replica = server.fresh()?;
    let follower = client(replica.endpoint()).map_err(failed)?;
    let (host, port) = address(server)?;
    let begin = Instant::now();
    order(&follower, &[b"REPLICAOF", host.as_bytes(), port.as_bytes()]).map_err(failed)?;
    while !serves(&follower, keys).map_err(failed)? {
        if begin.elapsed() > PATIENCE {
            return Err(format!("the replica has no copy after {} s", PATIENCE.as_secs()));
        }
        look()?;
        thread::sleep(LOOK_EVERY);
    }
    Ok((replica, begin.elapsed()))
}

/// Whether a replica has a link, and all keys.
fn serves(follower: &Client, keys: u64) -> petrel_client::Result<bool> {
    let info: String = follower.info().section(["replication"]).run()?;
    if !info.lines().any(|line| line.trim() == "master_link_status:up") {
        return Ok(false);
    }
    Ok(follower.dbsize().reply::<u64>().run()? == keys)
}
