//! `hitrate`: hit ratio over memory, for every eviction policy.

use serde::Serialize;

use crate::experiment::{
    Better, Description, Experiment, FIGURE, Figure, Lifetime, Plot, RunArgs, SERVER, View, at,
    grid, texts,
};
use crate::random::mix;
use crate::result::{Measurement, Point};
use crate::server::{Peer, Server, Setting};
use crate::trace::{Manner, Request, Statistics, TraceName, limit_memory, replay};

/// What servers count for a connection at most, which is no room for values.
const CONNECTION_BYTES: u64 = 40 * 1024;

/// Seconds that values live where only those with an expiry are evicted: from an hour to a week.
const TTL_MIN_S: u64 = 3_600;
const TTL_MAX_S: u64 = 7 * 86_400;

/// A policy that only Petrel has.
const OWN_POLICY: &str = "allkeys-s3fifo";

/// Measure the hit ratio of every eviction policy over memory, on traces and generators.
///
/// One connection replays a trace (see `trace`): GET, and on a miss SET. Policies that a server
/// does not know are named as failed.
#[derive(Clone, Debug, Serialize, clap::Args)]
pub struct HitrateArgs {
    /// Traces, replayed apart, as `trace` knows them
    #[arg(
        long,
        value_delimiter = ',',
        value_name = "TRACE,...",
        default_value = "zipf,block,cluster17",
        default_value_if("quick", "true", "zipf")
    )]
    traces: Vec<TraceName>,

    /// Requests of a trace at most
    #[arg(long, default_value_t = 300_000, default_value_if("quick", "true", "60000"),
          value_name = "N", value_parser = clap::value_parser!(u64).range(1..=100_000_000))]
    requests: u64,

    /// Memory for values beyond the empty server's, per cent of all values
    #[arg(long, value_delimiter = ',', value_name = "PERCENT,...", default_value = "1,2,5,10,20,40,80",
          default_value_if("quick", "true", "5,20"), value_parser = parse_percent)]
    memory: Vec<String>,

    /// What is evicted
    #[arg(
        long,
        value_delimiter = ',',
        value_name = "POLICY,...",
        default_value = "allkeys-lru,allkeys-lfu,allkeys-random,allkeys-s3fifo,allkeys-lrm,volatile-lru,volatile-lfu,\
                         volatile-random,volatile-ttl,volatile-lrm",
        default_value_if("quick", "true", "allkeys-lru,allkeys-lfu,allkeys-random,allkeys-s3fifo")
    )]
    policies: Vec<String>,

    /// Bytes of every value; 0 takes those of the trace
    #[arg(long, default_value_t = 4096, value_name = "BYTES",
          value_parser = clap::value_parser!(u32).range(..=1_000_000))]
    value: u32,
}

/// What it is.
pub const DESCRIPTION: &Description = &Description {
    name: "hitrate",
    title: "Hit ratio over memory",
    about: "The same requests in the same order over one connection: GET, and on a miss SET. Memory is `maxmemory` beyond \
            what the empty server takes and the connection's buffers, as a share of the values of all objects; what a \
            server needs besides values comes out of it. Under policies that evict only keys with an expiry all keys have \
            one, from an hour to a week. `zipf`, `block` and `cluster17` are drawn from published statistics.",
    axes: &[("trace", "{}"), ("policy", "{}"), ("memory", "{} %")],
    figures: &[
        Figure::new("hits", "Hit ratio", "%", 2, Better::More),
        Figure::new("stored", "Values stored for each hit", "", 2, Better::Neither),
    ],
    views: &[
        View::new("", &["hits"], &["trace"], &["memory"], &["policy", SERVER])
            .plot(Plot::Lines)
            .in_summary(),
        View::new("By policy", &["hits"], &["trace", FIGURE], &["policy", "memory"], &[SERVER]),
    ],
};

fn parse_percent(text: &str) -> Result<String, String> {
    let percent = text.parse::<f64>().ok().filter(|percent| *percent > 0.0 && *percent <= 1000.0);
    percent.map(|percent| percent.to_string()).ok_or_else(|| "per cent, above zero".to_owned())
}

impl Experiment for HitrateArgs {
    const DESCRIPTION: &'static Description = DESCRIPTION;
    const ROUNDS: (usize, usize) = (1, 1);
    type Session = (Server, Vec<Request>);

    /// Every trace can be read: that is better known before the first server is started.
    fn check(&self) -> Result<(), String> {
        self.traces.iter().try_for_each(|trace| trace.load(self.requests as usize).map(|_| ()))
    }

    fn points(&self) -> Vec<Point> {
        let traces: Vec<String> = self.traces.iter().map(TraceName::label).collect();
        grid([
            ("trace", traces),
            ("memory", texts(&self.memory)),
            ("policy", self.policies.clone()),
        ])
    }

    fn lifetime(&self) -> Lifetime {
        Lifetime::Measurement
    }

    fn leaves_out(&self, peer: &Peer, point: &Point) -> bool {
        point["policy"] == OWN_POLICY && !peer.is_petrel()
    }

    fn setting(&self, run: &RunArgs, _: &Point) -> Setting {
        run.setting(1, 64)
    }

    fn prepare(&self, server: Server, point: &Point) -> Result<Self::Session, String> {
        let name = self.traces.iter().find(|trace| trace.label() == point["trace"]);
        let mut trace = name.expect("the grid is made of them").load(self.requests as usize)?;
        let policy = &point["policy"];
        for request in &mut trace {
            let ttl_s = TTL_MIN_S + mix(request.object) % (TTL_MAX_S - TTL_MIN_S);
            request.ttl_s = if policy.starts_with("volatile") { ttl_s as u32 } else { 0 };
            if self.value > 0 {
                request.size = self.value;
            }
        }
        let bytes = Statistics::of(&trace).working_set as f64 * at::<f64>(point, "memory") / 100.0;
        limit_memory(&server, bytes as u64 + CONNECTION_BYTES, policy)?;
        Ok((server, trace))
    }

    fn measure(
        &self,
        (server, trace): &mut Self::Session,
        _: &Point,
        _: usize,
    ) -> Result<Measurement, String> {
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
