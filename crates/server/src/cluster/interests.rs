//! Interests of clients here in changes that other members make: prefixes of keys
//! (`CLIENT TRACKING ... BCAST`) and keyspace events. Other members know them while there are any.

use super::agent::Agent;
use super::machine::Machine;
use crate::state::pubsub::ChannelKind;
use crate::state::tracking::writers::NO_WRITER;
use petrel_cluster::wire::{Tag, Texts};
use petrel_cluster::{Call, Identity, NodeSet};
use petrel_commands::{Session, Tracking, TrackingMode};
use petrel_keyspace::Key;
use std::sync::atomic::Ordering::Release;

impl Agent {
    /// Sends other members the interests of clients here, if they have changed. Commands that are
    /// forwarded later follow.
    pub(super) fn attend_interests(&mut self) {
        let host = &self.machine.host;
        let is_silent = host.server.channels.is_silent(ChannelKind::Channel);
        let events = if is_silent { 0 } else { host.config.notify_keyspace_events.wanted() };
        let trackers = &host.server.trackers;
        let version = trackers.version();
        let own = &mut self.interests;
        let mut is_new = std::mem::replace(&mut own.events, events) != events;
        if std::mem::replace(&mut own.version, version) != version {
            let prefixes = trackers.prefixes();
            is_new |= prefixes != own.prefixes;
            own.prefixes = prefixes;
        }
        let knowing = self.node.knows_interests();
        let mut to = NodeSet::default();
        if is_new {
            to = std::mem::take(&mut own.informed);
        }
        if !own.is_empty() {
            let uninformed = own.others.0 & knowing.0 & !own.informed.0;
            own.informed.0 |= uninformed;
            to.0 |= uninformed;
        }
        to.0 &= own.others.0;
        if to != NodeSet::default() {
            let prefixes = own.prefixes.iter().map(|prefix| &prefix[..]);
            self.node.tell_interests(to, own.events.into(), prefixes);
        }
        if knowing != self.interests.knowing {
            self.note_tracking();
        }
    }

    /// Notes whether all primaries tell of changes. Called before any command is executed in a
    /// view.
    pub(super) fn note_tracking(&mut self) {
        self.interests.knowing = self.node.knows_interests();
        let all_know = self.interests.knowing.includes(self.interests.primaries);
        self.membership.tracks_away.store(all_know, Release);
    }

    /// Removes former members after a view change, and invalidates everything that clients have
    /// read if they may have missed changes.
    pub(super) fn note_readers(&mut self, former: &[Identity], has_missed: bool) {
        let view = self.node.view();
        let server = &self.machine.host.server;
        for gone in former.iter().filter(|member| view.member(member.node) != Some(**member)) {
            server.trackers.remove_member(gone.node.0, &server.keyspace);
        }
        if has_missed && !server.trackers.is_empty() {
            self.machine.host.invalidate_everything();
        }
    }
}

impl Machine {
    pub(super) fn set_interests(&mut self, from: Identity, events: u64, prefixes: Texts<'_>) {
        let server = &self.host.server;
        let prefixes: Vec<Vec<u8>> = prefixes.iter().map(<[u8]>::to_vec).collect();
        let keyspace = &server.keyspace;
        server.trackers.set_interests(from.node.0, events as u32, &prefixes, keyspace);
        // Commands of the member follow in the same turn.
        self.host.begin_turn();
    }

    /// Invalidates a key that another member has changed.
    pub(super) fn invalidate_away(
        &mut self,
        is_broadcast: bool,
        writer: Option<u64>,
        db: u16,
        name: &[u8],
    ) {
        if is_broadcast {
            return self.host.broadcast_changed(writer, db, name);
        }
        self.attribute(None);
        let ks = &mut self.exec.ks;
        ks.enter();
        ks.invalidate_read(Key { bytes: name, hash: ks.hash(name) });
        ks.exit();
        self.attribute(writer);
    }

    /// Attributes the pending invalidations to a client here.
    pub(super) fn attribute(&mut self, writer: Option<u64>) {
        self.host.take_invalidations_by(writer.unwrap_or(NO_WRITER), &mut self.exec.ks);
    }

    /// Registers a member as the reader of the keys that its command reads in a session, if it
    /// tracks them.
    pub(super) fn track_for(&self, tag: Tag, call: &Call<&[u8]>, session: &mut Session) {
        if !call.tracks || tag.origin == self.own {
            return;
        }
        let server = &self.host.server;
        let reader = server.trackers.of_member(tag.origin.node.0, &server.keyspace);
        let (caching, redirects, writer) = (false, false, None);
        let mode = TrackingMode::All;
        session.extras_mut().tracking = Some(Tracking { reader, mode, caching, redirects, writer });
    }
}
