//! The lock protocol under a scheduler that tries thousands of interleavings (sequentially
//! consistent; the memory orderings are `gate_loom.rs`'s part). Waits have no time limit here, so a
//! lost wake-up shows as a deadlock.
//!
//! `cargo test -p petrel-lock --features shuttle --test lock_model`

#![cfg(all(feature = "shuttle", not(feature = "loom")))]

use petrel_lock::{Gate, Pass, StripeLock};
use shuttle::rand::{Rng, thread_rng};
use shuttle::scheduler::{PctScheduler, RandomScheduler, Scheduler};
use shuttle::{Config, Runner, thread};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

const STRIPES: usize = 3;
const NOBODY: usize = usize::MAX;

/// What must hold, kept in plain atomics that are no scheduling points.
struct World {
    gate: Arc<Gate>,
    locks: [StripeLock; STRIPES],
    holders: [AtomicUsize; STRIPES],
    exclusive: AtomicUsize,
    /// Commands executed.
    executed: AtomicUsize,
}

impl World {
    fn new() -> Arc<Self> {
        Arc::new(World {
            gate: Arc::new(Gate::new()),
            locks: std::array::from_fn(|_| StripeLock::new()),
            holders: std::array::from_fn(|_| AtomicUsize::new(NOBODY)),
            exclusive: AtomicUsize::new(NOBODY),
            executed: AtomicUsize::new(0),
        })
    }

    /// A command on stripes that `me` has locked: no other thread is on them, from beginning to
    /// end.
    fn execute(&self, me: usize, stripes: &[u32]) {
        self.claim(me, stripes);
        thread::yield_now();
        self.check_held(me, stripes);
        assert_eq!(self.exclusive.load(Relaxed), NOBODY, "a command beside an exclusive owner");
        self.disclaim(stripes);
        self.executed.fetch_add(1, Relaxed);
    }

    fn claim(&self, me: usize, stripes: &[u32]) {
        for &stripe in stripes {
            let holder = self.holders[stripe as usize].swap(me, Relaxed);
            assert_eq!(holder, NOBODY, "stripe {stripe} has two holders");
        }
    }

    fn check_held(&self, me: usize, stripes: &[u32]) {
        for &stripe in stripes {
            assert_eq!(self.holders[stripe as usize].load(Relaxed), me);
            assert!(self.locks[stripe as usize].is_held());
        }
    }

    fn disclaim(&self, stripes: &[u32]) {
        stripes.iter().for_each(|&stripe| self.holders[stripe as usize].store(NOBODY, Relaxed));
    }

    /// Work on the whole keyspace by its exclusive owner, who may hold `stripes`.
    fn execute_exclusive(&self, me: usize, stripes: &[u32]) {
        assert_eq!(self.exclusive.swap(me, Relaxed), NOBODY, "two exclusive owners");
        for _ in 0..2 {
            for (stripe, holder) in self.holders.iter().enumerate() {
                let expected = if stripes.contains(&(stripe as u32)) { me } else { NOBODY };
                assert_eq!(holder.load(Relaxed), expected, "a command was caught in the middle");
            }
            thread::yield_now();
        }
        assert_eq!(self.exclusive.swap(NOBODY, Relaxed), me);
        self.executed.fetch_add(1, Relaxed);
    }

    fn unlock(&self, stripes: &[u32]) {
        stripes.iter().for_each(|&stripe| self.locks[stripe as usize].unlock());
    }
}

/// A script that uses what it did not declare.
#[derive(Clone, Copy, Default)]
struct Straying {
    /// The script has written by then.
    writes_first: bool,
    /// The script gives up after waiting too long, unless it has written.
    is_weary: bool,
    /// The script breaks the rule: it takes the token when it strays, not before it writes.
    takes_token_late: bool,
}

const READS: Straying = Straying { writes_first: false, is_weary: false, takes_token_late: false };
const WRITES: Straying = Straying { writes_first: true, ..READS };

/// How a script ends.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum End {
    Whole,
    BeginsAnew,
    Refused,
}

/// One thread of the model.
struct Worker {
    world: Arc<World>,
    pass: Pass,
    me: usize,
}

impl Worker {
    fn new(world: &Arc<World>, me: usize) -> Self {
        Worker { world: Arc::clone(world), pass: world.gate.register(), me }
    }

    fn single(&self, stripe: u32) {
        let lock = &self.world.locks[stripe as usize];
        self.pass.enter();
        self.pass.lock(lock);
        self.world.execute(self.me, &[stripe]);
        lock.unlock();
        self.pass.exit();
    }

    fn try_single(&self, stripe: u32) {
        let lock = &self.world.locks[stripe as usize];
        self.pass.enter();
        if self.pass.try_lock(lock) {
            self.world.execute(self.me, &[stripe]);
            lock.unlock();
        }
        self.pass.exit();
    }

    /// A batch of two commands that leaves between them when asked to.
    fn batch(&self, stripe: u32) {
        self.pass.enter();
        for stripe in [stripe, (stripe + 1) % STRIPES as u32] {
            if self.pass.intent_pending() {
                self.pass.exit();
                self.pass.enter();
            }
            let lock = &self.world.locks[stripe as usize];
            self.pass.lock(lock);
            self.world.execute(self.me, &[stripe]);
            lock.unlock();
        }
        self.pass.exit();
    }

    fn many(&self, stripes: &[u32]) {
        self.pass.enter();
        self.pass.lock_many(|index| &self.world.locks[index], stripes);
        self.world.execute(self.me, stripes);
        self.world.unlock(stripes);
        self.pass.exit();
    }

    fn exclusive(&self, inside: bool) {
        if inside {
            self.pass.enter();
        }
        self.pass.exclusive();
        self.world.execute_exclusive(self.me, &[]);
        self.pass.release_exclusive();
        assert_eq!(self.pass.is_inside(), inside);
        self.pass.exit();
    }

    /// A transaction with a script in the middle that touches an undeclared key.
    fn script(&self, stripes: &[u32], raises: bool) {
        let world = &self.world;
        self.pass.enter();
        self.pass.script_token();
        assert!(self.pass.is_inside());
        self.pass.lock_many(|index| &world.locks[index], stripes);
        world.claim(self.me, stripes);
        if raises {
            self.pass.exclusive_holding(|index| &world.locks[index], stripes);
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

    /// The stripes of a command that wants to wait no longer than chance has it.
    fn many_unless(&self, stripes: &[u32]) {
        let entered = self.pass.enter_unless(weary);
        let locked = entered
            && match stripes {
                [one] => self.pass.lock_unless(&self.world.locks[*one as usize], weary),
                many => self.pass.lock_many_unless(|index| &self.world.locks[index], many, weary),
            };
        if locked {
            assert!(self.pass.is_inside());
            self.world.execute(self.me, stripes);
            self.world.unlock(stripes);
        }
        self.come_inside();
        self.pass.exit();
    }

    /// What who gave up does before its next command.
    fn come_inside(&self) {
        if self.pass.is_disturbed() {
            self.pass.exit();
            self.pass.enter();
        }
        assert!(self.pass.is_inside());
    }

    fn exclusive_unless(&self, inside: bool) {
        if inside {
            self.pass.enter();
        }
        if self.pass.exclusive_unless(weary) {
            assert_eq!(self.pass.is_inside(), inside);
            self.world.execute_exclusive(self.me, &[]);
            self.pass.release_exclusive();
        }
        self.pass.exit();
    }

    /// A script that uses what it did not declare, as scripts are run.
    fn straying_script(&self, stripes: &[u32], script: Straying) {
        let world = &self.world;
        let lock = |index: usize| &world.locks[index];
        let tired = || script.is_weary && weary();
        let mut takes_token = false;
        self.pass.enter();
        for attempt in 0.. {
            assert!(attempt < 2, "a script begins anew once at most");
            if takes_token && !self.pass.script_token_unless(tired) {
                break;
            }
            if !self.pass.lock_many_unless(lock, stripes, tired) {
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
            self.come_inside();
            if end != End::BeginsAnew {
                break;
            }
            takes_token = true;
        }
        self.come_inside();
        self.pass.exit();
    }

    /// What such a script does once it holds what it declared.
    fn stray(&self, stripes: &[u32], script: Straying) -> End {
        let world = &self.world;
        if script.writes_first && !script.takes_token_late && !self.pass.try_script_token() {
            return End::BeginsAnew;
        }
        world.check_held(self.me, stripes);
        thread::yield_now();
        if !self.pass.try_script_token() {
            assert!(!script.writes_first, "a script fails after it has written");
            return End::BeginsAnew;
        }
        let lock = |index: usize| &world.locks[index];
        let gives_up = || !script.writes_first && script.is_weary && weary();
        let alone = self.pass.exclusive_holding_unless(lock, stripes, gives_up);
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
        match rng.gen_range(0..20) {
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
            15 => self.straying_script(&[stripe], Straying { is_weary: true, ..READS }),
            16 => self.straying_script(many, WRITES),
            17 => self.straying_script(&[stripe], WRITES),
            18 => self.straying_script(many, Straying { is_weary: true, ..WRITES }),
            _ => self.script(&[stripe], false),
        }
    }
}

/// Whether a waiter gives up, when it looks.
fn weary() -> bool {
    thread_rng().gen_range(0..3) == 0
}

fn explore(scheduler: impl Scheduler + 'static, model: fn()) {
    let mut config = Config::new();
    config.stack_size = 0x20000;
    Runner::new(scheduler, config).run(model);
}

/// Runs `model` under both schedulers, so many iterations each.
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
    // The last thread finds the gate open and every stripe free.
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
fn scripts_that_stray_begin_anew_once_at_most() {
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

/// Scripts that write before they stray, on the same stripes and on others, beside all that locks:
/// each is executed as a whole.
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

/// The model finds what the rule is for.
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
        let weary = Straying { is_weary: true, ..WRITES };
        run(
            &World::new(),
            vec![
                Box::new(move |worker| worker.straying_script(&[0, 1], weary)),
                Box::new(move |worker| worker.straying_script(&[0], weary)),
                Box::new(|worker| worker.many_unless(&[0, 1])),
                Box::new(|worker| worker.exclusive_unless(true)),
                Box::new(|worker| worker.batch(0)),
            ],
        );
    });
}

#[test]
fn who_gives_up_leaves_nothing_behind() {
    explore_both(1200, || {
        run(
            &World::new(),
            vec![
                Box::new(|worker| worker.script(&[0, 1], true)),
                Box::new(|worker| worker.many_unless(&[0, 1])),
                Box::new(|worker| worker.exclusive_unless(true)),
                Box::new(|worker| {
                    worker.straying_script(&[1, 2], Straying { is_weary: true, ..READS })
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
fn passes_come_and_go_while_an_intent_is_up() {
    explore_both(1200, || {
        let world = World::new();
        let visitor = |worker: Worker| {
            let world = Arc::clone(&worker.world);
            let me = worker.me;
            worker.single(0);
            drop(worker);
            Worker::new(&world, me).many(&[0, 1]);
            // Dropped in the middle of a batch, as by a thread that unwinds.
            Worker::new(&world, me).pass.enter();
        };
        run(
            &world,
            vec![
                Box::new(|worker| worker.exclusive(false)),
                Box::new(|worker| {
                    worker.pass.script_token();
                    worker.pass.exclusive();
                }),
                Box::new(visitor),
                Box::new(visitor),
            ],
        );
    });
}
