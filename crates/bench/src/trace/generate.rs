//! Traces drawn from statistics: for places where the traces themselves are too large to carry.

use super::request::{Action, KEY_SIZE_MIN, Request};
use crate::random::Random;
use crate::zipf::{Zipf, unit};

/// Statistics of a production cache cluster, as Yang et al. published them for Twitter's 54
/// clusters (a row of `2020Mar-clusters.csv`).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ClusterStatistics {
    /// Mean length of a key, bytes.
    pub key_bytes: u16,
    /// Mean length of a value, bytes.
    pub value_bytes: u32,
    /// Requests per second.
    pub rate: f64,
    /// Requests per object.
    pub frequency_mean: f64,
    /// Share of the objects that are requested once.
    pub once: f64,
    /// Share of the requests that read.
    pub reads: f64,
    /// Exponent of the popularity of the others.
    pub alpha: f64,
    /// Seconds that values live, 0 for ever.
    pub ttl_s: u32,
}

/// Twitter's cluster 17.
pub const CLUSTER_17: ClusterStatistics = ClusterStatistics {
    key_bytes: 19,
    value_bytes: 212,
    rate: 350.0,
    frequency_mean: 60.8,
    once: 0.3887,
    reads: 0.99,
    alpha: 2.1106,
    ttl_s: 5 * 86_400,
};

impl ClusterStatistics {
    /// Reads a row of the published table by its cluster's name.
    pub fn read(table: &str, cluster: &str) -> Result<ClusterStatistics, String> {
        let mut lines = table.lines();
        let header: Vec<&str> = lines.next().unwrap_or_default().split(',').collect();
        let row = lines.find(|line| line.split(',').next() == Some(cluster));
        let row = row.ok_or_else(|| format!("there is no row {cluster}"))?;
        let field = |name: &str| {
            let at = header.iter().position(|heading| *heading == name)?;
            row.split(',').nth(at)
        };
        let number = |name: &str| {
            let number = field(name).and_then(|text| text.trim().parse::<f64>().ok());
            let number = number.filter(|number| number.is_finite() && *number >= 0.0);
            number.ok_or_else(|| format!("{cluster} has no number {name}"))
        };
        let mix =
            |name: &str| field(name).unwrap_or_default().split(';').next().unwrap_or_default();
        let reads = mix("op_mix").trim().strip_prefix("get:").and_then(|share| share.parse().ok());
        Ok(ClusterStatistics {
            key_bytes: number("key_bytes")? as u16,
            value_bytes: number("value_bytes")? as u32,
            rate: number("rate_kqps")? * 1000.0,
            frequency_mean: number("mean_freq")?.max(1.0),
            once: number("one_hit_wonder_pct")? / 100.0,
            reads: reads.unwrap_or(0.0),
            alpha: number("zipf_alpha")?,
            ttl_s: mix("ttl_mix").split(':').next().and_then(seconds).unwrap_or(0),
        })
    }

    /// Draws requests. Objects that are requested once come at random among the others.
    pub fn draw(&self, requests: usize, seed: u64) -> Vec<Request> {
        let mut random = Random::new(seed);
        let objects = (requests as f64 / self.frequency_mean).max(1.0);
        let once = (objects * self.once).min(requests as f64) / requests.max(1) as f64;
        let popular = Zipf::new((objects * (1.0 - self.once)).max(1.0) as u64, self.alpha);
        let interval_us = if self.rate > 0.0 { 1e6 / self.rate } else { 0.0 };
        let draw = |number: usize| {
            let object = match unit(&mut random) < once {
                true => (1 << 63) | number as u64,
                false => popular.draw(&mut random),
            };
            let is_read = unit(&mut random) < self.reads;
            Request {
                at_us: (number as f64 * interval_us) as u64,
                object,
                size: around(self.value_bytes, object),
                key_size: self.key_bytes.max(KEY_SIZE_MIN),
                action: if is_read { Action::Get } else { Action::Set },
                ttl_s: self.ttl_s,
            }
        };
        (0..requests).map(draw).collect()
    }
}

/// `5d`, `12h`, `30m`, `240s` in seconds.
fn seconds(text: &str) -> Option<u32> {
    let text = text.trim();
    let unit = match text.bytes().last()? {
        b'd' => 86_400,
        b'h' => 3_600,
        b'm' => 60,
        b's' => 1,
        _ => return None,
    };
    text[..text.len() - 1].parse::<u32>().ok()?.checked_mul(unit)
}

/// A length that an object keeps, uniform from half the mean to one and a half.
fn around(mean: u32, object: u64) -> u32 {
    let share = (crate::random::mix(object) >> 40) as f64 / (1u64 << 24) as f64;
    (f64::from(mean) * (0.5 + share)) as u32
}

/// Block I/O: sizes of blocks in KiB with their shares.
const BLOCKS: [(u32, f64); 5] = [(4, 0.60), (8, 0.12), (16, 0.13), (32, 0.09), (64, 0.06)];
/// Share of the requests that write, and of requests that continue at the end of the last one.
const BLOCK_WRITES: f64 = 0.65;
const BLOCK_SEQUENTIAL: f64 = 0.25;
/// Requests per block, and exponent of their popularity.
const BLOCK_FREQUENCY: usize = 12;
const BLOCK_ALPHA: f64 = 0.9;
/// Requests per second.
const BLOCK_RATE: f64 = 500.0;

/// Draws requests as a disk sees them: mostly writes, spread over many blocks, partly in sequence.
pub fn block_io(requests: usize, seed: u64) -> Vec<Request> {
    let mut random = Random::new(seed);
    let blocks = (requests / BLOCK_FREQUENCY).max(1) as u64;
    let popular = Zipf::new(blocks, BLOCK_ALPHA);
    let mut last = 0;
    let draw = |number: usize| {
        let object = match unit(&mut random) < BLOCK_SEQUENTIAL {
            true => (last + 1) % blocks,
            // Popular blocks lie apart from each other.
            false => crate::random::mix(popular.draw(&mut random)) % blocks,
        };
        last = object;
        let is_write = unit(&mut random) < BLOCK_WRITES;
        Request {
            at_us: (number as f64 * 1e6 / BLOCK_RATE) as u64,
            object,
            size: block_size(object),
            key_size: KEY_SIZE_MIN,
            action: if is_write { Action::Set } else { Action::Get },
            ttl_s: 0,
        }
    };
    (0..requests).map(draw).collect()
}

fn block_size(object: u64) -> u32 {
    let mut place = (crate::random::mix(!object) >> 40) as f64 / (1u64 << 24) as f64;
    for (kib, share) in BLOCKS {
        if place < share {
            return kib * 1024;
        }
        place -= share;
    }
    BLOCKS[0].0 * 1024
}

/// Draws GETs of 100-byte values, 10 per object on average, with popularity of exponent 0.99.
pub fn zipf(requests: usize, seed: u64) -> Vec<Request> {
    let statistics = ClusterStatistics {
        value_bytes: 100,
        rate: 10_000.0,
        frequency_mean: 10.0,
        once: 0.0,
        reads: 1.0,
        alpha: 0.99,
        ttl_s: 0,
        ..CLUSTER_17
    };
    statistics.draw(requests, seed)
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;
    use crate::trace::request::Statistics;

    #[test]
    fn a_drawn_trace_has_the_statistics_of_its_row() {
        let table = "cluster,key_bytes,value_bytes,rate_kqps,mean_freq,one_hit_wonder_pct,ttl_mix,op_mix,\
                     zipf_alpha\nx,80,267,0.35,20,38.87,2d:0.59; 1d:0.41,get:0.95; set:0.05,1.1";
        let row = ClusterStatistics::read(table, "x").unwrap();
        assert_eq!((row.key_bytes, row.ttl_s, row.rate), (80, 172_800, 350.0));
        assert!(ClusterStatistics::read(table, "y").unwrap_err().contains("no row y"));
        let trace = row.draw(200_000, 1);
        assert_eq!(trace, row.draw(200_000, 1), "the same for every server");
        let mut counts: HashMap<u64, u32> = HashMap::new();
        trace.iter().for_each(|request| *counts.entry(request.object).or_default() += 1);
        let objects = 200_000.0 / 20.0;
        let once = trace.iter().filter(|request| request.object >> 63 == 1).count() as f64;
        assert!((once - objects * 0.3887).abs() < 250.0, "{once}");
        let reads = trace.iter().filter(|request| request.action == Action::Get).count() as f64;
        assert!((reads / 200_000.0 - 0.95).abs() < 0.005);
        let size = trace.iter().map(|request| u64::from(request.size)).sum::<u64>() as f64 / 2e5;
        assert!((130.0..420.0).contains(&size), "{size}");
        assert!((trace.last().unwrap().at_us as f64 / 1e6 - 571.4).abs() < 1.0);
    }

    #[test]
    fn block_traces_mostly_write() {
        let trace = block_io(50_000, 1);
        let writes = trace.iter().filter(|request| request.action == Action::Set).count();
        assert!((31_000..34_000).contains(&writes), "{writes}");
        let statistics = Statistics::of(&trace);
        assert!(statistics.objects > 2_000 && statistics.objects <= 4_167, "{statistics:?}");
        assert!(trace.iter().all(|request| request.size % 4096 == 0 && request.size > 0));
    }
}
