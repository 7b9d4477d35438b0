//! Feeds a worker's replicas at the end of a turn.

use crate::config::OutputBufferLimit;
use crate::event_loop::worker::Worker;
use crate::server::unix_ms;
use crate::state::outgoing::replica::{OwnReplicas, Replica};
use petrel_net::Driver;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::time::{Duration, Instant};

/// Bytes that a socket is given before it has taken what came before.
const WINDOW: usize = 1 << 20;

/// Between two sends of fewer bytes than these, while more comes: each costs both ends as much as
/// executing several commands.
const SEND_EVERY: Duration = Duration::from_micros(200);
const LITTLE: u64 = 16 * 1024;

impl<D: Driver> Worker<D> {
    /// Sends this worker's replicas the new part of the stream.
    #[inline]
    pub(crate) fn feed_replicas(&mut self) {
        let outgoing = &self.engine.host.server.outgoing;
        if outgoing.version.load(SeqCst) != self.replicas.version {
            self.look_for_replicas();
        }
        if !self.replicas.list.is_empty() {
            self.feed_all();
        }
    }

    #[cold]
    fn look_for_replicas(&mut self) {
        let outgoing = &self.engine.host.server.outgoing;
        let version = outgoing.version.load(SeqCst);
        let replicas = outgoing.replicas.lock();
        let is_own = |r: &&Arc<Replica>| usize::from(r.client.worker) == self.index;
        let list = replicas.iter().filter(is_own).cloned().collect();
        self.replicas = OwnReplicas { list, version, ..OwnReplicas::default() };
    }

    fn feed_all(&mut self) {
        let now = Instant::now();
        self.replicas.due = self.due(now);
        if self.replicas.due.is_some() {
            return;
        }
        let list = std::mem::take(&mut self.replicas.list);
        for replica in &list {
            if !replica.has_left() && self.feed(replica) {
                self.replicas.sent_at = Some(now);
            }
        }
        self.replicas.list = list;
    }

    /// Time at which pending bytes are sent, if more may be added until then.
    fn due(&self, now: Instant) -> Option<Instant> {
        let OwnReplicas { list, sent_at, .. } = &self.replicas;
        let server = &self.engine.host.server;
        let due = sent_at.map(|at| at + SEND_EVERY).filter(|due| now < *due)?;
        let is_urgent =
            || server.outgoing.stream().is_some_and(|s| s.owners.takes_urgent(self.index));
        let has_little = || list.iter().all(|replica| replica.has_less_than(LITTLE));
        let waits = has_little() && !server.is_stopping() && !is_urgent();
        (waits && list.iter().any(|replica| replica.has_more())).then_some(due)
    }

    /// Sends a replica as much as its socket takes; returns whether there was anything.
    fn feed(&mut self, replica: &Arc<Replica>) -> bool {
        let slot = replica.client.slot;
        let unsent = self.driver.unsent(slot);
        let has_more = unsent < WINDOW && replica.has_more();
        if has_more {
            let mut output = self.driver.output();
            replica.fill(&mut output, WINDOW - unsent);
            if output.is_empty() {
                self.driver.recycle(output);
            } else if let Some(conn) = self.take(slot) {
                self.count_sent(&conn, output.len());
                self.engine.host.server.outgoing.sent.fetch_add(output.len() as u64, Relaxed);
                self.driver.send(slot, output);
                conn.client.show_output(self.driver.unsent(slot));
                self.put(conn);
            }
        }
        self.check_replica(replica);
        has_more
    }

    /// Closes a replica that leaves too much of the stream untaken.
    fn check_replica(&mut self, replica: &Replica) {
        let host = &self.engine.host;
        let waiting = replica.waiting() + self.driver.unsent(replica.client.slot) as u64;
        let OutputBufferLimit { hard_bytes, soft_bytes, soft_seconds } =
            host.config.client_output_buffer_limit.replica;
        let owed = replica.owed.load(Relaxed);
        if waiting < owed {
            replica.owed.store(waiting, Relaxed);
        }
        // Bytes that the backlog keeps anyway do not count.
        let free = host.config.replication.repl_backlog_size;
        let added = waiting.saturating_sub(owed);
        let is_above = |limit: u64| limit > 0 && added >= limit.max(free);
        let soft_since = replica.soft_since.load(Relaxed);
        if !is_above(soft_bytes) {
            if soft_since != 0 {
                replica.soft_since.store(0, Relaxed);
            }
            if !is_above(hard_bytes) {
                return;
            }
        }
        let now = unix_ms();
        if soft_since == 0 && is_above(soft_bytes) {
            replica.soft_since.store(now, Relaxed);
        }
        let too_long = soft_since != 0 && (now - soft_since) as u64 > soft_seconds * 1000;
        if is_above(hard_bytes) || too_long {
            tracing::warn!(
                "replica {} is closed: {waiting} bytes wait for it, more than \
                 client-output-buffer-limit allows for replicas",
                replica.name()
            );
            host.server.figures.output_limit_closed.fetch_add(1, Relaxed);
            replica.leave();
            let slot = replica.client.slot;
            self.begin();
            self.forget(slot);
            self.engine.exec.end();
        }
    }

    /// Maximum time to wait for events: zero if a replica has bytes that its socket would take.
    /// Until the next call of [`Worker::replicas_awake`], appended bytes wake this worker, unless
    /// it wakes soon by itself. `None` if there is no limit.
    #[inline]
    pub(crate) fn replicas_sleep(&mut self) -> Option<Duration> {
        if self.replicas.list.is_empty() {
            return None;
        }
        if let Some(due) = self.replicas.due {
            let stream = self.engine.host.server.outgoing.stream();
            let dozes = stream.is_none_or(|stream| stream.owners.dozes(self.index));
            let left = due.saturating_duration_since(Instant::now());
            return Some(if dozes { left } else { Duration::ZERO });
        }
        self.fall_asleep().then_some(Duration::ZERO)
    }

    fn fall_asleep(&mut self) -> bool {
        let server = &self.engine.host.server;
        if let Some(stream) = server.outgoing.stream() {
            stream.owners.falls_asleep(self.index);
        }
        let driver = &*self.driver;
        self.replicas.list.iter().any(|replica| {
            !replica.has_left() && replica.has_more() && driver.unsent(replica.client.slot) < WINDOW
        })
    }

    /// The worker looks for itself from now on.
    #[inline]
    pub(crate) fn replicas_awake(&mut self) {
        if !self.replicas.list.is_empty()
            && let Some(stream) = self.engine.host.server.outgoing.stream()
        {
            stream.owners.wakes_up(self.index);
        }
    }
}
