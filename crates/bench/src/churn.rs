//! `churn`: resident memory while values of mixed sizes come and go at the memory limit, and what
//! is left of it when all have expired.

use std::thread;
use std::time::{Duration, Instant};

use petrel_resp::encode_command;
use serde::Serialize;

use crate::exchange::Exchange;
use crate::experiment::{
    Better, Description, Experiment, FIGURE, Figure, Lifetime, RunArgs, SERVER, View, at, grid,
    texts,
};
use crate::random::Random;
use crate::result::{Measurement, Point};
use crate::server::{Peer, Server, Setting};

/// Keys that are written at random.
const KEYS: u64 = 1_000_000;
/// Times to live, milliseconds, evenly spread.
const TTL_MS: (u64, u64) = (1_000, 6_000);
/// Commands on each connection between two looks at the clock.
const PIPELINE: usize = 16;
const CONNECTIONS: usize = 4;
/// Resident memory is read this often.
const SAMPLE_EVERY: Duration = Duration::from_secs(1);
/// And again so long after `MEMORY PURGE`.
const PURGE: Duration = Duration::from_secs(3);

/// Measure resident memory while values of mixed sizes expire and are evicted, and afterwards.
///
/// SETs of random keys with values of 1 byte to --value-max and a TTL of 1 to 6 s, as fast as
/// possible, at maxmemory with allkeys-lru; then nothing for --rest seconds; then MEMORY PURGE.
#[derive(Clone, Debug, Serialize, clap::Args)]
pub struct ChurnArgs {
    /// Limits of memory, measured apart
    #[arg(long, value_delimiter = ',', value_name = "MB", default_value = "500")]
    maxmemory: Vec<u64>,

    /// Longest value; lengths are evenly spread from 1 on
    #[arg(long, default_value_t = 20_000, value_name = "BYTES")]
    value_max: u32,

    /// How long values are written
    #[arg(
        long,
        default_value_t = 90,
        default_value_if("quick", "true", "15"),
        value_name = "SECONDS"
    )]
    seconds: u64,

    /// How long nothing is done afterwards
    #[arg(
        long,
        default_value_t = 45,
        default_value_if("quick", "true", "15"),
        value_name = "SECONDS"
    )]
    rest: u64,

    /// Threads of the servers
    #[arg(long, default_value_t = 2, value_name = "N",
          value_parser = clap::value_parser!(u16).range(1..=1024))]
    server_threads: u16,
}

/// What it is.
pub const DESCRIPTION: &Description = &Description {
    name: "churn",
    title: "Memory while values of mixed sizes come and go",
    about: "Resident memory (Rss of /proc/PID/smaps_rollup) read once a second while random keys of \
            a million are set to values of mixed lengths that live 1 to 6 s, at maxmemory with \
            allkeys-lru; then when all have expired, and after MEMORY PURGE.",
    axes: &[("maxmemory", "{} MB")],
    figures: &[
        Figure::new("ratio", "Fullest over maxmemory", "ratio", 2, Better::Less),
        Figure::new("fullest", "Fullest", "MB", 0, Better::Less),
        Figure::new("rested", "When all had expired", "MB", 0, Better::Less),
        Figure::new("purged", "After MEMORY PURGE", "MB", 0, Better::Less),
        Figure::new("empty", "Before", "MB", 0, Better::Neither),
        Figure::new("sets", "SETs a second", "", 0, Better::Neither),
    ],
    views: &[View::new(
        "",
        &["ratio", "fullest", "rested", "purged", "empty", "sets"],
        &["maxmemory"],
        &[SERVER],
        &[FIGURE],
    )
    .in_summary()],
};

impl Experiment for ChurnArgs {
    const DESCRIPTION: &'static Description = DESCRIPTION;
    const ROUNDS: (usize, usize) = (1, 1);
    type Session = Server;

    fn admits(&self, peer: &Peer) -> bool {
        !peer.is_floor() && !peer.is_cluster() && peer.name != "memcached"
    }

    fn points(&self) -> Vec<Point> {
        grid([("maxmemory", texts(&self.maxmemory))])
    }

    fn lifetime(&self) -> Lifetime {
        Lifetime::Measurement
    }

    fn setting(&self, run: &RunArgs, _: &Point) -> Setting {
        let setting = run.setting(usize::from(self.server_threads), 1024);
        Setting { value_max: self.value_max, ..setting }
    }

    fn prepare(&self, server: Server, _: &Point) -> Result<Server, String> {
        Ok(server)
    }

    fn measure(&self, server: &mut Server, point: &Point, _: usize) -> Result<Measurement, String> {
        let limit = at::<u64>(point, "maxmemory") << 20;
        let mut exchange = Exchange::connect(server.endpoint(), CONNECTIONS)?;
        ask(&mut exchange, &["CONFIG", "SET", "maxmemory-policy", "allkeys-lru"])?;
        ask(&mut exchange, &["CONFIG", "SET", "maxmemory", &limit.to_string()])?;
        let empty = server.rss()?;
        let (mut random, values) = (Random::new(1), vec![b'v'; self.value_max as usize]);
        let (mut sets, mut fullest, mut samples) = (0, empty, 0);
        let (began, length) = (Instant::now(), Duration::from_secs(self.seconds));
        while began.elapsed() < length {
            let count = (PIPELINE * CONNECTIONS) as u64;
            exchange.run(1, count, PIPELINE, |out| self.set(&mut random, &values, out))?;
            sets += count;
            if began.elapsed() >= SAMPLE_EVERY * (samples + 1) {
                samples += 1;
                fullest = fullest.max(server.rss()?);
            }
        }
        exchange.check()?;
        let rate = sets as f64 / began.elapsed().as_secs_f64();
        thread::sleep(Duration::from_secs(self.rest));
        let rested = server.rss()?;
        ask(&mut exchange, &["MEMORY", "PURGE"])?;
        thread::sleep(PURGE);
        let megabytes = |bytes: u64| (bytes >> 20) as f64;
        Ok(Measurement::default()
            .with("ratio", fullest as f64 / limit as f64)
            .with("fullest", megabytes(fullest))
            .with("rested", megabytes(rested))
            .with("purged", megabytes(server.rss()?))
            .with("empty", megabytes(empty))
            .with("sets", rate))
    }
}

impl ChurnArgs {
    /// Appends one SET.
    fn set(&self, random: &mut Random, values: &[u8], out: &mut Vec<u8>) {
        let key = format!("key:{:012}", random.below(KEYS));
        let len = 1 + random.below(u64::from(self.value_max)) as usize;
        let ttl = TTL_MS.0 + random.below(TTL_MS.1 - TTL_MS.0 + 1);
        let ttl = ttl.to_string();
        encode_command(&[b"SET", key.as_bytes(), &values[..len], b"PX", ttl.as_bytes()], out);
    }
}

fn ask(exchange: &mut Exchange, words: &[&str]) -> Result<(), String> {
    let words: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
    exchange.run(1, 1, 1, |out| encode_command(&words, out))?;
    exchange.check()
}
