//! Reads of key copies: keys of hash slots that this node does not hold.

use super::Verdict;
use crate::cluster::{Cluster, HashSlot};
use crate::ctx::Invocation;
use crate::execute::{Execution, Executor};
use crate::spec::{Command, Flags, Locks, Request};
use petrel_keyspace::Key;
use petrel_table::{KeySpec, Place};

impl Executor {
    /// Executes a command if copies of all keys that it reads are here ([`Verdict::TryCopies`]);
    /// otherwise forwards it.
    #[inline(never)]
    pub(crate) fn execute_of_copies(&mut self, invocation: Invocation<'_>) -> Execution {
        let request = invocation.request;
        let Some(command) = request.command else { return Execution::Answered };
        if let Err(fail) = self.lock(command, request, invocation.host) {
            return self.turn_away(Verdict::Refuse(fail), invocation);
        }
        // Found copies stay while their stripes are locked.
        if self.are_here(request, invocation.session.db) {
            self.stats.read_copies();
            let execution = self.execute_admitted(invocation, true);
            self.ks.unlock();
            return execution;
        }
        self.ks.unlock();
        let Some(cluster) = self.shared.cluster.get().cloned() else { return Execution::Answered };
        let verdict = self.place_elsewhere(command, request, invocation.session, &*cluster);
        self.turn_away(verdict, invocation)
    }

    /// Whether copies of all keys of a command are in this keyspace. Their stripes are locked.
    fn are_here(&self, request: &Request<'_>, db: u16) -> bool {
        let is_here = |at: usize, hash| {
            let key = request.args.get(at).map(|&bytes| Key { bytes, hash });
            key.is_some_and(|key| self.ks.view(db, key).is_some())
        };
        match request.hash {
            Some(hash) => is_here(1, hash),
            None => self.locked_keys().iter().all(|&(at, hash)| is_here(at as usize, hash)),
        }
    }
}

/// Whether the keys that a command reads may be here as copies. This node does not hold all of
/// these slots.
pub(super) fn may_be_copied(command: Command, slots: &[HashSlot], cluster: &dyn Cluster) -> bool {
    let spec = command.spec;
    spec.place == Place::Read
        && spec.locks == Locks::Keys
        && !spec.flags.contains(Flags::BLOCKING)
        && spec.meta.keys.iter().all(KeySpec::is_known)
        && slots.iter().all(|&slot| cluster.is_readable(slot) || cluster.has_copies(slot))
}
