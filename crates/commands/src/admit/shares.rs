//! Transactions with commands that every primary executes for its slots: `FLUSHALL`, `FLUSHDB`.
//!
//! ```text
//!  MULTI  SET {t}a 1  FLUSHALL  SET {t}b 2  EXEC
//!   primary of {t}   executes all of it atomically; FLUSHALL only in the slots of its keys
//!   all primaries    then execute FLUSHALL in their other slots
//!   client           gets EXEC's reply once all have answered
//! ```
//!
//! An error of the second step is the reply to the flush, inside the reply to the transaction,
//! which was executed. For each flush the first primary scans all keys of the databases, with the
//! whole keyspace locked.

use super::placement::{add_slots, call, is_flush, sort};
use super::redis_cluster::shares_for;
use crate::answer::Answer;
use crate::cluster::{Call, Cluster, HashSlot, Rest};
use crate::ctx::Invocation;
use crate::execute::{Execution, Executor};
use crate::fail::Fail;
use crate::host::Host;
use crate::keys::databases::flush_mode;
use crate::modes::Modes;
use crate::reply_slots::{Merge, part_of};
use crate::server::state::ServerState;
use crate::session::{Replies, Session};
use crate::spec::Queue;
use petrel_keyspace::{Cursor, parse_int};
use petrel_resp::RespWriter;
use petrel_table::GateFlags;
use std::collections::BTreeMap;

/// Number of keys scanned in one step.
const KEYS_PER_STEP: usize = 4096;

/// Maximum numbers of flushes in a transaction and of calls of primaries after it.
const FLUSHES_MAX: usize = 16;
const CALLS_MAX: usize = 1024;

/// Maximum size of the reply to a rejected transaction, in bytes.
const REFUSAL_MAX: usize = 16 * 1024;

const TOO_MANY: Fail =
    Fail::fixed("ERR too many databases are flushed in one transaction of a cluster");

/// The hash slots of the keys of a transaction's commands, each once, ascending.
fn slots_of(queue: &Queue, args: &[&[u8]], cluster: &dyn Cluster) -> Vec<HashSlot> {
    let mut slots = Vec::new();
    for request in queue.requests(args) {
        let Some(command) = request.command else { continue };
        add_slots(command, request.args, cluster, &mut slots);
    }
    sort(&mut slots);
    slots
}

impl Executor {
    /// Calls that the primaries execute after a transaction; `None` if it flushes nothing.
    ///
    /// # Errors
    /// Returns an error if the transaction has commands that read the keys of all primaries, or too
    /// many flushes.
    pub(super) fn rest_of(
        &mut self,
        queue: &Queue,
        session: &Session,
        cluster: &dyn Cluster,
        host: &mut dyn Host,
    ) -> Result<Option<Box<Rest>>, Fail> {
        if !queue.commands().any(is_flush) {
            return Ok(None);
        }
        let args = queue.args();
        let databases = self.ks.keyspace().databases();
        let (mut places, mut db) = (Vec::new(), session.db);
        // Calls by database. A flush of all databases replaces the others.
        let mut flushes: BTreeMap<Option<u16>, Vec<u8>> = BTreeMap::new();
        for (at, request) in (0..).zip(queue.requests(&args)) {
            let Some(command) = request.command else { continue };
            let gate = command.spec.gate;
            if gate.contains(GateFlags::WHOLE_DATABASE) {
                // It would read keys of other primaries that are not removed yet.
                let name = self.registry().full_name(command.index).to_ascii_uppercase();
                return Err(Fail::new(format!(
                    "ERR {name} is not supported beside FLUSHALL or FLUSHDB in a transaction of a cluster"
                )));
            }
            if gate.contains(GateFlags::SELECTS) {
                let number = request.args.get(1).and_then(|arg| parse_int(arg));
                let number = number.and_then(|number| u16::try_from(number).ok());
                db = number.filter(|&number| number < databases).unwrap_or(db);
            }
            if is_flush(command) && flush_mode(request.args).is_ok() {
                if self.admit_user(command, request.args, session, host).is_err() {
                    // The handler returns the error.
                    continue;
                }
                let of = gate.contains(GateFlags::ONE_DATABASE).then_some(db);
                flushes.insert(of, request.args[0].to_vec());
                places.push(at);
            }
        }
        if places.len() > FLUSHES_MAX {
            return Err(TOO_MANY);
        }
        if flushes.contains_key(&None) {
            flushes.retain(|db, _| db.is_none());
        }
        let done = slots_of(queue, &args, cluster);
        let mut calls = Vec::new();
        let primaries = shares_for(session, cluster)?;
        if primaries.len() * flushes.len() > CALLS_MAX {
            return Err(TOO_MANY);
        }
        for slots in primaries {
            let is_left = |slot: &HashSlot| done.binary_search(slot).is_err();
            let slots: Vec<HashSlot> = slots.into_iter().filter(is_left).collect();
            if slots.is_empty() {
                continue;
            }
            for (db, name) in &flushes {
                let call = call(session, slots.clone(), vec![name.clone()]);
                calls.push(Call { db: db.unwrap_or(session.db), ..call });
            }
        }
        Ok(Some(Box::new(Rest { places, calls })).filter(|rest| !rest.calls.is_empty()))
    }

    /// Executes a transaction here, then lets all primaries execute its rest. The reply is complete
    /// once they have answered; `after` is appended to it.
    #[cold]
    pub(super) fn execute_with_rest(
        &mut self,
        (rest, after): (Rest, Vec<u8>),
        mut invocation: Invocation<'_>,
    ) -> Execution {
        let cluster = self.shared.cluster.get().cloned();
        let (Some(cluster), Some(client)) = (cluster, invocation.host.ticket()) else {
            let Invocation { request, session, reply, .. } = invocation;
            self.refuse_request(request.command, Fail::PRIMARY_CHANGING, session, reply);
            return Execution::Answered;
        };
        let (mut bytes, mut shared) = (Vec::new(), Vec::new());
        let is_dropped = invocation.session.replies != Replies::On;
        // A rejected transaction has a shorter reply than this, so a cut reply is from an executed
        // one. A dropped reply keeps its reply slot.
        let room = match is_dropped {
            true => usize::MAX,
            false => invocation.reply.room_left().max(REFUSAL_MAX),
        };
        let protocol = invocation.session.protocol;
        let mut own = RespWriter::new(&mut bytes, &mut shared, protocol).limited(room);
        let inner = Invocation { reply: &mut own, ..invocation.lend() };
        let execution = self.execute_admitted(inner, false);
        let Invocation { session, reply, .. } = invocation;
        let is_cut = own.is_cut();
        let whole = Answer { bytes, shared }.into_bytes();
        if execution != Execution::Answered || !is_cut && !rest.is_due(&whole) {
            reply.encoded(&whole);
            return execution;
        }
        let mut slots: Vec<_> = rest.calls.iter().flat_map(|call| &call.slots).copied().collect();
        sort(&mut slots);
        let waiting = session.reply_slots_mut();
        waiting.push(&slots, 1 + rest.calls.len(), Merge::Transaction, is_dropped);
        waiting.place(vec![rest.places]);
        waiting.send_after(after);
        waiting.hold_up();
        let seq = waiting.next_seq() - 1;
        waiting.answer(seq, &whole);
        for (part, call) in (1..).zip(rest.calls) {
            let part = part_of(seq, part);
            if let Err(fail) = cluster.forward(&client, part, call, None) {
                session.reply_slots_mut().answer(part, &fail.to_reply());
            }
        }
        if is_cut {
            reply.refuse();
            return Execution::Answered;
        }
        Execution::Forwarded
    }

    /// Sets the hash slots that a flush is limited to within the transaction, if it contains one.
    ///
    /// Replayed transactions come from another server; their flushes remove all keys.
    pub(crate) fn begin_shares(&mut self, queue: &Queue, args: &[&[u8]], session: &Session) {
        if self.shared.is_in_state(ServerState::Clustered)
            && !session.is(Modes::LOADER)
            && let Some(cluster) = self.shared.cluster.get()
            && queue.commands().any(is_flush)
        {
            self.share = Some(slots_of(queue, args, &**cluster));
        }
    }

    /// Removes all keys of hash slots, in one database or in all. Their stripes are locked.
    pub(crate) fn remove_slots(&mut self, slots: &[HashSlot], db: Option<u16>) {
        let Some(cluster) = self.shared.cluster.get().cloned() else { return };
        if slots.is_empty() {
            return;
        }
        let last = self.ks.keyspace().databases() - 1;
        let (first, last) = db.map_or((0, last), |db| (db, db));
        for db in first..=last {
            let (mut cursor, mut keys) = (Cursor::default(), Vec::new());
            loop {
                cursor = self.ks.scan_removing(db, cursor, KEYS_PER_STEP, &|_| false, |view| {
                    if slots.binary_search(&cluster.slot_of(view.key())).is_ok() {
                        keys.push(view.key().to_vec());
                    }
                });
                if cursor == Cursor::default() {
                    break;
                }
            }
            for key in &keys {
                let key = self.ks.key(key);
                self.ks.remove(db, key);
            }
        }
    }
}
