//! `search`: writes with and without an index, queries, and bytes of the index.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use petrel_resp::encode_command;

use crate::cache;
use crate::exchange::Exchange;
use crate::experiment::{Case, Experiment};
use crate::random::{Random, mix};
use crate::result::{Measured, Measurement};
use crate::server::{Peer, Server};
use crate::sys;

/// Programs that make documents.
const DOCUMENTS: &str = include_str!("../../../bench/python/documents.py");
const TEXTS: &str = include_str!("../../../bench/python/texts.py");

/// Longest wait until memory rests.
const REST: Duration = Duration::from_secs(5);

/// Ranks of frequency from which the words of queries are drawn, and their number.
const AND_RANK: usize = 200;
const OR_RANK: usize = 50;
const WORDS: usize = 100;

/// Tags, and width of a range of numbers, of which there are as many as documents.
const TAGS: u64 = 1000;
const RANGE: u64 = 100;

/// `search`: indexes of hashes.
#[derive(Default)]
pub struct Search;

/// A server with an index, and the documents.
pub struct Prepared {
    exchange: Exchange,
    texts: Vec<Vec<u8>>,
    /// Words by their frequency.
    words: Vec<Vec<u8>>,
    is_loaded: bool,
}

impl Experiment for Search {
    const NAME: &'static str = "search";
    type State = Prepared;

    fn admits(&self, peer: &Peer) -> bool {
        peer.is_petrel() || peer.may_have_types_of_redis_8()
    }

    fn prepare(&self, case: &Case<'_>, server: &Server) -> Result<Prepared, String> {
        let texts = documents(case)?;
        let words = frequent_words(&texts);
        let mut exchange = Exchange::connect(server.endpoint(), case.get("connections"))?;
        send(&mut exchange, 1, 1, |_, out| create_index(out))?;
        Ok(Prepared { exchange, texts, words, is_loaded: false })
    }

    fn measure(&self, case: &Case<'_>, server: &Server, state: &mut Prepared) -> Measured {
        let work = case.text("work");
        if work == "load" && !state.is_loaded {
            return measure_load(case, server, state);
        }
        state.load(case.get("pipeline"))?;
        let Prepared { exchange, texts, words, .. } = state;
        let (count, operations) = (texts.len() as u64, case.get::<u64>("operations"));
        let mut random = Random::new(case.seed());
        let pipeline = case.get("pipeline");
        let mut run = |operations: u64, make: &mut dyn FnMut(&mut Random, &mut Vec<u8>)| {
            measured(server, operations, || {
                send(exchange, operations, pipeline, |_, out| make(&mut random, out))
            })
        };
        let queries = (operations / 10).max(1);
        match work {
            "load" => run(operations, &mut |random, out| {
                let number = random.below(count);
                put_document(number, &texts[number as usize], out);
            }),
            "other" => {
                run(operations, &mut |random, out| set_field("doc", count, "other", random, out))
            }
            "number" => {
                run(operations, &mut |random, out| set_field("doc", count, "number", random, out))
            }
            "uncovered" => {
                run(operations, &mut |random, out| set_field("key", count, "number", random, out))
            }
            "tag" => run(queries, &mut |random, out| {
                query(&format!("@tag:{{t{}}}", random.below(TAGS)), out);
            }),
            "range" => run(queries, &mut |random, out| {
                let from = random.below(count);
                query(&format!("@number:[{from} {}]", from + RANGE), out);
            }),
            "and" | "or" => run(queries, &mut |random, out| {
                let (rank, operator) = if work == "and" { (AND_RANK, " ") } else { (OR_RANK, "|") };
                let rank = rank.min(words.len().saturating_sub(WORDS));
                let near = &words[rank..(rank + WORDS).min(words.len())];
                let mut word =
                    || String::from_utf8_lossy(&near[random.below(near.len() as u64) as usize]);
                query(&format!("{}{operator}{}", word(), word()), out);
            }),
            _ => Err(format!("no work {work}")),
        }
    }
}

impl Prepared {
    fn load(&mut self, pipeline: usize) -> Result<(), String> {
        if !std::mem::replace(&mut self.is_loaded, true) {
            load(&mut self.exchange, &self.texts, pipeline)?;
        }
        Ok(())
    }
}

/// Loads the documents; their bytes without an index are those of another server.
fn measure_load(case: &Case<'_>, server: &Server, state: &mut Prepared) -> Measured {
    let (pipeline, count) = (case.get("pipeline"), state.texts.len() as u64);
    let plain = server.fresh()?;
    let mut exchange = Exchange::connect(plain.endpoint(), case.get("connections"))?;
    let empty = plain.rss_at_rest(REST)?.0;
    load(&mut exchange, &state.texts, pipeline)?;
    let without = plain.rss_at_rest(REST)?.0.saturating_sub(empty);
    drop((exchange, plain));
    let before = server.rss_at_rest(REST)?.0;
    let measured = measured(server, count, || state.load(pipeline))?;
    let with = server.rss_at_rest(REST)?.0.saturating_sub(before);
    Ok(measured.with("bytes", with.saturating_sub(without) as f64 / count as f64))
}

fn measured(
    server: &Server,
    operations: u64,
    run: impl FnOnce() -> Result<(), String>,
) -> Measured {
    let (begin, before) = (Instant::now(), server.cpu_ns()?);
    run()?;
    let cpu = server.cpu_ns()? - before;
    let seconds = begin.elapsed().as_secs_f64();
    Ok(Measurement::default()
        .with("cpu", cpu as f64 / 1e3 / operations as f64)
        .with("throughput", operations as f64 / seconds))
}

/// Sends commands, which `make` appends by their number. An error reply is an error.
fn send(
    exchange: &mut Exchange,
    operations: u64,
    pipeline: usize,
    mut make: impl FnMut(u64, &mut Vec<u8>),
) -> Result<(), String> {
    let mut next = 0;
    exchange.run(1, operations, pipeline, |out| {
        make(next, out);
        next += 1;
    })?;
    exchange.check()
}

fn load(exchange: &mut Exchange, texts: &[Vec<u8>], pipeline: usize) -> Result<(), String> {
    let make = |number: u64, out: &mut Vec<u8>| put_document(number, &texts[number as usize], out);
    send(exchange, texts.len() as u64, pipeline, make)
}

fn create_index(out: &mut Vec<u8>) {
    let words = "FT.CREATE index ON HASH PREFIX 1 doc: SCHEMA text TEXT number NUMERIC tag TAG";
    let words: Vec<&[u8]> = words.split(' ').map(str::as_bytes).collect();
    encode_command(&words, out);
}

fn put_document(number: u64, text: &[u8], out: &mut Vec<u8>) {
    let key = format!("doc:{number}");
    let tag = format!("t{}", mix(number) % TAGS);
    let number = number.to_string();
    let fields: [&[u8]; 8] =
        [b"text", text, b"number", number.as_bytes(), b"tag", tag.as_bytes(), b"other", b"0"];
    let command: Vec<&[u8]> =
        [b"HSET".as_slice(), key.as_bytes()].into_iter().chain(fields).collect();
    encode_command(&command, out);
}

fn set_field(prefix: &str, count: u64, field: &str, random: &mut Random, out: &mut Vec<u8>) {
    let key = format!("{prefix}:{}", random.below(count));
    let value = random.below(count).to_string();
    encode_command(&[b"HSET", key.as_bytes(), field.as_bytes(), value.as_bytes()], out);
}

fn query(query: &str, out: &mut Vec<u8>) {
    let command = ["FT.SEARCH", "index", query, "NOCONTENT", "LIMIT", "0", "10", "DIALECT", "2"];
    encode_command(&command.map(str::as_bytes), out);
}

/// Words of at least four letters by the number of documents that have them.
fn frequent_words(texts: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let mut counts: HashMap<Vec<u8>, usize> = HashMap::new();
    for text in texts {
        let words = text.split(|byte| !byte.is_ascii_alphanumeric() && *byte < 128);
        let words: HashSet<Vec<u8>> = words.map(<[u8]>::to_ascii_lowercase).collect();
        for word in words {
            if word.len() > 3 && word.iter().all(u8::is_ascii_lowercase) {
                *counts.entry(word).or_default() += 1;
            }
        }
    }
    let mut words: Vec<_> = counts.into_iter().map(|(word, count)| (count, word)).collect();
    words.sort_unstable_by(|one, other| other.cmp(one));
    words.into_iter().map(|(_, word)| word).collect()
}

/// Documents of a point, made once.
fn documents(case: &Case<'_>) -> Result<Vec<Vec<u8>>, String> {
    let count: usize = case.at("documents");
    let packages: Option<PathBuf> = case.options.some("packages");
    let named = if packages.is_some() { "-packages" } else { "" };
    let directory = cache::directory();
    let file = directory.join("search").join(format!("documents-{count}{named}.txt"));
    let failed = |error: &dyn std::fmt::Display| format!("documents: {error}");
    if !file.exists() {
        cache::make_room_for(&file).map_err(|error| failed(&error))?;
        for (name, program) in [("documents.py", DOCUMENTS), ("texts.py", TEXTS)] {
            cache::write_if_new(&directory.join(name), program).map_err(|error| failed(&error))?;
        }
        let mut command = Command::new(case.get::<PathBuf>("python"));
        command.arg(directory.join("documents.py")).arg("--out").arg(&file).stdin(Stdio::null());
        command.args(["--count", &count.to_string()]);
        if let Some(packages) = packages {
            command.arg("--packages").arg(packages);
        }
        eprintln!("making {count} documents of installed texts");
        let output = sys::die_with_parent(&mut command).output().map_err(|error| failed(&error))?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            return Err(failed(&said.lines().last().unwrap_or("it said nothing")));
        }
        cache::write(&file.with_extension("json"), &output.stdout)
            .map_err(|error| failed(&error))?;
    }
    let bytes = fs::read(&file).map_err(|error| failed(&error))?;
    let lines = bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    Ok(lines.map(<[u8]>::to_vec).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_ordered_by_documents() {
        let texts = ["some words, some more", "More WORDS here", "words of a12b"];
        let texts: Vec<Vec<u8>> = texts.iter().map(|text| text.as_bytes().to_vec()).collect();
        let words = frequent_words(&texts);
        assert_eq!(words[..2], [b"words".to_vec(), b"more".to_vec()]);
        assert_eq!(words.len(), 4);
    }
}
