//! Entry of a server into a cluster: its cluster thread is started, and ends with the server.

use super::agent::AgentResources;
use super::machine::Machine;
use super::rejoin;
use super::state::membership::{Ends, Inbox, Membership};
use super::transport::{Event, MemberInfo, Transport};
use crate::server::Server;
use petrel_cluster::{Identity, View};
use petrel_commands::ServerState;
use petrel_commands::clock::Tick;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering::Release;
use std::thread::JoinHandle;

impl Membership {
    /// Makes the server part of a cluster: commands that need data are refused until it is a member
    /// and has the cluster's data. Must be called before the first client is served.
    pub(super) fn enter(self: &Arc<Self>, server: &Server) -> io::Result<()> {
        let is_first = server.cluster.set(self.clone()).is_ok()
            && server.commands.cluster.set(self.clone()).is_ok()
            && server.keyspace.set_ownership(self.clone());
        if !is_first {
            return Err(io::Error::other("the server is one of a cluster already"));
        }
        let membership = Arc::downgrade(self);
        let forms = move || membership.upgrade().map(|of| of.extent_forms()).unwrap_or_default();
        let _ = server.durability.added_forms.set(Box::new(forms));
        self.waiters.belong_to(server.commands.clone());
        server.commands.set_state(ServerState::Apart, true);
        server.commands.set_state(ServerState::Clustered, true);
        Ok(())
    }

    /// Starts the thread.
    pub(super) fn live(
        self: &Arc<Self>,
        server: &Arc<Server>,
        (tasks, poll): Ends,
        transport: Box<dyn Transport>,
    ) -> io::Result<()> {
        let (server, membership) = (server.clone(), self.clone());
        let thread =
            std::thread::Builder::new().name("petrel-cluster".into()).spawn(move || {
                let machine = Machine::new(&server, membership.clone());
                rejoin::run(AgentResources { machine, transport, tasks, poll }, &membership);
            })?;
        *self.thread.lock() = Some(thread);
        Ok(())
    }
}

/// Makes a server a member of a cluster with the given members, from a view with which all of them
/// have begun, with the same data, or which admitted this one. It has its lease until
/// [`Membership::hold_lease`] changes that. Must be called before the first client is served.
///
/// # Errors
/// If it is a member already, or the system allows no thread.
pub fn start(
    server: &Arc<Server>,
    identity: Identity,
    (view, members): (Arc<View>, Arc<[MemberInfo]>),
    transport: Box<dyn Transport>,
) -> io::Result<Inbox> {
    let (membership, ends) = Membership::new(false, (1, 0), None)?;
    let own = members.iter().find(|member| member.identity == identity);
    own.into_iter().for_each(|own| drop(membership.name.set(own.id.clone())));
    membership.lease_until.store(Tick::NEVER.number(), Release);
    membership.enter(server)?;
    let inbox = Inbox(membership.clone());
    inbox.leave(Event::Admitted(identity, view, members));
    membership.live(server, ends, transport)?;
    while server.commands.is_in_state(ServerState::Apart) {
        if membership.thread.lock().as_ref().is_none_or(JoinHandle::is_finished) {
            return Err(io::Error::other("the thread of the cluster has ended"));
        }
        std::thread::sleep(rejoin::PAUSE);
    }
    Ok(inbox)
}
