//! Execution of a script: its flags, its locks, and the commands that it calls.

use super::cache::{NO_SCRIPT, parse_sum};
use super::compiling::Compiling;
use super::key_use::KeyUse;
use super::pulse::{Halt, Pulse};
use super::running::ProgramKind;
use super::shebang::Flags as ScriptFlags;
use super::thread::Ready;
use super::{ScriptThread, split};
use crate::admit::Verdict;
use crate::clock::Tick;
use crate::ctx::{Ctx, Invocation};
use crate::execute::{Execution, Executor};
use crate::fail::{Fail, Outcome};
use crate::host::Host;
use crate::moment::Moment;
use crate::server::stats::Shared;
use crate::server::time::time_of_day;
use crate::session::Session;
use crate::spec::{Command, Flags, KeyShape, Locks, Request};
use petrel_keyspace::KeyHash;
use petrel_lua::{Failure, ScriptReply, Server, hex};
use petrel_resp::Reply;
use petrel_table::bits;
use petrel_table::keys::key_positions;
use std::borrow::Cow;
use std::cell::RefCell;

/// Error of a call that contradicts the proof ([`KeyUse::keeps_to_declared`]).
const DISPROVEN: &str = "ERR internal error: the script was taken for one that uses declared keys only, and it does not";

/// Time of commands after which to check whether the script may continue. Instructions of the
/// interpreter trigger checks, too.
const ASK_NANOS: u64 = 5_000_000;

/// Cache lines to prefetch of the entry of a script's first key.
const ENTRY_LINES: usize = 2;

/// Access that the calling command allows a script.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Access {
    Write,
    Read,
}

/// `EVAL` and `EVAL_RO`.
pub(crate) fn eval(ctx: &mut Ctx<'_>, access: Access) -> Outcome {
    let (keys, args) = split(ctx)?;
    let text = ctx.arg(1);
    with_thread(ctx, |ctx, thread| {
        let shared = &ctx.exec.shared;
        let (scripts, dialect) = (&shared.scripts, shared.dialect());
        let mut compiling = Compiling::new(scripts, ctx.host, dialect, (ctx.request.args, text));
        let ready = thread.of_text(scripts, &shared.registry, text, &mut compiling)?;
        drop(compiling);
        run_script(ctx, thread, &ready, access, keys, args)
    })
}

/// `EVALSHA` and `EVALSHA_RO`.
pub(crate) fn evalsha(ctx: &mut Ctx<'_>, access: Access) -> Outcome {
    let Some(sum) = parse_sum(ctx.arg(1)) else {
        show_to_monitors(ctx);
        return Err(NO_SCRIPT);
    };
    let (keys, args) = split(ctx)?;
    with_thread(ctx, |ctx, thread| {
        let shared = &ctx.exec.shared;
        let (scripts, dialect, command) = (&shared.scripts, shared.dialect(), ctx.request.args);
        let mut compiling = Compiling::new(scripts, ctx.host, dialect, (command, command[1]));
        let ready = thread.of_sum(scripts, &shared.registry, &sum, &mut compiling);
        drop(compiling);
        let ready = ready.inspect_err(|_| show_to_monitors(ctx))?;
        run_script(ctx, thread, &ready, access, keys, args)
    })
}

/// Shows a call to `MONITOR` before the commands that the script calls.
fn show_to_monitors(ctx: &mut Ctx<'_>) {
    if ctx.exec.shared.is_monitored() {
        let shared = ctx.exec.shared.clone();
        shared.show(ctx.command, ctx.args(), (ctx.session.db, false), ctx.host);
    }
}

/// Runs `work` with the thread's script state, which is taken out of the executor meanwhile.
fn with_thread<'c, T>(
    ctx: &mut Ctx<'c>,
    work: impl FnOnce(&mut Ctx<'c>, &mut ScriptThread) -> T,
) -> T {
    let mut thread = ctx.exec.take_script_thread();
    let result = work(ctx, &mut thread);
    ctx.exec.scripts = Some(thread);
    ctx.exec.count_scripts();
    result
}

impl Executor {
    fn take_script_thread(&mut self) -> Box<ScriptThread> {
        let shared = &self.shared;
        self.scripts
            .take()
            .unwrap_or_else(|| Box::new(ScriptThread::new(&shared.scripts, shared.release())))
    }

    /// Runs `work` with the thread's script state, outside of scripts.
    pub(crate) fn script_thread<T>(
        &mut self,
        work: impl FnOnce(&mut ScriptThread, &Shared) -> T,
    ) -> T {
        let mut thread = self.take_script_thread();
        let result = work(&mut thread, &self.shared);
        self.scripts = Some(thread);
        self.count_scripts();
        result
    }

    /// Adds the growth of the script cache and the libraries to used memory.
    #[inline]
    pub(crate) fn count_scripts(&mut self) {
        let shared = &self.shared;
        let bytes = shared.scripts.take_uncounted() + shared.libraries.take_uncounted();
        self.ks.count_foreign(bytes);
    }
}

fn run_script(
    ctx: &mut Ctx<'_>,
    thread: &mut ScriptThread,
    ready: &Ready,
    access: Access,
    keys: &[&[u8]],
    args: &[&[u8]],
) -> Outcome {
    let call = Call {
        kind: ProgramKind::Script,
        flags: ready.script.flags,
        access,
        key_use: &ready.script.key_use,
        name: &|| String::from_utf8_lossy(&hex(&ready.script.sha)).into_owned(),
    };
    let seed = ctx.exec.random();
    let result = run(ctx, &call, keys, |runner, reply| {
        thread.lua.seed(seed);
        thread.lua.run_script(&ready.function, keys, args, runner, reply)
    });
    thread.count_memory(&ctx.exec.shared.scripts);
    result
}

/// Properties of a script or a function, known before it runs.
pub(crate) struct Call<'a> {
    pub kind: ProgramKind,
    /// Flags that it declares; `None` for a script without any.
    pub flags: Option<ScriptFlags>,
    pub access: Access,
    pub key_use: &'a KeyUse,
    /// Name in errors.
    pub name: &'a dyn Fn() -> String,
}

/// Runs a script as one transaction: every change that it makes lies between the locking and the
/// unlocking here, of its declared keys or of everything.
///
/// A script that can use undeclared keys holds the script token from before its first write on. So
/// when it uses one after a write it only waits until all other threads are outside, and those do
/// not wait for it: a script without the token will use no undeclared keys, or has not written and
/// restarts outside.
pub(crate) fn run(
    ctx: &mut Ctx<'_>,
    call: &Call<'_>,
    keys: &[&[u8]],
    mut script: impl FnMut(&mut Runner<'_>, &mut dyn Reply) -> Result<(), Failure>,
) -> Outcome {
    let moment = ctx.exec.admit_program(call, ctx.args(), ctx.session)?;
    let nested = ctx.session.in_exec;
    show_to_monitors(ctx);
    let first = prefetch_first_bucket(ctx, keys);
    let started = ctx.exec.tick();
    let (db, replies) = (ctx.session.db, ctx.session.replies);
    // A script has field sets of its own.
    let mut fieldsets = None;
    let mut takes_token = call.key_use.takes_token();
    loop {
        if !nested && !lock(ctx.exec, ctx.host, keys, first, takes_token) {
            return Err(ctx.exec.kept_out());
        }
        if let (Some(hash), Some(peek)) = (first, ctx.exec.ks.peeker()) {
            peek.prefetch_entry(db, hash, ENTRY_LINES);
        }
        ctx.session.swap_fieldsets(&mut fieldsets);
        let (result, halt) = run_once(ctx, call, (moment, nested), started, &mut script);
        (ctx.session.db, ctx.session.replies) = (db, replies);
        ctx.session.swap_fieldsets(&mut fieldsets);
        ctx.exec.ks.release_token();
        ctx.exec.begin_at(started);
        match halt {
            Some(Halt::BeginsAnew) => {
                debug_assert!(!takes_token, "a script begins anew once at most");
                takes_token = true;
                ctx.exec.ks.unlock();
            }
            Some(Halt::Busy) => return Err(ctx.exec.shared.scripts.running.busy(ctx.dialect())),
            Some(Halt::Ended(_)) | None => {
                return result.map_err(|failure| {
                    ctx.exec.is_error_counted = failure.is_counted;
                    describe(failure, call)
                });
            }
        }
    }
}

/// Runs a script under the locks of [`run`]. Returns its result, and why it was halted, if it was.
#[inline]
fn run_once(
    ctx: &mut Ctx<'_>,
    call: &Call<'_>,
    (moment, nested): (Moment, bool),
    started: Tick,
    script: &mut impl FnMut(&mut Runner<'_>, &mut dyn Reply) -> Result<(), Failure>,
) -> (Result<(), Failure>, Option<Halt>) {
    ctx.session.in_exec = true;
    ctx.exec.within_script = true;
    ctx.exec.one_slot = None;
    let outside = ctx.exec.enter_script();
    let pulse = Pulse {
        kind: call.kind,
        name: call.name,
        command: ctx.request.args,
        clock: ctx.exec.clock(),
        started,
        slow: None,
    };
    let mut runner = Runner {
        exec: ctx.exec,
        session: ctx.session,
        host: ctx.host,
        moment,
        nested,
        acted: false,
        halt: None,
        call,
        pulse,
        asked: started,
        writes_result: false,
        result_bytes: 0,
    };
    runner.exec.script_time = None;
    let result = script(&mut runner, ctx.reply);
    let Runner { halt, pulse: Pulse { slow, .. }, result_bytes, .. } = runner;
    ctx.exec.ks.count_foreign(-result_bytes);
    ctx.exec.leave_script(outside);
    drop(slow);
    ctx.exec.within_script = false;
    ctx.session.in_exec = nested;
    (result, halt)
}

/// Prefetches the bucket of a script's first key, which the script most often uses first, while the
/// interpreter gets ready. Returns the key's hash.
#[inline]
fn prefetch_first_bucket(ctx: &mut Ctx<'_>, keys: &[&[u8]]) -> Option<KeyHash> {
    let first = keys.first().map(|key| ctx.exec.ks.hash(key));
    if let (Some(hash), Some(peek)) = (first, ctx.exec.ks.peeker()) {
        peek.prefetch_bucket(ctx.session.db, hash);
    }
    first
}

/// Converts the error of a script for its caller.
#[cold]
fn describe(failure: Failure, call: &Call<'_>) -> Fail {
    let mut text = failure.text;
    if let Some((source, line)) = failure.place {
        text.extend_from_slice(format!(" script: {}, on ", (call.name)()).as_bytes());
        text.extend_from_slice(&source);
        text.extend_from_slice(format!(":{line}.").as_bytes());
    }
    Fail::new(text)
}

/// Locks the declared keys, after the script token if it is needed. False, with nothing locked, if
/// another slow script holds the keys. `first` is the hash of the first key.
#[inline]
fn lock(
    exec: &mut Executor,
    host: &mut dyn Host,
    keys: &[&[u8]],
    first: Option<KeyHash>,
    takes_token: bool,
) -> bool {
    let shared = exec.shared.clone();
    let gives_way = exec.gives_way;
    let busy = || shared.scripts.running.is_busy() || gives_way && shared.long.any();
    if takes_token && !exec.ks.take_token_unless(busy) {
        return false;
    }
    loop {
        let locked = match (first, keys) {
            (Some(first), [_]) => exec.ks.lock_unless(first, busy),
            (Some(first), [_, more @ ..]) => {
                let more = more.iter().map(|key| exec.ks.hash(key));
                let hashes: Vec<KeyHash> = std::iter::once(first).chain(more).collect();
                exec.ks.lock_many_unless(hashes.iter().copied(), busy)
            }
            _ => return true,
        };
        if !locked {
            exec.ks.release_token();
            return false;
        }
        if !exec.ks.holds_ready() {
            return true;
        }
        exec.help(host);
    }
}

/// Executes the commands that a script calls.
pub(crate) struct Runner<'a> {
    exec: &'a mut Executor,
    session: &'a mut Session,
    host: &'a mut dyn Host,
    /// Gate's view of the commands that it calls.
    moment: Moment,
    /// The script is part of a transaction, which has locked all keys.
    nested: bool,
    /// The script has called a command that may have an effect.
    acted: bool,
    /// The reason for halting it, if it is halted.
    halt: Option<Halt>,
    call: &'a Call<'a>,
    pulse: Pulse<'a>,
    /// Time of the last check whether the script may continue.
    asked: Tick,
    /// The script has ended, and its result is being written.
    writes_result: bool,
    /// Bytes of the result counted as used memory.
    result_bytes: i64,
}

impl Runner<'_> {
    /// Locks the keys of a command that are not locked yet.
    #[inline]
    fn reach(&mut self, command: Command, request: &Request<'_>) -> Result<(), Halt> {
        let covered = match (command.spec.locks, request.hash) {
            (Locks::Keys, Some(hash)) => self.exec.ks.holds(hash),
            (Locks::Everything, _) => self.exec.ks.holds_everything(),
            _ => self.exec.ks.holds_everything() || self.covers(command, request),
        };
        if covered || self.nested { Ok(()) } else { self.stray() }
    }

    #[cold]
    fn covers(&mut self, command: Command, request: &Request<'_>) -> bool {
        if command.spec.flags.contains(Flags::TOUCHES_ARBITRARY_KEYS) {
            return false;
        }
        if command.spec.keys == KeyShape::None {
            return true;
        }
        let mut keys = Vec::new();
        // A command rejects a nonsensical number of keys, and then touches none.
        let _ = key_positions(command.spec.meta.keys, request.args, &mut keys);
        keys.iter().all(|key| {
            let hash = self.exec.ks.hash(request.args[key.index as usize]);
            self.exec.ks.holds(hash)
        })
    }

    /// Notes that a command is about to be executed which may change something. Before the first,
    /// a script that can use undeclared keys takes the script token.
    #[inline]
    fn note_call(&mut self, command: Command) -> Result<(), Halt> {
        let flags = command.spec.flags;
        if !self.acted && flags.intersects(bits!(Flags: WRITE, MAY_REPLICATE)) {
            self.begin_to_act()?;
        }
        if flags.contains(Flags::WRITE) {
            self.moment = self.moment.with(Moment::HAS_WRITTEN);
        }
        Ok(())
    }

    #[inline]
    fn begin_to_act(&mut self) -> Result<(), Halt> {
        if !self.call.key_use.keeps_to_declared() && !self.nested {
            self.take_token()?;
        }
        self.pulse.begin_to_write()?;
        self.acted = true;
        // A script may finish a change that it has begun, even above the memory limit.
        self.moment = self.moment.without(Moment::NO_MEMORY);
        Ok(())
    }

    /// Takes the script token if it is free at once, or is this script's; else the script restarts
    /// with it.
    fn take_token(&mut self) -> Result<(), Halt> {
        if self.exec.ks.try_take_token() {
            return Ok(());
        }
        self.call.key_use.take_token_from_now_on();
        // Not so only if a proof was wrong, of a script that has written.
        if self.acted { Err(Halt::Ended(DISPROVEN)) } else { Err(Halt::BeginsAnew) }
    }

    /// Locks the rest of the keyspace for an undeclared key. From then on the script begins with
    /// the script token.
    #[cold]
    fn stray(&mut self) -> Result<(), Halt> {
        debug_assert!(!self.call.key_use.keeps_to_declared(), "{DISPROVEN}");
        self.take_token()?;
        self.call.key_use.take_token_from_now_on();
        let (shared, since, wrote) = (self.exec.shared.clone(), self.exec.now(), self.acted);
        let waiting = RefCell::new((&mut self.pulse, &mut *self.host, None));
        self.exec.ks.lock_rest_unless(|| {
            let (pulse, host, halt) = &mut *waiting.borrow_mut();
            *halt = pulse.wait(&shared, (since, wrote), *host);
            halt.is_some()
        });
        let (.., halt) = waiting.into_inner();
        halt.map_or(Ok(()), Err)
    }
}

impl Server for Runner<'_> {
    fn call(&mut self, args: &[&[u8]], reply: &mut ScriptReply) -> bool {
        let request = self.exec.prepare_within(args);
        let invocation = Invocation {
            request: &request,
            session: &mut *self.session,
            host: &mut *self.host,
            reply,
            moment: self.moment,
        };
        let verdict = self.exec.admit(invocation, true);
        let acted = self.acted;
        if let (Verdict::Run, Some(command)) = (&verdict, request.command)
            && let Err(halt) = self.reach(command, &request).and_then(|()| self.note_call(command))
        {
            reply.break_off(halt.text().as_bytes());
            self.halt = Some(halt);
            return false;
        }
        let (exec, moment) = (&mut *self.exec, self.moment);
        let (session, host) = (&mut *self.session, &mut *self.host);
        let invocation = Invocation { request: &request, session, host, reply, moment };
        match verdict {
            runs @ Verdict::Run => {
                // It holds nothing, but its destructor would be called.
                std::mem::forget(runs);
                exec.script_calls += 1;
                if exec.inside.is_some()
                    || exec.execute_admitted(invocation, true) != Execution::Answered
                {
                    return self.call_long(&request, acted, reply);
                }
            }
            verdict => {
                exec.turn_away(verdict, invocation);
                return false;
            }
        }
        self.exec.nanos_between(self.asked, self.exec.tick()) > ASK_NANOS
    }

    fn interrupt(&mut self) -> Option<Cow<'static, str>> {
        if let Some(halt) = &self.halt {
            return Some(halt.text().into());
        }
        self.asked = self.exec.now();
        let wrote = self.acted && !self.writes_result;
        let ended = self.pulse.beat(&self.exec.shared, (wrote, false), self.host);
        if self.pulse.is_slow() {
            self.exec.script_time = Some(time_of_day());
        }
        let ended = ended.or_else(|| match self.writes_result {
            true => self.interrupt_result(),
            false => self.pulse.killed(),
        });
        ended.map(Cow::Borrowed)
    }

    fn log(&mut self, level: u8, text: &[u8]) {
        self.host.log(level, &String::from_utf8_lossy(text));
    }

    fn may_run(&mut self, args: &[&[u8]]) -> Result<bool, &'static str> {
        let request = self.exec.prepare_within(args);
        let Some(command) = request.command else {
            return Err("ERR Invalid command passed to redis.acl_check_cmd()");
        };
        if !command.spec.accepts(args.len()) {
            return Err("ERR Wrong number of args for redis.acl_check_cmd()");
        }
        Ok(self.exec.check_call(self.session, command, args).is_ok())
    }

    fn begin_result(&mut self) {
        self.writes_result = true;
        // Its changes stay, however the rest ends.
        self.pulse.begin_result();
        if !self.nested && self.halt.is_none() {
            self.exec.within_script = false;
            self.exec.commit_early(self.host);
            self.exec.ks.release_token();
        }
    }

    fn note_result(&mut self, bytes: usize) {
        let bytes = bytes as i64;
        self.exec.ks.count_foreign(bytes - self.result_bytes);
        self.result_bytes = bytes;
    }
}

impl Runner<'_> {
    /// Executes a command that was given up as one that takes long, or that comes after one.
    /// `acted`: the script had called commands that may have changed something.
    #[cold]
    fn call_long(&mut self, request: &Request<'_>, acted: bool, reply: &mut ScriptReply) -> bool {
        let (exec, session) = (&mut *self.exec, &mut *self.session);
        let inside = match &exec.inside {
            Some(inside) => inside.clone(),
            None => {
                let run = self.pulse.show(&exec.shared, acted, self.host).clone();
                exec.begin_inside(run)
            }
        };
        let goes_on = inside.begin_call(acted, self.acted);
        if goes_on
            && exec.execute_admitted(
                Invocation { request, session, host: &mut *self.host, reply, moment: self.moment },
                true,
            ) == Execution::Answered
        {
            inside.end_call(self.acted);
            return self.exec.nanos_between(self.asked, self.exec.tick()) > ASK_NANOS;
        }
        let halt = Halt::Ended(inside.ended().unwrap_or("the command was ended"));
        reply.break_off(halt.text().as_bytes());
        self.halt = Some(halt);
        false
    }

    /// Lets whoever waits for the whole keyspace have it while a result is being written, and says
    /// what ends that.
    #[cold]
    fn interrupt_result(&mut self) -> Option<&'static str> {
        if !self.nested {
            self.exec.yield_within_unless_busy();
        }
        if self.pulse.has_lost_client() {
            return Some("the client has left");
        }
        self.pulse.killed().map(|_| {
            "the script is over and its effects stay, but its result was given up: killed by user"
        })
    }
}
