//! Exclusive lock over all stripes: a reader-writer lock in which each reader writes only its own
//! cache line.
//!
//! One word per thread carries both sides of the handshake: the owner's ACTIVE and the claimant's
//! INTENT. Both change it by atomic read-modify-write, so one of the two comes first and the other
//! sees it; no fence is needed between a store to one line and a load from another.
//!
//! ```text
//!             enter                 begin_exclusive               exit, wakes the claimant
//!    0 ────────────────▶ ACTIVE ───────────────────▶ ACTIVE|INTENT ────────┐
//!    ▲ ◀────────────────   ▲                                               ▼
//!    │       exit          └─ end_exclusive ────── INTENT|PARKED ◀─enter─ INTENT
//!    └─────────────────────────── end_exclusive ───────────────────────────┘
//! ```

use super::futex::{Futex, Mutex, RawMutex, SPINS};
use super::patience::Patience;
use super::thread_slot::ThreadSlot;
use std::hint;
use std::sync::Arc;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

/// The thread is active: it may use the keyspace.
const ACTIVE: u32 = 0b001;
/// Another thread claims, or owns, the whole keyspace.
const INTENT: u32 = 0b010;
/// The thread sleeps until the intent is cleared, and is then made active.
const PARKED: u32 = 0b100;

/// The set of thread slots of a keyspace, and the pending exclusive owner.
pub struct ExclusiveLock {
    registry: Mutex<Registry>,
    token: RawMutex,
}

/// Result of [`ExclusiveLock::survey`].
#[derive(Clone, Copy, Debug)]
pub struct Survey {
    /// Number of thread slots.
    pub slots: usize,
    /// Number of active ones.
    pub inside: usize,
    /// Number of threads that sleep until they may enter.
    pub parked: usize,
    /// Whether a thread claims, or owns, the whole keyspace.
    pub intent: bool,
}

/// Threads that were within commands at some time.
#[derive(Default)]
pub struct Others(Vec<Arc<SlotWord>>);

impl Others {
    /// Whether all of them have ended these commands, as far as can be seen: a thread that begins
    /// the next one at once may be missed. They see all earlier writes of the caller in later
    /// commands.
    pub fn have_ended(&mut self) -> bool {
        self.0.retain(|slot| slot.may_be_within());
        self.0.is_empty()
    }
}

/// All slots, and whether an intent is set. New slots start with it.
struct Registry {
    slots: Vec<Arc<SlotWord>>,
    intent: bool,
}

impl ExclusiveLock {
    /// Creates a lock without slots.
    pub fn new() -> Self {
        ExclusiveLock {
            registry: Mutex::new(Registry { slots: Vec::new(), intent: false }),
            token: RawMutex::new(),
        }
    }

    /// Registers the calling thread; dropping the slot unregisters it. Register each thread once: a
    /// thread that enters through one slot and claims exclusiveness through another waits for
    /// itself.
    pub fn register(self: &Arc<Self>) -> ThreadSlot {
        let mut registry = self.registry.lock();
        let slot = Arc::new(SlotWord::new(registry.intent));
        registry.slots.push(Arc::clone(&slot));
        ThreadSlot::new(Arc::clone(self), slot)
    }

    /// Counts active and sleeping threads, for operators.
    pub fn survey(&self) -> Survey {
        let registry = self.registry.lock();
        let count =
            |bit| registry.slots.iter().filter(|slot| slot.0.load(Relaxed) & bit != 0).count();
        Survey {
            slots: registry.slots.len(),
            inside: count(ACTIVE),
            parked: count(PARKED),
            intent: registry.intent,
        }
    }

    pub(super) fn unregister(&self, own: &Arc<SlotWord>) {
        self.registry.lock().slots.retain(|slot| !Arc::ptr_eq(slot, own));
    }

    /// The script token: the right to claim exclusiveness, with the queue of threads that want it.
    pub(super) fn token(&self) -> &RawMutex {
        &self.token
    }

    /// Sets the intent in every slot except the caller's. The caller holds the token.
    pub(super) fn begin_exclusive(&self, own: &Arc<SlotWord>) {
        let mut registry = self.registry.lock();
        registry.intent = true;
        registry
            .slots
            .iter()
            .filter(|slot| !Arc::ptr_eq(slot, own))
            .for_each(|slot| slot.begin_exclusive());
    }

    /// Waits until every slot except the caller's is inactive. No slot becomes active again before
    /// [`Self::end_exclusive`]. Returns false if the patience is over.
    pub(super) fn wait_quiescent(&self, own: &Arc<SlotWord>, patience: &impl Patience) -> bool {
        while let Some(slot) = self.busy_slot(own) {
            if !slot.wait_inactive(patience) {
                return false;
            }
        }
        true
    }

    /// Ends the exclusive ownership. Threads that sleep in `enter` become active before the next
    /// claimant can come.
    pub(super) fn end_exclusive(&self, own: &Arc<SlotWord>) {
        let mut registry = self.registry.lock();
        registry.intent = false;
        registry
            .slots
            .iter()
            .filter(|slot| !Arc::ptr_eq(slot, own))
            .for_each(|slot| slot.end_exclusive());
    }

    /// The other threads that may be within a command now.
    pub(super) fn others_within(&self, own: &Arc<SlotWord>) -> Others {
        let registry = self.registry.lock();
        let others = registry.slots.iter().filter(|slot| !Arc::ptr_eq(slot, own));
        Others(others.filter(|slot| slot.may_be_within()).cloned().collect())
    }

    fn busy_slot(&self, own: &Arc<SlotWord>) -> Option<Arc<SlotWord>> {
        let registry = self.registry.lock();
        registry
            .slots
            .iter()
            .find(|slot| !Arc::ptr_eq(slot, own) && slot.is_active_acquire())
            .cloned()
    }
}

impl Default for ExclusiveLock {
    fn default() -> Self {
        Self::new()
    }
}

/// State of a thread, alone on its cache line (and the adjacent line that the hardware prefetches).
#[repr(align(128))]
pub(super) struct SlotWord(
    Futex,
    /// Number of times that the thread has left within a command or come back; odd in between.
    Futex,
);

impl SlotWord {
    fn new(intent: bool) -> Self {
        SlotWord(Futex::new(if intent { INTENT } else { 0 }), Futex::new(0))
    }

    /// The thread leaves within a command, or comes back.
    pub fn steps_aside(&self) {
        self.1.fetch_add(1, AcqRel);
    }

    /// Whether the thread may be within a command. If not, it sees all writes of the caller in its
    /// next one: both change the word.
    fn may_be_within(&self) -> bool {
        let before = self.1.load(Acquire);
        let is_active = self.0.fetch_or(0, AcqRel) & ACTIVE != 0;
        is_active || before % 2 == 1 || self.1.load(Acquire) != before
    }

    /// Only for the owning thread, which alone sets and clears ACTIVE while it is awake.
    #[inline]
    pub fn is_active(&self) -> bool {
        self.0.load(Relaxed) & ACTIVE != 0
    }

    #[inline]
    pub fn intent_pending(&self) -> bool {
        self.0.load(Relaxed) & INTENT != 0
    }

    /// Whether the slot is in any other state than active without intent.
    #[inline]
    pub fn is_disturbed(&self) -> bool {
        self.0.load(Relaxed) != ACTIVE
    }

    /// Acquire pairs with the Release of [`Self::end_exclusive`]: the owner sees the writes of the
    /// exclusive owner. Returns false, with the slot inactive, if the patience is over.
    #[inline]
    pub fn enter(&self, patience: &impl Patience) -> bool {
        self.0.compare_exchange(0, ACTIVE, Acquire, Relaxed).is_ok() || self.enter_waiting(patience)
    }

    /// Release pairs with the Acquire of [`Self::is_active_acquire`]: the exclusive owner sees this
    /// thread's writes. The slot is active.
    #[inline]
    pub fn exit(&self) {
        // The same operation that leaves also detects a waiting claimant: one that sets the intent
        // later finds the slot inactive, one that set it before is seen here.
        if self.0.fetch_sub(ACTIVE, Release) & INTENT != 0 {
            self.0.wake_one();
        }
    }

    #[cold]
    fn enter_waiting(&self, patience: &impl Patience) -> bool {
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
            if patience.is_over() {
                return false;
            }
            if self.0.compare_exchange(INTENT, INTENT | PARKED, Relaxed, Relaxed).is_ok() {
                return self.wait_granted(patience);
            }
        }
    }

    /// Sleeps until the slot is made active, or the patience is over: clearing PARKED decides
    /// which.
    fn wait_granted<P: Patience>(&self, patience: &P) -> bool {
        while self.0.load(Acquire) & PARKED != 0 {
            self.0.wait(INTENT | PARKED, P::CHECK_EVERY);
            if patience.is_over()
                && self.0.compare_exchange(INTENT | PARKED, INTENT, Relaxed, Relaxed).is_ok()
            {
                return false;
            }
        }
        true
    }

    /// Relaxed: the order of operations on the word itself decides which is first, and
    /// [`ExclusiveLock::wait_quiescent`] acquires.
    fn begin_exclusive(&self) {
        self.0.fetch_or(INTENT, Relaxed);
    }

    fn is_active_acquire(&self) -> bool {
        self.0.load(Acquire) & ACTIVE != 0
    }

    /// While the intent is set ACTIVE can only be cleared, so the word cannot return to the value
    /// slept on. Returns false if the patience is over.
    fn wait_inactive<P: Patience>(&self, patience: &P) -> bool {
        for _ in 0..SPINS {
            if !self.is_active_acquire() {
                return true;
            }
            hint::spin_loop();
        }
        while self.is_active_acquire() {
            if patience.is_over() {
                return false;
            }
            self.0.wait(ACTIVE | INTENT, P::CHECK_EVERY);
        }
        true
    }

    /// Makes a sleeping thread active when clearing PARKED, so that successive claimants cannot
    /// starve it. A thread that is still active, because the claimant gave up, stays so.
    fn end_exclusive(&self) {
        let granted = |state| Some(if state & (PARKED | ACTIVE) != 0 { ACTIVE } else { 0 });
        if let Ok(state) = self.0.fetch_update(Release, Relaxed, granted)
            && state & PARKED != 0
        {
            self.0.wake_one();
        }
    }
}
