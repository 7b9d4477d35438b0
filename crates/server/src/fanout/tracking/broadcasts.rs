//! Invalidations of prefixes (`BCAST`): a connection gets the names of those keys that its user may
//! read at the time. That of the connection that tracks counts, also where another gets them
//! (`REDIRECT`).

use super::delivery::News;
use crate::client::Client;
use crate::host::ServerHost;
use crate::state::tracking::pending::LastWriters;
use crate::state::tracking::tracker::Tracker;
use crate::state::tracking::writers::{NO_WRITER, number_at};
use petrel_commands::acl::{Permissions, User};
use petrel_keyspace::Reader;
use std::collections::BTreeMap;
use std::mem;
use std::sync::Arc;

impl ServerHost {
    /// Sends the changed keys of each prefix to the connections that track it (`BCAST`), at the end
    /// of the turn.
    pub(crate) fn send_broadcasts(&mut self) {
        self.invalidations.broadcast_keys = 0;
        for (prefix, changed) in mem::take(&mut self.invalidations.broadcasts) {
            let mut listeners = self.server.trackers.listeners(&prefix);
            listeners.retain(|reader| match Tracker::of(reader).member() {
                Some(node) => {
                    self.broadcast_at(node, &changed);
                    false
                }
                None => true,
            });
            let changed_by = |id| changed.values().any(|&writer| writer == id);
            let (own, others): (Vec<_>, Vec<_>) = listeners.into_iter().partition(|reader| {
                let tracker = Tracker::of(reader);
                !tracker.loops() && changed_by(tracker.client.id)
            });
            self.broadcast(others, &changed);
            for reader in own {
                let client = &Tracker::of(&reader).client;
                let permissions = self.limits(client).map(|user| user.permissions());
                let keys = names(&changed, client.id, permissions.as_deref());
                self.tell_of(&[reader], &keys);
            }
        }
        self.post_stale();
    }

    /// Tells another member of changed keys.
    fn broadcast_at(&self, node: u16, changed: &LastWriters) {
        let Some(own) = self.server.cluster.get() else { return };
        for ((key, db), writer) in changed {
            own.tell_changed((node, true), number_at(node, *writer), *db, key);
        }
    }

    /// Sends changed keys to the listeners of their prefix, limited to the keys that their user may
    /// read.
    fn broadcast(&mut self, listeners: Vec<Arc<Reader>>, changed: &LastWriters) {
        let mut limited: BTreeMap<*const User, (Arc<User>, Vec<Arc<Reader>>)> = BTreeMap::new();
        let mut free = Vec::with_capacity(listeners.len());
        for reader in listeners {
            match self.limits(&Tracker::of(&reader).client) {
                None => free.push(reader),
                Some(user) => {
                    let place = limited.entry(Arc::as_ptr(&user));
                    place.or_insert_with(|| (user, Vec::new())).1.push(reader);
                }
            }
        }
        if !free.is_empty() {
            self.tell_of(&free, &names(changed, NO_WRITER, None));
        }
        for (user, readers) in limited.into_values() {
            let permissions = user.permissions();
            self.tell_of(&readers, &names(changed, NO_WRITER, Some(&permissions)));
        }
    }

    fn tell_of(&mut self, readers: &[Arc<Reader>], keys: &[&[u8]]) {
        if !keys.is_empty() {
            self.tell(readers.iter(), NO_WRITER, &News::Keys(keys));
        }
    }

    /// The user of a connection, if there is anything that it may not do.
    fn limits(&self, client: &Client) -> Option<Arc<User>> {
        match client.user() {
            Some(user) => (!user.may_do_everything()).then_some(user),
            None => {
                let default = self.server.commands.users.default_user();
                (!default.may_do_everything()).then(|| default.clone())
            }
        }
    }
}

/// Names of keys that a connection other than `writer` has changed and that may be read.
fn names<'c>(
    changed: &'c LastWriters,
    writer: u64,
    permissions: Option<&Permissions>,
) -> Vec<&'c [u8]> {
    let permissions = permissions.filter(|own| !own.allow_reading_everything());
    let foreign = changed.iter().filter(|&(_, &by)| writer == NO_WRITER || by != writer);
    let readable =
        foreign.filter(|((key, db), _)| permissions.is_none_or(|own| own.allow_reading(*db, key)));
    let mut names: Vec<&[u8]> = readable.map(|((key, _), _)| &**key).collect();
    // A key that has changed in several databases.
    names.dedup();
    names
}
