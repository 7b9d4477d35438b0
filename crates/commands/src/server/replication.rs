//! WAIT, WAITAOF.

use crate::blocking::Block;
use crate::ctx::Ctx;
use crate::fail::{Fail, Outcome};
use crate::spec::{CommandSpec, Locks};
use petrel_keyspace::parse_int;
use petrel_resp::Reply;
use petrel_table::commands as meta;
use std::sync::atomic::Ordering::Relaxed;

/// The commands of this family.
pub static COMMANDS: &[CommandSpec] = &[
    CommandSpec::new(&meta::WAIT, wait).locking(Locks::Itself),
    CommandSpec::new(&meta::WAITAOF, waitaof).locking(Locks::Itself),
];

/// Error of a command that only a primary executes.
fn only_for_primaries(name: &str) -> Fail {
    Fail::new(format!(
        "ERR {name} cannot be used with replica instances. Please also note that since Redis 4.0 if a replica is \
         configured to be writable (which is not the default) writes to replicas are just local and are not propagated."
    ))
}

/// `WAIT numreplicas timeout`: waits for replicas that have executed the client's writes. The
/// timeout and `CLIENT UNBLOCK` end the wait with the number reached by then.
fn wait(ctx: &mut Ctx<'_>) -> Outcome {
    if ctx.exec.shared.is_replica.load(Relaxed) {
        return Err(only_for_primaries("WAIT"));
    }
    let replicas = ctx.integer(1)?;
    let deadline = if ctx.exec.is_unblocking() { None } else { ctx.timeout_millis(ctx.arg(2))? };
    // On a retry, the timeout argument is replaced with the offset to wait for: all of its client's
    // writes are before it.
    let is_again = ctx.exec.is_unblocking();
    let offset = match is_again {
        true => ctx.integer(2)?.unsigned_abs(),
        false => {
            // The writes of this batch so far are in the stream.
            ctx.host.stream_offset()
        }
    };
    // A member of a cluster gets here in transactions alone; otherwise each primary waits.
    let acknowledged = match ctx.exec.shared.cluster.get() {
        Some(cluster) => cluster.members_in_step(),
        None => ctx.host.replicas_at(offset).0,
    };
    let at_once = ctx.exec.is_last_try() || ctx.session.in_exec;
    if acknowledged as i64 >= replicas || at_once {
        return ctx.number(acknowledged as i64);
    }
    if !is_again {
        ctx.host.want_acknowledged(offset);
    }
    let block = Block::for_time(|reply| reply.integer(0)).until(deadline);
    ctx.block(block.replacing(2, offset.to_string().into()).polling().trying_late())
}

/// Error of a wait for the log while no log is written.
pub(crate) const NO_LOG: Fail =
    Fail::fixed("ERR WAITAOF cannot be used when numlocal is set but appendonly is disabled.");

/// Parses `WAITAOF`: whether to wait for the local log, and the number of replicas' logs.
///
/// # Errors
/// If the arguments are out of range.
pub fn logs_wanted(args: &[&[u8]]) -> Result<(bool, i64), Fail> {
    let number = |at: usize| args.get(at).and_then(|arg| parse_int(arg));
    let local = number(1).ok_or(Fail::NOT_AN_INTEGER)?;
    if !(0..=1).contains(&local) {
        return Err(Fail::fixed("ERR value is out of range, value must between 0 and 1"));
    }
    let others = number(2).filter(|&others| others >= 0);
    let others = others.ok_or(Fail::fixed("ERR value is out of range, must be positive"))?;
    Ok((local > 0, others))
}

/// `WAITAOF numlocal numreplicas timeout`
fn waitaof(ctx: &mut Ctx<'_>) -> Outcome {
    let (local, replicas) = logs_wanted(ctx.args())?;
    if ctx.exec.shared.is_replica.load(Relaxed) {
        return Err(only_for_primaries("WAITAOF"));
    }
    let deadline = if ctx.exec.is_unblocking() { None } else { ctx.timeout_millis(ctx.arg(3))? };
    let durable = ctx.host.durable_epoch();
    if local && durable.is_none() {
        return Err(NO_LOG);
    }
    // On a retry, the timeout argument is replaced with the epoch and the offset to wait for: all
    // of its client's writes are in that epoch or an earlier one, and before the offset.
    let is_again = ctx.exec.is_unblocking();
    let (epoch, offset) = match is_again {
        true => waited_for(ctx.arg(3)).ok_or(Fail::NOT_AN_INTEGER)?,
        false => (ctx.exec.ks.keyspace().epochs().now(), ctx.host.stream_offset()),
    };
    // A transaction does not wait: there, the writes committed before it count.
    let is_durable = durable.is_some_and(|durable| durable >= epoch)
        || ctx.session.in_exec && ctx.host.is_all_durable(epoch);
    // A member of a cluster gets here in transactions alone; otherwise each primary waits.
    let synced = match ctx.exec.shared.cluster.get() {
        Some(cluster) => cluster.logs_in_step(),
        None => ctx.host.replicas_at(offset).1,
    };
    let is_enough = synced as i64 >= replicas && (!local || is_durable);
    if is_enough || ctx.exec.is_last_try() || ctx.session.in_exec {
        ctx.reply.array(2);
        ctx.reply.integer(i64::from(is_durable));
        ctx.reply.integer(synced as i64);
        return Ok(());
    }
    if !is_again {
        if durable.is_some() {
            ctx.host.want_durable(epoch);
        }
        if replicas > 0 {
            ctx.host.want_acknowledged(offset);
        }
    }
    let place = format!("{epoch} {offset}");
    let block = Block::for_time(nobody).until(deadline).replacing(3, place.into());
    ctx.block(block.polling().trying_late())
}

/// Parses the epoch and the offset of a retried `WAITAOF`.
fn waited_for(text: &[u8]) -> Option<(u64, u64)> {
    let (epoch, offset) = std::str::from_utf8(text).ok()?.split_once(' ')?;
    Some((epoch.parse().ok()?, offset.parse().ok()?))
}

/// Reply of `WAITAOF` if it cannot wait: no log is known to contain the writes.
fn nobody(reply: &mut dyn Reply) {
    reply.array(2);
    reply.integer(0);
    reply.integer(0);
}
