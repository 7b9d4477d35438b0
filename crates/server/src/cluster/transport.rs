//! Interface between the agent and the other members: links, and events of the membership.

use super::client_address::ClientAddress;
use petrel_cluster::{Identity, SlotSet, View};
pub use petrel_fabric::{Hold, Role};
use std::fmt;
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

/// A link to a member from when it is up to when it is down. The next link to the same member is
/// another one, so that nothing that belongs to the former gets into it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Link {
    /// The other side.
    pub peer: Identity,
    /// Grows with each link.
    pub number: u64,
}

/// The bytes of a link, both ways. Nothing waits. Dropped, the link ends.
pub trait Pipe: Send + fmt::Debug {
    /// Appends bytes that have come, until there are no more or `most` are exceeded; whether there
    /// may be more at once.
    ///
    /// # Errors
    /// When the link has ended.
    fn receive(&mut self, into: &mut Vec<u8>, most: usize) -> io::Result<bool>;

    /// Sends bytes behind those of before, and keeps what cannot be sent yet.
    ///
    /// # Errors
    /// When the link has ended.
    fn send(&mut self, bytes: &[u8]) -> io::Result<()>;

    /// Sends more of the kept bytes.
    ///
    /// # Errors
    /// When the link has ended.
    fn flush(&mut self) -> io::Result<()>;

    /// Whether something is kept: nothing more is sent before that.
    fn is_blocked(&self) -> bool;

    /// Socket to poll for bytes to read or space to write; `None` if the thread is woken otherwise
    /// ([`crate::cluster::Inbox::wake`]).
    fn socket(&self) -> Option<BorrowedFd<'_>>;
}

/// The members' side of the process, as the agent asks it for something.
pub trait Transport: Send {
    /// The link to a member has ended for the agent: another may begin.
    fn close(&self, _link: Link) {}

    /// Publishes the data that the member holds; views show the result.
    fn hold(&self, _own: Identity, _hold: Hold) {}

    /// If slots have few owners: whether some wait for this member, their last owner, or it has to
    /// report that it has data of slots that wait for another one; and the epoch of that view.
    fn may_claim(&self, _own: Identity) -> (bool, u64) {
        (false, 0)
    }

    /// Says that this server keeps data on disk.
    fn keeps_data(&self) {}

    /// Says how far this server's data go, with which it joins.
    fn set_extents(&self, _extents: Vec<u8>) {}

    /// Says of which slots this member has got the data, in the view of this epoch.
    fn arrived(&self, _own: Identity, _epoch: u64, _slots: &SlotSet) {}

    /// Rejoins the cluster under a new identity, because the member's data cannot be brought up to
    /// date.
    fn rejoin(&self, _own: Identity) {}
}

/// A member as users see it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct MemberInfo {
    /// Identity of the member.
    pub identity: Identity,
    /// Node id: 40 hexadecimal digits.
    pub id: String,
    /// The addresses that clients reach it at.
    pub client: ClientAddress,
    /// Port of the cluster bus.
    pub bus_port: u16,
    /// Purpose of the node.
    pub role: Role,
    /// Whether it has the cluster's data, and so its share of the hash slots.
    pub holds_slots: bool,
}

/// Event of the membership for the agent.
#[derive(Debug)]
pub enum Event {
    /// The server is a member from this view on, whatever it was before.
    Admitted(Identity, Arc<View>, Arc<[MemberInfo]>),
    /// The view that follows the last, and its members.
    View(Arc<View>, Arc<[MemberInfo]>),
    /// The server is a member no longer; [`Event::Admitted`] may follow.
    Expelled,
    /// A link to a member is up, replacing any earlier one.
    LinkUp(Link, Box<dyn Pipe>),
    /// The link has ended.
    LinkDown(Link),
}

impl MemberInfo {
    /// The number that its name spells.
    pub(in crate::cluster) fn uuid(&self) -> Option<u128> {
        u128::from_str_radix(&self.id, 16).ok()
    }
}
