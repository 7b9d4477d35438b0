//! Origin of a member's data: its own, if it has founded the cluster or was given its hash slots;
//! otherwise it fetches them from a member.
//!
//! ```text
//!  admitted      it holds hash slots       -> serves
//!                another member holds them -> fetches
//!                no member does            -> waits, and requests them if its data are the
//!                                             cluster's
//!  next view     waits: it holds them      -> serves
//!                waits: another does       -> another life, which begins with that member
//!                fetches: no holder is left -> another life
//!  copy loaded   fetches                   -> serves, and asks for its share of the hash slots
//!  expelled      serves no client
//! ```
//!
//! A member that was given unheld hash slots, and one that has reported to have fetched the data,
//! learns through a view that it holds them. A member that takes unheld slots begins its lanes with
//! its own admission: earlier members that still wait do not match them, and rejoin.

use super::agent::{Agent, MemberPhase};
use super::state::membership::{Membership, State};
use super::transport::{Hold, MemberInfo};
use crate::state::mailbox::Message;
use petrel_cluster::{Identity, View};
use petrel_commands::ServerState;
use std::fs::{self, File};
use std::io;
use std::path::PathBuf;

/// The file which says that the data beside it are those of the cluster, as they were once.
const MARK: &str = "has-data";

impl Agent {
    /// Decides at its admission with which data the member serves.
    pub(super) fn admitted(&mut self) {
        if self.node.is_partial() {
            return self.admitted_to_slots();
        }
        let (is_holder, other) = self.holders();
        match other {
            _ if is_holder => self.serve(),
            Some(_) => self.phase = MemberPhase::Fetching,
            None => self.ask_for_slots(),
        }
    }

    /// Decides this at each later view.
    pub(super) fn stand_in_view(&mut self) {
        if self.node.is_partial() {
            // It is looked at in each turn (`slots.rs`).
            return;
        }
        let (is_holder, other) = self.holders();
        let is_over = match self.phase {
            MemberPhase::Serving => false,
            MemberPhase::Waiting if is_holder => return self.serve(),
            MemberPhase::Waiting => other.is_some(),
            MemberPhase::Fetching => other.is_none(),
        };
        if is_over {
            self.transport.rejoin(self.identity());
        } else if self.phase == MemberPhase::Waiting {
            self.ask_for_slots();
        }
    }

    /// Whether this member holds hash slots, and another that does.
    fn holders(&self) -> (bool, Option<Identity>) {
        let (own, members) = (self.identity(), self.membership.state.lock().members.clone());
        let holders = members.iter().filter(|member| member.holds_slots);
        let mut holders = holders.map(|member| member.identity);
        (holders.clone().any(|holder| holder == own), holders.find(|holder| *holder != own))
    }

    /// Asks for the hash slots that no member holds, if the data here are the cluster's.
    fn ask_for_slots(&self) {
        if self.node.fetch().is_none() {
            self.transport.hold(self.identity(), Hold::TakeUnheld);
        }
    }

    /// Begins to serve clients: every commit goes into the lanes from now on, and every command to
    /// its primary.
    pub(super) fn serve(&mut self) {
        if let Err(error) = self.membership.note_data(true) {
            tracing::warn!("cluster: cannot record that the data are the cluster's: {error}");
        }
        let server = self.machine.host.server.clone();
        self.membership.apply_aux(&server, true);
        let exec = &mut self.machine.exec;
        exec.begin();
        exec.ks.lock_all();
        exec.ks.set_sinks("cluster", Some(self.node.sinks()));
        self.membership.own.serve(true);
        // A witness has no data to serve, or the same as every member.
        server.commands.set_state(ServerState::Apart, self.membership.is_witness);
        exec.ks.unlock();
        exec.end();
        self.phase = MemberPhase::Serving;
        self.membership.state.lock().is_serving = true;
        self.membership.figures.note_slots(self.node.slot_counts());
        // There may be other libraries of functions by now.
        self.membership.functions.wake();
        let Identity { node, incarnation } = self.identity();
        let does = if self.membership.is_witness { "votes" } else { "serves" };
        tracing::info!("cluster: member {}.{incarnation} {does}", node.0);
    }

    /// Ends the membership: from now on no client is served, and messages of other members are
    /// ignored. Blocked clients get an error.
    pub(super) fn expelled(&mut self) {
        let server = self.machine.host.server.clone();
        self.machine.exec.begin();
        self.machine.exec.ks.lock_all();
        // Other members redirect their clients when they see this one's end.
        drop(self.dismiss_waiters(|_, _| true));
        self.machine.jobs.clear();
        self.machine.drop_watches(|_, _| true);
        let exec = &mut self.machine.exec;
        server.commands.set_state(ServerState::Apart, true);
        self.membership.own.serve(false);
        exec.ks.set_sinks("cluster", None);
        exec.ks.unlock();
        exec.end();
        *self.membership.state.lock() = State::default();
        self.membership.figures.note_slots((0, 0));
        (0..server.workers.len()).for_each(|worker| server.tell(worker, Message::Demoted));
        tracing::warn!("cluster: this server is no longer a member, and serves no clients");
    }
}

impl Membership {
    /// Whether a node rejoins with its present data, with which it may serve later; otherwise it
    /// begins without data.
    pub(super) fn may_begin_with_own_data(
        &self,
        own: Identity,
        view: &View,
        members: &[MemberInfo],
    ) -> bool {
        if view.incoming.is_some() {
            return view.slots.ranges().iter().any(|range| range.owners.contains(&own.node));
        }
        let mut holders = members.iter().filter(|member| member.holds_slots).peekable();
        match holders.peek() {
            Some(_) => holders.any(|holder| holder.identity == own),
            None => self.has_data(),
        }
    }

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
        if has {
            File::create(&mark)?.sync_all()?
        } else {
            fs::remove_file(&mark)?
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
