//! Client tracking of commands that other nodes execute.
//!
//! The client is registered as a reader here before the command is sent, and this node as a reader
//! at the primary while that reads. Invalidations that arrive before the reply are delivered after
//! it ([`ReplySlots::delay_invalidations`](crate::ReplySlots::delay_invalidations)).

use crate::cluster::{Call, Cluster};
use crate::execute::Executor;
use crate::fail::Fail;
use crate::session::Session;
use crate::spec::Command;
use crate::tracking::mode::{Tracking, TrackingMode};
use petrel_resp::Protocol;
use petrel_table::bits;
use petrel_table::keys::key_positions;

const TRACKED_AWAY: Fail = Fail::fixed(
    "ERR CLIENT TRACKING with REDIRECT is not supported at keys that this node does not hold, until all members \
     have the same version",
);

/// Handling of a reply that its client caches.
#[derive(Debug, Default)]
pub(crate) struct Tracked {
    /// Bytes appended after the reply.
    pub after: Vec<u8>,
    /// The primaries of the keys remember this node as their reader.
    is_remembered: bool,
    /// Invalidations are delivered after the reply.
    pub is_cached: bool,
}

impl Tracked {
    /// Adds that of another command of a transaction.
    pub fn add(&mut self, other: Tracked) {
        self.after.extend(other.after);
        self.is_remembered |= other.is_remembered;
        self.is_cached |= other.is_cached;
    }

    /// Marks calls with replies that the client caches, or with changes of which it is not
    /// notified.
    pub fn prepare(&self, calls: &mut [Call], session: &Session, cluster: &dyn Cluster) {
        let writer = session.tracking().and_then(|tracking| tracking.writer);
        let writer = writer.filter(|_| cluster.tracks_away());
        for call in calls {
            (call.tracks, call.writer) = (self.is_remembered, writer);
            // A copy that arrives invalidates the key for the clients here that have read it.
            call.wants_copies &= session.tracking().is_none();
        }
    }
}

impl Executor {
    /// Registers the client of a command that another node executes as a reader of its keys, if it
    /// caches them.
    pub(super) fn track_away(
        &mut self,
        command: Command,
        args: &[&[u8]],
        session: &Session,
        cluster: &dyn Cluster,
    ) -> Result<Tracked, Fail> {
        let Some(tracking) = caching(command, session) else { return Ok(Tracked::default()) };
        if !cluster.tracks_away() {
            if (tracking.redirects || session.protocol != Protocol::Resp3)
                && !cluster.holds_all()
                && has_keys(command, args)
            {
                return Err(TRACKED_AWAY);
            }
            let after = forget(command, args, session);
            return Ok(Tracked { after, ..Tracked::default() });
        }
        let is_remembered = tracking.mode != TrackingMode::Broadcast;
        if is_remembered {
            let mut keys = Vec::new();
            // The handler rejects an invalid number of keys.
            let _ = key_positions(command.spec.meta.keys, args, &mut keys);
            for key in keys {
                let key = self.ks.key(args[key.index as usize]);
                self.ks.remember_reader(key, &tracking.reader);
            }
        }
        Ok(Tracked { after: Vec::new(), is_remembered, is_cached: true })
    }
}

/// The tracking of a client that caches the keys which a command reads.
fn caching(command: Command, session: &Session) -> Option<&Tracking> {
    let caches =
        |tracking: &&Tracking| tracking.mode == TrackingMode::Broadcast || tracking.remembers();
    let reads = command.spec.flags.intersects(bits!(Flags: READONLY, SCRIPT_RUNNER));
    session.tracking().filter(caches).filter(|_| reads)
}

fn has_keys(command: Command, args: &[&[u8]]) -> bool {
    let mut keys = Vec::new();
    key_positions(command.spec.meta.keys, args, &mut keys).is_ok() && !keys.is_empty()
}

/// The invalidation message for a client that caches the keys of a call, if it gets its own.
pub(super) fn forget(command: Command, args: &[&[u8]], session: &Session) -> Vec<u8> {
    let mut keys = Vec::new();
    let tracking = caching(command, session).filter(|tracking| !tracking.redirects);
    if tracking.is_none()
        || session.protocol != Protocol::Resp3
        || key_positions(command.spec.meta.keys, args, &mut keys).is_err()
        || keys.is_empty()
    {
        return Vec::new();
    }
    let mut message = format!(">2\r\n$10\r\ninvalidate\r\n*{}\r\n", keys.len()).into_bytes();
    for key in keys {
        let key = args[key.index as usize];
        message.extend_from_slice(format!("${}\r\n", key.len()).as_bytes());
        message.extend_from_slice(key);
        message.extend_from_slice(b"\r\n");
    }
    message
}
