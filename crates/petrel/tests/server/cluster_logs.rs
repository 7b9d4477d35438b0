//! Clusters of which all members stop at once, and return with their logs: nothing that clients
//! were answered is lost, whichever member lags and whichever returns last.

use crate::cluster::{FOUND, await_service, call, join, scratch, start};
use crate::cluster_slots::have_shares;
use crate::cluster_takeover::eventually;
use crate::harness::{Client, Scratch, Server, free_port, show};
use petrel_resp::Value;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::thread::JoinHandle;

/// Counters, each with a client that increments it.
const COUNTERS: usize = 16;

/// Increments that are sent together.
const PIPELINE: usize = 8;

/// Number of answered increments between two steps of a test.
const STEP: u64 = 400;

/// Increments of a counter that were answered, and sent.
#[derive(Default)]
struct Counter {
    answered: AtomicU64,
    sent: AtomicU64,
}

type Counters = Arc<[Counter; COUNTERS]>;

fn key(counter: usize) -> String {
    format!("counter{counter}")
}

/// Increments a counter until the connection ends.
fn increment(mut client: Client, number: usize, counters: &Counters) {
    let (key, counter) = (key(number), &counters[number]);
    loop {
        for _ in 0..PIPELINE {
            counter.sent.fetch_add(1, Relaxed);
            client.send(&["INCR", &key]);
        }
        for _ in 0..PIPELINE {
            match client.receive() {
                Some(Value::Integer(count)) => {
                    counter.answered.fetch_max(count as u64, Relaxed);
                }
                // It was refused, or is not answered.
                Some(_) => {}
                None => return,
            }
        }
    }
}

fn answered(counters: &Counters) -> u64 {
    counters.iter().map(|counter| counter.answered.load(Relaxed)).sum()
}

/// Members, each with the arguments that it is started with.
struct Cluster {
    members: Vec<(Server, String)>,
    counters: Counters,
}

/// Roles of members in a round of a test.
#[derive(Clone, Copy)]
struct Round {
    /// The member that hears nothing of the last changes.
    lags: usize,
    /// The member that returns when the others have been running for some time; none if all return
    /// together.
    last: Option<usize>,
}

impl Cluster {
    fn new(members: usize, copies: usize, appendfsync: &str) -> Self {
        let flags = || {
            format!(
                "--cluster-node-timeout 5000 --cluster-copies {copies} --appendonly yes \
                 --appendfsync {appendfsync} --cluster-port {}",
                free_port()
            )
        };
        let found = format!("{FOUND} {}", flags());
        let founder = start(scratch("secret"), &found);
        await_service(&founder);
        let mut members_ = vec![(founder, found)];
        for _ in 1..members {
            let args = format!("{} {}", join(&members_[0].0), flags());
            members_.push((start(scratch("secret"), &args), args));
        }
        let cluster = Cluster { members: members_, counters: Counters::default() };
        cluster.await_whole(copies);
        cluster
    }

    fn await_whole(&self, copies: usize) {
        eventually("each member has its share and may vote", || {
            let servers: Vec<&Server> = self.members.iter().map(|(server, _)| server).collect();
            let may_vote = |server: &&Server| {
                let info = call(&mut server.connect(), "CLUSTER INFO");
                info.contains("cluster_voters_missing:0\r\n")
                    && info.contains("cluster_slots_under_replicated:0\r\n")
            };
            have_shares(&servers, copies) && servers.iter().all(may_vote)
        });
    }

    /// Starts clients of all members but one.
    fn load(&self, except: usize) -> Vec<JoinHandle<()>> {
        let members: Vec<&Server> = self.members.iter().map(|(server, _)| server).collect();
        let others = members.iter().enumerate().filter(|(member, _)| *member != except);
        let others: Vec<&&Server> = others.map(|(_, server)| server).collect();
        (0..COUNTERS)
            .map(|number| {
                let client = others[number % others.len()].connect();
                let counters = self.counters.clone();
                std::thread::spawn(move || increment(client, number, &counters))
            })
            .collect()
    }

    fn await_answers(&self, more: u64) {
        let before = answered(&self.counters);
        eventually("there is load", || answered(&self.counters) >= before + more);
    }

    /// Lets all members die at once while they are written to, and starts them again.
    fn stop_and_return(&mut self, round: Round) {
        let clients = self.load(round.lags);
        self.await_answers(STEP);
        self.members[round.lags].0.signal(libc::SIGSTOP);
        self.await_answers(STEP);
        self.members.iter().for_each(|(server, _)| server.signal(libc::SIGKILL));
        let ended = std::mem::take(&mut self.members).into_iter().map(|(mut server, args)| {
            server.exit_code();
            (server.into_scratch(), args)
        });
        let ended: Vec<(Scratch, String)> = ended.collect();
        clients.into_iter().for_each(|client| client.join().unwrap());
        let mut late = None;
        for (number, (scratch, args)) in ended.into_iter().enumerate() {
            if round.last == Some(number) {
                late = Some((number, scratch, args));
                continue;
            }
            self.members.push((start(scratch, &args), args));
        }
        if let Some((number, scratch, args)) = late {
            // Either they go on without it, or they wait for it.
            eventually("the others have tried to go on", || {
                self.members.iter().all(|(server, _)| {
                    let output = server.output();
                    output.contains("cluster: view ") || output.contains("is down (incarnation")
                }) || self
                    .members
                    .iter()
                    .any(|(server, _)| server.output().contains("no owner of some slots is alive"))
            });
            let late = (start(scratch, &args), args);
            self.members.insert(number.min(self.members.len()), late);
        }
    }

    /// Each counter has all increments that were answered, and no more than were sent.
    fn check(&self, what: &str) {
        for (server, _) in &self.members {
            let mut client = server.connect();
            for (number, counter) in self.counters.iter().enumerate() {
                let mut reply = String::new();
                eventually("a counter can be read", || {
                    client.send(&["GET", &key(number)]);
                    match client.receive() {
                        Some(value) => reply = show(&value),
                        None => client = server.connect(),
                    }
                    reply == "nil" || reply.parse::<u64>().is_ok()
                });
                let count = reply.parse().unwrap_or(0);
                let (answered, sent) = (&counter.answered, &counter.sent);
                let (answered, sent) = (answered.load(Relaxed), sent.load(Relaxed));
                assert!(
                    (answered..=sent).contains(&count),
                    "{what}: counter {number} is {count} of {answered} answered and {sent} sent; {}",
                    self.members.iter().map(|(server, _)| server.output()).collect::<String>()
                );
            }
        }
    }
}

fn rounds(members: usize, copies: usize, appendfsync: &str, rounds: &[Round]) {
    let mut cluster = Cluster::new(members, copies, appendfsync);
    for (number, round) in rounds.iter().enumerate() {
        cluster.stop_and_return(*round);
        cluster.await_whole(copies);
        cluster.check(&format!("{appendfsync}, {copies} copies, round {number}"));
    }
}

/// The member that lags returns last, when the others have given it up or wait for it.
const LAST_LAGS: Round = Round { lags: 2, last: Some(2) };

/// All return together.
const TOGETHER: Round = Round { lags: 1, last: None };

#[test]
fn a_backup_that_lags_and_returns_last_does_not_win() {
    rounds(3, 3, "always", &[LAST_LAGS, TOGETHER]);
}

#[test]
fn after_everybody_was_killed_pending_records_win_too() {
    rounds(3, 3, "everysec", &[LAST_LAGS]);
}

#[test]
fn two_owners_of_each_slot_lose_nothing_together() {
    rounds(3, 2, "always", &[TOGETHER, LAST_LAGS]);
}
