//! `scaling`: what one operation costs as the collection that it works on grows.

use std::time::{Duration, Instant};

use serde::Serialize;

use crate::command::{Template, Variables};
use crate::exchange::{Exchange, cpu_ns, wait_for_rest};
use crate::experiment::{
    CPU, Cells, Description, Experiment, Lifetime, Plot, RunArgs, SERVER, View, at, grid, texts,
};
use crate::random::Random;
use crate::result::{Measurement, Point};
use crate::server::{Server, Setting};

/// Elements of one command while a collection is filled.
const ELEMENTS_PER_COMMAND: u64 = 500;

/// Measure server CPU time per operation over the size of a collection.
///
/// One key holds the whole collection. Each measurement goes on for the same time; a second is
/// enough for a millisecond per operation.
#[derive(Clone, Debug, Serialize, clap::Args)]
pub struct ScalingArgs {
    /// Sizes of the collection
    #[arg(
        long,
        value_delimiter = ',',
        value_name = "N,...",
        default_value = "100,1000,10000,100000,1000000,10000000",
        default_value_if("quick", "true", "100,10000,300000")
    )]
    sizes: Vec<u64>,

    /// Seconds per measurement
    #[arg(
        long,
        default_value_t = 1.0,
        default_value_if("quick", "true", "0.3"),
        value_name = "SECONDS"
    )]
    seconds: f64,
}

/// What it is.
pub const DESCRIPTION: &Description = &Description {
    name: "scaling",
    title: "Scaling",
    about: "Server CPU time per command over the number of elements of the one collection that it works on. Where two \
            commands are named they are sent in turn, so that the collection keeps its size.",
    axes: &[("operation", "{}"), ("size", "{} elements")],
    figures: &[CPU],
    views: &[
        View::new("By elements", &["cpu"], &["operation"], &[SERVER], &["size"]).plot(Plot::Lines),
        View::new("Over each server's", &["cpu"], &["size"], &["operation"], &[SERVER])
            .cells(Cells::Ratio),
    ],
};

/// The command that fills a collection, and what it adds for each element.
type Filling = (&'static str, &'static str);

const LIST: Filling = ("RPUSH list", "element:{at:010}");
const SORTED_SET: Filling = ("ZADD zset", "{at*7919%1000000007} element:{at:010}");
const SET: Filling = ("SADD set", "element:{at:010}");
const HASH: Filling = ("HSET hash", "element:{at:010} {at}");

/// An operation whose cost may depend on the size of its collection. In its commands `n` is drawn
/// from the elements, `at` is a place in the middle or after a quarter of them.
struct Operation {
    name: &'static str,
    fill: Filling,
    commands: &'static str,
    /// `at` is the size divided by this.
    part: u64,
}

const fn operation(name: &'static str, fill: Filling, commands: &'static str) -> Operation {
    Operation { name, fill, commands, part: 2 }
}

const OPERATIONS: [Operation; 10] = [
    operation("LINDEX in the middle", LIST, "LINDEX list {at}"),
    operation("LRANGE of 10 in the middle", LIST, "LRANGE list {at} {at+9}"),
    operation("LSET in the middle", LIST, "LSET list {at} {size}"),
    Operation {
        name: "LINSERT and LREM after a quarter",
        fill: LIST,
        commands: "LINSERT list BEFORE element:{at:010} new ; LREM list 1 new",
        part: 4,
    },
    operation("ZRANK", SORTED_SET, "ZRANK zset element:{n:010}"),
    operation("ZADD of a new score", SORTED_SET, "ZADD zset {?size} element:{n:010}"),
    operation("ZRANGE of 10 anywhere", SORTED_SET, "ZRANGE zset {n} {n+9}"),
    operation("HRANDFIELD of 10", HASH, "HRANDFIELD hash 10"),
    operation("SRANDMEMBER of 10", SET, "SRANDMEMBER set 10"),
    operation(
        "SPOP of 10 and SADD of 10",
        SET,
        "SPOP set 10 ; SADD set new:{?1000000000000:012} new:{?1000000000000:012} new:{?1000000000000:012} \
         new:{?1000000000000:012} new:{?1000000000000:012} new:{?1000000000000:012} new:{?1000000000000:012} \
         new:{?1000000000000:012} new:{?1000000000000:012} new:{?1000000000000:012}",
    ),
];

fn operation_of(point: &Point) -> &'static Operation {
    let same = OPERATIONS.iter().find(|operation| operation.name == point["operation"]);
    same.expect("the grid is made of them")
}

impl Experiment for ScalingArgs {
    const DESCRIPTION: &'static Description = DESCRIPTION;
    const ROUNDS: (usize, usize) = (1, 1);
    const GROUP: &'static [&'static str] = &["size", "collection"];
    type Session = (Server, Exchange);

    fn check(&self) -> Result<(), String> {
        let good = self.seconds > 0.0 && self.seconds < 86_400.0 && !self.sizes.contains(&0);
        if good { Ok(()) } else { Err("--sizes and --seconds need numbers above zero".to_owned()) }
    }

    fn points(&self) -> Vec<Point> {
        let names = OPERATIONS.map(|operation| operation.name);
        let mut points = grid([("size", texts(&self.sizes)), ("operation", texts(&names))]);
        for point in &mut points {
            point.insert("collection".to_owned(), operation_of(point).fill.0.to_owned());
        }
        points
    }

    fn lifetime(&self) -> Lifetime {
        Lifetime::Server
    }

    fn setting(&self, run: &RunArgs, _: &Point) -> Setting {
        run.setting(1, 64)
    }

    fn prepare(&self, server: Server, point: &Point) -> Result<Self::Session, String> {
        let mut exchange = Exchange::connect(server.endpoint(), 1)?;
        fill(&mut exchange, operation_of(point).fill, at(point, "size"), ELEMENTS_PER_COMMAND)?;
        wait_for_rest(&server)?;
        Ok((server, exchange))
    }

    fn measure(
        &self,
        (server, exchange): &mut Self::Session,
        point: &Point,
        round: usize,
    ) -> Result<Measurement, String> {
        let (size, operation) = (at::<u64>(point, "size"), operation_of(point));
        let commands = Template::known(operation.commands);
        let mut random = Random::new(size + round as u64);
        let (begin, before) = (Instant::now(), cpu_ns(server)?);
        let (mut done, mut pipeline) = (0, 1);
        while begin.elapsed() < Duration::from_secs_f64(self.seconds) {
            exchange.run(commands.replies(), pipeline, 16, |out| {
                let n = random.below(size);
                let variables = Variables { n, at: size / operation.part, size };
                commands.put(variables, &mut random, out);
            })?;
            done += pipeline * commands.replies();
            // Slow operations are measured one by one, fast ones in pipelines.
            pipeline = (pipeline * 2).min(1024);
        }
        exchange.check()?;
        let cpu = (cpu_ns(server)? - before) as f64 / 1e3 / done as f64;
        Ok(Measurement::default().with("cpu", cpu))
    }
}

/// Fills one collection with so many elements, so many by each command.
pub fn fill(
    exchange: &mut Exchange,
    (head, element): (&str, &str),
    elements: u64,
    per_command: u64,
) -> Result<(), String> {
    // Commands with one element each are sent in longer pipelines.
    let pipeline = if per_command == 1 { 1000 } else { 8 };
    let (head, element) = (Template::known(head), Template::known(element));
    let (mut next, mut random) = (0, Random::new(0));
    exchange.run(1, elements.div_ceil(per_command), pipeline, |out| {
        let end = (next + per_command).min(elements);
        let variables = Variables { size: elements, ..Variables::default() };
        head.put_with(&element, next..end, variables, &mut random, out);
        next = end;
    })?;
    exchange.check()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_templates_can_be_read() {
        for operation in &OPERATIONS {
            let commands = Template::known(operation.commands).replies();
            assert_eq!(commands, if operation.name.contains(" and ") { 2 } else { 1 });
            assert_eq!(Template::known(operation.fill.1).replies(), 1);
        }
    }
}
