//! Handles requests that are not executed now: queued (`MULTI`), deferred, forwarded or rejected.

use super::Verdict;
use super::placement::Forwarding;
use crate::ctx::Invocation;
use crate::execute::{Execution, Executor};
use crate::fail::Fail;
use crate::reply_slots::part_of;
use crate::session::{Replies, Session};
use crate::spec::Command;
use crate::watched_away::WatchedAway;
use crate::watches::{abandon, spoil, watches_keys};
use petrel_resp::Reply;
use petrel_table::GateFlags;

impl Executor {
    /// Acts on any verdict but [`Verdict::Run`].
    #[inline(never)]
    pub(crate) fn turn_away(&mut self, verdict: Verdict, invocation: Invocation<'_>) -> Execution {
        self.ks.release_kept();
        match (verdict, invocation.request.command) {
            (Verdict::Queue, Some(command)) => queue(command, invocation),
            (Verdict::Refuse(fail), command) => {
                self.refuse_request(command, fail, invocation.session, invocation.reply);
            }
            (Verdict::Busy, command) => {
                if self.shared.scripts.running.was_busy() {
                    return Execution::NextTurn;
                }
                self.refuse_busy(command, invocation.session, invocation.reply);
            }
            (Verdict::Hold, _) => {
                let now = self.now();
                self.begin_at(now);
                return Execution::Held;
            }
            (Verdict::Lend, _) => return Execution::Lends,
            (Verdict::Skip, _) => return Execution::Skipped,
            (Verdict::Forward(forwarding), _) => return self.forward(*forwarding, invocation),
            (Verdict::RunWithRest(rest), _) => return self.execute_with_rest(*rest, invocation),
            (Verdict::Await(until), _) => {
                invocation.session.reply_slots_mut().wait_for(until);
                return Execution::Awaits;
            }
            (Verdict::Abandon, _) => {
                abandon(&mut self.ks, invocation.session);
                invocation.reply.null_array();
            }
            (Verdict::Run | Verdict::Queue | Verdict::TryCopies, _) => {}
        }
        Execution::Answered
    }

    /// Forwards a command to other nodes. Its reply slot becomes the session's last. If the command
    /// is `EXEC`, the transaction ends.
    #[cold]
    fn forward(&mut self, forwarding: Forwarding, invocation: Invocation<'_>) -> Execution {
        let Invocation { request, session, host, reply, .. } = invocation;
        let command = request.command;
        let cluster = self.shared.cluster.get().cloned();
        let (Some(cluster), Some(client)) = (cluster, host.ticket()) else {
            self.refuse_request(command, Fail::PRIMARY_CHANGING, session, reply);
            return Execution::Answered;
        };
        let Forwarding { mut calls, mut rest, merge, may_wait, places, tracked } = forwarding;
        tracked.prepare(&mut calls, session, &*cluster);
        if command.is_some_and(|command| command.spec.gate.contains(GateFlags::WATCHES)) {
            let away = &mut session.transaction_mut().watched_away;
            let away = away.get_or_insert_with(|| Box::new(WatchedAway::new(cluster.clone())));
            for call in &mut calls {
                call.client = Some(away.number());
                away.add(&call.slots);
            }
        }
        let mut slots: Vec<_> = calls.iter().flat_map(|call| &call.slots).copied().collect();
        slots.sort_unstable();
        let is_dropped = session.replies != Replies::On;
        let waiting = session.reply_slots_mut();
        let after_calls = rest.as_ref().map_or(0, |rest| rest.calls.len());
        waiting.push(&slots, calls.len() + after_calls, merge, is_dropped);
        waiting.place(places);
        waiting.send_after(tracked.after);
        if tracked.is_cached {
            waiting.delay_invalidations();
        }
        let seq = waiting.next_seq() - 1;
        if may_wait {
            waiting.hold_up();
        }
        let mut refused = None;
        let parts = calls.len();
        for (at, call) in calls.into_iter().enumerate() {
            if let Err(fail) = cluster.forward(&client, part_of(seq, at), call, rest.take()) {
                refused = Some((at, fail));
                break;
            }
        }
        match refused {
            None => {}
            Some((0, fail)) => {
                session.reply_slots_mut().take_back();
                self.refuse_request(command, fail, session, reply);
                return Execution::Answered;
            }
            // Some parts are on their way already, so the error becomes the reply to the whole.
            Some((at, fail)) => {
                let error = fail.to_reply();
                let waiting = session.reply_slots_mut();
                (at..parts).for_each(|_| waiting.answer(seq, &error));
            }
        }
        if command.is_some_and(|command| command.spec.gate.contains(GateFlags::RUNS_QUEUE)) {
            if let Some(away) = &mut session.transaction_mut().watched_away {
                away.end();
            }
            abandon(&mut self.ks, session);
        }
        Execution::Forwarded
    }

    /// Rejects a command with an error. An open transaction cannot be executed any more.
    #[cold]
    pub(super) fn refuse_request(
        &mut self,
        command: Option<Command>,
        fail: Fail,
        session: &mut Session,
        reply: &mut dyn Reply,
    ) {
        let fail = spoil(&mut self.ks, session, command, fail);
        self.reject(command, &fail, reply);
    }

    /// Rejects a command with `BUSY` because of a slow script. A transaction with watched keys is
    /// left unchanged, because ending its watches needs stripes that the script may have locked.
    #[cold]
    fn refuse_busy(
        &mut self,
        command: Option<Command>,
        session: &mut Session,
        reply: &mut dyn Reply,
    ) {
        let fail = self.shared.scripts.running.busy(self.shared.dialect());
        match watches_keys(session) {
            true => self.reject(command, &fail, reply),
            false => self.refuse_request(command, fail, session, reply),
        }
    }

    fn reject(&mut self, command: Option<Command>, fail: &Fail, reply: &mut dyn Reply) {
        if let Some(command) = command {
            self.stats.rejected(command.index);
        }
        self.shared.count_error(fail);
        reply.error(fail.text());
    }
}

fn queue(command: Command, invocation: Invocation<'_>) {
    let Invocation { request, session, host, reply, .. } = invocation;
    let args = request.args;
    let limit = host.query_buffer_limit();
    let transaction = session.transaction_mut();
    transaction.bytes += args.iter().map(|arg| arg.len() + size_of::<Box<[u8]>>()).sum::<usize>();
    if transaction.bytes > limit {
        transaction.spoiled = true;
        transaction.queued.clear();
        return reply.error(b"ERR transaction exceeds client-query-buffer-limit");
    }
    if command.spec.gate.contains(GateFlags::SELECTS) {
        let number = petrel_keyspace::parse_int(args[1]);
        transaction.db = number.and_then(|db| u16::try_from(db).ok()).or(transaction.db);
    }
    if !transaction.spoiled {
        transaction.queued.push(command, args, request.hash);
    }
    reply.simple("QUEUED");
}
