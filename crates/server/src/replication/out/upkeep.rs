//! Periodic work for replicas, ten times a second.

use crate::config::Config;
use crate::server::{Server, unix_ms};
use crate::state::outgoing::Outgoing;
use crate::state::outgoing::replica::{Replica, Stage};
use petrel_commands::ServerState;
use petrel_keyspace::Handle;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::time::Duration;

const PING: &[u8] = b"*1\r\n$4\r\nPING\r\n";

/// Milliseconds between two signs of life for a replica that waits for its copy.
const SIGN_MS: i64 = 1000;

impl Outgoing {
    /// Replicas waiting for a copy, in order of their waits.
    pub(super) fn waiting(&self) -> Vec<Arc<Replica>> {
        let waits = |replica: &&Arc<Replica>| replica.stage() == Stage::Waits;
        self.replicas.lock().iter().filter(waits).cloned().collect()
    }
}

impl Server {
    /// Looks after the replicas. The thread is in no batch.
    pub(crate) fn tend_replicas(self: &Arc<Self>, ks: &mut Handle, config: &Config) {
        let outgoing = &self.outgoing;
        self.count_good_replicas(config);
        if self.replication.is_replica() {
            self.replication.replica_expires.expire(ks);
        }
        let Some(now) = self.tend_connections(config) else { return };
        self.sync_if_due(ks, config);
        let Some(stream) = outgoing.stream() else { return };
        if stream.backlog.size() != config.replication.repl_backlog_size {
            stream.backlog.resize(config.replication.repl_backlog_size);
        }
        self.tend_encoding(ks, &stream, config);
        if outgoing.replicas.lock().is_empty() {
            let ttl_ms = config.replication.repl_backlog_ttl.saturating_mul(1000);
            let is_over = ttl_ms > 0 && now - outgoing.last_seen.load(Relaxed) > ttl_ms;
            if is_over && !self.replication.is_replica() {
                self.forget_stream(ks);
            }
            return;
        }
        outgoing.last_seen.store(now, Relaxed);
        let period_ms = config.replication.repl_ping_replica_period.saturating_mul(1000);
        let still = self.replication.failover.still();
        let is_due = now - outgoing.pinged_at.load(Relaxed) >= period_ms;
        if is_due && !self.replication.is_replica() && !still.is_needed() {
            outgoing.pinged_at.store(now, Relaxed);
            stream.backlog.append_aside(PING);
            stream.owners.call_at_once(&self.workers);
        }
    }

    /// Lets writes be refused, or not, by how many replicas are good enough
    /// (`min-replicas-to-write`).
    pub(crate) fn count_good_replicas(&self, config: &Config) {
        let least = config.replication.min_replicas_to_write;
        let lag_max = config.replication.min_replicas_max_lag;
        let is_short = least > 0
            && lag_max > 0
            && !self.replication.is_replica()
            && self.good_replicas(lag_max).is_some_and(|good| (good as i64) < least);
        self.commands.set_state(ServerState::NotReplicated, is_short);
    }

    /// Number of replicas, in a cluster of other owners, that have given a sign of life within
    /// `lag_max` seconds. None if writes need none: no slot of the cluster is changed here.
    pub(crate) fn good_replicas(&self, lag_max: i64) -> Option<usize> {
        match self.cluster.get() {
            Some(member) => member.owners_answering(Duration::from_secs(lag_max.unsigned_abs())),
            None => Some(self.outgoing.good(lag_max)),
        }
    }

    /// Closes silent replicas, and sends waiting ones a sign of life. Returns the time; `None` if
    /// there is neither a replica nor a stream.
    fn tend_connections(&self, config: &Config) -> Option<i64> {
        let replicas = self.outgoing.replicas.lock().clone();
        if replicas.is_empty() && self.outgoing.stream().is_none() {
            return None;
        }
        let now = unix_ms();
        for replica in &replicas {
            let stage = replica.stage();
            if stage == Stage::Waits && now - replica.told_at.load(Relaxed) >= SIGN_MS {
                replica.told_at.store(now, Relaxed);
                replica.tell(b"\n");
                self.workers[usize::from(replica.client.worker)].wake();
            }
            let is_silent = replica.lag(now) > config.replication.repl_timeout;
            if is_silent && matches!(stage, Stage::Loads | Stage::Online) {
                tracing::warn!(
                    "replica {} is closed: no sign of life within repl-timeout",
                    replica.name()
                );
                self.close_replica(replica);
            }
        }
        Some(now)
    }

    /// Frees the backlog: no replica has come back for it.
    fn forget_stream(&self, ks: &mut Handle) {
        ks.enter();
        ks.lock_all();
        if self.outgoing.replicas.lock().is_empty() {
            self.end_stream(ks);
            self.replication.renew_ids();
            tracing::info!(
                "replication backlog freed: no replica connected within repl-backlog-ttl"
            );
        }
        ks.unlock();
        ks.exit();
    }

    /// Lets the workers look again at commands that wait for acknowledgements.
    pub(super) fn retry_waiting(&self) {
        for link in &self.workers {
            link.holds.store(true, SeqCst);
            link.wake();
        }
    }
}
