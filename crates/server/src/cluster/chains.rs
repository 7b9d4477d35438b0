//! Transactions of several primaries at this member: the keys that it lends, its loans, and their
//! execution in a keyspace of their own.

use super::agent::Agent;
use super::loans::{Loans, Scratch};
use super::machine::Machine;
use super::waiters::splice;
use petrel_cluster::node::GroupError;
use petrel_cluster::wire::Refusal;
use petrel_cluster::{Apart, Call, Identity, slot_of};
use petrel_commands::{Execution, Request, add_keys_apart, admit_apart};
use petrel_keyspace::Origin;
use petrel_persistence::effects::apply_groups;
use petrel_resp::RespWriter;
use petrel_table::Flags;
use std::time::{Duration, Instant};

/// Half of the time for which a transaction may wait at one primary.
const REVIEW_EVERY: Duration = Duration::from_millis(500);

/// Time for which this thread looks whether others have ended their commands, before it does other
/// work.
const LOOK_FOR: Duration = Duration::from_micros(20);

/// Time after which threads that are always within some command are stopped for a moment.
const STOP_AFTER: Duration = Duration::from_millis(4);

/// Reply of one transaction, in bytes.
const REPLY_MAX: usize = 64 << 20;

impl Machine {
    /// Checks that a transaction can be executed apart, and adds its keys.
    pub(super) fn keys_apart(
        &mut self,
        call: &Call<&[u8]>,
        keys: &mut Vec<(u16, Vec<u8>)>,
    ) -> Result<(), Refusal> {
        let databases = self.exec.ks.keyspace().databases();
        let mut needed = 0;
        for args in &call.commands {
            let command = self.exec.prepare(args, None).command.ok_or(Refusal::Unsupported)?;
            let admitted = admit_apart(command, args, call.is_transaction)
                .and_then(|()| add_keys_apart(command, args, (call.db, databases), keys));
            admitted.map_err(|_| Refusal::Unsupported)?;
            if command.spec.flags.contains(Flags::DENYOOM) {
                needed += args.iter().map(|arg| arg.len()).sum::<usize>();
            }
        }
        if needed == 0 {
            return Ok(());
        }
        self.exec.begin();
        let own = self.membership.own.clone();
        let is_full = call
            .slots
            .iter()
            .any(|&slot| own.primary(slot) == Some(own.me()) && own.has_full_owner(slot));
        let has_room =
            self.exec.make_room(needed) && (!is_full || self.exec.ks.make_room_at_owners(needed));
        self.exec.end();
        self.host.take_upkeep_invalidations(&mut self.exec.ks);
        if has_room { Ok(()) } else { Err(Refusal::NoMemory) }
    }

    /// Remembers the origin of a transaction as a reader of its keys with this primary.
    pub(super) fn remember_readers(&mut self, origin: Identity, keys: &[(u16, Vec<u8>)]) {
        let (server, own) = (self.host.server.clone(), self.membership.own.clone());
        let reader = server.trackers.of_member(origin.node.0, &server.keyspace);
        self.exec.begin();
        for (_, key) in keys {
            if own.assigned_primary(slot_of(key)) == Some(own.me()) {
                let key = self.exec.ks.key(key);
                self.exec.ks.remember_reader(key, &reader);
            }
        }
        self.exec.end();
    }

    /// Executes a transaction on keys that its primaries lend.
    pub(super) fn run_apart(
        &mut self,
        call: &Call<&[u8]>,
        lent: &[&[u8]],
    ) -> Result<Apart, Refusal> {
        let databases = self.exec.ks.keyspace().databases();
        if call.db >= databases {
            return Err(Refusal::Unsupported);
        }
        let shared = self.host.server.commands.clone();
        let mut scratch =
            self.scratch.take().unwrap_or_else(|| Box::new(Scratch::new(databases, shared)));
        scratch.exec.ks.set_events(0);
        let is_loaded = scratch.load(lent);
        scratch.exec.ks.set_events(self.host.wanted_events());
        let apart = match is_loaded {
            true => self.execute_in(&mut scratch, call),
            false => Err(Refusal::Unsupported),
        };
        // A large one gives its memory back.
        let kept = lent.iter().map(|group| group.len()).sum::<usize>() < KEPT_MAX;
        self.scratch = Some(scratch).filter(|_| kept);
        apart
    }

    /// Executes all commands as one transaction: none of them waits or continues elsewhere.
    fn execute_in(&mut self, scratch: &mut Scratch, call: &Call<&[u8]>) -> Result<Apart, Refusal> {
        let (mut session, mut keys) = (self.session_of(call), Vec::new());
        self.keys_apart(call, &mut keys)?;
        let (mut reply, mut shared) = (Vec::new(), Vec::new());
        let exec = &mut scratch.exec;
        exec.begin();
        exec.begin_apart(keys.into_iter());
        let commands = call.commands.iter().map(Vec::as_slice);
        let mut is_queued = true;
        for args in std::iter::once(&[b"MULTI" as &[u8]][..]).chain(commands) {
            let mut out = Vec::new();
            let mut writer = RespWriter::new(&mut out, &mut shared, session.protocol);
            let request = exec.prepare(args, None);
            exec.execute(&request, &mut session, &mut self.host, &mut writer);
            is_queued &= !out.starts_with(b"-");
        }
        let request: Request<'_> = exec.prepare(&[b"EXEC"], None);
        let writer = RespWriter::new(&mut reply, &mut shared, session.protocol);
        let mut writer = writer.limited(REPLY_MAX);
        let execution = exec.execute(&request, &mut session, &mut self.host, &mut writer);
        let is_cut = writer.is_cut();
        let is_whole = exec.end_apart();
        exec.end();
        exec.shown.clear();
        splice(&mut reply, &mut shared);
        let changes = scratch.changes.take().map_err(|_| Refusal::Unsupported)?;
        match execution {
            _ if is_cut => return Err(Refusal::TooLarge),
            Execution::Answered if is_queued && is_whole => {}
            _ => return Err(Refusal::Unsupported),
        }
        if !call.is_transaction {
            // The array of one reply.
            let len = ARRAY_OF_ONE.len();
            if !reply.starts_with(ARRAY_OF_ONE) {
                return Err(Refusal::Unsupported);
            }
            reply.drain(..len);
        }
        Ok(Apart { reply, changes })
    }

    /// Makes this member's part of a decision, in one commit. The executor has published events.
    pub(super) fn make_part(&mut self, groups: &[&[u8]]) -> Result<(), GroupError> {
        self.exec.begin();
        let ks = &mut self.exec.ks;
        let applied = apply_groups(ks, groups, Origin::LOCAL, &mut Vec::new());
        self.exec.end();
        self.note_need();
        applied
    }

    /// Begins a loan; returns its number.
    pub(super) fn begins_loan(&mut self) -> u64 {
        self.loans.last += 1;
        let (number, now) = (self.loans.last, Instant::now());
        let others = self.exec.ks.others_within();
        self.loans.others.push_back((number, now, others));
        while !self.is_loan_free(number) && now.elapsed() < LOOK_FOR {
            std::hint::spin_loop();
        }
        number
    }

    /// Whether all threads have ended the commands that they had begun before a loan.
    fn is_loan_free(&mut self, number: u64) -> bool {
        let Loans { free, others, .. } = &mut self.loans;
        if *free >= number {
            return true;
        }
        let Some((.., others)) = others.iter_mut().find(|(of, ..)| *of == number) else {
            return false;
        };
        if !others.have_ended() {
            return false;
        }
        // A command that began before an earlier loan also began before this one.
        self.loans.free = number;
        self.loans.others.retain(|(of, ..)| *of > number);
        true
    }

    /// Whether the keys of a loan may be read, which this member may order.
    pub(super) fn may_begin(&mut self, number: u64) -> bool {
        if !self.membership.has_lease() {
            return false;
        }
        if self.is_loan_free(number) {
            return true;
        }
        let since = self.loans.others.iter().find(|(of, ..)| *of == number);
        if since.is_none_or(|(_, since, _)| since.elapsed() < STOP_AFTER) {
            return false;
        }
        let running = self.host.server.commands.clone();
        self.exec.begin();
        let is_alone = self.exec.ks.lock_all_unless(|| running.scripts.running.is_busy());
        let is_free = is_alone && self.is_loan_free(number);
        if is_alone {
            self.exec.ks.unlock();
        }
        self.exec.end();
        is_free
    }
}

/// Bytes of keys after which the keyspace for execution is replaced.
const KEPT_MAX: usize = 1 << 20;

const ARRAY_OF_ONE: &[u8] = b"*1\r\n";

impl Agent {
    /// Continues transactions of several primaries, and ends those with too long a wait.
    pub(super) fn attend_chains(&mut self) {
        let now = Instant::now();
        if self.reviewed.is_none_or(|last| now.duration_since(last) >= REVIEW_EVERY) {
            self.reviewed = Some(now);
            self.node.review_chains(&mut self.machine);
            self.node.review_decisions(&mut self.machine);
        } else if self.node.has_queued_chains() {
            self.node.resume_pending(&mut self.machine);
        }
    }
}
