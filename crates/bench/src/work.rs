//! Works of an experiment's file: commands written as templates that fill keys and are measured.
//!
//! ```text
//! work HSET
//!   fill HSET hash:{n:08}                   makes key `n`
//!   element field{at} value-{n+at%10000}    appended for each element
//!   elements 10                             of a key; without it all elements are in one key
//!   send HSET hash:{n:08} field{?10} v      one operation
//!   share 80 GET hash:{n:08}                the same for 80 of the sum of all shares
//!   connections 50
//! ```

use std::time::{Duration, Instant};

use crate::command::{Template, Variables};
use crate::exchange::Exchange;
use crate::random::Random;
use crate::result::{Measured, Measurement};
use crate::server::Server;
use crate::text::Entry;

/// Commands that fill keys.
#[derive(Debug)]
pub struct Filling {
    head: Template,
    element: Template,
    /// Elements of each key; `None` is all in one.
    each: Option<u64>,
    /// Whether a command takes one element only.
    takes_one: bool,
}

impl Filling {
    /// The filling of a work, if it has one.
    pub fn of(work: &Entry) -> Option<Filling> {
        let head = work.get("fill")?;
        let element = work.get("element").unwrap_or_default();
        let takes_one = element.is_empty() || head.starts_with("XADD");
        let each = if element.is_empty() { Some(1) } else { work.number("elements") };
        let [head, element] = [head, element].map(Template::known);
        Some(Filling { head, element, each, takes_one })
    }

    /// Whether each command adds one element, and the order of commands matters.
    pub fn takes_one(&self) -> bool {
        self.takes_one
    }

    /// Stores `keys` keys.
    pub fn store_keys(
        &self,
        exchange: &mut Exchange,
        keys: u64,
        pipeline: usize,
    ) -> Result<(), String> {
        let each = self.each.unwrap_or(1);
        self.store(exchange, keys * each, each, pipeline)
    }

    /// Stores `elements` elements, at most `at_once` by each command.
    pub fn store(
        &self,
        exchange: &mut Exchange,
        elements: u64,
        at_once: u64,
        pipeline: usize,
    ) -> Result<(), String> {
        let each = self.each.unwrap_or(elements);
        let at_once = if self.takes_one { 1 } else { at_once.min(each) };
        let (mut next, mut random) = (0, Random::new(0));
        exchange.run(1, elements.div_ceil(at_once), pipeline, |out| {
            next += self.put(next, at_once, each, elements, &mut random, out);
        })?;
        exchange.check()
    }

    /// Appends the command for the elements from `next` on; returns their number.
    pub fn put(
        &self,
        next: u64,
        at_once: u64,
        each: u64,
        elements: u64,
        random: &mut Random,
        out: &mut Vec<u8>,
    ) -> u64 {
        let (n, from) = (next / each, next % each);
        let to = (from + at_once).min(each).min(from + elements - next);
        let variables = Variables { n, at: 0, size: elements };
        self.head.put_with(&self.element, from..to, variables, random, out);
        to - from
    }
}

/// Templates, each drawn by its share.
#[derive(Debug)]
pub struct Mix(Vec<(u64, Template)>);

impl Mix {
    /// The mix of a work.
    ///
    /// # Panics
    ///
    /// If the work sends nothing: the file is a part of the program, and tests read it.
    pub fn of(work: &Entry) -> Mix {
        let share = |text: &'static str| {
            let (share, text) = text.split_once(' ').expect("share NUMBER COMMAND");
            (share.parse().expect("share NUMBER COMMAND"), Template::known(text))
        };
        let sent = work.all("send").map(|text| (1, Template::known(text)));
        let all: Vec<_> = sent.chain(work.all("share").map(share)).collect();
        assert!(!all.is_empty(), "{} sends nothing", work.rest);
        Mix(all)
    }

    /// Replies to one operation, the same for all of a mix.
    pub fn replies(&self) -> u64 {
        self.0[0].1.replies()
    }

    /// Appends one operation.
    pub fn put(&self, variables: Variables, random: &mut Random, out: &mut Vec<u8>) {
        let mut drawn = random.below(self.0.iter().map(|(share, _)| share).sum());
        let chosen = self.0.iter().find(|(share, _)| {
            let is_here = drawn < *share;
            drawn = drawn.wrapping_sub(*share);
            is_here
        });
        chosen.unwrap_or(&self.0[0]).1.put(variables, random, out);
    }
}

/// End of a load of a [`Mix`].
#[derive(Clone, Copy, Debug)]
pub enum Until {
    /// Number of operations.
    Operations(u64),
    /// Time. Between two looks at the clock the load sends `batch` operations, doubled each time up
    /// to `batch_max`: slow operations are measured one by one.
    Seconds { seconds: f64, batch: u64, batch_max: u64 },
}

/// Sends operations and measures them: throughput and server CPU of a command.
pub fn drive(
    (server, exchange, mix): (&Server, &mut Exchange, &Mix),
    pipeline: usize,
    until: Until,
    seed: u64,
    mut draw: impl FnMut(&mut Random) -> Variables,
) -> Measured {
    let mut random = Random::new(seed);
    let mut send = |operations| {
        exchange.run(mix.replies(), operations, pipeline, |out| {
            let variables = draw(&mut random);
            mix.put(variables, &mut random, out);
        })
    };
    let (begin, before, mut done) = (Instant::now(), server.cpu_ns()?, 0);
    match until {
        Until::Operations(operations) => {
            send(operations)?;
            done = operations;
        }
        Until::Seconds { seconds, mut batch, batch_max } => {
            while begin.elapsed() < Duration::from_secs_f64(seconds) {
                send(batch)?;
                done += batch;
                batch = (batch * 2).min(batch_max);
            }
        }
    }
    let cpu = server.cpu_ns()? - before;
    let seconds = begin.elapsed().as_secs_f64();
    exchange.check()?;
    let commands = (done * mix.replies()) as f64;
    Ok(Measurement::default()
        .with("cpu", cpu as f64 / 1e3 / commands)
        .with("throughput", commands / seconds))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::all;

    #[test]
    fn all_works_can_be_read_and_their_replies_counted() {
        for (own, work) in all().iter().flat_map(|own| own.works.iter().map(move |w| (own, w))) {
            Filling::of(work);
            // Commands of `consistency` are sent one by one.
            if work.get("send").or(work.get("share")).is_some() && own.name != "consistency" {
                let mix = Mix::of(work);
                let is_same = mix.0.iter().all(|(_, each)| each.replies() == mix.replies());
                assert!(is_same, "{} {}", own.name, work.rest);
            }
        }
    }

    #[test]
    fn entries_of_a_stream_come_in_order() {
        let work = &crate::experiment::Description::named("memory-types").work("one stream");
        let filling = Filling::of(work).unwrap();
        let id = |at: u64| {
            let mut out = Vec::new();
            filling.put(at, 1, 1 << 20, 1 << 20, &mut Random::new(1), &mut out);
            let text = String::from_utf8(out).unwrap();
            text.split("\r\n").nth(6).unwrap().trim_end_matches("-0").parse::<u64>().unwrap()
        };
        assert!([0, 1, 999, 1000, 123_456].map(id).is_sorted_by(|a, b| a < b));
    }
}
