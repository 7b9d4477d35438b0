//! Cursors: aggregations between two reads, and the command that reads them.

use crate::ctx::Ctx;
use crate::fail::{Fail, Outcome};
use crate::numbers;
use crate::search::aggregate::job::Job;
use crate::search::open::{NO_PERMISSION, may_read, refuse_in_cluster};
use petrel_keyspace::Handle;
use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};

const NOT_FOUND: Fail = Fail::fixed("Cursor not found");
const DROPPED: Fail = Fail::fixed("The index was dropped while the cursor was idle");

/// The cursors of all indexes.
#[derive(Default)]
pub(in crate::search) struct Cursors {
    all: Mutex<HashMap<u64, Idle>>,
    /// The earliest time at which one is closed, in Unix milliseconds; 0 without any.
    earliest_ms: AtomicI64,
    numbers: AtomicU64,
    hasher: RandomState,
}

/// A cursor that nobody reads now.
struct Idle {
    job: Job,
    closed_at_ms: i64,
}

impl Cursors {
    fn lock(&self) -> MutexGuard<'_, HashMap<u64, Idle>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A number for a new cursor, which cannot be guessed.
    pub fn new_id(&self) -> u64 {
        // Numbers stay within a double.
        let number = self.numbers.fetch_add(1, Relaxed);
        (self.hasher.hash_one(number) >> 11).max(1)
    }

    /// Closes cursors that were not read in time.
    pub fn close_idle(&self, now_ms: i64, ks: &Handle) {
        let earliest = self.earliest_ms.load(Relaxed);
        if earliest == 0 || earliest > now_ms {
            return;
        }
        let mut all = self.lock();
        let closed: Vec<Idle> =
            all.extract_if(|_, idle| idle.closed_at_ms <= now_ms).map(|(_, idle)| idle).collect();
        self.note_earliest(&all);
        drop(all);
        for mut idle in closed {
            idle.job.release(ks);
        }
    }

    fn note_earliest(&self, all: &HashMap<u64, Idle>) {
        let earliest = all.values().map(|idle| idle.closed_at_ms).min();
        self.earliest_ms.store(earliest.unwrap_or(0), Relaxed);
    }

    /// Rejects a command that would make one cursor too many.
    pub fn refuse_more(&self, ctx: &Ctx<'_>, index: u64) -> Outcome {
        self.close_idle(ctx.exec.ks.now_ms(), &ctx.exec.ks);
        let most = ctx.exec.shared.search.settings.cursors_max();
        let count = self.lock().values().filter(|idle| idle.job.live.id == index).count();
        match count >= most {
            true => Err(Fail::fixed("Too many cursors allocated for index")),
            false => Ok(()),
        }
    }

    /// Keeps an aggregation until it is read again.
    pub(super) fn keep(&self, job: Job, now_ms: i64) {
        let idle_ms = i64::try_from(job.max_idle_ms).unwrap_or(i64::MAX);
        let closed_at_ms = now_ms.saturating_add(idle_ms).max(1);
        let mut all = self.lock();
        all.insert(job.id, Idle { job, closed_at_ms });
        self.note_earliest(&all);
    }

    /// Takes a cursor, so that no other client reads it. A user who may not read the index gets
    /// none.
    fn take(&self, ctx: &mut Ctx<'_>, id: u64, missing: Fail) -> Result<Job, Fail> {
        self.close_idle(ctx.exec.ks.now_ms(), &ctx.exec.ks);
        let db = ctx.db();
        let schema = match self.lock().get(&id) {
            Some(idle) if idle.job.db == db => idle.job.schema.clone(),
            _ => return Err(missing),
        };
        if !may_read(ctx, &schema.prefixes) {
            return Err(NO_PERMISSION);
        }
        let mut all = self.lock();
        let idle = all.remove(&id).ok_or(missing)?;
        self.note_earliest(&all);
        Ok(idle.job)
    }
}

/// `FT.CURSOR READ index id [COUNT n]`, `FT.CURSOR DEL index id`, `FT.CURSOR GC index id`
pub(in crate::search) fn cursor(ctx: &mut Ctx<'_>) -> Outcome {
    let [_, action, _, number, options @ ..] = ctx.args() else { return Err(ctx.wrong_arity()) };
    refuse_in_cluster(ctx)?;
    let id = || -> Result<u64, Fail> {
        let id = numbers::integer(number).map_err(|_| Fail::fixed("Bad cursor ID"))?;
        Ok(u64::try_from(id).unwrap_or(0))
    };
    match action.to_ascii_uppercase().as_slice() {
        b"READ" => read(ctx, id()?, options),
        b"DEL" => delete(ctx, id()?),
        // Idle cursors are closed in time.
        b"GC" => ctx.number(0),
        _ => Err(Fail::fixed("Unknown subcommand")),
    }
}

fn read(ctx: &mut Ctx<'_>, id: u64, options: &[&[u8]]) -> Outcome {
    let count = match options {
        [word, count, ..] if word.eq_ignore_ascii_case(b"COUNT") => {
            let bad = Fail::fixed("Bad value for COUNT");
            let count = numbers::integer(count).map_err(|_| bad)?;
            usize::try_from(count).ok().filter(|&count| count > 0)
        }
        _ => None,
    };
    let shared = ctx.exec.shared.clone();
    let cursors = &shared.search.cursors;
    let mut job = cursors.take(ctx, id, NOT_FOUND)?;
    if job.live.is_dropped() {
        job.release(&ctx.exec.ks);
        return Err(DROPPED);
    }
    let default = job.chunk;
    if count.is_some() {
        job.chunk = count;
    }
    job.begin_read();
    let outcome = job.finish_chunk(ctx).and_then(|()| job.answer(ctx, Some(id)));
    job.chunk = default;
    match outcome {
        Ok(true) => cursors.keep(job, ctx.exec.ks.now_ms()),
        // The command begins again elsewhere, or its client has gone.
        Err(fail) if fail.put_off().is_some() => {
            cursors.keep(job, ctx.exec.ks.now_ms());
            return Err(fail);
        }
        Ok(false) => job.release(&ctx.exec.ks),
        Err(fail) => {
            job.release(&ctx.exec.ks);
            return Err(fail);
        }
    }
    Ok(())
}

fn delete(ctx: &mut Ctx<'_>, id: u64) -> Outcome {
    let shared = ctx.exec.shared.clone();
    let mut job = shared.search.cursors.take(ctx, id, Fail::fixed("Cursor does not exist"))?;
    job.release(&ctx.exec.ks);
    ctx.ok()
}
