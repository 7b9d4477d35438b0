//! Model of the lock protocol under a scheduler that tries thousands of interleavings (sequentially
//! consistent; `gate_loom.rs` covers the memory orderings). Waits have no time limit here, so a
//! lost wake-up shows as a deadlock.
//!
//! `cargo test -p petrel-lock --features shuttle --test lock_model`

#![cfg(all(feature = "shuttle", not(feature = "loom")))]

use petrel_lock::{ExclusiveLock, Forever, StripeLock, ThreadSlot};
use shuttle::rand::{Rng, thread_rng};
use shuttle::scheduler::{PctScheduler, RandomScheduler, Scheduler};
use shuttle::{Config, Runner, thread};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

const STRIPES: usize = 3;
const NO_THREAD: usize = usize::MAX;

/// Invariants, tracked in plain atomics that are no scheduling points.
struct World {
    gate: Arc<ExclusiveLock>,
    locks: [StripeLock; STRIPES],
    holders: [AtomicUsize; STRIPES],
    exclusive: AtomicUsize,
    /// Commands executed.
    executed: AtomicUsize,
}

impl World {
    fn new() -> Arc<Self> {
        Arc::new(World {
            gate: Arc::new(ExclusiveLock::new()),
            locks: std::array::from_fn(|_| StripeLock::new()),
            holders: std::array::from_fn(|_| AtomicUsize::new(NO_THREAD)),
            exclusive: AtomicUsize::new(NO_THREAD),
            executed: AtomicUsize::new(0),
        })
    }

    /// Executes a command on stripes locked by `me`, and checks that no other thread is on them.
    fn execute(&self, me: usize, stripes: &[u32]) {
        self.claim(me, stripes);
        thread::yield_now();
        self.check_held(me, stripes);
        assert_eq!(self.exclusive.load(Relaxed), NO_THREAD, "a command beside an exclusive owner");
        self.disclaim(stripes);
        self.executed.fetch_add(1, Relaxed);
    }

    fn claim(&self, me: usize, stripes: &[u32]) {
        for &stripe in stripes {
            let holder = self.holders[stripe as usize].swap(me, Relaxed);
            assert_eq!(holder, NO_THREAD, "stripe {stripe} has two holders");
        }
    }

    fn check_held(&self, me: usize, stripes: &[u32]) {
        for &stripe in stripes {
            assert_eq!(self.holders[stripe as usize].load(Relaxed), me);
            assert!(self.locks[stripe as usize].is_held());
        }
    }

    fn disclaim(&self, stripes: &[u32]) {
        stripes.iter().for_each(|&stripe| self.holders[stripe as usize].store(NO_THREAD, Relaxed));
    }

    /// Executes work on the whole keyspace as its exclusive owner, which may hold `stripes`.
    fn execute_exclusive(&self, me: usize, stripes: &[u32]) {
        assert_eq!(self.exclusive.swap(me, Relaxed), NO_THREAD, "two exclusive owners");
        for _ in 0..2 {
            for (stripe, holder) in self.holders.iter().enumerate() {
                let expected = if stripes.contains(&(stripe as u32)) { me } else { NO_THREAD };
                assert_eq!(holder.load(Relaxed), expected, "a command was caught in the middle");
            }
            thread::yield_now();
        }
        assert_eq!(self.exclusive.swap(NO_THREAD, Relaxed), me);
        self.executed.fetch_add(1, Relaxed);
    }

    fn unlock(&self, stripes: &[u32]) {
        stripes.iter().for_each(|&stripe| self.locks[stripe as usize].unlock());
    }
}

/// A script that uses undeclared keys.
#[derive(Clone, Copy, Default)]
struct Straying {
    /// The script writes before it uses an undeclared key.
    writes_first: bool,
    /// The script gives up after waiting too long, unless it has written.
    gives_up: bool,
    /// The script breaks the rule: it takes the token when it uses an undeclared key, not before it
    /// writes.
    takes_token_late: bool,
}

const READS: Straying = Straying { writes_first: false, gives_up: false, takes_token_late: false };
const WRITES: Straying = Straying { writes_first: true, ..READS };

/// Outcome of a script.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum End {
    Whole,
    Restarts,
    Refused,
}

/// A thread of the model.
struct Worker {
    world: Arc<World>,
    pass: ThreadSlot,
    me: usize,
}

impl Worker {
    fn new(world: &Arc<World>, me: usize) -> Self {
        Worker { world: Arc::clone(world), pass: world.gate.register(), me }
    }

    fn single(&self, stripe: u32) {
        let lock = &self.world.locks[stripe as usize];
        self.pass.enter(Forever);
        self.pass.lock(lock, Forever);
        self.world.execute(self.me, &[stripe]);
        lock.unlock();
        self.pass.exit();
    }

    fn try_single(&self, stripe: u32) {
        let lock = &self.world.locks[stripe as usize];
        self.pass.enter(Forever);
        if self.pass.try_lock(lock) {
            self.world.execute(self.me, &[stripe]);
            lock.unlock();
        }
        self.pass.exit();
    }

    /// A batch of two commands that leaves between them if another thread waits.
    fn batch(&self, stripe: u32) {
        self.pass.enter(Forever);
        for stripe in [stripe, (stripe + 1) % STRIPES as u32] {
            if self.pass.intent_pending() {
                self.pass.exit();
                self.pass.enter(Forever);
            }
            let lock = &self.world.locks[stripe as usize];
            self.pass.lock(lock, Forever);
            self.world.execute(self.me, &[stripe]);
            lock.unlock();
        }
        self.pass.exit();
    }

    /// A batch of three commands on one stripe, which stays locked between them while others wait,
    /// or is unlocked without waking any until the end of the batch.
    fn keeping_batch(&self, stripe: u32) {
        let lock = &self.world.locks[stripe as usize];
        let (mut kept, mut owed) = (false, None);
        self.pass.enter(Forever);
        for left in (0..3).rev() {
            if self.pass.intent_pending() {
                owed.take().into_iter().for_each(|waiters| lock.wake(waiters));
                if kept {
                    lock.unlock();
                    kept = false;
                }
                self.pass.exit();
                self.pass.enter(Forever);
            }
            if !kept {
                self.pass.lock(lock, Forever);
            }
            self.world.execute(self.me, &[stripe]);
            let waiters = lock.release();
            kept = left > 0 && waiters.any() && !waiters.are_starved() && lock.take_back();
            if waiters.any() && !kept {
                if left > 0 && !waiters.are_starved() {
                    owed = Some(waiters);
                } else {
                    lock.wake(waiters);
                }
            }
            thread::yield_now();
        }
        owed.take().into_iter().for_each(|waiters| lock.wake(waiters));
        self.pass.exit();
    }

    fn many(&self, stripes: &[u32]) {
        self.pass.enter(Forever);
        self.pass.lock_many(|index| &self.world.locks[index], stripes, Forever);
        self.world.execute(self.me, stripes);
        self.world.unlock(stripes);
        self.pass.exit();
    }

    fn exclusive(&self, inside: bool) {
        if inside {
            self.pass.enter(Forever);
        }
        self.pass.exclusive(Forever);
        self.world.execute_exclusive(self.me, &[]);
        self.pass.release_exclusive();
        assert_eq!(self.pass.is_inside(), inside);
        self.pass.exit();
    }

    /// A transaction with a script in the middle that uses an undeclared key.
    fn script(&self, stripes: &[u32], raises: bool) {
        let world = &self.world;
        self.pass.enter(Forever);
        self.pass.script_token(Forever);
        assert!(self.pass.is_inside());
        self.pass.lock_many(|index| &world.locks[index], stripes, Forever);
        world.claim(self.me, stripes);
        if raises {
            self.pass.exclusive_holding(|index| &world.locks[index], stripes, Forever);
            world.check_held(self.me, stripes);
            world.execute_exclusive(self.me, stripes);
            self.pass.release_exclusive();
        }
        thread::yield_now();
        world.check_held(self.me, stripes);
        world.disclaim(stripes);
        world.unlock(stripes);
        self.pass.release_script_token();
        self.pass.exit();
    }

    /// A command on several stripes that gives up at random.
    fn many_unless(&self, stripes: &[u32]) {
        let entered = self.pass.enter(is_tired);
        let locked = entered
            && match stripes {
                [one] => self.pass.lock(&self.world.locks[*one as usize], is_tired),
                many => self.pass.lock_many(|index| &self.world.locks[index], many, is_tired),
            };
        if locked {
            assert!(self.pass.is_inside());
            self.world.execute(self.me, stripes);
            self.world.unlock(stripes);
        }
        self.reenter();
        self.pass.exit();
    }

    /// Prepares for the next command after one that gave up.
    fn reenter(&self) {
        if self.pass.is_disturbed() {
            self.pass.exit();
            self.pass.enter(Forever);
        }
        assert!(self.pass.is_inside());
    }

    fn exclusive_unless(&self, inside: bool) {
        if inside {
            self.pass.enter(Forever);
        }
        if self.pass.exclusive(is_tired) {
            assert_eq!(self.pass.is_inside(), inside);
            self.world.execute_exclusive(self.me, &[]);
            self.pass.release_exclusive();
        }
        self.pass.exit();
    }

    /// Runs a script with undeclared keys as the server does.
    fn straying_script(&self, stripes: &[u32], script: Straying) {
        let world = &self.world;
        let lock = |index: usize| &world.locks[index];
        let tired = || script.gives_up && is_tired();
        let mut takes_token = false;
        self.pass.enter(Forever);
        for attempt in 0.. {
            assert!(attempt < 2, "a script restarts once at most");
            if takes_token && !self.pass.script_token(tired) {
                break;
            }
            if !self.pass.lock_many(lock, stripes, tired) {
                self.pass.release_script_token();
                break;
            }
            world.claim(self.me, stripes);
            thread::yield_now();
            let end = self.stray(stripes, script);
            world.disclaim(stripes);
            world.unlock(stripes);
            self.pass.release_exclusive();
            self.pass.release_script_token();
            self.reenter();
            if end != End::Restarts {
                break;
            }
            takes_token = true;
        }
        self.reenter();
        self.pass.exit();
    }

    /// Body of such a script, once it holds its declared stripes.
    fn stray(&self, stripes: &[u32], script: Straying) -> End {
        let world = &self.world;
        if script.writes_first && !script.takes_token_late && !self.pass.try_script_token() {
            return End::Restarts;
        }
        world.check_held(self.me, stripes);
        thread::yield_now();
        if !self.pass.try_script_token() {
            assert!(!script.writes_first, "a script fails after it has written");
            return End::Restarts;
        }
        let lock = |index: usize| &world.locks[index];
        let tired = || !script.writes_first && script.gives_up && is_tired();
        let alone = self.pass.exclusive_holding(lock, stripes, tired);
        world.check_held(self.me, stripes);
        if !alone {
            assert!(!script.writes_first, "a script fails after it has written");
            return End::Refused;
        }
        world.execute_exclusive(self.me, stripes);
        End::Whole
    }

    fn any(&self) {
        let mut rng = thread_rng();
        let stripe = rng.gen_range(0..STRIPES as u32);
        let many: &[u32] = [&[0, 1][..], &[0, 2], &[1, 2], &[0, 1, 2]][rng.gen_range(0..4)];
        match rng.gen_range(0..22) {
            0 | 1 => self.single(stripe),
            2 => self.try_single(stripe),
            3 | 4 => self.batch(stripe),
            5 | 6 => self.many(many),
            7 => self.exclusive(false),
            8 => self.exclusive(true),
            9 | 10 => self.script(many, true),
            11 => self.many_unless(many),
            12 => self.many_unless(&[stripe]),
            13 => self.exclusive_unless(stripe == 0),
            14 => self.straying_script(many, READS),
            15 => self.straying_script(&[stripe], Straying { gives_up: true, ..READS }),
            16 => self.straying_script(many, WRITES),
            17 => self.straying_script(&[stripe], WRITES),
            18 => self.straying_script(many, Straying { gives_up: true, ..WRITES }),
            19 | 20 => self.keeping_batch(stripe),
            _ => self.script(&[stripe], false),
        }
    }
}

/// Random decision of a waiter to give up.
fn is_tired() -> bool {
    thread_rng().gen_range(0..3) == 0
}

fn explore(scheduler: impl Scheduler + 'static, model: fn()) {
    let mut config = Config::new();
    config.stack_size = 0x20000;
    Runner::new(scheduler, config).run(model);
}

/// Runs `model` under both schedulers, `iterations` times each.
fn explore_both(iterations: usize, model: fn()) {
    explore(RandomScheduler::new(iterations), model);
    explore(PctScheduler::new(3, iterations), model);
}

fn run(world: &Arc<World>, threads: Vec<Box<dyn FnOnce(Worker) + Send>>) {
    let spawn = |(me, body): (usize, Box<dyn FnOnce(Worker) + Send>)| {
        let worker = Worker::new(world, me);
        thread::spawn(move || body(worker))
    };
    let threads: Vec<_> = threads.into_iter().enumerate().map(spawn).collect();
    for thread in threads {
        thread.join().unwrap();
    }
    assert!(world.locks.iter().all(|lock| !lock.is_held()));
    // At the end no thread is active, and every stripe is free.
    let last = Worker::new(world, usize::MAX - 1);
    last.many(&[0, 1, 2]);
    last.exclusive(false);
}

#[test]
fn any_mix_of_operations() {
    explore_both(2000, || {
        let body = |worker: Worker| (0..3).for_each(|_| worker.any());
        run(&World::new(), (0..4).map(|_| Box::new(body) as Box<_>).collect());
    });
}

#[test]
fn waiters_on_one_stripe_are_all_woken() {
    explore_both(1200, || {
        let world = World::new();
        let body = |worker: Worker| (0..2).for_each(|_| worker.single(0));
        run(&world, (0..4).map(|_| Box::new(body) as Box<_>).collect());
        assert_eq!(world.executed.load(Relaxed), 4 * 2 + 2);
    });
}

#[test]
fn waiters_are_woken_after_a_stripe_was_kept() {
    explore_both(1200, || {
        let world = World::new();
        let keeps = |worker: Worker| worker.keeping_batch(0);
        run(
            &world,
            vec![
                Box::new(keeps),
                Box::new(keeps),
                Box::new(|worker| worker.single(0)),
                Box::new(|worker| worker.exclusive(false)),
            ],
        );
        assert_eq!(world.executed.load(Relaxed), 3 + 3 + 1 + 1 + 2);
    });
}

#[test]
fn waiters_give_way_to_a_raiser_that_holds_their_stripes() {
    explore_both(1200, || {
        run(
            &World::new(),
            vec![
                Box::new(|worker| worker.script(&[1, 2], true)),
                Box::new(|worker| worker.many(&[0, 1])),
                Box::new(|worker| worker.many(&[0, 2])),
                Box::new(|worker| worker.single(0)),
            ],
        );
    });
}

#[test]
fn straying_scripts_restart_at_most_once() {
    explore_both(1200, || {
        let world = World::new();
        run(
            &world,
            vec![
                Box::new(|worker| worker.straying_script(&[0, 1], READS)),
                Box::new(|worker| worker.straying_script(&[1, 2], READS)),
                Box::new(|worker| worker.straying_script(&[0], READS)),
                Box::new(|worker| worker.many(&[0, 2])),
            ],
        );
        assert_eq!(world.executed.load(Relaxed), 4 + 2);
    });
}

/// Scripts that write before they use undeclared keys, on the same stripes and on others, beside
/// all other kinds of locking: each is executed atomically.
fn scripts_that_write_first(script: Straying) {
    let world = World::new();
    run(
        &world,
        vec![
            Box::new(move |worker| worker.straying_script(&[0, 1], script)),
            Box::new(move |worker| worker.straying_script(&[1, 2], script)),
            Box::new(move |worker| worker.straying_script(&[2], script)),
            Box::new(|worker| worker.straying_script(&[0], READS)),
            Box::new(|worker| {
                worker.many(&[0, 2]);
                worker.exclusive(true);
            }),
        ],
    );
    assert_eq!(world.executed.load(Relaxed), 6 + 2);
}

#[test]
fn scripts_that_write_before_they_stray_are_whole() {
    explore_both(1500, || scripts_that_write_first(WRITES));
}

/// The model detects violations of the rule.
#[test]
#[should_panic(expected = "a script fails after it has written")]
fn without_the_token_before_the_first_write_scripts_fail() {
    explore_both(1500, || {
        scripts_that_write_first(Straying { takes_token_late: true, ..WRITES });
    });
}

#[test]
fn scripts_that_have_written_wait_though_others_give_up() {
    explore_both(1200, || {
        let gives_up = Straying { gives_up: true, ..WRITES };
        run(
            &World::new(),
            vec![
                Box::new(move |worker| worker.straying_script(&[0, 1], gives_up)),
                Box::new(move |worker| worker.straying_script(&[0], gives_up)),
                Box::new(|worker| worker.many_unless(&[0, 1])),
                Box::new(|worker| worker.exclusive_unless(true)),
                Box::new(|worker| worker.batch(0)),
            ],
        );
    });
}

#[test]
fn giving_up_leaves_nothing_behind() {
    explore_both(1200, || {
        run(
            &World::new(),
            vec![
                Box::new(|worker| worker.script(&[0, 1], true)),
                Box::new(|worker| worker.many_unless(&[0, 1])),
                Box::new(|worker| worker.exclusive_unless(true)),
                Box::new(|worker| {
                    worker.straying_script(&[1, 2], Straying { gives_up: true, ..READS })
                }),
                Box::new(|worker| worker.many(&[0, 1])),
            ],
        );
    });
}

#[test]
fn sleepers_on_one_stripe_all_give_way() {
    explore_both(1200, || {
        run(
            &World::new(),
            vec![
                Box::new(|worker| worker.single(0)),
                Box::new(|worker| worker.single(0)),
                Box::new(|worker| worker.single(0)),
                Box::new(|worker| worker.script(&[0], true)),
            ],
        );
    });
}

#[test]
fn raisers_from_inside_and_outside_queue_up() {
    explore_both(1200, || {
        run(
            &World::new(),
            vec![
                Box::new(|worker| worker.script(&[0, 1], true)),
                Box::new(|worker| worker.script(&[0, 1], true)),
                Box::new(|worker| worker.exclusive(true)),
                Box::new(|worker| worker.exclusive(false)),
                Box::new(|worker| worker.many(&[0, 1])),
            ],
        );
    });
}

#[test]
fn slots_come_and_go_while_an_intent_is_set() {
    explore_both(1200, || {
        let world = World::new();
        let visitor = |worker: Worker| {
            let world = Arc::clone(&worker.world);
            let me = worker.me;
            worker.single(0);
            drop(worker);
            Worker::new(&world, me).many(&[0, 1]);
            // Dropped within a batch, as by a thread that unwinds.
            Worker::new(&world, me).pass.enter(Forever);
        };
        run(
            &world,
            vec![
                Box::new(|worker| worker.exclusive(false)),
                Box::new(|worker| {
                    worker.pass.script_token(Forever);
                    worker.pass.exclusive(Forever);
                }),
                Box::new(visitor),
                Box::new(visitor),
            ],
        );
    });
}
