//! Clients blocked on streams.

use crate::client::{Client, World};

fn world<const CLIENTS: usize>() -> (World, [Client; CLIENTS]) {
    let world = World::new(16);
    let clients = std::array::from_fn(|id| world.client(id as u64));
    (world, clients)
}

#[test]
fn all_readers_get_a_new_entry() {
    let (world, [mut a, mut b, mut c, mut d]) = world();
    a.run("XADD s 1-1 f v");
    assert_eq!(b.run("XREAD BLOCK 0 STREAMS s $"), "waits");
    assert_eq!(c.run("XREAD BLOCK 0 STREAMS none s + 1-1"), "waits");
    assert_eq!(d.run("XREAD BLOCK 0 STREAMS s 5"), "waits");
    a.run("XADD s 2-1 f v");
    let entry = "*1 *2 $1 s *1 *2 $3 2-1 *2 $1 f $1 v";
    assert_eq!(b.answer().as_deref(), Some(entry));
    assert_eq!(c.answer().as_deref(), Some(entry));
    assert_eq!(d.answer(), None);
    a.run("XADD s 6-1 f v");
    assert_eq!(d.answer().as_deref(), Some("*1 *2 $1 s *1 *2 $3 6-1 *2 $1 f $1 v"));
    world.assert_idle();
}

#[test]
fn the_last_id_is_that_of_the_time_of_the_call() {
    let (world, [mut a, mut b, mut c]) = world();
    a.run("XADD s 5-1 f v");
    b.run("XREAD BLOCK 0 STREAMS s $");
    c.run("XREAD BLOCK 0 STREAMS none +");
    a.run("XADD none 1-1 f v");
    assert_eq!(c.answer().as_deref(), Some("*1 *2 $4 none *1 *2 $3 1-1 *2 $1 f $1 v"));
    // A value of another type in its place does not unblock a reader.
    a.run("DEL s");
    a.run("SET s v");
    a.run("DEL s");
    assert_eq!(b.answer(), None);
    a.run("XADD s 4-1 f v");
    assert_eq!(b.answer(), None);
    a.run("XADD s 5-2 f v");
    assert_eq!(b.answer().as_deref(), Some("*1 *2 $1 s *1 *2 $3 5-2 *2 $1 f $1 v"));
    world.assert_idle();
}

#[test]
fn a_group_serves_its_consumers_in_turn() {
    let (world, [mut a, mut b, mut c]) = world();
    a.run("XGROUP CREATE s g $ MKSTREAM");
    assert_eq!(b.run("XREADGROUP GROUP g bob BLOCK 0 STREAMS s >"), "waits");
    assert_eq!(c.run("XREADGROUP GROUP g carol BLOCK 0 STREAMS s >"), "waits");
    a.run("XADD s 1-1 f v");
    assert_eq!(b.answer().as_deref(), Some("*1 *2 $1 s *1 *2 $3 1-1 *2 $1 f $1 v"));
    assert_eq!(c.answer(), None);
    a.run("XADD s 2-1 f v");
    assert_eq!(c.answer().as_deref(), Some("*1 *2 $1 s *1 *2 $3 2-1 *2 $1 f $1 v"));
    assert_eq!(a.run("XACK s g 1-1 2-1"), ":2");
    assert_eq!(b.run("XREADGROUP GROUP g bob BLOCK 0 STREAMS s 0"), "*1 *2 $1 s *0");
    world.assert_idle();
}

#[test]
fn consumers_learn_that_their_group_is_gone() {
    for (loss, code) in [
        ("DEL s", "-NOGROUP"),
        ("XGROUP DESTROY s g", "-NOGROUP"),
        ("SET s v", "-WRONGTYPE"),
        ("FLUSHALL", "-NOGROUP"),
    ] {
        let (world, [mut a, mut b]) = world();
        a.run("XGROUP CREATE s g $ MKSTREAM");
        assert_eq!(b.run("XREADGROUP GROUP g bob BLOCK 0 STREAMS s >"), "waits");
        a.run(loss);
        let answer = b.answer().unwrap_or_default();
        assert!(answer.starts_with(code), "{loss}: {answer}");
        world.assert_idle();
    }
}

#[test]
fn what_is_pending_is_claimed_when_it_is_old_enough() {
    let (world, [mut a, mut b]) = world();
    a.exec.ks.set_clock(1_000_000);
    b.exec.ks.set_clock(1_000_000);
    a.run("XADD s 1-1 f v");
    a.run("XGROUP CREATE s g 0");
    a.run("XREADGROUP GROUP g alice STREAMS s >");
    let call = "XREADGROUP GROUP g bob BLOCK 0 CLAIM 1000 STREAMS s >";
    assert_eq!(b.run(call), "waits");
    b.exec.ks.set_clock(1_000_999);
    b.try_again();
    assert_eq!(b.answer(), None);
    b.exec.ks.set_clock(1_001_000);
    b.try_again();
    let entry = "*1 *2 $1 s *1 *4 $3 1-1 *2 $1 f $1 v :1000 :1";
    assert_eq!(b.answer().as_deref(), Some(entry));
    world.assert_idle();
}
