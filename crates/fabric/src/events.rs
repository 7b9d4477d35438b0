//! Events for the host: admission, views, links.

use crate::connection::{Connection, Link};
use crate::state::MemberInfo;
use petrel_cluster::{Identity, View};
use std::sync::Arc;
use std::time::Instant;

/// How much a line of the log matters.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Level {
    /// What happens.
    Notice,
    /// What an operator has to look at.
    Warning,
}

/// The host. It is called on the fabric's thread, unless a method says otherwise, one call after
/// another, and must not keep that thread: leases and elections wait for it.
pub trait Events: Send {
    /// This node is a member from this view on, with all slots that it says; whatever it was before
    /// counts no longer.
    fn admitted(&mut self, own: Identity, view: Arc<View>, members: Arc<[MemberInfo]>);

    /// The view that follows the last one: its epoch is greater by 1, and this node is in it.
    fn view(&mut self, view: Arc<View>, members: Arc<[MemberInfo]>);

    /// This node is a member no longer: others have taken it for dead, or it has fallen too far
    /// behind, or its disk has failed. All links are down. It comes back by itself, with another
    /// incarnation and [`Events::admitted`], unless it has left.
    fn expelled(&mut self);

    /// This node holds its lease until then, as [`crate::Fabric::has_lease`] says; none: no more.
    fn lease(&mut self, _until: Option<Instant>) {}

    /// [`crate::Fabric::functions`] are others than before; said once for several changes, too.
    fn functions(&mut self) {}

    /// There is a link to a member of the last view, [`Connection::link`]; its bytes are the host's
    /// to read and to write, on another thread.
    fn link_up(&mut self, connection: Connection);

    /// The link has ended: its connection is to be dropped. What was sent on it may or may not have
    /// arrived, up to some byte.
    fn link_down(&mut self, link: Link);

    /// The keys are derived from the passphrases: the memory that this took is free again, 64 MiB.
    /// Called once, by [`crate::Fabric::start`] on the thread of its caller.
    fn keys_derived(&mut self) {}

    /// Something for the log.
    fn log(&mut self, level: Level, line: String);
}
