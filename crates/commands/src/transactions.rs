//! MULTI, EXEC, DISCARD, WATCH, UNWATCH.
//!
//! `EXEC` locks the stripes of all keys of all queued commands and of all watched keys before it
//! runs the first, so that no client sees a transaction half done. If the keys of a queued command
//! are not known beforehand, it locks the whole keyspace.

use crate::clock::Tick;
use crate::ctx::Ctx;
use crate::execute::{Execution, Executor};
use crate::fail::{Fail, Outcome};
use crate::host::Host;
use crate::scripting::ProgramKind;
use crate::scripting::running::Watched;
use crate::scripting::slow_run::SlowRun;
use crate::session::{Session, Transaction};
use crate::spec::{Command, CommandSpec, Flags, Locks, Queue, Request};
use crate::watches;
use petrel_resp::{Dialect, recycle};
use petrel_table::bits;
use petrel_table::commands as meta;
use std::rc::Rc;

/// The commands of this family.
pub static COMMANDS: &[CommandSpec] = &[
    CommandSpec::new(&meta::MULTI, multi),
    CommandSpec::new(&meta::EXEC, exec).locking(Locks::Itself),
    CommandSpec::new(&meta::DISCARD, discard).locking(Locks::Itself),
    CommandSpec::new(&meta::WATCH, watch),
    CommandSpec::new(&meta::UNWATCH, unwatch).locking(Locks::Itself),
];

/// `MULTI`
fn multi(ctx: &mut Ctx<'_>) -> Outcome {
    if ctx.session.in_multi() {
        return Err(refuse_inside(ctx, "ERR MULTI calls can not be nested"));
    }
    let transaction = &mut ctx.session.extras_mut().transaction;
    if transaction.is_none() {
        *transaction = ctx.exec.spare_transaction.take();
    }
    transaction.get_or_insert_default().open = true;
    ctx.ok()
}

/// Rejects a command inside a transaction. In Redis the transaction continues, in Valkey it will be
/// aborted.
#[cold]
fn refuse_inside(ctx: &mut Ctx<'_>, in_redis: &'static str) -> Fail {
    if ctx.dialect() == Dialect::Redis {
        return Fail::fixed(in_redis);
    }
    if let Some(transaction) = ctx.session.open_transaction() {
        transaction.spoiled = true;
    }
    ctx.exec.not_inside(ctx.command)
}

/// `DISCARD`
fn discard(ctx: &mut Ctx<'_>) -> Outcome {
    if !ctx.session.in_multi() {
        return Err(Fail::fixed("ERR DISCARD without MULTI"));
    }
    watches::abandon(&mut ctx.exec.ks, ctx.session);
    ctx.ok()
}

/// `WATCH key [key ...]`
fn watch(ctx: &mut Ctx<'_>) -> Outcome {
    if ctx.session.in_multi() {
        return Err(refuse_inside(ctx, "ERR WATCH inside MULTI is not allowed"));
    }
    let db = ctx.db();
    for i in 1..ctx.args().len() {
        let key = ctx.key(i);
        let watch = ctx.exec.ks.watch(db, key);
        let Transaction { watched, watched_bytes, .. } = ctx.session.transaction_mut();
        if watched.is_empty() {
            *watched_bytes = 0;
        }
        // A key that is already watched stays watched from its first time on.
        if watched.contains(&watch) {
            ctx.exec.ks.unwatch(&watch);
        } else {
            *watched_bytes += watch.key().len();
            watched.insert(watch);
        }
    }
    ctx.ok()
}

/// `UNWATCH`
fn unwatch(ctx: &mut Ctx<'_>) -> Outcome {
    watches::release(&mut ctx.exec.ks, ctx.session);
    ctx.ok()
}

/// `EXEC`
fn exec(ctx: &mut Ctx<'_>) -> Outcome {
    if !ctx.session.in_multi() {
        return Err(Fail::fixed("ERR EXEC without MULTI"));
    }
    let Some(mut transaction) = ctx.session.take_transaction() else { return Ok(()) };
    if transaction.spoiled {
        ctx.session.extras_mut().transaction = Some(transaction);
        watches::abandon(&mut ctx.exec.ks, ctx.session);
        return Err(Fail::fixed("EXECABORT Transaction discarded because of previous errors."));
    }
    let outcome = execute_all(ctx, &mut transaction);
    let is_put_off = outcome.as_ref().is_err_and(|fail| fail.put_off().is_some());
    if !transaction.watched.is_empty() || is_put_off {
        // It waited for a script, and resumes when that is over; or for a stripe that a helper
        // holds.
        ctx.session.extras_mut().transaction = Some(transaction);
        return outcome;
    }
    transaction.clear();
    ctx.exec.spare_transaction = Some(transaction);
    outcome
}

/// Commands between two looks at the time that a transaction takes.
const COMMANDS_PER_LOOK: usize = 64;

/// Time after which a transaction is a slow script.
const LONG_NANOS: u64 = 20_000_000;

/// Room for so many arguments is kept for the next transaction.
const RETAINED_ARGS_MAX: usize = 4096;

/// Executes the commands of a transaction, or none of them.
///
/// Fails while a slow script holds the keys. It leaves the watches then, since removing them
/// requires the locks of their keys.
fn execute_all(ctx: &mut Ctx<'_>, transaction: &mut Transaction) -> Outcome {
    let started = ctx.exec.tick();
    let needs_room = transaction.queued.flags().contains(Flags::DENYOOM);
    let no_room = needs_room && !ctx.exec.make_room(transaction.bytes);
    if ctx.exec.ks.has_invalidations() {
        ctx.host.invalidate(&mut ctx.exec.ks, Some(ctx.reply));
    }
    let mut args = recycle(std::mem::take(&mut ctx.exec.transaction_args));
    transaction.queued.add_args(&mut args);
    if !lock_transaction(ctx.exec, transaction, &args, ctx.host) {
        let busy = ctx.exec.kept_out();
        if busy.put_off().is_some() {
            return Err(busy);
        }
        return Err(if transaction.watched.is_empty() { watches::aborted(&busy) } else { busy });
    }
    let watched = std::mem::take(&mut transaction.watched);
    let unchanged = watched.iter().all(|watched| ctx.exec.ks.unchanged(watched));
    watched.iter().for_each(|watched| ctx.exec.ks.unwatch(watched));
    if no_room {
        ctx.exec.ks.unlock();
        return Err(Fail::fixed(
            "EXECABORT Transaction discarded because of: OOM command not allowed when used memory > 'maxmemory'.",
        ));
    }
    if !unchanged {
        ctx.exec.ks.unlock();
        ctx.reply.null_array();
        return Ok(());
    }
    ctx.reply.array(transaction.queued.len());
    ctx.exec.begin_shares(&transaction.queued, &args, ctx.session);
    ctx.session.in_exec = true;
    execute_queue(ctx, &transaction.queued, &args, started);
    ctx.exec.end_inside();
    ctx.session.in_exec = false;
    ctx.exec.share = None;
    if args.capacity() <= RETAINED_ARGS_MAX {
        ctx.exec.transaction_args = recycle(args);
    }
    // Clients blocked on changed keys are served before the locks are released.
    Ok(())
}

/// Executes the commands of a transaction, whose keys are locked. Once a command takes long, or all
/// of them together, it and the rest are parts of a slow script.
#[inline]
fn execute_queue(ctx: &mut Ctx<'_>, queue: &Queue, args: &[&[u8]], started: Tick) {
    let mut number = 0;
    let mut requests = queue.requests(args);
    while let Some(request) = requests.next() {
        let execution = ctx.exec.execute(&request, ctx.session, ctx.host, ctx.reply);
        let is_given_up = execution == Execution::NextTurn;
        let is_long = number % COMMANDS_PER_LOOK == COMMANDS_PER_LOOK - 1
            && ctx.exec.nanos_between(started, ctx.exec.tick()) > LONG_NANOS
            && ctx.may_begin_inside();
        if is_given_up || is_long {
            let again = is_given_up.then_some(request);
            let rest = again.into_iter().chain(requests);
            let before = number + usize::from(!is_given_up);
            let wrote = queue.commands().take(before).any(may_write);
            return execute_slowly(ctx, rest, wrote, started);
        }
        number += 1;
    }
}

fn may_write(command: Command) -> bool {
    command.spec.flags.intersects(bits!(Flags: WRITE, MAY_REPLICATE))
}

/// Executes the rest of a transaction as a slow script: it can be killed as long as it has changed
/// nothing, and then each command of the rest is answered with an error.
#[cold]
fn execute_slowly<'a>(
    ctx: &mut Ctx<'_>,
    rest: impl Iterator<Item = Request<'a>>,
    mut wrote: bool,
    started: Tick,
) {
    let shared = ctx.exec.shared.clone();
    let name = ctx.command.spec.meta.name.to_string();
    let watched = Watched::new(ProgramKind::Script, name, ctx.args(), wrote);
    let run = SlowRun::begin(&shared, watched, (ctx.exec.clock(), started), ctx.host);
    let inside = ctx.exec.begin_inside(Rc::new(run));
    for request in rest {
        let writes = request.command.is_some_and(may_write);
        let place = ctx.reply.place();
        if inside.begin_call(wrote, wrote || writes)
            && ctx.exec.execute(&request, ctx.session, ctx.host, ctx.reply) == Execution::Answered
        {
            wrote |= writes;
            inside.end_call(wrote);
        } else {
            let fail = ctx.exec.ended();
            ctx.reply.take_back(place);
            ctx.reply.error(fail.text());
        }
    }
}

/// Ends an open transaction and every watch: for `DISCARD`, `RESET` and the end of a connection.
/// The thread is in a batch ([`Executor::begin`]).
pub fn abandon(exec: &mut Executor, session: &mut Session) {
    watches::abandon(&mut exec.ks, session);
}

/// Like [`abandon`], but returns false while a slow script holds the keys: the caller has to try
/// again, and the thread may have left the keyspace.
pub fn abandon_unless_busy(exec: &mut Executor, session: &mut Session) -> bool {
    let shared = exec.shared.clone();
    let extras = session.extras.as_mut();
    if let Some(transaction) = extras.and_then(|extras| extras.transaction.as_mut()) {
        let mut is_kept_out = false;
        transaction.watched.retain(|watched| {
            let hash = exec.ks.hash(watched.key());
            let busy = || shared.scripts.running.is_busy();
            is_kept_out = is_kept_out || !exec.ks.lock_unless(hash, busy);
            if !is_kept_out {
                exec.ks.unwatch(watched);
                exec.ks.unlock();
            }
            is_kept_out
        });
        if is_kept_out {
            return false;
        }
    }
    session.take_transaction();
    true
}

/// Locks the keys of a transaction; false, with nothing locked, if a slow script holds them.
fn lock_transaction(
    exec: &mut Executor,
    transaction: &Transaction,
    args: &[&[u8]],
    host: &mut dyn Host,
) -> bool {
    let mut hashes = std::mem::take(&mut exec.transaction_keys);
    hashes.clear();
    if !transaction.watched.is_empty() {
        hashes.extend(transaction.watched.iter().map(|watched| exec.ks.hash(watched.key())));
    }
    let mut everything = false;
    for request in transaction.queued.requests(args) {
        let Some(command) = request.command else { continue };
        let reaches_out = bits!(Flags: TOUCHES_ARBITRARY_KEYS, SCRIPT_RUNNER);
        everything |= command.spec.locks == Locks::Everything
            || command.spec.flags.intersects(reaches_out)
            || match request.hash {
                Some(hash) => {
                    hashes.push(hash);
                    false
                }
                None => exec.hash_keys(command, request.args, &mut hashes).is_err(),
            };
    }
    let locked = loop {
        let (shared, gives_way) = (&exec.shared, exec.gives_way);
        let busy = || {
            shared.scripts.running.is_busy()
                || gives_way && hashes.iter().any(|&hash| shared.long.holds(hash))
        };
        let locked = match everything {
            true => exec.ks.lock_all_unless(busy),
            false => exec.ks.lock_many_unless(hashes.iter().copied(), busy),
        };
        if !locked || !exec.ks.holds_ready() {
            break locked;
        }
        exec.help(host);
    };
    exec.transaction_keys = hashes;
    locked
}
