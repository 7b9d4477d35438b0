//! `memory --types`: resident bytes per element of collections, small ones in many keys and large
//! ones.

use std::time::Duration;

use serde::Serialize;

use crate::command::{Template, Variables};
use crate::exchange::Exchange;
use crate::experiment::{
    Better, Cells, Description, Experiment, Figure, Lifetime, Plot, RunArgs, SERVER, View, grid,
    texts,
};
use crate::memory::MemoryArgs;
use crate::random::Random;
use crate::result::{Measurement, Point};
use crate::server::{Server, Setting};

/// Elements of one command at most, while a collection is filled.
const ELEMENTS_PER_COMMAND: u64 = 100;

/// Commands sent to the empty server first, and bytes of each: as large as those that fill it.
const WARM_UP_COMMANDS: u64 = 20_000;
const WARM_UP_BYTES: u64 = 500;

/// Longest wait until the memory of an empty and of a loaded server rests.
const REST_EMPTY: Duration = Duration::from_secs(5);
const REST_LOADED: Duration = Duration::from_secs(10);

/// The options of `memory --types`.
#[derive(Clone, Debug, Serialize)]
pub struct CollectionsArgs {
    elements: u64,
    server_threads: u16,
}

impl From<&MemoryArgs> for CollectionsArgs {
    fn from(args: &MemoryArgs) -> CollectionsArgs {
        // The option has a default, so there is one.
        let server_threads = args.server_threads.first().copied().unwrap_or(1);
        CollectionsArgs { elements: args.keys, server_threads }
    }
}

/// What it is.
pub const DESCRIPTION: &Description = &Description {
    name: "memory-types",
    title: "Memory per element",
    about: "Growth of a fresh server's resident memory over the number of elements, of many small collections and of \
            one large one; keys of 16 bytes. The server has answered 20,000 times ECHO of 500 bytes before it counts \
            as empty.",
    axes: &[("collection", "{}")],
    figures: &[Figure::new("bytes", "Bytes per element", "", 1, Better::Less)],
    views: &[
        View::new("", &["bytes"], &[], &["collection"], &[SERVER]).plot(Plot::Bars).in_summary(),
        View::new("Over each server's", &["bytes"], &[], &["collection"], &[SERVER])
            .cells(Cells::Ratio),
    ],
};

/// A kind of collection: name, elements of one key (0: all in one), command, one element.
type CollectionCase = (&'static str, u64, &'static str, &'static str);

/// A field and its value, an integer, a member of 14 bytes, the same with its score, an item of 15
/// bytes, and an entry of a stream with readings once a second.
const FIELD: &str = "field:{at} value:{n*31+at*7%100000}";
const INTEGER: &str = "{n*3+at*1021}";
const MEMBER: &str = "member:{n*16+at%10000000:07}";
const SCORED: &str = "{n*37+at*7919%1000000} member:{n*16+at%10000000:07}";
const ITEM: &str = "element:{n*100+at%10000000:07}";
const ENTRY: &str = "{n+at*1000+1700000000000}-0 sensor {n+at%1000} temperature {at*7%40}.{at%10}";

const KINDS: [CollectionCase; 13] = [
    ("hashes of 10 fields", 10, "HSET", FIELD),
    ("one hash", 0, "HSET", FIELD),
    ("sets of 16 integers", 16, "SADD", INTEGER),
    ("one set of integers", 0, "SADD", INTEGER),
    ("sets of 16 strings", 16, "SADD", MEMBER),
    ("one set of strings", 0, "SADD", MEMBER),
    ("sorted sets of 10", 10, "ZADD", SCORED),
    ("one sorted set", 0, "ZADD", SCORED),
    ("lists of 100 strings", 100, "RPUSH", ITEM),
    ("lists of 100 integers", 100, "RPUSH", INTEGER),
    ("one list", 0, "RPUSH", ITEM),
    ("streams of 100", 100, "XADD", ENTRY),
    ("one stream", 0, "XADD", ENTRY),
];

/// A stream takes one entry by each command, and takes them in order.
fn is_single(kind: &CollectionCase) -> bool {
    kind.2 == "XADD"
}

fn kind(point: &Point) -> &'static CollectionCase {
    let same = KINDS.iter().find(|kind| kind.0 == point["collection"]);
    same.expect("the grid is made of them")
}

impl Experiment for CollectionsArgs {
    const DESCRIPTION: &'static Description = DESCRIPTION;
    const ROUNDS: (usize, usize) = (1, 1);
    type Session = (Server, Exchange);

    fn points(&self) -> Vec<Point> {
        grid([("collection", texts(&KINDS.map(|kind| kind.0)))])
    }

    fn lifetime(&self) -> Lifetime {
        Lifetime::Measurement
    }

    fn setting(&self, run: &RunArgs, _: &Point) -> Setting {
        run.setting(usize::from(self.server_threads), 1024)
    }

    /// What the traffic itself costs is no cost of the elements.
    fn prepare(&self, server: Server, point: &Point) -> Result<Self::Session, String> {
        let mut exchange =
            Exchange::connect(server.endpoint(), if is_single(kind(point)) { 1 } else { 4 })?;
        let echo =
            Template::known(&format!("ECHO {{n:020}}{}", "0".repeat(WARM_UP_BYTES as usize - 20)));
        let mut random = Random::new(0);
        exchange.run(1, WARM_UP_COMMANDS, 32, |out| {
            echo.put(Variables::default(), &mut random, out);
        })?;
        Ok((server, exchange))
    }

    fn measure(
        &self,
        (server, exchange): &mut Self::Session,
        point: &Point,
        _: usize,
    ) -> Result<Measurement, String> {
        let empty = server.rss_at_rest(REST_EMPTY)?.0;
        self.fill(kind(point), exchange)?;
        let loaded = server.rss_at_rest(REST_LOADED)?.0;
        let bytes = loaded.saturating_sub(empty) as f64 / self.elements as f64;
        Ok(Measurement::default().with("bytes", bytes))
    }
}

impl CollectionsArgs {
    fn fill(&self, kind: &CollectionCase, exchange: &mut Exchange) -> Result<(), String> {
        let (_, each, command, element) = *kind;
        let each = if each == 0 { self.elements } else { each };
        let per_command = if is_single(kind) { 1 } else { ELEMENTS_PER_COMMAND.min(each) };
        let head = Template::known(&format!("{command} key:{{n:012}}"));
        let element = Template::known(element);
        let (mut next, mut random) = (0, Random::new(0));
        exchange.run(1, self.elements.div_ceil(per_command), 32, |out| {
            let (n, from) = (next / each, next % each);
            let to = (from + per_command).min(each).min(from + self.elements - next);
            let variables = Variables { n, ..Variables::default() };
            head.put_with(&element, from..to, variables, &mut random, out);
            next += to - from;
        })?;
        exchange.check()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_of_a_stream_come_in_order() {
        let (head, entry) = (Template::known("XADD s"), Template::known(ENTRY));
        let id = |at: u64| {
            let mut out = Vec::new();
            head.put_with(&entry, at..at + 1, Variables::default(), &mut Random::new(1), &mut out);
            let text = String::from_utf8(out).unwrap();
            text.split("\r\n").nth(6).unwrap().trim_end_matches("-0").parse::<u64>().unwrap()
        };
        assert!([0, 1, 999, 1000, 123_456].map(id).is_sorted_by(|a, b| a < b));
        KINDS.iter().for_each(|kind| assert_eq!(Template::known(kind.3).replies(), 1));
    }
}
