//! Near cache: a node that holds copies of keys that were read there. Measures a first read, a read
//! of a copy, and changes.

use petrel_resp::encode_command;

use super::{BATCH, COUNTED, TRIPS, Work, bytes_of_sets, count_bytes, count_trips, holders};
use super::{median, relay_trip, time_of, value_min};
use crate::exchange::Exchange;
use crate::experiment::{Case, plan, timed};
use crate::load::{self, KeySpace, Plan, ValueSizes};
use crate::result::{Measured, Measurement};
use crate::server::Server;
use crate::sys::text;
use crate::wire::{Endpoint, client};

/// Reads all keys at the cache of a cluster; a single server has them anyway.
pub fn take_copies(case: &Case<'_>, server: &Server) -> Result<(), String> {
    let Some((cache, _)) = server.cache() else { return Ok(()) };
    let walk = Plan { endpoint: cache.clone(), ..plan(case, server) };
    load::run(&walk).map_err(|error| format!("while copies are taken: {error}"))?;
    server.wait_for_rest()
}

/// Measures a work with a cache.
pub fn measure(case: &Case<'_>, server: &Server, work: Work) -> Measured {
    let endpoint = server.cache().map_or(server.endpoint(), |(endpoint, _)| endpoint);
    match work {
        Work::FirstTouch => touch(case, server, endpoint),
        Work::HomeSet => count_bytes(case, server),
        Work::CacheWrite => write(case, server, endpoint),
        _ => read_copies(case, server, endpoint),
    }
}

/// First reads of keys at the cache: some one by one for their times, then others for their bytes.
fn touch(case: &Case<'_>, server: &Server, cache: &Endpoint) -> Measured {
    let alone = relay_trip(case)?;
    let keys = plan(case, server).keys;
    let client = client(cache).map_err(text)?;
    let timed = keys.count.min(TRIPS as u64);
    let time = |number| time_of(&client, &[b"GET", b""], &keys.key(number));
    let times = (0..timed).map(time).collect::<Result<_, _>>().map_err(text)?;
    let trips = median(times).as_secs_f64() / alone.as_secs_f64();
    let counted = (keys.count - timed).min(COUNTED);
    let numbers = timed..timed + counted;
    let each = bytes_of(server, cache, numbers, |number, out| {
        encode_command(&[b"GET", &keys.key(number)], out);
    })?;
    let mean = case.get::<ValueSizes>("values").mean();
    Ok(Measurement::default()
        .with("touch_trips", trips)
        .with("round_trip", alone.as_secs_f64() * 1e6)
        .with("touch_bytes", each - keys.size as f64 - mean))
}

/// Reads of keys that are stored.
fn read_copies(case: &Case<'_>, server: &Server, endpoint: &Endpoint) -> Measured {
    let cache = server.cache();
    let server_processes = cache.map_or(server.processes().to_vec(), |(_, pid)| vec![pid]);
    let plan = Plan { endpoint: endpoint.clone(), server_processes, ..plan(case, server) };
    let plan = timed(case, plan);
    let carried = || cache.map(|_| server.carried_between_nodes()).transpose();
    let before = carried()?;
    let outcome = load::run(&plan)?;
    let carried = carried()?.zip(before).map(|(after, before)| (after - before) as f64);
    let mut measured = Measurement::of_load(&outcome, true);
    // The figure `cpu` is that of all nodes together.
    let cpu = measured.figures.remove("cpu");
    let bytes = carried.map(|carried| carried / outcome.operations as f64);
    Ok(measured.with_some("cache_cpu", cpu).with_some("copy_bytes", bytes))
}

/// SETs and INCRs at the cache.
fn write(case: &Case<'_>, server: &Server, cache: &Endpoint) -> Measured {
    let measured = count_trips(case, server, cache)?;
    let holders = holders(case, server);
    let sets = bytes_of_sets(case, server, cache)? / holders;
    // Keys that have no value yet.
    let keys = KeySpace { count: COUNTED, size: 15 };
    let incrs = bytes_of(server, cache, 0..COUNTED, |number, out| {
        encode_command(&[b"INCR", &[b"n", keys.key(number).as_slice()].concat()], out);
    })?;
    Ok(measured
        .with("bytes", sets - 16.0 - f64::from(value_min(case)))
        .with("incr_bytes", incrs / holders - 16.0))
}

/// Bytes between nodes for each of some commands at one of them, ten in flight.
fn bytes_of(
    server: &Server,
    endpoint: &Endpoint,
    mut numbers: std::ops::Range<u64>,
    mut make: impl FnMut(u64, &mut Vec<u8>),
) -> Result<f64, String> {
    let operations = numbers.end - numbers.start;
    server.wait_for_rest()?;
    let before = server.carried_between_nodes()?;
    let mut exchange = Exchange::connect(endpoint, 1)?;
    exchange.run(1, operations, usize::from(BATCH), |out| {
        if let Some(number) = numbers.next() {
            make(number, out);
        }
    })?;
    exchange.check()?;
    server.wait_for_rest()?;
    Ok((server.carried_between_nodes()? - before) as f64 / operations as f64)
}
