//! Commands of this member's clients that are blocked at other members. The primary ends such
//! waits; an event here (the client leaves, or another one sends `CLIENT UNBLOCK`) is a request to
//! do so.

use super::agent::Agent;
use super::state::deferred::{Forward, Waiting};
use super::state::membership::count;
use crate::client::Flag;
use petrel_cluster::wire::WaitEnd;
use petrel_cluster::{Call, Reply, Slot};
use petrel_commands::{Fail, Rest, part_of};
use std::collections::HashMap;
use std::time::{Duration, Instant};

impl Agent {
    /// Passes replies of other members on, and requests to end waits.
    pub(super) fn attend_away(&mut self) {
        loop {
            let replies = self.node.take_replies();
            if replies.is_empty() {
                break;
            }
            replies.into_iter().for_each(|(token, reply)| self.take_reply(token, reply));
        }
        let ends = std::mem::take(&mut *self.membership.ends.lock());
        if !ends.is_empty() {
            let ends: HashMap<u64, WaitEnd> = ends.into_iter().collect();
            let mut tokens = Vec::new();
            for (&token, waiting) in &mut self.waiting {
                if let Some(&end) = ends.get(&waiting.client.id) {
                    waiting.end = Some(end);
                    tokens.push((token, end));
                }
            }
            for (token, end) in tokens {
                self.node.cancel(token, end, &mut self.machine);
            }
        }
        for (token, reply) in self.node.take_replies() {
            self.take_reply(token, reply);
        }
    }

    /// Ends watches at their primaries, behind the commands that have begun them.
    pub(super) fn end_watches(&mut self, unwatched: Vec<(Slot, u64)>, has_taken_all: bool) {
        for (slot, client) in unwatched {
            if has_taken_all && !self.deferred.holds(&[slot]) {
                self.node.unwatch(slot, client, &mut self.machine);
            } else {
                self.membership.unwatched.lock().push((slot, client));
            }
        }
    }

    /// Handles the reply to a forwarded command.
    pub(super) fn take_reply(&mut self, token: u64, reply: Reply) {
        match reply {
            Reply::Parked(left_ms) => self.note_parked(token, left_ms),
            Reply::Again(call) => self.forward_again(token, *call),
            reply => {
                let Some(mut waiting) = self.waiting.remove(&token) else { return };
                self.note_end(&waiting);
                let rest = waiting
                    .rest
                    .take()
                    .filter(|rest| matches!(&reply, Reply::Bytes(bytes) if rest.is_due(bytes)));
                let is_lost = waiting.is_parked
                    && waiting.end == Some(WaitEnd::Gone)
                    && matches!(&reply, Reply::Bytes(bytes) if !is_null(bytes));
                if is_lost {
                    count(&self.membership.figures.undelivered, 1);
                }
                self.reply(&waiting.client, waiting.seq, reply);
                rest.into_iter().for_each(|rest| self.forward_rest(&waiting, *rest));
            }
        }
    }

    /// After a transaction was executed, its remaining calls are forwarded to their primaries,
    /// whether its client is still there or not.
    fn forward_rest(&mut self, waiting: &Waiting, rest: Rest) {
        for (part, call) in (1..).zip(rest.calls) {
            let (client, seq) = (waiting.client.clone(), part_of(waiting.seq, part));
            self.take_command(Forward { client, seq, call, rest: None });
        }
    }

    fn note_parked(&mut self, token: u64, left_ms: Option<u64>) {
        let Some(waiting) = self.waiting.get_mut(&token) else { return };
        waiting.until =
            left_ms.and_then(|ms| Instant::now().checked_add(Duration::from_millis(ms)));
        if !std::mem::replace(&mut waiting.is_parked, true) {
            let mut away = self.membership.away.lock();
            let parts = away.entry(waiting.client.id).or_default();
            *parts += 1;
            if *parts == 1 {
                waiting.client.set(Flag::Blocked, true);
                self.machine.host.server.commands.count_blocked(1);
            }
        }
        // It may have left before its command was taken.
        let gone = waiting.client.has(Flag::Gone).then_some(WaitEnd::Gone);
        waiting.end = waiting.end.or(gone);
        if let Some(end) = waiting.end {
            self.node.cancel(token, end, &mut self.machine);
        }
    }

    /// Forwards a blocked command again, with the time that remains: its keys have another primary,
    /// or the link to the primary was lost.
    fn forward_again(&mut self, token: u64, mut call: Call) {
        let Some(waiting) = self.waiting.get(&token) else { return };
        if let Some(until) = waiting.until {
            let left = until.saturating_duration_since(Instant::now());
            call.wait_ms = Some(left.as_millis() as u64);
        }
        if waiting.end == Some(WaitEnd::Gone) {
            let waiting = self.waiting.remove(&token);
            waiting.into_iter().for_each(|waiting| self.note_end(&waiting));
        } else if self.node.forward(token, call, &mut self.machine).is_err()
            && let Some(waiting) = self.waiting.remove(&token)
        {
            self.note_end(&waiting);
            self.refuse(&waiting.client, waiting.seq, &Fail::TOO_MUCH_FORWARDED);
        }
    }

    fn note_end(&self, waiting: &Waiting) {
        if !waiting.is_parked {
            return;
        }
        let mut away = self.membership.away.lock();
        let Some(parts) = away.get_mut(&waiting.client.id) else { return };
        *parts -= 1;
        if *parts == 0 {
            away.remove(&waiting.client.id);
            waiting.client.set(Flag::Blocked, false);
            self.machine.host.server.commands.count_blocked(-1);
        }
    }
}

/// Whether a reply says that nothing was taken.
fn is_null(reply: &[u8]) -> bool {
    matches!(reply.first(), None | Some(b'-' | b'_')) || reply == b"*-1\r\n" || reply == b"$-1\r\n"
}
