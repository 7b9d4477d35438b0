//! Running a script: its flags, its locks, and the commands that it calls.

use super::cache::{NO_SCRIPT, parse_sum};
use super::compiling::Compiling;
use super::running::{ProgramKind, SHUTTING_DOWN, Watched};
use super::shebang::Flags as ScriptFlags;
use super::thread::Ready;
use super::{ScriptThread, split};
use crate::admit::{Moment, Verdict};
use crate::clock::Tick;
use crate::ctx::Ctx;
use crate::execute::Executor;
use crate::fail::{Fail, Outcome};
use crate::host::Host;
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
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Instant;

const CONTENDED: &[u8] =
    b"ERR the script wanted keys that it did not declare, after it had written, while another \
    script did the same";

/// Time that commands may take before it is asked whether the script is to go on, which its
/// instructions bring about else.
const ASK_NANOS: u64 = 5_000_000;

/// Time between two moments at which a slow script lets others be answered.
const ATTEND_NANOS: u64 = 500_000;

/// Cache lines that are asked for of the entry of a script's first key.
const ENTRY_LINES: usize = 2;

/// What the command that runs a script lets it do.
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
        let (scripts, dialect) = (&ctx.exec.shared.scripts, ctx.exec.shared.dialect());
        let mut compiling = Compiling::new(scripts, ctx.host, dialect, (ctx.request.args, text));
        let ready = thread.of_text(scripts, text, &mut compiling)?;
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
        let (scripts, dialect) = (&ctx.exec.shared.scripts, ctx.exec.shared.dialect());
        let command = ctx.request.args;
        let mut compiling = Compiling::new(scripts, ctx.host, dialect, (command, command[1]));
        let ready = thread.of_sum(scripts, &sum, &mut compiling);
        drop(compiling);
        let ready = ready.inspect_err(|_| show_to_monitors(ctx))?;
        run_script(ctx, thread, &ready, access, keys, args)
    })
}

/// Shows a call to those who observe all, before the commands that the script calls.
fn show_to_monitors(ctx: &mut Ctx<'_>) {
    if ctx.exec.shared.is_monitored() {
        let shared = ctx.exec.shared.clone();
        shared.show(ctx.command, ctx.args(), (ctx.session.db, false), ctx.host);
    }
}

/// Works with what the thread has for scripts, which is not to be reached otherwise meanwhile.
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

    /// Works with what the thread has for scripts, outside of any.
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

    /// Counts what the scripts that the server knows have come to take as used memory.
    #[inline]
    pub(crate) fn count_scripts(&mut self) {
        self.ks.count_foreign(self.shared.scripts.take_uncounted());
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
        strays: &ready.script.strays,
        name: &|| String::from_utf8_lossy(&hex(&ready.script.sha)).into_owned(),
    };
    let seed = ctx.exec.random();
    thread.lua.seed(seed);
    let result = run(ctx, &call, keys, |runner, reply| {
        thread.lua.run_script(&ready.function, keys, args, runner, reply)
    });
    thread.count_memory(&ctx.exec.shared.scripts);
    result
}

/// What is known of a script or a function before it runs.
pub(crate) struct Call<'a> {
    pub kind: ProgramKind,
    /// What it says of itself; none for a script that says nothing.
    pub flags: Option<ScriptFlags>,
    pub access: Access,
    /// Whether it is known to use keys that it does not declare.
    pub strays: &'a AtomicBool,
    /// What errors call it.
    pub name: &'a dyn Fn() -> String,
}

/// Runs a script as one transaction: every change that it makes lies between the locking and the
/// unlocking here, of its declared keys or of everything.
pub(crate) fn run(
    ctx: &mut Ctx<'_>,
    call: &Call<'_>,
    keys: &[&[u8]],
    mut script: impl FnMut(&mut Runner<'_>, &mut dyn Reply) -> Result<(), Failure>,
) -> Outcome {
    let moment = ctx.exec.admit_program(call, ctx.args(), ctx.session)?;
    let nested = ctx.session.in_exec;
    show_to_monitors(ctx);
    // What it does first is most often with its first key: asked for while the interpreter gets
    // ready.
    let first = keys.first().map(|key| ctx.exec.ks.hash(key));
    if let (Some(hash), Some(peek)) = (first, ctx.exec.ks.peeker()) {
        peek.prefetch_bucket(ctx.session.db, hash);
    }
    let started = ctx.exec.tick();
    let (db, replies) = (ctx.session.db, ctx.session.replies);
    // A script has fieldsets of its own.
    let mut fieldsets = None;
    loop {
        if !nested && !lock(ctx.exec, ctx.host, keys, first, call.strays.load(Relaxed)) {
            return Err(ctx.exec.shared.scripts.running.busy(ctx.dialect()));
        }
        if let (Some(hash), Some(peek)) = (first, ctx.exec.ks.peeker()) {
            peek.prefetch_entry(db, hash, ENTRY_LINES);
        }
        ctx.session.swap_fieldsets(&mut fieldsets);
        ctx.session.in_exec = true;
        ctx.exec.within_script = true;
        ctx.exec.script_slot = None;
        let mut runner = Runner {
            exec: ctx.exec,
            session: ctx.session,
            host: ctx.host,
            moment,
            nested,
            acted: false,
            again: false,
            call,
            command: ctx.request.args,
            started,
            watched: None,
            asked: started,
            attended: started,
            writes_result: false,
            result_bytes: 0,
        };
        runner.exec.script_time = None;
        let result = script(&mut runner, ctx.reply);
        let Runner { again, watched, result_bytes, .. } = runner;
        ctx.exec.ks.count_foreign(-result_bytes);
        if let Some(watched) = watched {
            ctx.exec.shared.scripts.running.end(&watched);
        }
        ctx.exec.within_script = false;
        ctx.session.in_exec = nested;
        (ctx.session.db, ctx.session.replies) = (db, replies);
        ctx.session.swap_fieldsets(&mut fieldsets);
        ctx.exec.ks.release_token();
        ctx.exec.begin_at(started);
        if !again {
            return result.map_err(|failure| {
                ctx.exec.is_error_counted = failure.is_counted;
                describe(failure, call)
            });
        }
        ctx.exec.ks.unlock();
    }
}

/// The error of a script as its caller gets it.
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

/// Locks the declared keys, and takes the right to lock the rest if it will be wanted. False if
/// another script keeps this one from that for long, and then nothing is locked. `first` is the
/// hash of the first key.
#[inline]
fn lock(
    exec: &mut Executor,
    host: &mut dyn Host,
    keys: &[&[u8]],
    first: Option<KeyHash>,
    strays: bool,
) -> bool {
    let shared = exec.shared.clone();
    let busy = || shared.scripts.running.is_busy();
    if strays && !exec.ks.take_token_unless(busy) {
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
    /// What holds of the commands that it calls.
    moment: Moment,
    /// The script is part of a transaction, which has locked what it needs.
    nested: bool,
    /// It has called a command that may have an effect.
    acted: bool,
    /// It is to be run again, since it could not get a lock; it has done nothing yet.
    again: bool,
    call: &'a Call<'a>,
    command: &'a [&'a [u8]],
    started: Tick,
    /// What others know of it, once it has run for a while.
    watched: Option<Arc<Watched>>,
    /// When it was last asked whether the script is to go on.
    asked: Tick,
    /// When others were last answered.
    attended: Tick,
    /// The script is over, and what it returned is being written.
    writes_result: bool,
    /// What has been counted as memory of the result.
    result_bytes: i64,
}

impl Runner<'_> {
    /// Whether everything that a command touches is locked; what is not is locked now.
    #[inline]
    fn reach(&mut self, command: Command, request: &Request<'_>) -> Result<(), &'static [u8]> {
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
        // A count of keys that makes no sense is refused by the command; it touches none then.
        let _ = key_positions(command.spec.meta.keys, request.args, &mut keys);
        keys.iter().all(|key| {
            let hash = self.exec.ks.hash(request.args[key.index as usize]);
            self.exec.ks.holds(hash)
        })
    }

    /// Notes that a command is about to be executed which may change something.
    #[inline]
    fn note_call(&mut self, command: Command) {
        let may_change = command.spec.flags.intersects(bits!(Flags: WRITE, MAY_REPLICATE));
        if may_change && !self.acted {
            self.acted = true;
            // What it has begun to change it may end.
            self.moment = self.moment.without(Moment::NO_MEMORY);
            if let Some(watched) = &self.watched {
                watched.wrote.store(true, Relaxed);
            }
        }
    }

    /// Locks everything beside what is held. The right to do so is one thread's at a time; a script
    /// that cannot get it at once begins anew with it, or fails if it has done something
    /// already. Known from then on, it does not come to that again.
    #[cold]
    fn stray(&mut self) -> Result<(), &'static [u8]> {
        self.call.strays.store(true, Relaxed);
        let running = &self.exec.shared.scripts.running;
        // This script itself may be what others find slow.
        let own = self.watched.as_ref().is_some_and(|watched| watched.is_slow.load(Relaxed));
        let busy = || running.slow.load(Relaxed) > usize::from(own);
        let ks = &mut self.exec.ks;
        let locked = match ks.holds_any() || !self.acted {
            true => ks.try_take_token() && ks.lock_rest_unless(busy),
            // It holds nothing that another may wait for.
            false => {
                ks.take_token();
                ks.lock_rest_unless(|| false)
            }
        };
        if locked {
            return Ok(());
        }
        if self.acted {
            return Err(CONTENDED);
        }
        self.again = true;
        Err(b"ERR the script begins anew")
    }
}

impl Server for Runner<'_> {
    fn call(&mut self, args: &[&[u8]], reply: &mut ScriptReply) -> bool {
        let request = self.exec.prepare_within(args);
        let mut verdict =
            self.exec.admit(&request, self.session, (self.moment, true), self.host, reply);
        if let (Verdict::Run, Some(command)) = (&verdict, request.command) {
            match self.reach(command, &request) {
                Ok(()) => self.note_call(command),
                Err(text) if self.again => {
                    reply.break_off(text);
                    return false;
                }
                Err(text) => verdict = Verdict::Refuse(Fail::new(text)),
            }
        }
        let (exec, session, host) = (&mut *self.exec, &mut *self.session, &mut *self.host);
        match verdict {
            Verdict::Run => {
                exec.script_calls += 1;
                exec.execute_admitted(true, &request, session, host, reply);
            }
            verdict => {
                exec.turn_away(verdict, &request, session, host, reply);
                return false;
            }
        }
        self.exec.nanos_between(self.asked, self.exec.tick()) > ASK_NANOS
    }

    fn interrupt(&mut self) -> Option<Cow<'static, str>> {
        if self.again {
            return Some("ERR the script begins anew".into());
        }
        let now = self.exec.now();
        self.asked = now;
        let nanos = self.exec.nanos_between(self.started, now);
        let running = &self.exec.shared.scripts.running;
        let watched = self.watched.get_or_insert_with(|| {
            running.begin(Watched {
                kind: self.call.kind,
                name: (self.call.name)(),
                command: self.command.iter().map(|&arg| arg.into()).collect(),
                since: Instant::now(),
                wrote: AtomicBool::new(self.acted && !self.writes_result),
                killed: AtomicBool::new(false),
                is_slow: AtomicBool::new(false),
            })
        });
        let slow_ms = self.exec.shared.scripts.slow_ms.load(Relaxed);
        if slow_ms > 0 && nanos / 1_000_000 >= slow_ms && !watched.is_slow.swap(true, Relaxed) {
            running.slow.fetch_add(1, Relaxed);
        }
        let watched = watched.clone();
        if watched.is_slow.load(Relaxed) {
            self.exec.script_time = Some(time_of_day());
            if self.exec.nanos_between(self.attended, now) > ATTEND_NANOS {
                self.host.attend();
                self.attended = self.exec.now();
            }
        }
        if self.exec.shared.scripts.running.is_ending(&watched) {
            if self.acted && !self.writes_result {
                self.host.abandon(&watched.name);
            }
            return Some(SHUTTING_DOWN.into());
        }
        if self.writes_result {
            return self.interrupt_result(&watched);
        }
        watched.killed_by(self.exec.shared.dialect())
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
        if let Some(watched) = &self.watched {
            // What it has written stays, however the rest ends.
            watched.wrote.store(false, Relaxed);
        }
        if !self.nested && !self.again {
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
    /// Lets whoever waits for the whole keyspace have it while a result is being written, and says
    /// what ends that.
    #[cold]
    fn interrupt_result(&mut self, watched: &Watched) -> Option<Cow<'static, str>> {
        if !self.nested {
            self.exec.yield_within_unless_busy();
        }
        if self.host.client_has_left() {
            return Some("the client has left".into());
        }
        let killed = watched.killed.load(Relaxed);
        killed.then(|| {
            "the script is over and its effects stay, but its result was given up: killed by user".into()
        })
    }
}
