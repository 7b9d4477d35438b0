//! Blocking and serving under a scheduler that tries thousands of interleavings of the locks. No
//! client is overtaken, nothing is lost or served twice, and no client stays blocked on a value
//! that is there.
//!
//! `cargo test -p petrel-commands --features shuttle --test blocking_model`

#![cfg(feature = "shuttle")]

#[path = "blocking/client.rs"]
mod client;
#[path = "blocking/family.rs"]
mod family;

use client::{Client, World};
use petrel_commands::WaitEnd;
use shuttle::scheduler::{PctScheduler, RandomScheduler};
use shuttle::{Config, Runner, thread};
use std::sync::{Arc, Mutex};

/// Few, so that most keys are in different stripes.
const STRIPES: usize = 64;

/// Number of interleavings tried of each scenario, by each scheduler.
const ITERATIONS: usize = 1000;

fn explore(scenario: fn()) {
    let config = || {
        let mut config = Config::new();
        config.stack_size = 1 << 18;
        config
    };
    Runner::new(RandomScheduler::new(ITERATIONS), config()).run(scenario);
    Runner::new(PctScheduler::new(4, ITERATIONS), config()).run(scenario);
}

/// Dropping a client waits for others to leave their batches, which the scheduler does not see. So
/// clients live until the end.
type Clients = Vec<Client>;

/// Runs each line on its own thread. Returns the replies, including those to blocked commands that
/// were served.
fn run_beside(world: &Arc<World>, lines: &[&'static str]) -> (Vec<String>, Clients) {
    let threads: Vec<_> = lines
        .iter()
        .zip(100..)
        .map(|(&line, id)| {
            let world = Arc::clone(world);
            thread::spawn(move || {
                let mut client = world.client(id);
                let reply = line.split("; ").map(|line| client.run(line)).last().unwrap();
                (reply, client)
            })
        })
        .collect();
    let ended = threads.into_iter().map(|thread| thread.join().unwrap());
    let (mut replies, mut clients): (Vec<String>, Clients) = ended.unzip();
    for (reply, client) in replies.iter_mut().zip(&mut clients) {
        if reply == "waits" {
            *reply = client.answer().unwrap_or("waits".into());
        }
    }
    (replies, clients)
}

fn waiting(world: &World, id: u64, line: &str) -> Client {
    let mut client = world.client(id);
    assert_eq!(client.run(line), "waits");
    client
}

#[test]
fn nobody_overtakes_a_waiter_with_keys_elsewhere() {
    explore(|| {
        let world = Arc::new(World::new(STRIPES));
        let mut first = waiting(&world, 1, "WAITGET a b c 0");
        let (replies, _clients) = run_beside(
            &world,
            &["SET b 1", "WAITGET b 0", "GETDEL b", "MULTI; GETDEL b; GET c; EXEC", "FLUSHALL"],
        );
        assert_eq!(first.answer().as_deref(), Some("*2 $1 b $1 1"));
        assert_eq!(replies, ["+OK", "waits", "$-1", "*2 $-1 $-1", "+OK"]);
    });
}

#[test]
fn what_is_moved_goes_to_who_waits_for_it() {
    explore(|| {
        let world = Arc::new(World::new(STRIPES));
        let mut mover = waiting(&world, 1, "WAITMOVE a b 0");
        let mut taker = waiting(&world, 2, "WAITGET b c 0");
        let (replies, _clients) = run_beside(
            &world,
            &["MULTI; SET a 1; EXEC", "GETDEL b", "WAITGET a b 0", "MULTI; KEYS *; EXEC"],
        );
        assert_eq!(mover.answer().as_deref(), Some("$1 1"));
        assert_eq!(taker.answer().as_deref(), Some("*2 $1 b $1 1"));
        assert_eq!(replies[1..], ["$-1", "waits", "*1 *0"]);
    });
}

#[test]
fn two_keys_that_become_ready_at_once_serve_a_waiter_once() {
    explore(|| {
        let world = Arc::new(World::new(STRIPES));
        let mut first = waiting(&world, 1, "WAITGET a b 0");
        let mut second = waiting(&world, 2, "WAITGET b a 0");
        let (_, _clients) = run_beside(&world, &["SET a 1", "SET b 2"]);
        let mut answers = [first.answer().unwrap(), second.answer().unwrap()];
        answers.sort();
        assert_eq!(answers, ["*2 $1 a $1 1", "*2 $1 b $1 2"]);
        world.assert_idle();
    });
}

#[test]
fn the_end_of_a_wait_and_what_was_waited_for_exclude_each_other() {
    explore(|| {
        let world = Arc::new(World::new(STRIPES));
        let mut first = waiting(&world, 1, "WAITGET a b 0");
        let mut second = waiting(&world, 2, "WAITGET b a 0");
        let blocked = first.host.blocked.clone().unwrap();
        let ender = {
            let world = Arc::clone(&world);
            thread::spawn(move || {
                let mut client = world.client(50);
                client.exec.begin();
                let ended = client.exec.end_wait(&blocked, WaitEnd::Timeout, &mut client.host);
                client.exec.end();
                (client, ended)
            })
        };
        let (_, _clients) = run_beside(&world, &["SET a 1"]);
        let (_ender, ended) = ender.join().unwrap();
        let (answer, other) = (first.answer().unwrap(), second.answer());
        match ended {
            true => assert_eq!((&answer[..], other.as_deref()), ("*-1", Some("*2 $1 a $1 1"))),
            false => {
                assert_eq!((&answer[..], other), ("*2 $1 a $1 1", None));
                assert!(second.leave());
            }
        }
        world.assert_idle();
    });
}

/// Several threads add and take numbers.
#[test]
fn every_number_is_taken_once_and_nobody_waits_for_what_is_there() {
    explore(|| {
        let world = Arc::new(World::new(STRIPES));
        let taken = Arc::new(Mutex::new(0));
        let scripts: [&'static [&'static str]; 3] = [
            &["INCRBY a 1", "WAITMOVE b c 0", "INCRBY c 2"],
            &["WAITGET a b c 0", "INCRBY b 4", "WAITGET c a 0"],
            &["WAITMOVE a b 0", "INCRBY a 8", "WAITGET b c 0"],
        ];
        let threads = scripts.map(|script| {
            let (world, taken) = (Arc::clone(&world), Arc::clone(&taken));
            let id = script.as_ptr() as u64;
            thread::spawn(move || {
                let mut client = world.client(id);
                for line in script {
                    let mut reply = client.run(line);
                    if reply == "waits" {
                        thread::yield_now();
                        reply =
                            if client.leave() { "*-1".into() } else { client.answer().unwrap() };
                        assert_eq!(client.answer(), None);
                    }
                    if line.starts_with("WAITGET") && reply != "*-1" {
                        let number = reply.rsplit(' ').next().unwrap();
                        *taken.lock().unwrap() += number.parse::<u64>().unwrap();
                    }
                }
                client
            })
        });
        let _clients = threads.map(|thread| thread.join().unwrap());
        let mut client = world.client(7);
        let mut sum = *taken.lock().unwrap();
        for key in ["GETDEL a", "GETDEL b", "GETDEL c"] {
            let left = client.run(key);
            sum += left.rsplit(' ').next().unwrap().parse::<u64>().unwrap_or(0);
        }
        assert_eq!(sum, 1 + 2 + 4 + 8);
        world.assert_idle();
    });
}
