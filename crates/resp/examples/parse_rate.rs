//! How long a request takes to parse and a reply to write, in nanoseconds each.
//!
//! `cargo run --release --example parse_rate [rounds]`; for instruction counts, compare the totals
//! of `valgrind --tool=callgrind` for two numbers of rounds.

use std::hint::black_box;
use std::time::Instant;

use petrel_resp::{
    Limits, Parsed, Protocol, Reply, RespWriter, Resume, encode_command, parse, recycle,
};

/// Requests in one buffer: small enough for its bytes to stay in the second-level cache.
const PIPELINE: usize = 200;

fn main() {
    let rounds = std::env::args().nth(1).and_then(|rounds| rounds.parse().ok()).unwrap_or(20_000);
    let only = std::env::args().nth(2);
    let key = b"key:000000000001";
    let value = [b'v'; 512];
    let mset: Vec<&[u8]> = std::iter::once(&b"MSET"[..]).chain([&key[..]; 100]).collect();
    let cases: [(&str, &[&[u8]]); 5] = [
        ("PING", &[b"PING"]),
        ("GET", &[b"GET", key]),
        ("SET 512", &[b"SET", key, &value]),
        ("SET 512 PX", &[b"SET", key, &value, b"PX", b"60000"]),
        ("MSET 50", &mset),
    ];
    let wanted = |name: &str| only.as_ref().is_none_or(|only| name == only);
    for (name, request) in cases.into_iter().filter(|(name, _)| wanted(name)) {
        let mut buf = Vec::new();
        for _ in 0..PIPELINE {
            encode_command(request, &mut buf);
        }
        report(name, rounds, || parse_all(&buf, request.len()));
    }
    let (mut bytes, mut shared) = (Vec::new(), Vec::new());
    let mut replies = |name: &str, reply: &dyn Fn(&mut RespWriter)| {
        if !wanted(name) {
            return;
        }
        report(name, rounds, || {
            bytes.clear();
            let mut writer = RespWriter::new(&mut bytes, &mut shared, Protocol::Resp2);
            for _ in 0..PIPELINE {
                reply(black_box(&mut writer));
            }
        });
    };
    replies("+OK", &|reply| reply.simple("OK"));
    replies(":1", &|reply| reply.integer(black_box(1)));
    replies("bulk 16", &|reply| reply.bulk(&value[..16]));
    replies("bulk 512", &|reply| reply.bulk(&value));
    replies("double", &|reply| reply.double(black_box(3.5)));
}

/// Parses every request of the buffer, as a worker does with what it read.
#[inline(never)]
fn parse_all(buf: &[u8], args_per_request: usize) {
    thread_local! {
        static ARGS: std::cell::Cell<Vec<&'static [u8]>> = const { std::cell::Cell::new(Vec::new()) };
    }
    let limits = black_box(Limits::default());
    let mut args = recycle(ARGS.take());
    let (mut position, mut resume) = (0, Resume::default());
    while let Parsed::Command { consumed } =
        parse(&buf[position..], &limits, &mut args, &mut resume)
    {
        position += consumed;
        assert_eq!(args.len(), args_per_request);
        black_box(&args);
        args.clear();
    }
    assert_eq!(position, buf.len());
    ARGS.set(recycle(args));
}

fn report(name: &str, rounds: u32, mut round: impl FnMut()) {
    let start = Instant::now();
    for _ in 0..rounds {
        round();
    }
    let each = start.elapsed().as_secs_f64() * 1e9 / (f64::from(rounds) * PIPELINE as f64);
    println!("{name:12} {each:7.1} ns");
}
