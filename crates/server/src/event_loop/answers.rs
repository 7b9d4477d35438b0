//! Replies and timeouts of blocked clients.

use crate::client::{Client, Flag};
use crate::event_loop::batch::{Engine, Progress, Stop};
use crate::event_loop::connection::Conn;
use crate::event_loop::worker::{RETRY_MS, Worker};
use crate::state::blocked::BlockedClients;
use crate::state::mailbox::{Message, RemoteReply};
use petrel_commands::{Answer, Blocked, Fail, Merge, Replies, WaitEnd};
use petrel_net::{Driver, Output, Slot};
use petrel_resp::Resume;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// Bytes that a blocked connection may send ahead; then it is not read from until it has its reply.
const AHEAD_BYTES_MAX: usize = 64 * 1024;

impl<D: Driver> Worker<D> {
    /// Registers a blocked command of the connection.
    pub(crate) fn begin_wait(&mut self, conn: &Conn) {
        let id = conn.client.id;
        if let Some(blocked) = self.blocked().find(id) {
            if let Some(at) = blocked.deadline() {
                self.own.deadlines.add(at, id, conn.slot);
            }
            if blocked.polls() {
                self.own.polling.insert(id);
            }
        }
        self.limit_ahead(conn);
    }

    /// Stops reading from a blocked connection that sends much.
    pub(crate) fn limit_ahead(&mut self, conn: &Conn) {
        if conn.blocked && conn.input_len() > AHEAD_BYTES_MAX {
            self.driver.pause_reading(conn.slot);
        }
    }

    /// Memory of a blocked command.
    pub(crate) fn waiting_bytes(&self, conn: &Conn) -> u64 {
        self.blocked().find(conn.client.id).map_or(0, |blocked| blocked.footprint() as u64)
    }

    /// Handles blocked clients at the end of a turn: timeouts, keys made ready by upkeep or this
    /// turn's commands, and replies.
    pub(crate) fn poll_blocked(&mut self) {
        let now = self.engine.exec.ks.now_ms();
        let exec = &self.engine.exec;
        let resumes =
            exec.has_postponed() && self.engine.host.server.commands.pause.active(now).is_none();
        let is_due = self.own.deadlines.next_ms().is_some_and(|at| at <= now);
        if !is_due && !resumes && !exec.has_ready() && self.engine.host.answers.is_empty() {
            return;
        }
        self.begin();
        while let Some(slot) = self.own.deadlines.due(now) {
            self.time_is_up(slot, now);
        }
        if self.engine.exec.has_ready() {
            self.engine.exec.serve_ready(&mut self.engine.host);
        }
        if resumes {
            self.engine.exec.serve_postponed(&mut self.engine.host);
        }
        while let Some((slot, id, answer)) = self.engine.host.answers.pop_front() {
            self.answered(slot, id, answer);
        }
        self.engine.exec.end();
    }

    /// Tries blocked commands that become ready by time alone. The executor is in a batch.
    pub(crate) fn poll_waiting(&mut self) {
        let waiting = self.own.polling.iter().filter_map(|&id| self.blocked().find(id));
        for blocked in waiting.collect::<Vec<_>>() {
            let engine = &mut self.engine;
            engine.exec.try_again(&blocked, &mut engine.host);
            if engine.exec.ks.should_yield() {
                engine.exec.end();
                self.begin();
            }
        }
    }

    /// Ends all waits of this worker because the server has become a replica. The connections are
    /// closed after an error, except redirectable ones, which get the address of the primary.
    pub(crate) fn end_waits(&mut self) {
        let primary = self.engine.host.server.replication.primary();
        let primary = primary.map(|(host, port)| format!("{host}:{port}"));
        self.begin();
        for (id, blocked) in self.blocked().all() {
            if blocked.is_moved() {
                continue;
            }
            let is_polling = self.own.polling.contains(&id);
            let slot = blocked.ticket().downcast_ref::<Client>().map(|client| client.slot);
            let conn = slot.and_then(|slot| self.conn_mut(slot));
            if let Some(conn) = conn.filter(|conn| conn.blocked && conn.client.id == id) {
                // What waits for replicas waits for this server's.
                let goes_there = conn.client.has(Flag::Redirectable)
                    && !conn.client.has(Flag::ReadOnly)
                    && !is_polling;
                let primary = primary.as_ref().filter(|_| goes_there);
                conn.session.close |= primary.is_none();
                let end = primary.cloned().map_or(WaitEnd::Demoted, WaitEnd::Redirected);
                let Engine { exec, host, .. } = &mut self.engine;
                exec.end_wait(&blocked, end, host);
            }
        }
        self.engine.exec.end();
    }

    /// Moves waits of this worker's connections to the primaries of their slots where those are
    /// other members of the cluster now. The others try once more: data that arrived while their
    /// slots had no primary could not be taken.
    pub(crate) fn move_waits(&mut self) {
        self.begin();
        for (id, blocked) in self.blocked().all() {
            if blocked.is_moved() {
                continue;
            }
            let Engine { exec, host, .. } = &mut self.engine;
            if !exec.is_elsewhere(&blocked) {
                exec.try_again(&blocked, host);
                continue;
            }
            let slot = blocked.ticket().downcast_ref::<Client>().map(|client| client.slot);
            let Some(conn) = slot.and_then(|slot| self.take(slot)) else { continue };
            if conn.blocked && conn.client.id == id && self.engine.exec.give_up(&blocked) {
                self.move_wait(conn, &blocked);
            } else {
                self.put(conn);
            }
        }
        self.engine.exec.end();
    }

    fn move_wait(&mut self, mut conn: Box<Conn>, blocked: &Blocked) {
        self.end_wait(&mut conn);
        conn.client.set(Flag::Blocked, false);
        let Engine { exec, host, .. } = &mut self.engine;
        let call = exec.call_again(blocked);
        let is_dropped = conn.session.replies != Replies::On;
        if conn.session.replies == Replies::Skip {
            conn.session.replies = Replies::On;
        }
        let slots = conn.session.reply_slots_mut();
        slots.push(&call.slots, 1, Merge::Only, is_dropped);
        slots.hold_up();
        let seq = slots.last().unwrap_or_default();
        // Its later input waits for the reply.
        slots.wait_for(seq);
        self.driver.pause_reading(conn.slot);
        conn.listed = true;
        let sent = match exec.shared.cluster.get() {
            Some(cluster) => cluster.forward(blocked.ticket(), seq, call, None),
            None => Err(Fail::PRIMARY_CHANGING),
        };
        let (worker, slot, id) = (host.worker(), conn.slot, conn.client.id);
        if let Err(fail) = sent {
            let reply = fail.to_reply();
            let reply = RemoteReply { slot, id, seq, reply };
            host.server.tell(worker, Message::Remote(vec![reply]));
        }
        self.put(conn);
    }

    fn time_is_up(&mut self, slot: Slot, now: i64) {
        let Some(id) = self.conn(slot).filter(|conn| conn.blocked).map(|conn| conn.client.id)
        else {
            return;
        };
        let is_due = |blocked: &Arc<Blocked>| blocked.deadline().is_some_and(|at| at < now);
        let Some(blocked) = self.blocked().find(id).filter(is_due) else { return };
        let Engine { exec, host, .. } = &mut self.engine;
        if !exec.end_wait_unless_busy(&blocked, WaitEnd::Timeout, host) {
            self.own.deadlines.add(now + RETRY_MS, id, slot);
            self.engine.exec.end();
            self.begin();
        }
    }

    /// Delays a reply until the data in it are durable. Another thread may have served the command,
    /// and has committed it by now.
    #[cold]
    fn wait_for_what_served(&mut self) {
        let epoch = self.engine.exec.ks.keyspace().epochs().now();
        self.engine.exec.ks.note_need(epoch);
        if let Some(log) = self.engine.host.server.durability.log() {
            // Nothing may have been committed in it.
            log.want(epoch);
        }
    }

    /// Sends a blocked connection its reply, and executes its later input.
    fn answered(&mut self, slot: Slot, id: u64, answer: Answer) {
        let Some(mut conn) = self.take(slot) else { return };
        if !conn.blocked || conn.client.id != id {
            return self.put(conn);
        }
        if let Some(blocked) = self.end_wait(&mut conn) {
            self.engine.exec.note_served(&blocked);
        }
        if self.engine.exec.ks.is_strict() {
            self.wait_for_what_served();
        }
        conn.client.commands.fetch_add(1, Relaxed);
        let mut output = self.output_for(slot);
        if conn.session.replies == Replies::On && conn.client.has(Flag::Replica) {
            // A reply would break the replication stream.
            self.engine.host.warn_of_reply(&conn.client);
            conn.session.close = true;
            conn.doomed = true;
        } else if conn.session.replies == Replies::On {
            fill(&mut output, answer);
        } else if conn.session.replies == Replies::Skip {
            conn.session.replies = Replies::On;
        }
        let progress = match conn.input.take() {
            _ if conn.session.close => Progress { consumed: 0, stop: Stop::Close, last: 0 },
            Some(input) => {
                self.driver.resume_reading(slot);
                self.execute_owned(&mut conn, *input, &mut output)
            }
            None => {
                let stop = Stop::Incomplete { needed: 0, resume: Resume::default() };
                Progress { consumed: 0, stop, last: 0 }
            }
        };
        self.finish(conn, progress, output);
    }

    /// Releases the connection's keyspace state, such as watched keys. Returns false if a slow
    /// script has the keys; it must be called again then. The executor must be in a batch, and may
    /// have left it afterwards.
    pub(crate) fn release(&mut self, conn: &mut Conn) -> bool {
        self.engine.exec.come_inside();
        if conn.blocked
            && let Some(blocked) = self.blocked().find(conn.client.id)
            // Even if it has been answered: there is no connection to take the answer.
            && self.engine.exec.give_up_unless_busy(&blocked).is_none()
        {
            return false;
        }
        self.end_wait(conn);
        if !conn.release(&mut self.engine.exec) {
            return false;
        }
        self.engine.host.server.remove_monitor(&conn.client);
        let grown = self.engine.host.forget_subscriber(&conn.client);
        self.engine.exec.ks.count_foreign(grown);
        self.engine.host.server.trackers.untrack(
            &self.engine.host.server.keyspace,
            &conn.client,
            &mut conn.session,
        );
        true
    }

    fn end_wait(&mut self, conn: &mut Conn) -> Option<Arc<Blocked>> {
        if !std::mem::take(&mut conn.blocked) {
            return None;
        }
        let id = conn.client.id;
        let blocked = self.blocked().remove(id)?;
        if let Some(at) = blocked.deadline() {
            self.own.deadlines.remove(at, id);
        }
        self.own.polling.remove(&id);
        Some(blocked)
    }

    fn blocked(&self) -> &BlockedClients {
        &self.engine.host.server.workers[self.index].blocked
    }
}

fn fill(output: &mut Output, answer: Answer) {
    output.bytes.extend_from_slice(&answer.bytes);
    for (offset, value) in answer.shared {
        output.splice_at(offset, value);
    }
}
