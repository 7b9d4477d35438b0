//! The gate around the stripes: a reader-writer lock whose readers each write a cache line of their
//! own.
//!
//! One word per thread carries both sides of the handshake: the owner's ACTIVE and the raiser's
//! INTENT. Since each changes it by atomic read-modify-write, one of the two comes first and the
//! other sees it; no fence is needed between a store to one line and a load from another.
//!
//! ```text
//!             enter                      raise                      exit, wakes the raiser
//!    0 ────────────────▶ ACTIVE ───────────────────▶ ACTIVE|INTENT ────────┐
//!    ▲ ◀────────────────   ▲                                               ▼
//!    │       exit          └── lower: granted ── INTENT|PARKED ◀─enter─ INTENT
//!    └────────────────────────────── lower ──────────────────────────────┘
//! ```

use super::futex::{Futex, Mutex, RawMutex, SPINS};
use super::pass::Pass;
use super::stripe::WAIT_MAX;
use std::hint;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::time::Duration;

/// The owner is inside the gate.
const ACTIVE: u32 = 0b001;
/// Another thread wants, or has, the keyspace for itself.
const INTENT: u32 = 0b010;
/// The owner sleeps till the intent is gone, and is then inside by grant.
const PARKED: u32 = 0b100;

/// The gate of one keyspace: who is inside, and who wants everyone else outside.
pub struct Gate {
    registry: Mutex<Registry>,
    token: RawMutex,
}

/// See [`Gate::survey`].
#[derive(Clone, Copy, Debug)]
pub struct Survey {
    /// Passes.
    pub passes: usize,
    /// Those that are inside.
    pub inside: usize,
    /// Those whose threads sleep until they are let in.
    pub parked: usize,
    /// Whether a thread wants, or has, the keyspace for itself.
    pub intent: bool,
}

/// The slots of all passes, and whether an intent is up. A slot that joins meanwhile is born with
/// it.
struct Registry {
    slots: Vec<Arc<Slot>>,
    intent: bool,
}

impl Gate {
    /// A gate without passes.
    pub fn new() -> Self {
        Gate {
            registry: Mutex::new(Registry { slots: Vec::new(), intent: false }),
            token: RawMutex::new(),
        }
    }

    /// A pass for the calling thread; dropping it returns it. One per thread, which also bounds
    /// their number: a thread that enters by one pass and raises by another waits for itself.
    pub fn register(self: &Arc<Self>) -> Pass {
        let mut registry = self.registry.lock();
        let slot = Arc::new(Slot::new(registry.intent));
        registry.slots.push(Arc::clone(&slot));
        Pass::new(Arc::clone(self), slot)
    }

    /// How many passes are inside, sleep until an exclusive owner has finished, and there are, and
    /// whether one wants, or has, the keyspace for itself: at this moment, for operators.
    pub fn survey(&self) -> Survey {
        let registry = self.registry.lock();
        let count =
            |bit| registry.slots.iter().filter(|slot| slot.0.load(Relaxed) & bit != 0).count();
        Survey {
            passes: registry.slots.len(),
            inside: count(ACTIVE),
            parked: count(PARKED),
            intent: registry.intent,
        }
    }

    pub(super) fn unregister(&self, own: &Arc<Slot>) {
        self.registry.lock().slots.retain(|slot| !Arc::ptr_eq(slot, own));
    }

    /// The right to raise, and the queue of threads that want it.
    pub(super) fn token(&self) -> &RawMutex {
        &self.token
    }

    /// Flags every slot but the caller's. The caller holds the token.
    pub(super) fn raise(&self, own: &Arc<Slot>) {
        let mut registry = self.registry.lock();
        registry.intent = true;
        registry.slots.iter().filter(|slot| !Arc::ptr_eq(slot, own)).for_each(|slot| slot.raise());
    }

    /// Waits till every slot but the caller's is inactive. No slot becomes active again before
    /// [`Self::lower`].
    pub(super) fn drain(&self, own: &Arc<Slot>) {
        while let Some(slot) = self.busy_slot(own) {
            slot.wait_inactive(None, &|| false);
        }
    }

    /// The same until `give_up` says that it is no use: false then.
    pub(super) fn drain_unless(&self, own: &Arc<Slot>, give_up: &dyn Fn() -> bool) -> bool {
        while let Some(slot) = self.busy_slot(own) {
            if !slot.wait_inactive(Some(WAIT_MAX), give_up) {
                return false;
            }
        }
        true
    }

    /// Ends the exclusive ownership; who sleeps at the gate is inside by grant before the next
    /// raiser can come.
    pub(super) fn lower(&self, own: &Arc<Slot>) {
        let mut registry = self.registry.lock();
        registry.intent = false;
        registry.slots.iter().filter(|slot| !Arc::ptr_eq(slot, own)).for_each(|slot| slot.lower());
    }

    fn busy_slot(&self, own: &Arc<Slot>) -> Option<Arc<Slot>> {
        let registry = self.registry.lock();
        registry
            .slots
            .iter()
            .find(|slot| !Arc::ptr_eq(slot, own) && slot.is_active_acquire())
            .cloned()
    }
}

impl Default for Gate {
    fn default() -> Self {
        Self::new()
    }
}

/// One thread's word, alone on its cache line (and the line that the hardware prefetches with it).
#[repr(align(128))]
pub(super) struct Slot(Futex);

impl Slot {
    fn new(intent: bool) -> Self {
        Slot(Futex::new(if intent { INTENT } else { 0 }))
    }

    /// For the owner, who alone sets and clears ACTIVE while it is awake.
    #[inline]
    pub fn is_active(&self) -> bool {
        self.0.load(Relaxed) & ACTIVE != 0
    }

    #[inline]
    pub fn intent_pending(&self) -> bool {
        self.0.load(Relaxed) & INTENT != 0
    }

    /// Whether the owner is anything else than inside without an intent.
    #[inline]
    pub fn is_disturbed(&self) -> bool {
        self.0.load(Relaxed) != ACTIVE
    }

    /// Acquire pairs with the Release of [`Self::lower`]: the owner sees what the exclusive owner
    /// wrote.
    #[inline]
    pub fn enter(&self) {
        if self.0.compare_exchange(0, ACTIVE, Acquire, Relaxed).is_err() {
            self.enter_waiting(None, &|| false);
        }
    }

    /// The same, unless `give_up` comes to say that it is no use: then the owner is outside, and
    /// the answer is false.
    pub fn enter_unless(&self, give_up: &dyn Fn() -> bool) -> bool {
        self.0.compare_exchange(0, ACTIVE, Acquire, Relaxed).is_ok()
            || self.enter_waiting(Some(WAIT_MAX), give_up)
    }

    /// Release pairs with the Acquire of [`Self::is_active_acquire`]: the exclusive owner sees what
    /// this thread wrote. The owner is active.
    #[inline]
    pub fn exit(&self) {
        // Whether a raiser waits is learnt by the step that lets it go: a raiser that flags the
        // slot later finds it inactive, one that flagged it before is seen here.
        if self.0.fetch_sub(ACTIVE, Release) & INTENT != 0 {
            self.0.wake_one();
        }
    }

    #[cold]
    fn enter_waiting(&self, pause: Option<Duration>, give_up: &dyn Fn() -> bool) -> bool {
        for _ in 0..SPINS {
            match self.0.load(Relaxed) {
                INTENT => hint::spin_loop(),
                _ => break,
            }
        }
        loop {
            match self.0.compare_exchange(0, ACTIVE, Acquire, Relaxed) {
                Ok(_) => return true,
                Err(state) if state & ACTIVE != 0 => return true,
                Err(_) => {}
            }
            if give_up() {
                return false;
            }
            if self.0.compare_exchange(INTENT, INTENT | PARKED, Relaxed, Relaxed).is_ok() {
                return self.wait_granted(pause, give_up);
            }
        }
    }

    /// Sleeps until it is granted, or given up: who takes PARKED away decides which.
    fn wait_granted(&self, pause: Option<Duration>, give_up: &dyn Fn() -> bool) -> bool {
        while self.0.load(Acquire) & PARKED != 0 {
            self.0.wait(INTENT | PARKED, pause);
            if give_up()
                && self.0.compare_exchange(INTENT | PARKED, INTENT, Relaxed, Relaxed).is_ok()
            {
                return false;
            }
        }
        true
    }

    /// Relaxed: the order of the exchange on the word itself decides who is first, and
    /// [`Gate::drain`] acquires.
    fn raise(&self) {
        self.0.fetch_or(INTENT, Relaxed);
    }

    fn is_active_acquire(&self) -> bool {
        self.0.load(Acquire) & ACTIVE != 0
    }

    /// The intent is up, so ACTIVE can only go: the word cannot come back to the value slept on.
    /// False if it was given up.
    fn wait_inactive(&self, pause: Option<Duration>, give_up: &dyn Fn() -> bool) -> bool {
        for _ in 0..SPINS {
            if !self.is_active_acquire() {
                return true;
            }
            hint::spin_loop();
        }
        while self.is_active_acquire() {
            if give_up() {
                return false;
            }
            self.0.wait(ACTIVE | INTENT, pause);
        }
        true
    }

    /// A sleeper gets ACTIVE from the hand that clears its PARKED: raisers in a row cannot starve
    /// it. Who is still inside, since the raiser gave up, stays there.
    fn lower(&self) {
        let granted = |state| Some(if state & (PARKED | ACTIVE) != 0 { ACTIVE } else { 0 });
        if let Ok(state) = self.0.fetch_update(Release, Relaxed, granted)
            && state & PARKED != 0
        {
            self.0.wake_one();
        }
    }
}
