//! A node that holds copies of what is read there: what a first read, a read of a copy and changes
//! cost.

use petrel_resp::encode_command;

use super::{BATCH, COUNTED, ClusterArgs, TRIPS, Work, median, text, time_of};
use crate::exchange::{Exchange, client, wait_for_rest};
use crate::experiment::at;
use crate::load::{self, Endpoint, KeySpace, Plan};
use crate::result::{Measurement, Point};
use crate::server::Server;

impl ClusterArgs {
    /// Lets the cache of a cluster have copies of all keys; what is no cluster has them anyway.
    pub(super) fn take_copies(&self, server: &Server) -> Result<(), String> {
        let Some((cache, _)) = server.cache() else { return Ok(()) };
        let walk = Plan { endpoint: cache.clone(), ..self.plan(server) };
        load::run(&walk).map_err(|error| format!("while copies are taken: {error}"))?;
        wait_for_rest(server)
    }

    /// Measures a work with a cache.
    pub(super) fn measure_near(
        &self,
        server: &Server,
        work: Work,
        point: &Point,
        round: usize,
    ) -> Result<Measurement, String> {
        let endpoint = server.cache().map_or(server.endpoint(), |(endpoint, _)| endpoint);
        match work {
            Work::FirstTouch => self.touch(server, endpoint),
            Work::HomeSet => self.count_bytes(server, point),
            Work::CacheWrite => self.write(server, endpoint, point),
            _ => self.read_copies(server, endpoint, point, round),
        }
    }

    /// First reads of keys at the cache: some one by one for their times, then others for their
    /// bytes.
    fn touch(&self, server: &Server, cache: &Endpoint) -> Result<Measurement, String> {
        let alone = self.alone()?;
        let keys = self.plan(server).keys;
        let client = client(cache).map_err(text)?;
        let timed = keys.count.min(TRIPS as u64);
        let time = |number| time_of(&client, &[b"GET", b""], &keys.key(number));
        let times = (0..timed).map(time).collect::<Result<_, _>>().map_err(text)?;
        let trips = median(times).as_secs_f64() / alone.as_secs_f64();
        let counted = (keys.count - timed).min(COUNTED);
        let numbers = timed..timed + counted;
        let each = self.bytes_of(server, cache, numbers, |number, out| {
            encode_command(&[b"GET", &keys.key(number)], out);
        })?;
        Ok(Measurement::default()
            .with("touch_trips", trips)
            .with("round_trip", alone.as_secs_f64() * 1e6)
            .with("touch_bytes", each - keys.size as f64 - self.values.mean()))
    }

    /// Reads of keys that are there.
    fn read_copies(
        &self,
        server: &Server,
        endpoint: &Endpoint,
        point: &Point,
        round: usize,
    ) -> Result<Measurement, String> {
        let cache = server.cache();
        let server_processes = cache.map_or(server.processes().to_vec(), |(_, pid)| vec![pid]);
        let plan = Plan { endpoint: endpoint.clone(), server_processes, ..self.plan(server) };
        let plan = self.load.timed(plan, at(point, "pipeline"), round);
        let carried = || cache.map(|_| server.carried_between_nodes()).transpose();
        let before = carried()?;
        let outcome = load::run(&plan).map_err(text)?;
        let carried = carried()?.zip(before).map(|(after, before)| (after - before) as f64);
        let mut measured = Measurement::of_load(&outcome, true);
        // That name is for what all nodes take together.
        let cpu = measured.figures.remove("cpu");
        let bytes = carried.map(|carried| carried / outcome.operations as f64);
        Ok(measured.with_some("cache_cpu", cpu).with_some("copy_bytes", bytes))
    }

    /// SETs and INCRs at the cache.
    fn write(
        &self,
        server: &Server,
        cache: &Endpoint,
        point: &Point,
    ) -> Result<Measurement, String> {
        let measured = self.count_trips(server, cache)?;
        let homes = self.homes(server, point);
        let sets = self.bytes_of_sets(server, cache)? / homes;
        // Keys that have no value yet.
        let keys = KeySpace { count: COUNTED, size: 15 };
        let incrs = self.bytes_of(server, cache, 0..COUNTED, |number, out| {
            encode_command(&[b"INCR", &[b"n", keys.key(number).as_slice()].concat()], out);
        })?;
        Ok(measured
            .with("bytes", sets - 16.0 - f64::from(self.values.min))
            .with("incr_bytes", incrs / homes - 16.0))
    }

    /// Bytes between nodes for each of some commands at one of them, ten in flight.
    fn bytes_of(
        &self,
        server: &Server,
        endpoint: &Endpoint,
        mut numbers: std::ops::Range<u64>,
        mut make: impl FnMut(u64, &mut Vec<u8>),
    ) -> Result<f64, String> {
        let operations = numbers.end - numbers.start;
        wait_for_rest(server)?;
        let before = server.carried_between_nodes()?;
        let mut exchange = Exchange::connect(endpoint, 1)?;
        exchange.run(1, operations, usize::from(BATCH), |out| {
            if let Some(number) = numbers.next() {
                make(number, out);
            }
        })?;
        exchange.check()?;
        wait_for_rest(server)?;
        Ok((server.carried_between_nodes()? - before) as f64 / operations as f64)
    }
}
