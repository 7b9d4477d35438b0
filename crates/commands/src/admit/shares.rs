//! Transactions with commands that every home executes for its share: `FLUSHALL`, `FLUSHDB`.
//!
//! ```text
//!  MULTI  SET {t}a 1  FLUSHALL  SET {t}b 2  EXEC
//!   home of {t}    all of it at one moment; of FLUSHALL the slots of the transaction's keys
//!   all homes      then: FLUSHALL in their other slots
//!   client         EXEC's reply, once all have answered
//! ```
//!
//! An error of the second step is the reply to the command, within that of the transaction, which
//! was executed. Its home looks at all keys of the databases for each flush, with everything
//! locked.

use super::placement::{add_slots, call, is_flush, sort};
use crate::answer::Answer;
use crate::cluster::{Cluster, HashSlot, RemoteCall, Rest};
use crate::execute::{Execution, Executor};
use crate::fail::Fail;
use crate::host::Host;
use crate::keys::databases::flush_mode;
use crate::reply_slots::{Merge, part_of};
use crate::server::state::ServerState;
use crate::session::{Modes, Replies, Session};
use crate::spec::{Queue, Request};
use petrel_keyspace::{Cursor, parse_int};
use petrel_resp::{Reply, RespWriter};
use petrel_table::GateFlags;
use std::collections::BTreeMap;

/// Keys that are looked at in one step.
const KEYS_PER_STEP: usize = 4096;

/// Flushes in a transaction, and calls of homes behind it, at most.
const FLUSHES_MAX: usize = 16;
const CALLS_MAX: usize = 1024;

/// Bytes of the reply to a transaction that is refused, at most.
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
    /// What homes have to execute behind a transaction, if there is something.
    ///
    /// # Errors
    /// If it has commands that see the keys of all homes, or too many flushes.
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
        // By database: what each home executes. One that changes all of them is enough.
        let mut flushes: BTreeMap<Option<u16>, Vec<u8>> = BTreeMap::new();
        for (at, request) in (0..).zip(queue.requests(&args)) {
            let Some(command) = request.command else { continue };
            let gate = command.spec.gate;
            if gate.contains(GateFlags::WHOLE_DATABASE) {
                // It would see the keys of other homes, which are not removed yet.
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
                    // Executing it says so.
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
        let homes = cluster.slots_of_homes().ok_or(Fail::HOME_CHANGING)?;
        if homes.len() * flushes.len() > CALLS_MAX {
            return Err(TOO_MANY);
        }
        for slots in homes {
            let is_left = |slot: &HashSlot| done.binary_search(slot).is_err();
            let slots: Vec<HashSlot> = slots.into_iter().filter(is_left).collect();
            if slots.is_empty() {
                continue;
            }
            let by_key = slots.len() > 1 && !cluster.holds_all();
            for (db, name) in &flushes {
                let call = call(session, slots.clone(), vec![name.clone()]);
                calls.push(RemoteCall { by_key, db: db.unwrap_or(session.db), ..call });
            }
        }
        Ok(Some(Box::new(Rest { places, calls })).filter(|rest| !rest.calls.is_empty()))
    }

    /// Executes a transaction here, and lets all homes execute the rest of it. The client is sent
    /// `after` behind the reply, which waits for them.
    #[cold]
    pub(super) fn execute_with_rest(
        &mut self,
        (rest, after): (Rest, Vec<u8>),
        request: &Request<'_>,
        session: &mut Session,
        host: &mut dyn Host,
        reply: &mut dyn Reply,
    ) -> Execution {
        let cluster = self.shared.cluster.get().cloned();
        let (Some(cluster), Some(client)) = (cluster, host.ticket()) else {
            self.refuse_request(request.command, Fail::HOME_CHANGING, session, reply);
            return Execution::Answered;
        };
        let (mut bytes, mut shared) = (Vec::new(), Vec::new());
        let is_dropped = session.replies != Replies::On;
        // What is not executed is answered in less, so that what is cut was executed. A reply that
        // is dropped holds its place all the same.
        let room = if is_dropped { usize::MAX } else { reply.room_left().max(REFUSAL_MAX) };
        let mut own = RespWriter::new(&mut bytes, &mut shared, session.protocol).limited(room);
        let execution = self.execute_admitted(false, request, session, host, &mut own);
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
            if let Err(fail) = cluster.forward(&client, part, call) {
                session.reply_slots_mut().answer(part, &fail.to_reply());
            }
        }
        if is_cut {
            reply.refuse();
            return Execution::Answered;
        }
        Execution::Forwarded
    }

    /// Notes which share of commands is part of a transaction, if it has some that every home
    /// executes for its share.
    ///
    /// What is replayed from a file is another server's, and the flush of all keys.
    pub(crate) fn begin_shares(&mut self, queue: &Queue, args: &[&[u8]], session: &Session) {
        if self.shared.is_in_state(ServerState::Clustered)
            && !session.is(Modes::LOADER)
            && let Some(cluster) = self.shared.cluster.get()
            && queue.commands().any(is_flush)
        {
            self.share = Some(slots_of(queue, args, &**cluster));
        }
    }

    /// Removes all keys of hash slots in a database, or in all, whose stripes are held.
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
