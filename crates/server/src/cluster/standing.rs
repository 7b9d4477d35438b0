//! Whose data a member serves with: its own, if it has founded the cluster or has been given its
//! hash slots; else it fetches them from a member that has them.
//!
//! ```text
//!  admitted, next view    it holds hash slots       -> serves
//!                         another member holds them -> fetches
//!                         nobody does               -> asks for them, if its data are the cluster's
//!  expelled               serves nobody
//! ```
//!
//! A member that was given the hash slots which nobody held, and one that has fetched the data and
//! says so, sees that in a view.

use super::agent::Agent;
use super::{Hold, Membership, State};
use crate::event_loop::mailbox::Message;
use petrel_cluster::Identity;
use petrel_commands::ServerState;
use std::fs::{self, File};
use std::io;
use std::path::PathBuf;

/// The file which says that the data beside it are those of the cluster, as they were once.
const MARK: &str = "has-data";

/// What a member is doing.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Standing {
    /// Its data are not known to be the cluster's; no member is known that has them.
    Waiting,
    /// It fetches them.
    Fetching,
    /// Clients are served.
    Serving,
}

impl Agent {
    /// Decides whose data the member serves with: at its admission and at each view, until it
    /// serves, or fetches them.
    pub(super) fn admitted(&mut self) {
        if self.standing != Standing::Waiting {
            return;
        }
        let (own, members) = (self.identity(), self.membership.state.lock().members.clone());
        let mut holders = members.iter().filter(|member| member.holds_slots);
        let is_holder = members.iter().any(|member| member.identity == own && member.holds_slots);
        if is_holder {
            return self.serve();
        }
        match holders.next() {
            Some(holder) => self.fetch(holder.identity),
            None if self.membership.has_data() => self.transport.hold(own, Hold::TakeUnheld),
            None => {}
        }
    }

    /// From one moment on every commit goes into the lanes, every command to its home, and clients
    /// are served.
    pub(super) fn serve(&mut self) {
        if let Err(error) = self.membership.note_data(true) {
            tracing::warn!("cluster: it cannot be noted that the data are the cluster's: {error}");
        }
        let server = self.machine.host.server.clone();
        let exec = &mut self.machine.exec;
        exec.begin();
        exec.ks.lock_all();
        exec.ks.set_sinks("cluster", Some(self.node.sinks()));
        *self.membership.own.write() = Some(self.node.own_slots());
        server.commands.set_state(ServerState::Apart, false);
        exec.ks.unlock();
        exec.end();
        self.standing = Standing::Serving;
        self.membership.state.lock().is_serving = true;
        let Identity { node, incarnation } = self.identity();
        tracing::info!("cluster: member {}.{incarnation} serves", node.0);
    }

    /// Replaces the member's data by those of a member that holds hash slots.
    fn fetch(&mut self, from: Identity) {
        self.standing = Standing::Fetching;
        tracing::error!(
            "cluster: the data would have to be fetched from member {}, which this version cannot do",
            from.node.0
        );
    }

    /// The server is a member no longer: from one moment on no client is served, and what others
    /// order is not heard of. Clients that wait for keys hear of it.
    pub(super) fn expelled(&mut self) {
        let server = self.machine.host.server.clone();
        let exec = &mut self.machine.exec;
        exec.begin();
        exec.ks.lock_all();
        server.commands.set_state(ServerState::Apart, true);
        *self.membership.own.write() = None;
        exec.ks.set_sinks("cluster", None);
        exec.ks.unlock();
        exec.end();
        *self.membership.state.lock() = State::default();
        (0..server.workers.len()).for_each(|worker| server.tell(worker, Message::Demoted));
        tracing::warn!("cluster: this server is a member no longer, and serves nobody");
    }
}

impl Membership {
    /// Whether the data here are the cluster's, as they were once: this server has served with
    /// them.
    pub(super) fn has_data(&self) -> bool {
        self.mark().is_some_and(|mark| mark.exists())
    }

    /// Notes whether they are, so that another process knows. Before they are replaced, they are
    /// not.
    ///
    /// # Errors
    /// If the directory cannot be written.
    pub(super) fn note_data(&self, has: bool) -> io::Result<()> {
        let Some(mark) = self.mark().filter(|mark| mark.exists() != has) else { return Ok(()) };
        match has {
            true => File::create(&mark)?.sync_all()?,
            false => fs::remove_file(&mark)?,
        }
        match &self.directory {
            Some(directory) => File::open(directory)?.sync_all(),
            None => Ok(()),
        }
    }

    fn mark(&self) -> Option<PathBuf> {
        self.directory.as_ref().map(|directory| directory.join(MARK))
    }
}
