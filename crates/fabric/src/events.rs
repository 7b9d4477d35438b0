//! Events for the host: admission, views, links.

use crate::connection::{Connection, Link};
use crate::state::MemberInfo;
use petrel_cluster::{Identity, View};
use std::sync::Arc;
use std::time::Instant;

/// Severity of a log line.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Level {
    /// Normal operation.
    Notice,
    /// An operator has to act.
    Warning,
}

/// Callbacks to the host, made on the fabric's thread one after another unless a method says
/// otherwise. They must not block, since leases and elections wait for that thread.
pub trait Events: Send {
    /// This node is a member from this view on. Its former state is void.
    fn admitted(&mut self, own: Identity, view: Arc<View>, members: Arc<[MemberInfo]>);

    /// The next view: its epoch is greater by 1, and this node is a member.
    fn view(&mut self, view: Arc<View>, members: Arc<[MemberInfo]>);

    /// This node is not a member any more: others have removed it as failed, or it lags too far
    /// behind, or its disk has failed. All links are down. Unless it has left, it rejoins by
    /// itself, with another incarnation and [`Events::admitted`].
    fn expelled(&mut self);

    /// This node holds its lease until then ([`crate::Fabric::has_lease`]); none: it has no lease.
    fn lease(&mut self, _until: Option<Instant>) {}

    /// [`crate::Fabric::aux_states`] have changed; one call may stand for several changes.
    fn aux_states(&mut self) {}

    /// A link to a member of the last view is up ([`Connection::link`]). The host reads and writes
    /// it, on another thread.
    fn link_up(&mut self, connection: Connection);

    /// The link has ended: drop its connection. Some prefix of the sent bytes has arrived.
    fn link_down(&mut self, link: Link);

    /// The keys are derived from the passphrases, and the 64 MiB that this took are free again.
    /// Called once, by [`crate::Fabric::start`] on its caller's thread.
    fn keys_derived(&mut self) {}

    /// Upkeep of the fabric's thread, once a second: its part of the allocator.
    fn upkeep(&mut self) {}

    /// A line for the log.
    fn log(&mut self, level: Level, line: String);
}
