//! Order and conditions in which blocked clients are served.

use crate::client::{Client, World};
use petrel_commands::{PauseReason, Standing, WaitEnd};

/// A world with `CLIENTS` clients, numbered from 0; the first is never blocked.
fn world<const CLIENTS: usize>() -> (World, [Client; CLIENTS]) {
    let world = World::new(16);
    let clients = std::array::from_fn(|id| world.client(id as u64));
    (world, clients)
}

const NULL_ARRAY: Option<&str> = Some("*-1");

macro_rules! assert_answers {
    ($($client:ident => $answer:expr),* $(,)?) => {
        $(
            let expected: Option<&str> = $answer;
            assert_eq!($client.answer().as_deref(), expected, stringify!($client));
        )*
    };
}

#[test]
fn what_is_there_is_taken_at_once() {
    let (world, [mut a]) = world();
    a.run("SET k v");
    assert_eq!(a.run("WAITGET x k 0"), "*2 $1 k $1 v");
    assert_eq!(a.run("EXISTS k"), ":0");
    world.assert_idle();
}

#[test]
fn who_comes_first_is_served_first() {
    let (world, [mut a, mut b, mut c, mut d]) = world();
    for client in [&mut b, &mut c, &mut d] {
        assert_eq!(client.run("WAITGET k 0"), "waits");
    }
    assert_eq!(world.shared.blocked_clients(), 3);
    assert_eq!(world.keyspace.waited_keys().keys, 1);
    assert_eq!(a.run("SET k 1"), "+OK");
    assert_answers!(b => Some("*2 $1 k $1 1"), c => None, d => None);
    assert_eq!(b.run("WAITGET k 0"), "waits", "it is the last now");
    a.run("SET k 2");
    a.run("SET k 3");
    assert_answers!(b => None, c => Some("*2 $1 k $1 2"), d => Some("*2 $1 k $1 3"));
    a.run("SET k 4");
    assert_answers!(b => Some("*2 $1 k $1 4"));
    world.assert_idle();
}

#[test]
fn one_of_several_keys_is_enough() {
    let (world, [mut a, mut b, mut c]) = world();
    b.run("WAITGET x y z y 0");
    c.run("WAITGET z 0");
    assert_eq!(world.keyspace.waited_keys().keys, 3);
    a.run("SET y 1");
    assert_answers!(b => Some("*2 $1 y $1 1"), c => None);
    assert_eq!(world.keyspace.waited_keys().keys, 1);
    a.run("SET z 2");
    assert_answers!(c => Some("*2 $1 z $1 2"));
    world.assert_idle();
}

#[test]
fn a_transaction_is_over_before_anybody_is_served() {
    let (world, [mut a, mut b, mut c]) = world();
    b.run("WAITGET k j 0");
    c.run("WAITGET k 0");
    for line in ["MULTI", "SET k 1", "DEL k", "EXEC"] {
        a.run(line);
    }
    assert_answers!(b => None, c => None);
    for line in ["MULTI", "SET j 1", "SET k 2", "SET k 3", "EXEC"] {
        a.run(line);
    }
    assert_answers!(b => Some("*2 $1 k $1 3"), c => None);
    assert_eq!(a.run("GETDEL j"), "$1 1");
    for line in ["MULTI", "SET k 4", "FLUSHALL", "SET k 5", "EXEC"] {
        a.run(line);
    }
    assert_answers!(c => Some("*2 $1 k $1 5"));
    world.assert_idle();
}

#[test]
fn nobody_waits_in_a_transaction() {
    let (world, [mut a]) = world();
    for line in ["MULTI", "WAITGET k 0", "WAITMOVE k j 0", "SET k 1", "WAITGET k 0"] {
        a.run(line);
    }
    assert_eq!(a.run("EXEC"), "*4 *-1 $-1 +OK *2 $1 k $1 1");
    world.assert_idle();
}

#[test]
fn what_is_moved_is_passed_on() {
    let (world, [mut a, mut b, mut c, mut d, mut e]) = world();
    b.run("WAITMOVE k1 k2 0");
    c.run("WAITMOVE k2 k3 0");
    d.run("WAITMOVE k3 k1 0");
    e.run("WAITGET k1 0");
    a.run("SET k1 7");
    assert_answers!(b => Some("$1 7"), c => Some("$1 7"), d => Some("$1 7"), e => Some("*2 $2 k1 $1 7"));
    assert_eq!(a.run("DBSIZE"), ":0");
    world.assert_idle();
}

#[test]
fn a_client_that_finds_nothing_keeps_its_place() {
    let (world, [mut a, mut b, mut c]) = world();
    a.run("SET k 5");
    assert_eq!(b.run("WAITLOOK k 7 0"), "waits");
    assert_eq!(c.run("WAITLOOK k $ 0"), "waits");
    assert_eq!(world.keyspace.waited_keys().or_loss, 1);
    a.run("SET k 6");
    assert_answers!(b => None, c => Some("$1 6"));
    c.run("WAITGET j 0");
    a.run("SET k 8");
    assert_answers!(b => Some("$1 8"));
    assert!(c.leave());
    world.assert_idle();
}

#[test]
fn what_is_waited_for_may_come_in_many_ways() {
    for (before, line) in [
        (&[][..], "SET k 1"),
        (&[], "APPEND k 1"),
        (&[], "INCR k"),
        (&[], "SETRANGE k 0 1"),
        (&["SET j 1"], "RENAME j k"),
        (&["SET j 1"], "COPY j k"),
        (&["SELECT 1", "SET k 1"], "MOVE k 0"),
        (&["SELECT 1", "SET k 1"], "SWAPDB 0 1"),
    ] {
        let (world, [mut a, mut b]) = world();
        b.run("WAITGET k 0");
        for line in before {
            a.run(line);
        }
        a.run(line);
        assert_answers!(b => Some("*2 $1 k $1 1"));
        world.assert_idle();
    }
}

#[test]
fn who_must_know_learns_that_a_key_is_gone() {
    for line in ["DEL k", "RENAME k j", "FLUSHALL", "FLUSHDB ASYNC", "SWAPDB 0 1", "MOVE k 1"] {
        let (world, [mut a, mut b]) = world();
        a.run("SET k 1");
        b.run("WAITLOOK k $ 0");
        a.run(line);
        assert_answers!(b => Some("-NONE there is no such string"));
        world.assert_idle();
    }
}

#[test]
fn another_database_is_another_key() {
    let (world, [mut a, mut b, mut c]) = world();
    b.run("WAITGET k 0");
    c.run("SELECT 1");
    c.run("WAITGET k 0");
    assert_eq!(world.keyspace.waited_keys().keys, 2);
    a.run("SELECT 1");
    a.run("SET k 1");
    assert_answers!(b => None, c => Some("*2 $1 k $1 1"));
    a.run("SELECT 0");
    a.run("SET k 2");
    assert_answers!(b => Some("*2 $1 k $1 2"));
    world.assert_idle();
}

#[test]
fn a_wait_ends_once() {
    let (world, [mut a, mut b, mut c]) = world();
    // The clock does not advance in between, as within a worker's turn.
    let now = b.exec.ks.now_ms();
    b.run("WAITGET k j 1");
    assert_eq!(b.host.blocked.as_ref().unwrap().deadline(), Some(now + 1000));
    assert!(a.end_wait(&b, WaitEnd::Timeout));
    assert!(!a.end_wait(&b, WaitEnd::Error));
    assert_answers!(b => NULL_ARRAY, b => None);
    b.run("WAITMOVE k j 0");
    assert_eq!(b.host.blocked.as_ref().unwrap().deadline(), None);
    c.run("WAITGET k 0");
    assert!(a.end_wait(&b, WaitEnd::Error));
    a.run("SET k 1");
    assert_answers!(b => Some("-UNBLOCKED client unblocked via CLIENT UNBLOCK"));
    assert_answers!(c => Some("*2 $1 k $1 1"));
    assert!(!a.end_wait(&c, WaitEnd::Timeout));
    assert!(!c.leave());
    world.assert_idle();
}

#[test]
fn who_is_gone_takes_nothing() {
    let (world, [mut a, mut b, mut c]) = world();
    b.run("WAITGET k 0");
    c.run("WAITGET k 0");
    b.stands(Standing::Gone);
    a.run("SET k 1");
    assert_answers!(b => None, c => Some("*2 $1 k $1 1"));
    assert!(!b.leave());
    world.assert_idle();
}

#[test]
fn who_is_postponed_is_served_later() {
    let (world, [mut a, mut b, mut c]) = world();
    b.run("WAITGET k 0");
    c.run("WAITGET k 0");
    world.shared.pause.start(PauseReason::Command, 0, i64::MAX, false);
    a.run("SET k 1");
    a.run("SET k 2");
    assert!(a.exec.has_postponed() && !a.exec.has_ready());
    a.serve_postponed();
    assert!(a.exec.has_postponed());
    world.shared.pause.end(PauseReason::Command);
    a.serve_postponed();
    assert!(!a.exec.has_postponed());
    assert_answers!(b => Some("*2 $1 k $1 2"), c => None);
    assert!(c.leave());
    world.assert_idle();
}

#[test]
fn a_call_is_counted_once_when_it_is_answered() {
    let (world, [mut a, mut b]) = world();
    let index = world.shared.registry.find(b"waitget").unwrap().index;
    let stats = || world.shared.command(index);
    b.run("WAITGET k 0");
    assert_eq!(stats().calls, 0);
    a.run("SET k 1");
    assert_eq!((stats().calls, stats().failed), (1, 0));
    b.run("WAITGET k 0");
    a.end_wait(&b, WaitEnd::Timeout);
    assert_eq!((stats().calls, stats().failed), (2, 0));
    b.run("WAITGET k 0");
    a.end_wait(&b, WaitEnd::Error);
    assert_eq!((stats().calls, stats().failed), (3, 1));
    assert_eq!(world.shared.errors(), [(b"UNBLOCKED".to_vec(), 1)]);
    b.run("WAITGET k 0");
    b.leave();
    assert_eq!(stats().calls, 3);
}

#[test]
fn many_waiters_are_served_in_turns() {
    let world = World::new(16);
    let mut a = world.client(0);
    a.run("SET k 0");
    let mut others: Vec<Client> = (1..3000).map(|id| world.client(id)).collect();
    for other in &mut others {
        assert_eq!(other.run("WAITLOOK k $ 0"), "waits");
    }
    a.run("SET k 1");
    assert!(a.exec.has_ready());
    let mut served = 0;
    let mut count = |others: &mut Vec<Client>| {
        others.retain_mut(|other| other.answer().is_none());
        served = 2999 - others.len();
        served
    };
    assert_eq!(count(&mut others), 1024);
    a.serve_ready();
    assert_eq!(count(&mut others), 2048);
    // The first command on the key serves the remaining clients.
    let mut b = world.client(3000);
    assert_eq!(b.run("GET k"), "$1 1");
    assert_eq!(count(&mut others), 2999);
    a.serve_ready();
    world.assert_idle();
}

#[test]
fn timeouts_are_read_as_redis_reads_them() {
    let (_, [mut a]) = world();
    for (timeout, expected) in [
        ("x", "-ERR timeout is not a float or out of range"),
        ("nan", "-ERR timeout is not a float or out of range"),
        ("1e5000", "-ERR timeout is not a float or out of range"),
        ("-1", "-ERR timeout is negative"),
        ("-inf", "-ERR timeout is negative"),
        ("-1e30", "-ERR timeout is negative"),
        ("inf", "-ERR timeout is out of range"),
        ("1e400", "-ERR timeout is out of range"),
        ("9223372036854775", "-ERR timeout is out of range"),
    ] {
        assert_eq!(a.run(&format!("WAITGET k {timeout}")), expected, "{timeout}");
    }
    a.run("SET k 1");
    for (timeout, expected) in [
        ("x", "-ERR timeout is not an integer or out of range"),
        ("1.5", "-ERR timeout is not an integer or out of range"),
        ("-1", "-ERR timeout is negative"),
        ("9223372036854775807", "-ERR timeout is out of range"),
    ] {
        assert_eq!(a.run(&format!("WAITLOOK k 0 {timeout}")), expected, "{timeout}");
    }
}
