//! `commands`: server CPU time per operation of commands on every data type.

use std::time::Instant;

use serde::Serialize;

use crate::command::{Template, Variables};
use crate::exchange::{Exchange, cpu_ns};
use crate::experiment::{
    CPU, Cells, Description, Experiment, FIGURE, Plot, RunArgs, SERVER, THROUGHPUT, View, grid,
};
use crate::random::Random;
use crate::result::{Measurement, Point};
use crate::server::{Server, Setting};

/// Measure server CPU time per operation of commands on every data type, keys drawn at random.
#[derive(Clone, Debug, Serialize, clap::Args)]
pub struct CommandsArgs {
    /// Commands to measure [default: all]
    #[arg(long, value_delimiter = ',', value_name = "NAME,...", value_parser = parse_name)]
    commands: Vec<String>,

    /// Keys of each type
    #[arg(long, default_value_t = 100_000, default_value_if("quick", "true", "20000"))]
    keys: u64,

    /// Operations in flight per connection
    #[arg(long, default_value_t = 16, value_name = "N")]
    pipeline: usize,

    /// Connections
    #[arg(long, default_value_t = 8, value_name = "N")]
    connections: usize,

    /// Operations per command, server and round
    #[arg(long, default_value_t = 400_000, default_value_if("quick", "true", "50000"),
          value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    operations: u64,

    /// Threads of the servers
    #[arg(long, default_value_t = 1, value_name = "N",
          value_parser = clap::value_parser!(u16).range(1..=1024))]
    server_threads: u16,
}

/// What it is.
pub const DESCRIPTION: &Description = &Description {
    name: "commands",
    title: "Commands",
    about: "Server CPU time per operation of commands on every data type: a pipeline out on every connection, then all \
            replies back. Keys are drawn at random from those of the type.",
    axes: &[("command", "{}")],
    figures: &[CPU, THROUGHPUT],
    views: &[
        View::new("Server CPU per operation, us", &["cpu"], &[], &["command"], &[SERVER])
            .plot(Plot::Bars)
            .in_summary(),
        View::new("Server CPU over each", &["cpu"], &[], &["command"], &[SERVER])
            .cells(Cells::Ratio),
        View::new("Throughput", &["throughput"], &[FIGURE], &["command"], &[SERVER]),
    ],
};

/// A command that is measured.
struct Workload {
    name: &'static str,
    /// How a key of its type is made: a command, and what is added to it for each element.
    fill: Option<(&'static str, &'static str, u64)>,
    /// One operation; `n` is a key drawn at random, `at` is drawn below 90, `size` is the number
    /// of keys.
    operation: &'static str,
}

const HASH: Option<(&str, &str, u64)> =
    Some(("HSET hash:{n:08}", "field{at} value-{n+at%10000:04}", 10));
const LIST: Option<(&str, &str, u64)> = Some(("RPUSH list:{n:08}", "element-{at:04}", 100));
const SORTED_SET: Option<(&str, &str, u64)> =
    Some(("ZADD zset:{n:08}", "{n+at*37%1000} member{at:02}", 100));
const SET: Option<(&str, &str, u64)> = Some(("SADD set:{n:08}", "member{at:02}", 16));
const STRING: Option<(&str, &str, u64)> = Some(("SET string:{n:08} value-{n:04}", "", 0));

const WORKLOADS: [Workload; 13] = [
    Workload { name: "INCR", fill: None, operation: "INCR count:{n:08}" },
    Workload {
        name: "HSET",
        fill: HASH,
        operation: "HSET hash:{n:08} field{?10} value-{?10000:04}",
    },
    Workload { name: "HGET", fill: HASH, operation: "HGET hash:{n:08} field{?10}" },
    // Of 32 members half are there at first.
    Workload { name: "SADD", fill: SET, operation: "SADD set:{n:08} member{?32:02}" },
    Workload { name: "LPUSH", fill: LIST, operation: "LPUSH list:{n:08} element-{?10000:04}" },
    Workload { name: "RPOP", fill: LIST, operation: "RPOP list:{n:08}" },
    Workload {
        name: "ZADD",
        fill: SORTED_SET,
        operation: "ZADD zset:{n:08} {?1000} member{?100:02}",
    },
    Workload { name: "ZRANGE", fill: SORTED_SET, operation: "ZRANGE zset:{n:08} {at} {at+9}" },
    Workload {
        name: "ZRANGEBYSCORE",
        fill: SORTED_SET,
        operation: "ZRANGEBYSCORE zset:{n:08} {?900} +inf LIMIT 0 10",
    },
    Workload {
        name: "XADD",
        fill: None,
        operation: "XADD stream:{n:08} * sensor {?10000} temperature {?3333}",
    },
    Workload {
        name: "SETS",
        fill: STRING,
        operation: "SET string:{?size:08} value-{?10000:04} ; SET string:{?size:08} value-{?10000:04} ; \
                    SET string:{?size:08} value-{?10000:04} ; SET string:{?size:08} value-{?10000:04}",
    },
    Workload {
        name: "MULTI",
        fill: STRING,
        operation: "MULTI ; SET string:{?size:08} value-{?10000:04} ; SET string:{?size:08} value-{?10000:04} ; \
                    SET string:{?size:08} value-{?10000:04} ; SET string:{?size:08} value-{?10000:04} ; EXEC",
    },
    Workload {
        name: "EVAL",
        fill: STRING,
        operation: "EVAL \"return redis.call('GET', KEYS[1])\" 1 string:{n:08}",
    },
];

fn parse_name(text: &str) -> Result<String, String> {
    let name = text.to_uppercase();
    if WORKLOADS.iter().any(|workload| workload.name == name) {
        return Ok(name);
    }
    Err(format!("there are {}", WORKLOADS.map(|workload| workload.name).join(", ")))
}

fn workload(point: &Point) -> &'static Workload {
    let same = WORKLOADS.iter().find(|workload| workload.name == point["command"]);
    same.expect("the grid is made of them")
}

impl Experiment for CommandsArgs {
    const DESCRIPTION: &'static Description = DESCRIPTION;
    const ROUNDS: (usize, usize) = (5, 2);
    const GROUP: &'static [&'static str] = &["command"];
    type Session = (Server, Exchange);

    fn points(&self) -> Vec<Point> {
        let names = WORKLOADS.map(|workload| workload.name.to_owned());
        let asked = |name: &&String| self.commands.is_empty() || self.commands.contains(name);
        grid([("command", names.iter().filter(asked).cloned().collect())])
    }

    fn setting(&self, run: &RunArgs, _: &Point) -> Setting {
        run.setting(usize::from(self.server_threads), 1024)
    }

    fn prepare(&self, server: Server, point: &Point) -> Result<Self::Session, String> {
        let mut exchange = Exchange::connect(server.endpoint(), self.connections)?;
        if let Some((head, element, count)) = workload(point).fill {
            let (head, element) = (Template::known(head), Template::known(element));
            let (mut random, mut n) = (Random::new(0), 0);
            exchange.run(1, self.keys, self.pipeline, |out| {
                let variables = Variables { n, ..Variables::default() };
                head.put_with(&element, 0..count, variables, &mut random, out);
                n += 1;
            })?;
            exchange.check()?;
        }
        Ok((server, exchange))
    }

    fn measure(
        &self,
        (server, exchange): &mut Self::Session,
        point: &Point,
        round: usize,
    ) -> Result<Measurement, String> {
        let operation = Template::known(workload(point).operation);
        let mut random = Random::new(round as u64 + 1);
        let (begin, cpu) = (Instant::now(), cpu_ns(server)?);
        exchange.run(operation.replies(), self.operations, self.pipeline, |out| {
            let (n, at) = (random.below(self.keys), random.below(90));
            operation.put(Variables { n, at, size: self.keys }, &mut random, out);
        })?;
        let cpu = cpu_ns(server)? - cpu;
        let seconds = begin.elapsed().as_secs_f64();
        exchange.check()?;
        Ok(Measurement::default()
            .with("cpu", cpu as f64 / 1e3 / self.operations as f64)
            .with("throughput", self.operations as f64 / seconds))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_templates_can_be_read() {
        for workload in &WORKLOADS {
            let replies = if workload.name == "MULTI" { 6 } else { 1 };
            let replies = if workload.name == "SETS" { 4 } else { replies };
            assert_eq!(Template::known(workload.operation).replies(), replies);
            if let Some((head, element, _)) = workload.fill {
                assert_eq!(Template::known(head).replies(), Template::known(element).replies());
            }
        }
        assert_eq!(parse_name("hset"), Ok("HSET".to_owned()));
        assert!(parse_name("x").is_err());
    }
}
