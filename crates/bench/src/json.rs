//! `json`: memory of JSON documents, and CPU of reading and changing a path.

use std::fmt::Write;
use std::time::Duration;

use petrel_resp::encode_command;

use crate::command::Variables;
use crate::exchange::Exchange;
use crate::experiment::{Case, Description, Experiment};
use crate::random::{Random, mix};
use crate::result::{Measured, Measurement};
use crate::server::{Peer, Server};
use crate::work::{Mix, Until, drive};

/// Longest wait until memory rests.
const REST: Duration = Duration::from_secs(5);

/// Connections to a server with documents, and their memory.
pub struct Documents {
    exchange: Exchange,
    text_bytes: u64,
    bytes: u64,
}

/// `json`: documents.
#[derive(Default)]
pub struct Json;

impl Experiment for Json {
    const NAME: &'static str = "json";
    type State = Documents;

    fn admits(&self, peer: &Peer) -> bool {
        peer.is_petrel() || peer.may_have_types_of_redis_8()
    }

    fn prepare(&self, case: &Case<'_>, server: &Server) -> Result<Documents, String> {
        let mut exchange = Exchange::connect(server.endpoint(), case.get("connections"))?;
        let empty = server.rss_at_rest(REST)?.0;
        let (size, mut n, mut text_bytes) = (case.at("size"), 0, 0);
        exchange.run(1, case.get("keys"), case.get("pipeline"), |out| {
            let text = document(n, size);
            text_bytes += text.len() as u64;
            let key = format!("json:{n:08}");
            encode_command(&[b"JSON.SET", key.as_bytes(), b"$", text.as_bytes()], out);
            n += 1;
        })?;
        exchange.check()?;
        let bytes = server.rss_at_rest(REST)?.0.saturating_sub(empty);
        Ok(Documents { exchange, text_bytes, bytes })
    }

    fn measure(&self, case: &Case<'_>, server: &Server, documents: &mut Documents) -> Measured {
        let (work, size) = (case.text("command"), case.get::<u64>("keys"));
        if work == "memory" {
            let bytes = documents.bytes as f64;
            return Ok(Measurement::default()
                .with("bytes", bytes / size as f64)
                .with("of_text", bytes / documents.text_bytes as f64));
        }
        let mix = Mix::of(Description::named(Self::NAME).work(work));
        let until = Until::Operations(case.get("operations"));
        let draw =
            |random: &mut Random| Variables { n: random.below(size), at: random.below(90), size };
        let subject = (server, &mut documents.exchange, &mix);
        drive(subject, case.get("pipeline"), until, case.seed(), draw)
    }
}

const WORDS: [&str; 16] = [
    "north", "river", "amber", "quick", "silver", "garden", "signal", "winter", "harbor", "copper",
    "meadow", "lantern", "orbit", "violet", "thunder", "marble",
];

/// Makes a document of about `size` bytes of text: an order with its lines.
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
}
