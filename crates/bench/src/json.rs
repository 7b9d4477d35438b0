//! `json`: what JSON documents take of memory, and reads and changes of a path of CPU.

use std::fmt::Write;
use std::time::{Duration, Instant};

use petrel_resp::encode_command;
use serde::Serialize;

use crate::command::{Template, Variables};
use crate::exchange::{Exchange, cpu_ns};
use crate::experiment::{
    Better, CPU, Description, Experiment, FIGURE, Figure, Plot, RunArgs, SERVER, Session,
    THROUGHPUT, View, at, grid, texts,
};
use crate::random::{Random, mix};
use crate::result::{Measurement, Point};
use crate::server::{Peer, Server, Setting};

/// Measure JSON documents: memory over their text, CPU of reading and changing a path.
///
/// Servers need JSON: petrel, redis from version 8 (with its module for JSON), and those of --peer.
#[derive(Clone, Debug, Serialize, clap::Args)]
pub struct JsonArgs {
    /// Bytes of a document's text, about
    #[arg(long, value_delimiter = ',', value_name = "BYTES,...", default_value = "2048",
          value_parser = clap::value_parser!(u32).range(256..=1_000_000))]
    sizes: Vec<u32>,

    /// Documents
    #[arg(long, default_value_t = 20_000, default_value_if("quick", "true", "5000"))]
    keys: u64,

    /// Commands to measure [default: all]
    #[arg(long, value_delimiter = ',', value_name = "NAME,...", value_parser = parse_name)]
    commands: Vec<String>,

    /// Commands in flight per connection
    #[arg(long, default_value_t = 16, value_name = "N")]
    pipeline: usize,

    /// Connections
    #[arg(long, default_value_t = 8, value_name = "N")]
    connections: usize,

    /// Commands per server and round
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
    name: "json",
    title: "JSON documents",
    about: "Documents of nested objects, arrays, words and numbers, each another. Memory is the growth of a fresh \
            server's resident memory, keys included, over the bytes of all texts without spaces. CPU is of commands \
            on documents drawn at random: a pipeline out on every connection, then all replies back.",
    axes: &[("size", "{} B"), ("command", "{}")],
    figures: &[
        CPU,
        THROUGHPUT,
        Figure::new("of_text", "Memory over the text", "ratio", 2, Better::Less),
        Figure::new("bytes", "Bytes per document", "", 0, Better::Less),
    ],
    views: &[
        View::new("Server CPU per command, us", &["cpu"], &["size"], &["command"], &[SERVER])
            .plot(Plot::Bars)
            .in_summary(),
        View::new("Memory", &["of_text", "bytes"], &["command"], &["size", SERVER], &[FIGURE])
            .in_summary(),
        View::new("Throughput", &["throughput"], &["size", FIGURE], &["command"], &[SERVER]),
    ],
};

/// What the row of memory is called.
const MEMORY: &str = "memory";

/// Commands with their templates; `n` is the number of a document, `at` is drawn below 90.
const COMMANDS: [(&str, &str); 5] = [
    ("GET", "JSON.GET json:{n:08} $.a.b"),
    ("GET-ALL", "JSON.GET json:{n:08}"),
    ("NUMINCRBY", "JSON.NUMINCRBY json:{n:08} $.a.n 1"),
    ("SET", "JSON.SET json:{n:08} $.a.b '\"value-{?10000:04}\"'"),
    ("ARRAPPEND-POP", "JSON.ARRAPPEND json:{n:08} $.tags {at} ; JSON.ARRPOP json:{n:08} $.tags"),
];

fn parse_name(text: &str) -> Result<String, String> {
    let is_it = |name: &str| name.eq_ignore_ascii_case(text);
    let mut names = COMMANDS.iter().map(|(name, _)| *name).chain([MEMORY]);
    let found = names.find(|name| is_it(name)).map(str::to_owned);
    found.ok_or_else(|| {
        let names = COMMANDS.map(|(name, _)| name).join(", ");
        format!("there are {MEMORY}, {names}")
    })
}

/// A server with documents, and what they took.
pub struct Scene {
    server: Server,
    exchange: Exchange,
    text_bytes: u64,
    bytes: u64,
}

impl Session for Scene {
    fn server(&self) -> &Server {
        &self.server
    }
}

/// How long memory is waited for to rest.
const REST: Duration = Duration::from_secs(5);

impl Experiment for JsonArgs {
    const DESCRIPTION: &'static Description = DESCRIPTION;
    const ROUNDS: (usize, usize) = (5, 2);
    const GROUP: &'static [&'static str] = &["size"];
    type Session = Scene;

    fn admits(&self, peer: &Peer) -> bool {
        peer.is_petrel() || peer.may_have_types_of_redis_8()
    }

    fn points(&self) -> Vec<Point> {
        let names = COMMANDS.iter().map(|(name, _)| *name);
        let names = [MEMORY].into_iter().chain(names).map(str::to_owned);
        let asked = |name: &String| self.commands.is_empty() || self.commands.contains(name);
        grid([("size", texts(&self.sizes)), ("command", names.filter(asked).collect())])
    }

    fn setting(&self, run: &RunArgs, _: &Point) -> Setting {
        run.setting(usize::from(self.server_threads), 1024)
    }

    fn prepare(&self, server: Server, point: &Point) -> Result<Scene, String> {
        let mut exchange = Exchange::connect(server.endpoint(), self.connections)?;
        let empty = server.rss_at_rest(REST)?.0;
        let (size, mut n, mut text_bytes) = (at(point, "size"), 0, 0);
        exchange.run(1, self.keys, self.pipeline, |out| {
            let text = document(n, size);
            text_bytes += text.len() as u64;
            let key = format!("json:{n:08}");
            encode_command(&[b"JSON.SET", key.as_bytes(), b"$", text.as_bytes()], out);
            n += 1;
        })?;
        exchange.check()?;
        let bytes = server.rss_at_rest(REST)?.0.saturating_sub(empty);
        Ok(Scene { server, exchange, text_bytes, bytes })
    }

    fn measure(
        &self,
        scene: &mut Scene,
        point: &Point,
        round: usize,
    ) -> Result<Measurement, String> {
        let Scene { server, exchange, .. } = scene;
        let Some((_, text)) = COMMANDS.iter().find(|(name, _)| *name == point["command"]) else {
            let measured = Measurement::default()
                .with("bytes", scene.bytes as f64 / self.keys as f64)
                .with("of_text", scene.bytes as f64 / scene.text_bytes as f64);
            return Ok(measured);
        };
        let operation = Template::known(text);
        let mut random = Random::new(round as u64 + 1);
        let (begin, cpu) = (Instant::now(), cpu_ns(server)?);
        exchange.run(operation.replies(), self.operations, self.pipeline, |out| {
            let (n, at) = (random.below(self.keys), random.below(90));
            operation.put(Variables { n, at, size: self.keys }, &mut random, out);
        })?;
        let cpu = cpu_ns(server)? - cpu;
        let seconds = begin.elapsed().as_secs_f64();
        exchange.check()?;
        let commands = (self.operations * operation.replies()) as f64;
        Ok(Measurement::default()
            .with("cpu", cpu as f64 / 1e3 / commands)
            .with("throughput", commands / seconds))
    }
}

const WORDS: [&str; 16] = [
    "north", "river", "amber", "quick", "silver", "garden", "signal", "winter", "harbor", "copper",
    "meadow", "lantern", "orbit", "violet", "thunder", "marble",
];

/// A document of about so many bytes of text: an order with its lines.
fn document(n: u64, size: usize) -> String {
    let mut random = Random::new(mix(n));
    let mut word = move || WORDS[random.below(WORDS.len() as u64) as usize];
    let mut numbers = Random::new(n);
    let mut text = format!(
        "{{\"id\":{n},\"name\":\"{} {}\",\"a\":{{\"b\":\"value-{:04}\",\"n\":{},\"open\":{}}},\"tags\":[1,2,3],\"items\":[",
        word(),
        word(),
        n % 10_000,
        n % 1000,
        n.is_multiple_of(2)
    );
    let mut separator = "";
    while text.len() + 100 < size {
        // Writing to a string does not fail.
        let _ = write!(
            text,
            "{separator}{{\"sku\":\"{:08x}\",\"title\":\"{} {} {}\",\"price\":{}.{:02},\"quantity\":{},\"gift\":{}}}",
            numbers.next() as u32,
            word(),
            word(),
            word(),
            numbers.below(500),
            numbers.below(100),
            numbers.below(20),
            numbers.below(2) == 0
        );
        separator = ",";
    }
    text.push_str("],\"note\":\"");
    while text.len() + 10 < size {
        text.push_str(word());
        text.push(' ');
    }
    text.push_str("\"}");
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_are_json_of_about_their_size() {
        for (n, size) in [(0, 256), (1, 2048), (77, 2048), (5, 100_000)] {
            let text = document(n, size);
            let value: serde_json::Value = serde_json::from_str(&text).unwrap();
            assert!(value["a"]["b"].is_string() && value["a"]["n"].is_u64(), "{text}");
            assert!(text.len().abs_diff(size) < 200, "{} for {size}", text.len());
            assert_eq!(text, document(n, size));
        }
    }

    #[test]
    fn all_templates_can_be_read() {
        for (name, text) in COMMANDS {
            assert!(Template::known(text).replies() >= 1);
            assert_eq!(parse_name(&name.to_lowercase()), Ok(name.to_owned()));
        }
        assert!(parse_name("x").is_err() && parse_name(MEMORY).is_ok());
    }
}
