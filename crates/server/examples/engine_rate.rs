//! Measures the cost of a command without sockets: parsing, lookup, locking, execution, writing the
//! reply.
//!
//! `cargo run --release -p petrel-server --example engine_rate -- [keys] [pipeline] [rounds of GET]
//! [rounds of SET]` prints the processor time per command; under `valgrind --tool=callgrind
//! --toggle-collect=petrel_server::event_loop::batch::Engine::run` the same run counts
//! instructions, which a busy machine does not disturb.

use petrel_commands::{Executor, Session};
use petrel_net::{Endpoint, Output, Slot};
use petrel_resp::{Resume, encode_command};
use petrel_server::client::Client;
use petrel_server::config::{Config, SharedConfig};
use petrel_server::event_loop::batch::Engine;
use petrel_server::event_loop::connection::Conn;
use petrel_server::host::ServerHost;
use petrel_server::server::Server;
use std::sync::Arc;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() {
    let mut args = std::env::args().skip(1).map(|arg| arg.parse().expect("a number"));
    let keys: u64 = args.next().unwrap_or(1_000_000);
    let pipeline = args.next().unwrap_or(50);
    let gets: u64 = args.next().unwrap_or(100_000);
    let sets: u64 = args.next().unwrap_or(gets);

    let config = Arc::new(SharedConfig::new(Config::default(), None));
    let (registry, _) = petrel_server::commands::registry(config.renames());
    let process = Box::new(petrel_server::lifecycle::process::Indifferent);
    let server = Server::new(config, registry, process);
    let client = Arc::new(Client::new(1, 0, Slot::NOWHERE, 0, -1, Endpoint::Unix, Endpoint::Unix));
    let exec = Executor::new(server.keyspace.attach(), server.commands.clone());
    let mut engine = Engine::new(exec, ServerHost::new(server, client.clone()));
    let mut conn = Conn::new(Slot::NOWHERE, client, Session::new(true));

    let mut random = 0x9e37_79b9_7f4a_7c15_u64;
    let value = vec![b'v'; 1024];
    measure("fill", &mut engine, &mut conn, keys.div_ceil(pipeline), pipeline, |i, buffer| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let len = (random >> 40) as usize % 1024 + 1;
        encode_command(&[b"SET", key(i).as_bytes(), &value[..len]], buffer);
    });
    let mut draw = 0x2545_f491_4f6c_dd1d_u64;
    let mut next = move || {
        draw ^= draw << 13;
        draw ^= draw >> 7;
        draw ^= draw << 17;
        draw
    };
    measure("get", &mut engine, &mut conn, gets, pipeline, |_, buffer| {
        encode_command(&[b"GET", key(next() % keys).as_bytes()], buffer);
    });
    let mut next = {
        let mut draw = 0x9e37_79b9_u64;
        move || {
            draw ^= draw << 13;
            draw ^= draw >> 7;
            draw ^= draw << 17;
            draw
        }
    };
    measure("set", &mut engine, &mut conn, sets, pipeline, |_, buffer| {
        let draw = next();
        let len = (draw >> 40) as usize % 1024 + 1;
        encode_command(&[b"SET", key(draw % keys).as_bytes(), &value[..len]], buffer);
    });
    let names: Vec<String> = (0..4).map(|i| key(i * keys / 4)).collect();
    let set = |i: u64, buffer: &mut Vec<u8>| {
        encode_command(&[b"SET", names[i as usize % 4].as_bytes(), &value[..64]], buffer);
    };
    measure("set alone, four keys", &mut engine, &mut conn, sets, pipeline, set);
    measure("set in MULTI, four each", &mut engine, &mut conn, sets, pipeline, |i, buffer| {
        if i % 4 == 0 {
            encode_command(&[b"MULTI"], buffer);
        }
        set(i, buffer);
        if i % 4 == 3 {
            encode_command(&[b"EXEC"], buffer);
        }
    });
}

fn key(i: u64) -> String {
    format!("key:{i:012}")
}

/// Runs `rounds` pipelines made by `command` and prints the time that the engine took per command.
fn measure(
    name: &str,
    engine: &mut Engine,
    conn: &mut Conn,
    rounds: u64,
    pipeline: u64,
    mut command: impl FnMut(u64, &mut Vec<u8>),
) {
    let mut buffer = Vec::new();
    let mut output = Output::default();
    let mut nanos = 0;
    for round in 0..rounds {
        buffer.clear();
        for i in 0..pipeline {
            command(round * pipeline + i, &mut buffer);
        }
        output.bytes.clear();
        let start = cpu_nanos();
        engine.exec.begin();
        let progress = engine.run(conn, &buffer, Resume::default(), None, &mut output);
        engine.exec.end();
        nanos += cpu_nanos() - start;
        assert_eq!(progress.consumed, buffer.len());
    }
    println!("{name}: {:.1} ns per command", nanos as f64 / (rounds * pipeline).max(1) as f64);
}

/// Processor time of this thread, which other processes do not lengthen.
fn cpu_nanos() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a valid timespec.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}
