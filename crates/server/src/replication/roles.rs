//! From primary to replica and back.
//!
//! ```text
//! REPLICAOF, on a worker   the requested role changes, the link's connection is shut down
//!                          its batch ends ─ waits until the link executes nothing ─
//!                          the role changes ─ a batch begins
//!                          in a transaction that holds keys: the link's thread
//!                          changes the role, at once, or the next command that goes by it
//! link's thread            notices the change, and applies the new role
//! ```

use crate::config::{Config, PrimaryAddress};
use crate::server::{Server, unix_ms};
use crate::state::mailbox::Message;
use crate::state::replication::{Ids, LinkState, replica_expires};
use parking_lot::MutexGuard;
use petrel_commands::ServerState;
use petrel_keyspace::Handle;
use std::net::Shutdown;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Relaxed, Release};
use std::time::Duration;

/// Time for which a command that depends on the role waits for the link's current work.
const SETTLE_PATIENCE: Duration = Duration::from_millis(50);

/// Result of a request for a role.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Assigned {
    /// The server has it, or is about to.
    Changed,
    /// The role is as requested already.
    Unchanged,
}

impl Server {
    /// Lets the server follow another, or none. `ks` is in a batch.
    ///
    /// # Errors
    /// If no thread can be started.
    pub(crate) fn follow(
        self: &Arc<Self>,
        primary: Option<(String, u16)>,
        ks: &mut Handle,
    ) -> std::io::Result<Assigned> {
        let replication = &self.replication;
        {
            let mut requested = replication.requested.lock();
            if requested.primary == primary {
                requested.is_at_once = true;
                drop(requested);
                replication.role_requested.notify_all();
                self.settle_role(ks);
                return Ok(Assigned::Unchanged);
            }
            if !requested.has_thread {
                self.start_link()?;
                requested.has_thread = true;
            }
            if let Some(socket) = requested.socket.take() {
                // It may have been closed by the other end.
                let _ = socket.shutdown(Shutdown::Both);
            }
            requested.primary = primary.clone();
            requested.number += 1;
            replication.request_number.store(requested.number, Release);
        }
        let address = match primary {
            Some((host, port)) => PrimaryAddress::new(host, port),
            None => PrimaryAddress::none(),
        };
        self.config.settle(|config| config.replication.replicaof = address);
        // The link's thread has this locked while it executes the primary's stream.
        let is_sent = replica_expires::is_following() && replication.applying.is_locked();
        if !ks.holds_any() && !is_sent {
            ks.exit();
            self.assume_role();
            ks.enter();
        } else {
            // The link's thread does the rest, which may need locks held here. The client's next
            // command already sees a replica, unless another role was requested meanwhile.
            let is_read_only = self.config.snapshot().replication.replica_read_only;
            let requested = replication.requested.lock();
            if requested.is_role_pending() && requested.primary.is_some() {
                self.commands.set_state(ServerState::ReadOnly, is_read_only);
            }
        }
        replication.role_requested.notify_all();
        Ok(Assigned::Changed)
    }

    /// Follows the primary that the configuration names, if it does, from the start on: before
    /// anybody is served.
    pub(crate) fn begin_following(self: &Arc<Self>) -> std::io::Result<()> {
        let config = self.config.snapshot();
        let Some((host, port)) = config.replication.replicaof.get() else { return Ok(()) };
        let mut ks = self.keyspace.attach();
        ks.enter();
        let followed = self.follow(Some((host.into(), port)), &mut ks);
        ks.exit();
        followed.map(drop)
    }

    /// Changes the role if that is still to be done. The thread is in no batch.
    pub(super) fn assume_role(&self) {
        self.assume(&self.replication.applying.lock());
    }

    /// Applies the requested role while the link executes nothing.
    fn assume(&self, _applying: &MutexGuard<'_, ()>) {
        let replication = &self.replication;
        let (number, primary) = {
            let requested = replication.requested.lock();
            if !requested.is_role_pending() {
                return;
            }
            (requested.number, requested.primary.clone())
        };
        // Of a primary the stream knows it.
        let end = replication.offset();
        replication.offset.store(end, Relaxed);
        let was_replica = replication.is_replica.swap(primary.is_some(), Relaxed);
        self.commands.is_replica.store(primary.is_some(), Relaxed);
        replication.replica_expires.forget();
        replication.link.enter(LinkState::Connect);
        replication.link.heard_at.store(0, Relaxed);
        if !was_replica {
            replication.link.has_synced.store(false, Relaxed);
        }
        match &primary {
            Some((host, port)) => {
                tracing::info!("replicating from the primary at {host}:{port}");
                if replication.link.down_since.load(Relaxed) == 0 && !was_replica {
                    replication.link.down_since.store(unix_ms() / 1000, Relaxed);
                }
            }
            None if was_replica => {
                let mut ids = replication.ids.lock();
                let earlier = std::mem::replace(&mut *ids, Ids::new());
                // Others cannot go on with data that no offset counts.
                if !replication.was_broken() {
                    ids.second_id = earlier.id;
                    // The first byte that belongs to the new name alone.
                    ids.second_offset = end + 1;
                }
                tracing::info!(
                    "this server is a primary: its history is {} from byte {} on, and {} before",
                    ids.id,
                    ids.second_offset,
                    ids.second_id
                );
                replication.link.down_since.store(0, Relaxed);
            }
            None => {}
        }
        self.apply(&self.config.snapshot());
        if primary.is_some() && !was_replica {
            for worker in 0..self.workers.len() {
                self.tell(worker, Message::Demoted);
            }
        }
        // A replica that is to follow another continues its history, which its own replicas know,
        // until it gets another name or another copy.
        if !was_replica || primary.is_none() {
            replication.tell_downstream(|downstream| downstream.renamed());
        }
        // Another role may have been requested meanwhile.
        replication.requested.lock().role_number = number;
    }

    /// Applies a role change that was deferred because REPLICAOF ran inside a transaction. Does
    /// nothing inside that transaction, or if the replication thread is busy for more than 50 ms.
    /// `ks` is in a batch, and no script runs on this thread: the link's thread may wait for that
    /// to end.
    pub(crate) fn settle_role(&self, ks: &mut Handle) {
        // That thread may have `applying` locked.
        if ks.holds_any() || replica_expires::is_following() {
            return;
        }
        if self.replication.requested.lock().is_role_pending() {
            ks.exit();
            if let Some(applying) = self.replication.applying.try_lock_for(SETTLE_PATIENCE) {
                self.assume(&applying);
            }
            ks.enter();
        }
    }

    /// Sets the states by which commands are refused in this role.
    pub(crate) fn apply_role(&self, config: &Config) {
        let (replication, settings) = (&self.replication, &config.replication);
        let is_replica = replication.is_replica();
        self.commands.set_state(ServerState::ReadOnly, is_replica && settings.replica_read_only);
        let is_linked = replication.link.state() == LinkState::Connected;
        let is_stale = is_replica && !is_linked && !settings.replica_serve_stale_data;
        self.commands.set_state(ServerState::Stale, is_stale);
    }

    /// Stops replication at shutdown: nothing is executed after this.
    pub(crate) fn end_following(&self) {
        let replication = &self.replication;
        {
            let mut requested = replication.requested.lock();
            requested.number += 1;
            requested.role_number = requested.number;
            replication.request_number.store(requested.number, Release);
            requested.primary = None;
            if let Some(socket) = requested.socket.take() {
                let _ = socket.shutdown(Shutdown::Both);
            }
        }
        replication.role_requested.notify_all();
        self.snapshot.progress.stop.store(true, Relaxed);
        drop(replication.applying.lock());
    }
}
