//! Stress test of the lock protocol on real threads and futexes: counters that stay exact only if
//! the locks work.

#![cfg(not(any(feature = "loom", feature = "shuttle")))]

use petrel_lock::{ExclusiveLock, Forever, StripeLock, ThreadSlot};
use std::cell::UnsafeCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

const STRIPES: usize = 4;
const THREADS: u64 = 6;

#[derive(Default)]
struct Stripe {
    lock: StripeLock,
    count: UnsafeCell<u64>,
}

// SAFETY: the count is accessed only under the lock or by the exclusive owner.
unsafe impl Sync for Stripe {}

impl Stripe {
    /// A read and a write with room for another thread between them.
    fn increment(&self) {
        // SAFETY: the caller holds the lock or owns the keyspace.
        unsafe {
            let count = self.count.get().read_volatile();
            std::hint::spin_loop();
            self.count.get().write_volatile(count + 1);
        }
    }
}

struct World {
    stripes: [Stripe; STRIPES],
    expected: [AtomicU64; STRIPES],
}

impl World {
    fn increment(&self, stripe: u32) {
        self.stripes[stripe as usize].increment();
        self.expected[stripe as usize].fetch_add(1, Relaxed);
    }

    fn increment_all(&self) {
        (0..STRIPES as u32).for_each(|stripe| self.increment(stripe));
    }

    fn unlock(&self, stripes: &[u32]) {
        stripes.iter().for_each(|&stripe| self.stripes[stripe as usize].lock.unlock());
    }

    /// Executes a random command on random stripes. The slot is active.
    fn command(&self, pass: &ThreadSlot, dice: u64) {
        let stripe = (dice >> 32) as u32 % STRIPES as u32;
        let many: &[u32] =
            [&[0, 1][..], &[0, 3], &[1, 2, 3], &[0, 1, 2, 3]][(dice >> 40) as usize % 4];
        let lock_at = |index: usize| &self.stripes[index].lock;
        match dice % 256 {
            0 => {
                pass.exclusive(Forever);
                self.increment_all();
                pass.release_exclusive();
            }
            1 => {
                pass.script_token(Forever);
                pass.lock_many(lock_at, many, Forever);
                self.increment(many[0]);
                pass.exclusive_holding(lock_at, many, Forever);
                self.increment_all();
                pass.release_exclusive();
                self.increment(many[1]);
                self.unlock(many);
                pass.release_script_token();
            }
            2..64 => {
                pass.lock_many(lock_at, many, Forever);
                many.iter().for_each(|&stripe| self.increment(stripe));
                self.unlock(many);
            }
            _ => {
                pass.lock(lock_at(stripe as usize), Forever);
                self.increment(stripe);
                if dice % 256 == 64 {
                    // Long enough for others to fall asleep on the stripe.
                    thread::sleep(Duration::from_micros(50));
                }
                self.unlock(&[stripe]);
            }
        }
    }
}

/// Worker thread: batches of commands until the deadline, with a new slot now and then. Returns the
/// number of commands executed.
fn work(world: &World, gate: &Arc<ExclusiveLock>, seed: u64, deadline: Instant) -> u64 {
    let mut dice = seed;
    let mut commands = 0;
    while Instant::now() < deadline {
        let pass = gate.register();
        for _ in 0..16 {
            pass.enter(Forever);
            for _ in 0..16 {
                dice = dice.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                world.command(&pass, dice >> 11);
                commands += 1;
            }
            pass.exit();
        }
    }
    commands
}

#[test]
fn counts_stay_exact() {
    let world = World { stripes: Default::default(), expected: Default::default() };
    let gate = Arc::new(ExclusiveLock::new());
    let deadline = Instant::now() + Duration::from_millis(1500);
    thread::scope(|scope| {
        let workers: Vec<_> = (0..THREADS)
            .map(|seed| {
                scope.spawn({
                    let (world, gate) = (&world, &gate);
                    move || work(world, gate, seed, deadline)
                })
            })
            .collect();
        for worker in workers {
            // No thread may starve another for all that time.
            assert!(worker.join().unwrap() > 0);
        }
    });
    for (stripe, expected) in world.stripes.into_iter().zip(world.expected) {
        assert!(!stripe.lock.is_held());
        assert_eq!(stripe.count.into_inner(), expected.into_inner());
    }
}

#[test]
fn an_exclusive_owner_gets_in_beside_busy_workers() {
    let gate = Arc::new(ExclusiveLock::new());
    let stop = AtomicU64::new(0);
    let slowest = thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                let pass = gate.register();
                while stop.load(Relaxed) == 0 {
                    pass.enter(Forever);
                    pass.exit();
                }
            });
        }
        let pass = gate.register();
        let raise = |_| {
            let start = Instant::now();
            pass.exclusive(Forever);
            let waited = start.elapsed();
            pass.release_exclusive();
            waited
        };
        let slowest = (0..100).map(raise).max();
        stop.store(1, Relaxed);
        slowest
    });
    assert!(slowest < Some(Duration::from_secs(1)), "waited {slowest:?}");
}
