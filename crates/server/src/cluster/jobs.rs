//! Commands that every primary executes for its own slots, over several turns of the agent:
//! `FLUSHALL` and `FLUSHDB` remove the keys of these slots, `WAIT` counts the members that have
//! applied the primary's changes, `WAITAOF` members that have them on their disks (`logs.rs`), and
//! if members hold only some slots, `DBSIZE` and `KEYS` read the keys of the requested slots. The
//! origin gets the reply like that of a blocked command.

use super::agent::Agent;
use super::logs::Logs;
use super::machine::Machine;
use petrel_cluster::wire::{LANES, Tag};
use petrel_cluster::{Call, Slot, SlotSet, slot_of};
use petrel_commands::glob::{self, Case};
use petrel_commands::server::replication::logs_wanted;
use petrel_commands::{Command, Fail};
use petrel_keyspace::{Cursor, parse_int};
use petrel_table::{Flags, GateFlags};
use std::time::{Duration, Instant};

/// Keys read in one turn, and keys removed under one lock.
const KEYS_PER_TURN: usize = 4096;
const KEYS_PER_LOCK: usize = 64;

/// Bytes that may wait for other members while keys are removed: more are added once members have
/// applied them.
const BACKLOG_MAX: usize = 8 << 20;

/// Bytes of keys that one primary lists at most.
const FOUND_BYTES_MAX: usize = 256 << 20;

/// A command in execution.
pub(super) struct Job {
    pub(super) tag: Tag,
    slots: Box<[Slot]>,
    /// The view in which it began: the share of the primary is another in the next.
    epoch: u64,
    pub(super) work: Work,
    /// The origin has requested its end.
    is_cancelled: bool,
}

pub(super) enum Work {
    /// Removes keys of some slots, of this database and those behind it. Keys of slots on loan are
    /// left to another walk.
    Flush { db: u16, last_db: u16, cursor: Cursor, slots: SlotSet, has_left: bool },
    /// Looks for the keys of some slots in a database.
    Keys { db: u16, cursor: Cursor, slots: SlotSet, found: Found },
    /// Waits until this number of members has applied these positions of all lanes.
    Wait { positions: Box<[u64; LANES]>, members: i64, until: Option<Instant> },
    /// Waits until logs have the changes made before its begin on their disks.
    Logs { logs: Logs, until: Option<Instant> },
}

/// Keys that were found.
pub(super) struct Found {
    count: u64,
    /// Pattern of the wanted keys, returned as an array; without one, keys are counted.
    pattern: Option<Vec<u8>>,
    /// The found keys, as elements of the array.
    elements: Vec<u8>,
}

impl Found {
    fn add(&mut self, key: &[u8]) {
        let Some(pattern) = &self.pattern else {
            self.count += 1;
            return;
        };
        if glob::matches(pattern, key, Case::Sensitive) {
            self.count += 1;
            self.elements.extend_from_slice(format!("${}\r\n", key.len()).as_bytes());
            self.elements.extend_from_slice(key);
            self.elements.extend_from_slice(b"\r\n");
        }
    }

    fn reply(&mut self) -> Vec<u8> {
        let sign = if self.pattern.is_some() { '*' } else { ':' };
        let mut reply = format!("{sign}{}\r\n", self.count).into_bytes();
        reply.append(&mut self.elements);
        reply
    }
}

impl Job {
    /// Milliseconds until its time is up, if it ever is.
    pub fn left_ms(&self) -> Option<u64> {
        match &self.work {
            Work::Wait { until, .. } | Work::Logs { until, .. } => {
                until.map(|at| at.saturating_duration_since(Instant::now()).as_millis() as u64)
            }
            Work::Flush { .. } | Work::Keys { .. } => None,
        }
    }

    /// Whether the job waits for members' acknowledgements. `linked` is the number of linked
    /// members: more of them are not awaited urgently.
    pub fn wants_acks(&self, linked: usize) -> bool {
        match self.work {
            Work::Wait { members, .. } => members <= linked as i64,
            Work::Flush { .. } => true,
            Work::Keys { .. } | Work::Logs { .. } => false,
        }
    }

    /// Whether there is something to do at once.
    fn is_busy(&self) -> bool {
        matches!(self.work, Work::Flush { .. } | Work::Keys { .. })
    }

    /// The next view is adopted: the job is of an earlier one, even if it has not begun yet.
    pub fn note_view(&mut self) {
        self.epoch = self.epoch.max(1);
    }

    /// The job that a command is, if it is one.
    ///
    /// # Errors
    /// In Redis's words, if its arguments are wrong.
    pub fn of(
        tag: Tag,
        command: Command,
        call: &Call<&[u8]>,
        databases: u16,
        (positions, epoch): (impl FnOnce() -> [u64; LANES], u64),
    ) -> Result<Self, Fail> {
        let args = call.commands.first().map(Vec::as_slice).unwrap_or_default();
        let work = if command.spec.meta.is_summed() {
            let pattern = args.get(1).map(|pattern| pattern.to_vec());
            let found = Found { count: 0, pattern, elements: Vec::new() };
            let slots = call.slots.iter().copied().collect();
            Work::Keys { db: call.db, cursor: Cursor::default(), slots, found }
        } else if command.spec.gate.contains(GateFlags::ASKS_LOGS) {
            let logs = Logs::new(logs_wanted(args)?, tag.origin.node, epoch);
            Work::Logs { logs, until: until(args.get(3), call)? }
        } else if !command.spec.flags.contains(Flags::WRITE) {
            let members = args.get(1).and_then(|arg| parse_int(arg)).ok_or(Fail::NOT_AN_INTEGER)?;
            let until = until(args.get(2), call)?;
            Work::Wait { positions: Box::new(positions()), members, until }
        } else {
            let how = args.get(1).copied().unwrap_or(b"SYNC");
            let is_known = how.eq_ignore_ascii_case(b"SYNC") || how.eq_ignore_ascii_case(b"ASYNC");
            if args.len() > 2 || !is_known {
                return Err(Fail::SYNTAX);
            }
            let (db, last_db) = match command.spec.gate.contains(GateFlags::ONE_DATABASE) {
                true => (call.db, call.db),
                false => (0, databases - 1),
            };
            let slots = call.slots.iter().copied().collect();
            Work::Flush { db, last_db, cursor: Cursor::default(), slots, has_left: false }
        };
        let slots = call.slots[..].into();
        Ok(Job { tag, slots, epoch: 0, work, is_cancelled: false })
    }
}

/// End of the timeout of a command, in milliseconds from now; `None` if it has no timeout.
fn until(timeout: Option<&&[u8]>, call: &Call<&[u8]>) -> Result<Option<Instant>, Fail> {
    let timeout = timeout.and_then(|arg| parse_int(arg)).ok_or(NO_TIMEOUT)?;
    let timeout_ms = u64::try_from(timeout).map_err(|_| NEGATIVE_TIMEOUT)?;
    // It may have waited at another primary before.
    let left_ms = call.wait_ms.unwrap_or(timeout_ms);
    let until = Instant::now().checked_add(Duration::from_millis(left_ms));
    Ok(until.filter(|_| timeout_ms > 0))
}

const TOO_MANY: Fail =
    Fail::fixed("ERR too many keys match for one reply, walk them with SCAN instead");
const NO_TIMEOUT: Fail = Fail::fixed("ERR timeout is not an integer or out of range");
const NEGATIVE_TIMEOUT: Fail = Fail::fixed("ERR timeout is negative");

impl Agent {
    /// Continues commands that take several turns. Returns true if there is more to do at once.
    pub(super) fn go_on_with_jobs(&mut self) -> bool {
        let epoch = self.node.view().epoch;
        let mut is_busy = false;
        self.ask_logs();
        for mut job in std::mem::take(&mut self.machine.jobs) {
            if job.epoch == 0 {
                job.epoch = epoch;
            }
            match self.step(&mut job, epoch) {
                Some(reply) => self.node.end_of_wait(job.tag, &job.slots, Some(reply)),
                None => {
                    let may_go_on = self.node.lanes().bytes() <= BACKLOG_MAX;
                    is_busy |= may_go_on && job.is_busy();
                    self.machine.jobs.push(job);
                }
            }
        }
        is_busy
    }

    /// The next step of a job; its reply at its end.
    fn step(&mut self, job: &mut Job, epoch: u64) -> Option<Vec<u8>> {
        let error = |fail: &Fail| Some(fail.to_reply());
        let lanes = self.node.lanes().clone();
        match &mut job.work {
            Work::Wait { positions, members, until } => {
                let count = lanes.members_at(positions) as i64;
                let is_late = until.is_some_and(|until| Instant::now() >= until);
                let is_over = count >= *members || is_late || job.is_cancelled;
                is_over.then(|| format!(":{count}\r\n").into_bytes())
            }
            Work::Logs { logs, until } => {
                let is_late = until.is_some_and(|until| Instant::now() >= until);
                let counted = self.count_logs(logs);
                let is_over = logs.is_enough(counted) || is_late || job.is_cancelled;
                is_over.then(|| format!("*2\r\n:{}\r\n:{}\r\n", counted.0, counted.1).into_bytes())
            }
            // Some of its keys may have another primary now, which has done its share already.
            Work::Flush { .. } | Work::Keys { .. } if job.epoch != epoch => {
                error(&Fail::PRIMARY_CHANGING)
            }
            Work::Keys { .. } if job.is_cancelled => error(&Fail::PRIMARY_CHANGING),
            Work::Keys { db, cursor, slots, found } => {
                *cursor = self.machine.look_for(*db, *cursor, slots, found);
                if found.elements.len() > FOUND_BYTES_MAX {
                    return error(&TOO_MANY);
                }
                (*cursor == Cursor::default()).then(|| found.reply())
            }
            Work::Flush { db, last_db, cursor, slots, has_left } => {
                if lanes.bytes() > BACKLOG_MAX {
                    return None;
                }
                let Some((next, left)) = self.machine.remove_some(*db, *cursor, slots) else {
                    return error(&Fail::SLOT_UNSERVED);
                };
                (*cursor, *has_left) = (next, *has_left || left);
                if *cursor != Cursor::default() || std::mem::take(has_left) {
                    return None;
                }
                *db += 1;
                (*db > *last_db).then(|| b"+OK\r\n".to_vec())
            }
        }
    }

    /// Time until a job must be checked without any received message.
    pub(super) fn rest_of_jobs(&self, rest: Duration) -> Duration {
        let due = self.machine.jobs.iter().filter_map(|job| match &job.work {
            Work::Wait { until, .. } | Work::Logs { until, .. } => *until,
            Work::Flush { .. } | Work::Keys { .. } => Some(Instant::now()),
        });
        let left = due.min().map(|due| due.saturating_duration_since(Instant::now()));
        left.map_or(rest, |left| left.clamp(Duration::from_millis(1), rest))
    }
}

impl Machine {
    /// The origin of a job wants it to end. False if it is none.
    pub(super) fn cancel_job(&mut self, tag: Tag) -> bool {
        let job = self.jobs.iter_mut().find(|job| job.tag == tag);
        job.map(|job| job.is_cancelled = true).is_some()
    }

    /// Looks at some keys of a database for those of the slots; where to go on.
    fn look_for(&mut self, db: u16, cursor: Cursor, slots: &SlotSet, found: &mut Found) -> Cursor {
        self.exec.begin();
        let each = |view: petrel_keyspace::View<'_>| {
            if slots.contains(slot_of(view.key())) {
                found.add(view.key());
            }
        };
        let ks = &mut self.exec.ks;
        let next = ks.scan_unless(db, cursor, KEYS_PER_TURN, &|_| false, each, || false);
        self.exec.end();
        next.unwrap_or(cursor)
    }

    /// Removes some keys of a database, in these slots with this member as primary. Returns the
    /// cursor to continue at, and whether keys of slots on loan were left; `None` without the
    /// lease.
    fn remove_some(&mut self, db: u16, cursor: Cursor, slots: &SlotSet) -> Option<(Cursor, bool)> {
        self.exec.begin();
        if !self.exec.has_lease(&*self.membership) {
            self.exec.end();
            return None;
        }
        let mut keys: Vec<Vec<u8>> = Vec::new();
        let membership = self.membership.clone();
        let ks = &mut self.exec.ks;
        let is_own = |key: &[u8]| petrel_keyspace::Ownership::is_primary(&*membership, key);
        let mut has_left = false;
        let each = |view: petrel_keyspace::View<'_>| {
            let slot = slot_of(view.key());
            match slots.contains(slot) {
                true if is_own(view.key()) => keys.push(view.key().to_vec()),
                true => has_left |= membership.own.is_lent(slot),
                false => {}
            }
        };
        let next = ks.scan_unless(db, cursor, KEYS_PER_TURN, &|_| false, each, || false);
        // A commit of each slot: nothing of them belongs together.
        keys.sort_unstable_by_key(|key| slot_of(key));
        let of_slots = keys.chunk_by(|one, other| slot_of(one) == slot_of(other));
        for keys in of_slots.flat_map(|of_slot| of_slot.chunks(KEYS_PER_LOCK)) {
            let hashes: Vec<_> = keys.iter().map(|key| ks.hash(key)).collect();
            ks.lock_many(hashes.into_iter());
            for key in keys {
                let key = ks.key(key);
                ks.remove(db, key);
            }
            ks.unlock();
        }
        self.exec.end();
        self.note_need();
        Some((next.unwrap_or(cursor), has_left))
    }
}
