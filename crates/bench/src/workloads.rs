//! `workloads`: mixes of commands as applications send them.

use std::time::{Duration, Instant};

use serde::Serialize;

use crate::command::{Template, Variables};
use crate::exchange::{Exchange, cpu_ns};
use crate::experiment::{
    CPU, Cells, Description, Experiment, FIGURE, Plot, RunArgs, SERVER, THROUGHPUT, View, at, grid,
    parse_seconds, texts,
};
use crate::random::Random;
use crate::result::{Measurement, Point};
use crate::server::{Server, Setting};

/// Operations between two looks at the clock, per connection.
const OPERATIONS_PER_LOOK: u64 = 64;

/// Measure mixes of commands as applications send them: sessions, rate limits, leaderboards, and so
/// on.
#[derive(Clone, Debug, Serialize, clap::Args)]
pub struct WorkloadsArgs {
    /// Workloads to measure [default: all]
    #[arg(long, value_delimiter = ',', value_name = "NAME,...", value_parser = parse_name)]
    workloads: Vec<String>,

    /// Keys of each workload
    #[arg(long, default_value_t = 100_000, default_value_if("quick", "true", "20000"),
          value_parser = clap::value_parser!(u64).range(1..))]
    keys: u64,

    /// Operations in flight per connection
    #[arg(long, value_delimiter = ',', value_name = "N,...", default_value = "1,16",
          value_parser = clap::value_parser!(u16).range(1..=1000))]
    pipelines: Vec<u16>,

    /// Threads of the servers
    #[arg(long, default_value_t = 2, value_name = "N",
          value_parser = clap::value_parser!(u16).range(1..=1024))]
    server_threads: u16,

    /// Seconds per measurement
    #[arg(long, default_value_t = 3.0, default_value_if("quick", "true", "0.7"),
          value_parser = parse_seconds)]
    seconds: f64,
}

/// What it is.
pub const DESCRIPTION: &Description = &Description {
    name: "workloads",
    title: "Workloads of applications",
    about: "Mixes of commands over requests in flight per connection (P). A pipeline goes out on every connection, then \
            all replies are read. Session store: 80 % GET, 15 % SET of 512 B with a TTL, 5 % EXPIRE, 50 connections. \
            Rate limiting: INCR and EXPIRE of a window's counter, 150 connections. Leaderboard: half ZADD, a quarter \
            each of ZRANGEBYSCORE of the 10 best and ZREVRANK, one board. Application cache: 80 % GET, 10 % MGET of \
            10, 10 % MSET of 5, values of 1 to 4 KB. Job queue: LPUSH and RPOP in turn. User profiles: 60 % HGET, \
            20 % HGETALL, 20 % HSET of 10 fields. Mixed 1:1 and 1:10: SET to GET of 100 B. Keys are drawn at random; \
            50 connections unless said otherwise.",
    axes: &[("workload", "{}"), ("pipeline", "P{}")],
    figures: &[THROUGHPUT, CPU],
    views: &[
        View::new("", &["throughput", "cpu"], &["pipeline", FIGURE], &["workload"], &[SERVER])
            .plot(Plot::Bars)
            .in_summary(),
        View::new("Over each server's", &["throughput"], &["pipeline"], &["workload"], &[SERVER])
            .cells(Cells::Ratio),
    ],
};

/// A mix: each command is sent in proportion to its weight.
struct Workload {
    name: &'static str,
    connections: usize,
    /// Stores the data of key `n`.
    fill: &'static str,
    /// Weights and commands; `n` is a key drawn at random, `size` is the number of keys.
    mix: &'static [(u64, &'static str)],
}

const WORKLOADS: [Workload; 8] = [
    Workload {
        name: "session store",
        connections: 50,
        fill: "SET session:{n:08} {512B} EX 1800",
        mix: &[
            (80, "GET session:{n:08}"),
            (15, "SET session:{n:08} {512B} EX 1800"),
            (5, "EXPIRE session:{n:08} 1800"),
        ],
    },
    Workload {
        name: "rate limiting",
        connections: 150,
        fill: "SET limit:{n:08} 0 EX 60",
        mix: &[(1, "INCR limit:{n:08} ; EXPIRE limit:{n:08} 60")],
    },
    Workload {
        name: "leaderboard",
        connections: 50,
        fill: "ZADD board {n*7919%1000000007} player:{n:08}",
        mix: &[
            (2, "ZADD board {?1000000007} player:{n:08}"),
            (1, "ZRANGEBYSCORE board {?1000000007} +inf LIMIT 0 10"),
            (1, "ZREVRANK board player:{n:08}"),
        ],
    },
    Workload {
        name: "application cache",
        connections: 50,
        fill: "SET page:{n:08} {2500B}",
        mix: &[
            (80, "GET page:{n:08}"),
            (
                10,
                "MGET page:{n:08} page:{?size:08} page:{?size:08} page:{?size:08} page:{?size:08} \
                 page:{?size:08} page:{?size:08} page:{?size:08} page:{?size:08} page:{?size:08}",
            ),
            (
                10,
                "MSET page:{n:08} {1000B} page:{?size:08} {1700B} page:{?size:08} {2500B} page:{?size:08} \
                 {3200B} page:{?size:08} {4000B}",
            ),
        ],
    },
    Workload {
        name: "job queue",
        connections: 50,
        fill: "LPUSH queue:{n%16} job:{n:08}",
        mix: &[(1, "LPUSH queue:{?16} job:{?100000000:08} ; RPOP queue:{?16}")],
    },
    Workload {
        name: "user profiles",
        connections: 50,
        fill: "HSET user:{n:08} name user{n:08} mail user{n:08}@example.org age {n%90} city c{n%500} \
               country x{n%200} plan p{n%5} visits {n%1000} last {n} score {n%777} flags {n%16}",
        mix: &[
            (60, "HGET user:{n:08} mail"),
            (20, "HGETALL user:{n:08}"),
            (20, "HSET user:{n:08} visits {?1000} last {?1000000}"),
        ],
    },
    Workload {
        name: "mixed 1:1",
        connections: 50,
        fill: "SET key:{n:08} {100B}",
        mix: &[(1, "SET key:{n:08} {100B}"), (1, "GET key:{n:08}")],
    },
    Workload {
        name: "mixed 1:10",
        connections: 50,
        fill: "SET key:{n:08} {100B}",
        mix: &[(1, "SET key:{n:08} {100B}"), (10, "GET key:{n:08}")],
    },
];

/// Reads a template in which `{512B}` is a value of so many bytes.
fn template(text: &str) -> Template {
    let mut text = text.to_owned();
    while let Some(end) = text.find("B}") {
        let begin = text[..end].rfind('{').expect("a template of the program itself is tested");
        let size =
            text[begin + 1..end].parse().expect("a template of the program itself is tested");
        text.replace_range(begin..end + 2, &"v".repeat(size));
    }
    Template::known(&text)
}

fn parse_name(text: &str) -> Result<String, String> {
    match WORKLOADS.iter().find(|workload| workload.name == text) {
        Some(workload) => Ok(workload.name.to_owned()),
        None => Err(format!("there are {}", WORKLOADS.map(|workload| workload.name).join(", "))),
    }
}

fn workload(point: &Point) -> &'static Workload {
    let same = WORKLOADS.iter().find(|workload| workload.name == point["workload"]);
    same.expect("the grid is made of them")
}

impl Experiment for WorkloadsArgs {
    const DESCRIPTION: &'static Description = DESCRIPTION;
    const GROUP: &'static [&'static str] = &["workload"];
    type Session = (Server, Exchange);

    fn points(&self) -> Vec<Point> {
        let names = WORKLOADS.map(|workload| workload.name.to_owned());
        let asked = |name: &&String| self.workloads.is_empty() || self.workloads.contains(name);
        let names = names.iter().filter(asked).cloned().collect();
        grid([("workload", names), ("pipeline", texts(&self.pipelines))])
    }

    fn setting(&self, run: &RunArgs, _: &Point) -> Setting {
        run.setting(usize::from(self.server_threads), 1024)
    }

    fn prepare(&self, server: Server, point: &Point) -> Result<Self::Session, String> {
        let workload = workload(point);
        let mut exchange = Exchange::connect(server.endpoint(), workload.connections)?;
        let (fill, mut random, mut n) = (template(workload.fill), Random::new(0), 0);
        exchange.run(fill.replies(), self.keys, 16, |out| {
            fill.put(Variables { n, at: 0, size: self.keys }, &mut random, out);
            n += 1;
        })?;
        exchange.check()?;
        Ok((server, exchange))
    }

    fn measure(
        &self,
        (server, exchange): &mut Self::Session,
        point: &Point,
        round: usize,
    ) -> Result<Measurement, String> {
        let workload = workload(point);
        let pipeline = at::<usize>(point, "pipeline");
        let mix: Vec<(u64, Template)> =
            workload.mix.iter().map(|(weight, text)| (*weight, template(text))).collect();
        let weights = mix.iter().map(|(weight, _)| weight).sum();
        // Commands of a mix are one each, or there is only one entry: so replies can be counted.
        let replies = mix[0].1.replies();
        let mut random = Random::new(round as u64 + 1);
        let per_look = OPERATIONS_PER_LOOK.max(pipeline as u64) * workload.connections as u64;
        let (begin, before) = (Instant::now(), cpu_ns(server)?);
        let mut commands = 0;
        while begin.elapsed() < Duration::from_secs_f64(self.seconds) {
            exchange.run(replies, per_look, pipeline, |out| {
                let mut drawn = random.below(weights);
                let chosen = mix.iter().find(|(weight, _)| {
                    let is_here = drawn < *weight;
                    drawn = drawn.wrapping_sub(*weight);
                    is_here
                });
                let (_, template) = chosen.unwrap_or(&mix[0]);
                let n = random.below(self.keys);
                template.put(Variables { n, at: 0, size: self.keys }, &mut random, out);
            })?;
            commands += per_look * replies;
        }
        let seconds = begin.elapsed().as_secs_f64();
        let cpu = (cpu_ns(server)? - before) as f64 / 1e3 / commands as f64;
        exchange.check()?;
        Ok(Measurement::default().with("throughput", commands as f64 / seconds).with("cpu", cpu))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_mixes_can_be_read_and_replies_counted() {
        for workload in &WORKLOADS {
            assert!(template(workload.fill).replies() == 1, "{}", workload.name);
            let replies = workload.mix.iter().map(|(_, text)| template(text).replies());
            let replies: Vec<u64> = replies.collect();
            assert!(replies.iter().all(|count| *count == replies[0]), "{}", workload.name);
            assert_eq!(parse_name(workload.name), Ok(workload.name.to_owned()));
        }
        let mut out = Vec::new();
        template("SET a {12B}").put(Variables::default(), &mut Random::new(1), &mut out);
        assert_eq!(out, b"*3\r\n$3\r\nSET\r\n$1\r\na\r\n$12\r\nvvvvvvvvvvvv\r\n");
        assert!(parse_name("x").unwrap_err().contains("leaderboard"));
    }
}
