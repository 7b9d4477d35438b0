//! Transactions of several primaries at one of them: a queue for slots, and slots on loan.
//!
//! ```text
//! queued   waits for its slots here, first come first served
//! locked   nothing else uses its slots; waits until their last changes have a second owner
//! lent     its keys are sent on; the loan ends with a decision or a refusal, never by itself
//! ```

use crate::decisions::Attempt;
use crate::slot::Slot;
use crate::slot_map::Node;
use crate::view::Identity;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// A transaction that waits at this node.
pub(crate) struct Queued {
    pub attempt: Attempt,
    /// The record that brought it.
    pub record: Arc<[u8]>,
    /// Slots of it with this primary.
    pub slots: Vec<Slot>,
    /// Number of the loan at the host, once the slots are locked.
    pub locked: Option<u64>,
    /// Reviews that it has outlived.
    pub age: u32,
}

/// Slots on loan.
pub(crate) struct Loan {
    pub slots: Vec<Slot>,
    /// The primaries of the transaction, as far as known here.
    pub owners: Vec<Identity>,
    pub executor: Identity,
    /// Reviews that it has outlived.
    pub age: u32,
}

/// Transactions of several primaries at one of them.
#[derive(Default)]
pub(crate) struct Chains {
    pub queue: Vec<Queued>,
    pub loans: BTreeMap<Attempt, Loan>,
    /// Number of loans and queued transactions that lock a slot.
    locked: HashMap<Slot, u32>,
    /// By origin and slot: the last attempt that was refused, by command and number.
    refused: HashMap<(Identity, Slot), (u64, u64)>,
    /// Bytes of the queue.
    bytes: usize,
    /// Position of the last repeated question to each member, in the first lane.
    pub asked: BTreeMap<Node, u64>,
}

impl Chains {
    pub fn is_locked(&self, slot: Slot) -> bool {
        !self.locked.is_empty() && self.locked.contains_key(&slot)
    }

    pub fn lock(&mut self, slots: &[Slot]) {
        slots.iter().for_each(|slot| *self.locked.entry(*slot).or_default() += 1);
    }

    pub fn unlock(&mut self, slots: &[Slot]) {
        for slot in slots {
            if let Some(count) = self.locked.get_mut(slot) {
                *count -= 1;
                if *count == 0 {
                    self.locked.remove(slot);
                }
            }
        }
    }

    /// Bytes of transactions that wait.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    pub fn push(&mut self, queued: Queued) {
        self.bytes += queued.record.len();
        self.queue.push(queued);
    }

    /// Removes a queued transaction. Its slots stay locked if they are.
    pub fn take(&mut self, at: usize) -> Queued {
        let queued = self.queue.remove(at);
        self.bytes -= queued.record.len();
        queued
    }

    /// Records that an attempt is refused, with all earlier ones of its origin and slot.
    pub fn refuse(&mut self, attempt: Attempt) {
        let last = self.refused.entry((attempt.tag.origin, attempt.tag.slot)).or_default();
        *last = (*last).max((attempt.tag.oseq, attempt.number));
    }

    /// Whether an attempt was refused.
    pub fn is_refused(&self, attempt: Attempt) -> bool {
        let last = self.refused.get(&(attempt.tag.origin, attempt.tag.slot));
        last.is_some_and(|last| *last >= (attempt.tag.oseq, attempt.number))
    }

    /// Forgets refusals for nodes that are not members.
    pub fn keep_refused(&mut self, is_member: impl Fn(Identity) -> bool) {
        self.refused.retain(|(origin, _), _| is_member(*origin));
    }

    /// Whether nothing waits and nothing is on loan.
    pub fn is_empty(&self) -> bool {
        self.queue.is_empty() && self.loans.is_empty()
    }
}
