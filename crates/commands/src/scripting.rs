//! Scripts: EVAL, EVALSHA, their read-only forms, SCRIPT.
//!
//! ```text
//!  EVAL   text ──▶ this thread's compiled function, or the script cache (by SHA-1), or it is
//!                  compiled and cached
//!         memory? ─ the script token, for a script known to need it ─ lock the declared keys
//!         Lua ── redis.call ──▶ Runner::call ── Executor::admit ── keys locked, or the rest now
//!                                 │ a first write: the token, unless it is proven (declared.rs)
//!                                 │ that no undeclared key is used
//!                                 └──▶ executed within the script: no locking, no unblocking
//!         unlock ─ serve clients blocked on changed keys: as after any command
//! ```
//!
//! A script's effects lie between the locking and the unlocking of one command, so they are one
//! transaction, which [`run::run`] begins and ends.

pub(crate) mod cache;
mod compiling;
mod declared;
mod function_thread;
pub(crate) mod functions;
mod key_use;
pub(crate) mod libraries;
mod pulse;
mod reading;
pub(crate) mod run;
pub(crate) mod running;
mod shebang;
pub(crate) mod slow_run;
mod thread;

pub use cache::Scripts;
pub(crate) use function_thread::FunctionThread;
pub use libraries::{Libraries, Library, List};
pub(crate) use thread::ScriptThread;

use crate::ctx::Ctx;
use crate::execute::Executor;
use crate::fail::{Fail, Outcome};
use crate::server::help::help_on;
use crate::spec::{CommandSpec, Locks};
use cache::{NO_SCRIPT, parse_sum};
use compiling::Compiling;
use petrel_lua::hex;
use petrel_table::commands as meta;
pub use reading::only_reads;
pub(crate) use run::{Access, Call};
pub(crate) use running::ProgramKind;
pub(crate) use shebang::Flags as ScriptFlags;

/// The commands of this family.
pub static COMMANDS: &[CommandSpec] = &[
    CommandSpec::new(&meta::EVAL, eval).locking(Locks::Itself),
    CommandSpec::new(&meta::EVALSHA, evalsha).locking(Locks::Itself),
    CommandSpec::new(&meta::EVAL_RO, eval_ro).locking(Locks::Itself),
    CommandSpec::new(&meta::EVALSHA_RO, evalsha_ro).locking(Locks::Itself),
    CommandSpec::container(
        &meta::SCRIPT,
        &[
            CommandSpec::new(&meta::SCRIPT_DEBUG, debug).locking(Locks::Itself),
            CommandSpec::new(&meta::SCRIPT_EXISTS, exists).locking(Locks::Itself),
            CommandSpec::new(&meta::SCRIPT_FLUSH, flush).locking(Locks::Itself),
            CommandSpec::new(&meta::SCRIPT_KILL, kill).locking(Locks::Itself),
            CommandSpec::new(&meta::SCRIPT_LOAD, load).locking(Locks::Itself),
            CommandSpec::new(&meta::SCRIPT_SHOW, show).locking(Locks::Itself),
            CommandSpec::new(&meta::SCRIPT_HELP, script_help).locking(Locks::Itself),
        ],
    ),
];

/// `EVAL script numkeys [key ...] [arg ...]`
fn eval(ctx: &mut Ctx<'_>) -> Outcome {
    run::eval(ctx, Access::Write)
}

/// `EVAL_RO script numkeys [key ...] [arg ...]`
fn eval_ro(ctx: &mut Ctx<'_>) -> Outcome {
    run::eval(ctx, Access::Read)
}

/// `EVALSHA sha1 numkeys [key ...] [arg ...]`
fn evalsha(ctx: &mut Ctx<'_>) -> Outcome {
    run::evalsha(ctx, Access::Write)
}

/// `EVALSHA_RO sha1 numkeys [key ...] [arg ...]`
fn evalsha_ro(ctx: &mut Ctx<'_>) -> Outcome {
    run::evalsha(ctx, Access::Read)
}

/// `SCRIPT LOAD script`
fn load(ctx: &mut Ctx<'_>) -> Outcome {
    let (command, text, host) = (ctx.request.args, ctx.request.args[2], &mut *ctx.host);
    let script = ctx.exec.script_thread(|thread, shared| {
        let (scripts, dialect) = (&shared.scripts, shared.dialect());
        let mut compiling = Compiling::new(scripts, host, dialect, (command, text));
        thread.load(scripts, &shared.registry, text, &mut compiling)
    })?;
    ctx.reply.bulk(&hex(&script.sha));
    Ok(())
}

/// `SCRIPT EXISTS sha1 [sha1 ...]`
fn exists(ctx: &mut Ctx<'_>) -> Outcome {
    let sums = &ctx.args()[2..];
    ctx.reply.array(sums.len());
    for sum in sums {
        let known = parse_sum(sum).is_some_and(|sum| ctx.exec.shared.scripts.find(&sum).is_some());
        ctx.reply.integer(i64::from(known));
    }
    Ok(())
}

/// `SCRIPT SHOW sha1`
fn show(ctx: &mut Ctx<'_>) -> Outcome {
    match parse_sum(ctx.arg(2)).and_then(|sum| ctx.exec.shared.scripts.find(&sum)) {
        Some(script) => ctx.reply.bulk(&script.text),
        None => return Err(NO_SCRIPT),
    }
    Ok(())
}

/// `SCRIPT FLUSH [ASYNC|SYNC]`
fn flush(ctx: &mut Ctx<'_>) -> Outcome {
    let valid = match ctx.args().len() {
        2 => true,
        3 => ctx.is(2, "SYNC") || ctx.is(2, "ASYNC"),
        _ => false,
    };
    if !valid {
        return Err(Fail::fixed("ERR SCRIPT FLUSH only support SYNC|ASYNC option"));
    }
    ctx.exec.shared.scripts.flush();
    ctx.exec.count_scripts();
    ctx.exec.drop_flushed();
    ctx.ok()
}

/// `SCRIPT DEBUG YES|SYNC|NO`: there is no debugger to turn on.
fn debug(ctx: &mut Ctx<'_>) -> Outcome {
    if ctx.is(2, "NO") {
        return ctx.ok();
    }
    if ctx.is(2, "YES") || ctx.is(2, "SYNC") {
        return Err(Fail::fixed("ERR This server has no debugger for scripts"));
    }
    Err(Fail::fixed("ERR Use SCRIPT DEBUG YES/SYNC/NO"))
}

/// `SCRIPT HELP`: Redis has no `SCRIPT SHOW`.
fn script_help(ctx: &mut Ctx<'_>) -> Outcome {
    let is_valkey = ctx.dialect().is_valkey();
    help_on(ctx, |name| is_valkey || name != "show")
}

/// `SCRIPT KILL`
fn kill(ctx: &mut Ctx<'_>) -> Outcome {
    ctx.exec.shared.scripts.running.kill(ProgramKind::Script, ctx.dialect())?;
    ctx.ok()
}

impl Executor {
    /// Gives up this thread's interpreters if all that they had compiled has been flushed. To be
    /// called now and then: a thread that runs no more scripts does not notice otherwise.
    pub fn drop_flushed(&mut self) {
        let shared = &self.shared;
        if let Some(thread) = self.scripts.take_if(|thread| thread.is_flushed(&shared.scripts)) {
            thread.count_out(&shared.scripts);
        }
        if let Some(thread) = self.functions.take_if(|thread| thread.is_flushed(&shared.libraries))
        {
            thread.count_out(&shared.scripts);
        }
    }
}

/// A part of the arguments.
pub(crate) type Words<'a> = &'a [&'a [u8]];

/// Keys and arguments of a call, which begin behind the count at argument 2.
pub(crate) fn split<'a>(ctx: &Ctx<'a>) -> Result<(Words<'a>, Words<'a>), Fail> {
    let count = ctx.integer(2)?;
    let rest = &ctx.request.args[3..];
    if count > rest.len() as i64 {
        return Err(Fail::fixed("ERR Number of keys can't be greater than number of args"));
    }
    if count < 0 {
        return Err(Fail::fixed("ERR Number of keys can't be negative"));
    }
    Ok(rest.split_at(count as usize))
}
