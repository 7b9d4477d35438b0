//! `churn`: resident memory while values of mixed sizes come and go at the memory limit, and after
//! all have expired.

use std::thread;
use std::time::{Duration, Instant};

use petrel_client::RawCommand;
use petrel_resp::encode_command;

use crate::exchange::Exchange;
use crate::experiment::{Case, Experiment};
use crate::random::Random;
use crate::result::{Measured, Measurement};
use crate::server::{Server, Setting};
use crate::sys::text;
use crate::wire::client;

/// Keys that are written at random.
const KEYS: u64 = 1_000_000;
/// Times to live, milliseconds, evenly spread.
const TTL_MS: (u64, u64) = (1_000, 6_000);
/// Commands on each connection between two looks at the clock.
const PIPELINE: usize = 16;
const CONNECTIONS: usize = 4;
/// Interval at which resident memory is read.
const SAMPLE_EVERY: Duration = Duration::from_secs(1);
/// Time from `MEMORY PURGE` to the last reading.
const PURGE: Duration = Duration::from_secs(3);

/// `churn`: memory while values expire and are evicted.
#[derive(Default)]
pub struct Churn;

impl Experiment for Churn {
    const NAME: &'static str = "churn";
    type State = ();

    fn setting(&self, case: &Case<'_>, setting: Setting) -> Setting {
        Setting { value_max: case.get("value-max"), ..setting }
    }

    fn prepare(&self, _: &Case<'_>, _: &Server) -> Result<(), String> {
        Ok(())
    }

    fn measure(&self, case: &Case<'_>, server: &Server, (): &mut ()) -> Measured {
        let (limit, value_max) = (case.at::<u64>("maxmemory") << 20, case.get::<u64>("value-max"));
        ask(server, &["CONFIG", "SET", "maxmemory-policy", "allkeys-lru"])?;
        ask(server, &["CONFIG", "SET", "maxmemory", &limit.to_string()])?;
        let mut exchange = Exchange::connect(server.endpoint(), CONNECTIONS)?;
        let empty = server.rss()?;
        let (mut random, values) = (Random::new(1), vec![b'v'; value_max as usize]);
        let (mut sets, mut fullest, mut samples) = (0, empty, 0);
        let (began, length) = (Instant::now(), Duration::from_secs(case.get("seconds")));
        while began.elapsed() < length {
            let count = (PIPELINE * CONNECTIONS) as u64;
            exchange.run(1, count, PIPELINE, |out| {
                let key = format!("key:{:012}", random.below(KEYS));
                let value = &values[..1 + random.below(value_max) as usize];
                let ttl = (TTL_MS.0 + random.below(TTL_MS.1 - TTL_MS.0 + 1)).to_string();
                encode_command(&[b"SET", key.as_bytes(), value, b"PX", ttl.as_bytes()], out);
            })?;
            sets += count;
            if began.elapsed() >= SAMPLE_EVERY * (samples + 1) {
                samples += 1;
                fullest = fullest.max(server.rss()?);
            }
        }
        exchange.check()?;
        let rate = sets as f64 / began.elapsed().as_secs_f64();
        thread::sleep(Duration::from_secs(case.get("rest")));
        let rested = server.rss()?;
        ask(server, &["MEMORY", "PURGE"])?;
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

fn ask(server: &Server, words: &[&str]) -> Result<(), String> {
    let client = client(server.endpoint()).map_err(text)?;
    client.command(words[0]).args(&words[1..]).run().map(drop).map_err(text)
}
