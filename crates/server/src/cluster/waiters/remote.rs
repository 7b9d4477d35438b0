//! Client of another member, for which a command is executed here.

use crate::client::Client;
use crate::cluster::state::membership::Membership;
use crate::cluster::state::waiters::Waiter;
use crate::host::RemoteCaller;
use bytes::Bytes;
use petrel_cluster::lanes::{Served, record_served};
use petrel_cluster::wire::Tag;
use petrel_cluster::{Identity, Slot};
use petrel_commands::{Answer, Blocked};
use std::sync::Arc;

/// The client of a forwarded command, as the executor's host knows it.
pub(in crate::cluster) struct RemoteClient {
    pub tag: Tag,
    pub slots: Box<[Slot]>,
    /// Milliseconds that the command may still wait, if it has waited at another primary.
    pub wait_ms: Option<u64>,
    /// Client shown in its place.
    pub shown_client: Arc<Client>,
    pub membership: Arc<Membership>,
    pub own: Identity,
}

impl RemoteCaller for RemoteClient {
    fn shown_client(&self) -> Arc<Client> {
        self.shown_client.clone()
    }

    fn wait_ms(&self) -> Option<u64> {
        self.wait_ms
    }

    fn wait(&self, blocked: &Arc<Blocked>) {
        let waiter = Waiter { slots: self.slots.clone(), blocked: blocked.clone() };
        self.membership.waiters.add(self.tag, waiter);
    }

    fn answer(&self, answer: Answer) -> bool {
        self.membership.waiters.remove(self.tag);
        let bytes = answer.into_bytes();
        let RemoteClient { tag, slots, .. } = self;
        if tag.origin != self.own {
            record_served(Served { tag: *tag, slots: slots.clone(), reply: bytes });
            return true;
        }
        // It was forwarded when its primary was another member, and is here now.
        self.membership.ended.lock().push((*tag, bytes));
        self.membership.waker.wake();
        false
    }
}

/// Puts values that lie elsewhere into their places.
pub(in crate::cluster) fn splice(out: &mut Vec<u8>, shared: &mut Vec<(usize, Bytes)>) {
    if !shared.is_empty() {
        let (bytes, shared) = (std::mem::take(out), std::mem::take(shared));
        *out = Answer { bytes, shared }.into_bytes();
    }
}
