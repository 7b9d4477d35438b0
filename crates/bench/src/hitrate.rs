//! `hitrate`: hit ratio over memory, for every eviction policy.

use crate::experiment::{Case, Experiment, Options, grid};
use crate::random::mix;
use crate::result::{Measured, Measurement, Point};
use crate::server::{Peer, Server};
use crate::trace::{Manner, Request, Statistics, TraceName, limit_memory, replay};

/// Bytes that servers count for a connection at most, which hold no values.
const CONNECTION_BYTES: u64 = 40 * 1024;

/// Times to live under policies that evict only keys with an expiry: an hour to a week, seconds.
const TTL_MIN_S: u64 = 3_600;
const TTL_MAX_S: u64 = 7 * 86_400;

/// The policy that only Petrel has.
const OWN_POLICY: &str = "allkeys-s3fifo";

/// `hitrate`: hit ratio of eviction policies.
#[derive(Default)]
pub struct Hitrate;

impl Experiment for Hitrate {
    const NAME: &'static str = "hitrate";
    type State = Vec<Request>;

    /// Reads every trace, so that an error comes before the first server is started.
    fn check(&self, options: &Options) -> Result<(), String> {
        if let Some(text) = options.texts("memory").iter().find(|text| percent(text).is_none()) {
            return Err(format!("--memory {text}: per cent, above zero"));
        }
        TraceName::check(options)
    }

    fn points(&self, options: &Options) -> Vec<Point> {
        let memory = options.texts("memory").iter().filter_map(|text| percent(text));
        grid([
            ("trace", TraceName::labels(options)),
            ("memory", memory.map(|percent| percent.to_string()).collect()),
            ("policy", options.texts("policies").to_vec()),
        ])
    }

    fn leaves_out(&self, peer: &Peer, case: &Case<'_>) -> bool {
        case.text("policy") == OWN_POLICY && !peer.is_petrel()
    }

    fn prepare(&self, case: &Case<'_>, server: &Server) -> Result<Vec<Request>, String> {
        let mut trace = TraceName::trace(case)?;
        let (policy, value) = (case.text("policy"), case.get::<u32>("value"));
        for request in &mut trace {
            let ttl_s = TTL_MIN_S + mix(request.object) % (TTL_MAX_S - TTL_MIN_S);
            request.ttl_s = if policy.starts_with("volatile") { ttl_s as u32 } else { 0 };
            if value > 0 {
                request.size = value;
            }
        }
        let all = Statistics::of(&trace).working_set as f64;
        let bytes = all * case.at::<f64>("memory") / 100.0;
        limit_memory(server, bytes as u64 + CONNECTION_BYTES, policy)?;
        Ok(trace)
    }

    fn measure(&self, _: &Case<'_>, server: &Server, trace: &mut Vec<Request>) -> Measured {
        let manner = Manner { connections: 1, pace: None, size: None };
        let done = replay(server.entrances(), trace, manner)?;
        if done.errors.wrong > 0 {
            return Err(format!("{} values were not those stored", done.errors.wrong));
        }
        let mut measured = Measurement::default()
            .with("hits", done.hits as f64 * 100.0 / (done.hits + done.misses) as f64)
            .with("stored", done.set.len() as f64 / done.hits.max(1) as f64);
        if let Some(first) = &done.errors.first {
            measured.doubts.push(format!("{} error replies, first: {first}", done.errors.replies));
        }
        Ok(measured)
    }
}

fn percent(text: &str) -> Option<f64> {
    text.parse::<f64>().ok().filter(|percent| *percent > 0.0 && *percent <= 1000.0)
}
