//! Memory of the other owners of a slot in a cluster. They apply every change, so the primary
//! refuses commands that add data to an owner without memory, or evicts keys for them first.

use super::placement::add_slots;
use crate::cluster::Cluster;
use crate::execute::Executor;
use crate::fail::{Fail, Outcome};
use crate::spec::Command;
use std::sync::Arc;

const OWNER_OUT_OF_MEMORY: Fail = Fail::fixed(
    "OOM command not allowed when used memory > 'maxmemory' at another owner of the key",
);

impl Executor {
    /// Rejects a command that needs memory at an owner that has none left and for which nothing can
    /// be evicted.
    #[inline]
    pub(super) fn admit_at_owners(&mut self, command: Command, args: &[&[u8]]) -> Outcome {
        let Some(cluster) = self.cluster_with_full_owners() else { return Ok(()) };
        let mut slots = Vec::new();
        add_slots(command, args, &*cluster, &mut slots);
        let is_full = slots.iter().any(|&slot| cluster.has_full_owner(slot));
        let needed = args.iter().map(|arg| arg.len()).sum();
        match !is_full || self.ks.make_room_at_owners(needed) {
            true => Ok(()),
            false => Err(OWNER_OUT_OF_MEMORY),
        }
    }

    /// Like [`Executor::admit_at_owners`], for a script or function with its declared keys.
    pub(super) fn has_room_at_owners(&mut self, args: &[&[u8]]) -> bool {
        let Some(cluster) = self.cluster_with_full_owners() else { return true };
        let count = args.get(2).and_then(|count| std::str::from_utf8(count).ok()?.parse().ok());
        let mut keys = args.iter().skip(3).take(count.unwrap_or(0));
        let needed = args.iter().map(|arg| arg.len()).sum();
        !keys.any(|key| cluster.has_full_owner(cluster.slot_of(key)))
            || self.ks.make_room_at_owners(needed)
    }

    fn cluster_with_full_owners(&self) -> Option<Arc<dyn Cluster>> {
        self.shared.cluster.get().filter(|cluster| cluster.has_full_owners()).cloned()
    }
}
