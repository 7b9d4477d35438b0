//! Memory orderings of the exclusive lock and of the stripe lock: loom explores every interleaving
//! and every reordering that the memory model allows, up to a bound of preemptions. Guarded data
//! are in cells that report races.
//!
//! `cargo test --release -p petrel-lock --features loom --test gate_loom`

#![cfg(feature = "loom")]

use loom::cell::UnsafeCell;
use loom::model::Builder;
use loom::thread;
use petrel_lock::{ExclusiveLock, Forever, StripeLock, ThreadSlot};
use std::sync::Arc;

struct World {
    gate: Arc<ExclusiveLock>,
    stripes: [(StripeLock, Cell); 2],
    /// Written by exclusive owners, read by every active thread.
    shape: Cell,
}

struct Cell(UnsafeCell<u32>);

// SAFETY: the models verify that accesses are ordered; loom stops at the first one that is not.
unsafe impl Sync for Cell {}

impl Cell {
    fn new() -> Self {
        Cell(UnsafeCell::new(0))
    }

    fn increment(&self) {
        // SAFETY: as above.
        self.0.with_mut(|value| unsafe { *value += 1 });
    }

    fn get(&self) -> u32 {
        // SAFETY: as above.
        self.0.with(|value| unsafe { *value })
    }
}

impl World {
    fn new() -> Arc<Self> {
        Arc::new(World {
            gate: Arc::new(ExclusiveLock::new()),
            stripes: [(StripeLock::new(), Cell::new()), (StripeLock::new(), Cell::new())],
            shape: Cell::new(),
        })
    }

    fn command(&self, pass: &ThreadSlot, stripe: usize) {
        let (lock, data) = &self.stripes[stripe];
        pass.enter(Forever);
        pass.lock(lock, Forever);
        self.shape.get();
        data.increment();
        lock.unlock();
        pass.exit();
    }

    fn exclusive(&self, pass: &ThreadSlot) {
        pass.exclusive(Forever);
        self.touch_everything();
        pass.release_exclusive();
    }

    fn script(&self, pass: &ThreadSlot) {
        pass.enter(Forever);
        pass.script_token(Forever);
        pass.lock(&self.stripes[0].0, Forever);
        self.stripes[0].1.increment();
        pass.exclusive_holding(|index| &self.stripes[index].0, &[0], Forever);
        self.touch_everything();
        pass.release_exclusive();
        self.stripes[0].0.unlock();
        pass.release_script_token();
        pass.exit();
    }

    fn touch_everything(&self) {
        self.shape.increment();
        self.stripes.iter().for_each(|(_, data)| data.increment());
    }
}

type Body = fn(&World, &ThreadSlot);

/// Runs the bodies, the first on the main thread; then checks how often each stripe's data were
/// accessed.
fn explore(preemptions: usize, bodies: &'static [Body], expected: [u32; 2]) {
    let mut builder = Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.check(move || {
        let world = World::new();
        let spawn = |&body: &Body| {
            let (world, pass) = (Arc::clone(&world), world.gate.register());
            thread::spawn(move || body(&world, &pass))
        };
        let pass = world.gate.register();
        let others: Vec<_> = bodies[1..].iter().map(spawn).collect();
        bodies[0](&world, &pass);
        drop(pass);
        others.into_iter().for_each(|other| other.join().unwrap());
        assert_eq!([world.stripes[0].1.get(), world.stripes[1].1.get()], expected);
    });
}

#[test]
fn a_command_and_an_exclusive_owner() {
    const BODIES: &[Body] =
        &[|world, pass| world.exclusive(pass), |world, pass| world.command(pass, 0)];
    explore(3, BODIES, [2, 1]);
}

#[test]
fn two_commands_before_during_or_after_an_exclusive_owner() {
    const BODIES: &[Body] = &[
        |world, pass| world.exclusive(pass),
        |world, pass| {
            world.command(pass, 0);
            world.command(pass, 1);
        },
    ];
    explore(3, BODIES, [2, 2]);
}

#[test]
fn two_exclusive_owners() {
    const BODIES: &[Body] =
        &[|world, pass| world.exclusive(pass), |world, pass| world.exclusive(pass)];
    explore(3, BODIES, [2, 2]);
}

#[test]
fn two_commands_on_one_stripe() {
    const BODIES: &[Body] =
        &[|world, pass| world.command(pass, 0), |world, pass| world.command(pass, 0)];
    explore(3, BODIES, [2, 0]);
}

#[test]
fn a_waiter_and_a_raiser_from_inside() {
    const BODIES: &[Body] =
        &[|world, pass| world.script(pass), |world, pass| world.command(pass, 0)];
    explore(3, BODIES, [3, 1]);
}
