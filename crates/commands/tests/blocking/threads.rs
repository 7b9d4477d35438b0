//! Real threads: no element is lost or served twice, and no client is overtaken.

use crate::client::World;
use petrel_commands::WaitEnd;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

const TAKERS: u64 = 3;
const GIVERS: u64 = 2;
const ROUNDS: u64 = 2000;
const KEYS: [&str; 3] = ["a", "b", "c"];

/// Producers add numbers; consumers pop from any of the keys, blocking or not, and sometimes
/// cancel.
#[test]
fn every_number_is_taken_once() {
    let world = World::new(4);
    let (given, taken) = (AtomicU64::new(0), AtomicU64::new(0));
    let finished = AtomicU64::new(0);
    let note = |reply: &str| {
        let number = reply.rsplit(' ').next().and_then(|number| number.parse::<u64>().ok());
        taken.fetch_add(number.unwrap_or_else(|| panic!("{reply}")), Relaxed);
    };
    std::thread::scope(|scope| {
        for id in 0..GIVERS {
            let (world, given, finished) = (&world, &given, &finished);
            scope.spawn(move || {
                let mut client = world.client(id);
                for round in 0..ROUNDS {
                    let key = KEYS[(round % 3) as usize];
                    let line = match round % 5 {
                        0 => format!("WAITMOVE {key} {} 0.0001", KEYS[(round % 2) as usize]),
                        _ => {
                            given.fetch_add(round, Relaxed);
                            format!("INCRBY {key} {round}")
                        }
                    };
                    if client.run(&line) == "waits" && client.leave() {
                        continue;
                    }
                    client.answer();
                    client.serve_ready();
                }
                finished.fetch_add(1, Relaxed);
            });
        }
        for id in GIVERS..GIVERS + TAKERS {
            let (world, finished, note) = (&world, &finished, &note);
            scope.spawn(move || {
                let mut client = world.client(id);
                loop {
                    let over = finished.load(Relaxed) == GIVERS;
                    let mut reply =
                        client.run(["WAITGET a b c 0", "WAITGET c a 0"][id as usize % 2]);
                    if reply == "waits" {
                        for _ in 0..id * 50 {
                            std::hint::spin_loop();
                        }
                        let blocked = client.host.blocked.clone().unwrap();
                        client.exec.begin();
                        client.exec.end_wait(&blocked, WaitEnd::Timeout, &mut client.host);
                        client.exec.end();
                        reply = client.answer().expect("answered by one or the other");
                        assert_eq!(client.answer(), None);
                    }
                    match reply.as_str() {
                        "*-1" if over => return,
                        "*-1" => {}
                        reply => note(reply),
                    }
                }
            });
        }
    });
    let mut client = world.client(99);
    for key in KEYS {
        assert_eq!(client.run(&format!("EXISTS {key}")), ":0", "somebody would have taken {key}");
    }
    assert_eq!(taken.load(Relaxed), given.load(Relaxed));
    world.assert_idle();
}
