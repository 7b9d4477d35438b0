//! Full copies: their time, what they do to GETs, and the memory that they take.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use super::{PATIENCE, ReplicationArgs, SET, Work, address};
use petrel_client::Commands;
use petrel_client::blocking::Client;

use crate::exchange::{client, order, wait_for_rest};
use crate::load::{
    self, Extent, KeyOrder, Latency, Lengths, Operation, Outcome, Plan, latency_histogram,
};
use crate::result::Measurement;
use crate::server::Server;

/// Between two looks at a replica.
const LOOK_EVERY: Duration = Duration::from_millis(2);

/// Between two looks at the memory of a primary, which take it some time.
const WEIGH_EVERY: Duration = Duration::from_millis(20);

/// Seconds of a load beside a copy, after which it looks whether the copy is there.
const STEP_S: f64 = 0.25;

/// Connections of the load beside a copy.
const CONNECTIONS: usize = 8;

impl ReplicationArgs {
    /// Three copies: alone, beside GETs, beside SETs.
    pub(super) fn measure_copies(&self, server: &Server) -> Result<Measurement, String> {
        let keys = self.copy_keys;
        let gets = Plan {
            operation: Operation::Get,
            order: KeyOrder::Random,
            connections: CONNECTIONS,
            pipeline: 64,
            rate: Some(self.rate),
            ..self.plan(server, Work::Copy)
        };
        let before = Plan { extent: Extent::window(STEP_S, self.load.seconds), ..gets.clone() };
        let before = load::run(&before).map_err(|error| error.to_string())?;
        let (replica, copy) = follow(server, keys, || Ok(()))?;
        drop(replica);
        wait_for_rest(server)?;
        let mut latency = latency_histogram();
        let note =
            |outcome: Outcome| latency.add(outcome.latency).map_err(|error| error.to_string());
        let (replica, _) = beside(&gets, note, || follow(server, keys, || Ok(())))?;
        drop(replica);
        wait_for_rest(server)?;
        let sets =
            Plan { operation: SET, lengths: Lengths::Random, pipeline: 16, rate: None, ..gets };
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
        let p999_ms = |histogram: &_| Latency::of(histogram).p999_us / 1000.0;
        Ok(Measurement::default()
            .with("copy", copy.as_secs_f64())
            .with("get_before", p999_ms(&before.latency))
            .with("get_beside", p999_ms(&latency))
            .with("copy_memory", 100.0 * (most - level) as f64 / level as f64))
    }
}

/// Does something while a load goes on, of which every step is noted that began before the end.
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
                note(load::run(&plan).map_err(|error| error.to_string())?)?;
            }
            Ok(())
        });
        let worked = work();
        is_over.store(true, Relaxed);
        let loaded = load.join().unwrap_or_else(|_| Err("the load panicked".to_owned()));
        worked.and_then(|worked| loaded.map(|()| worked))
    })
}

/// Lets a new server follow another, until it has all keys and serves; it, and how long that took.
/// `look` is called now and then.
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
