//! Running a script: its flags, its locks, and the commands that it calls.

use super::shebang::Flags as ScriptFlags;
use super::thread::Ready;
use super::{ScriptThread, parse_sum, split};
use crate::clock::Tick;
use crate::ctx::{Ctx, Host};
use crate::execute::{Executor, Request};
use crate::fail::{Fail, Outcome};
use crate::server::time::time_of_day;
use crate::server_state::ServerState;
use crate::session::{Modes, Session};
use crate::spec::{Flags, KeyShape, Locks};
use petrel_keyspace::KeyHash;
use petrel_lua::{Failure, ScriptReply, Server, hex};
use petrel_resp::{Dialect, Reply};
use petrel_table::keys::key_positions;
use std::borrow::Cow;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

const READ_ONLY: &[u8] = b"ERR Write commands are not allowed from read-only scripts.";
const UNKNOWN: &[u8] = b"ERR Unknown Redis command called from script";
const ARITY: &[u8] = b"ERR Wrong number of args calling Redis command from script";
const NOT_FROM_SCRIPT: &[u8] = b"ERR This Redis command is not allowed from script";
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

/// What runs.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum ProgramKind {
    /// A script.
    Script,
    /// A function of a library.
    Function,
}

/// `EVAL` and `EVAL_RO`.
pub(crate) fn eval(ctx: &mut Ctx<'_>, access: Access) -> Outcome {
    let (keys, args) = split(ctx)?;
    let text = ctx.arg(1);
    with_thread(ctx, |ctx, thread| {
        let ready = thread.of_text(&ctx.exec.shared, text)?;
        run_script(ctx, thread, &ready, access, keys, args)
    })
}

/// `EVALSHA` and `EVALSHA_RO`.
pub(crate) fn evalsha(ctx: &mut Ctx<'_>, access: Access) -> Outcome {
    let Some(sum) = parse_sum(ctx.arg(1)) else {
        show_to_monitors(ctx);
        return Err(super::NO_SCRIPT);
    };
    let (keys, args) = split(ctx)?;
    with_thread(ctx, |ctx, thread| {
        let ready = thread.of_sum(&ctx.exec.shared, &sum);
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
        self.scripts.take().unwrap_or_else(|| Box::new(ScriptThread::new(&self.shared)))
    }

    /// Works with what the thread has for scripts, outside of any.
    pub(crate) fn script_thread<T>(
        &mut self,
        work: impl FnOnce(&mut ScriptThread, &crate::server::stats::Shared) -> T,
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
    thread.count_memory(&ctx.exec.shared);
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

/// Refuses a script that cannot run in this state of the server.
#[cold]
fn admit_in_state(ctx: &Ctx<'_>, call: &Call<'_>, may_write: bool) -> Outcome {
    let shared = &ctx.exec.shared;
    let is_for_stale = call.flags.is_some_and(|flags| flags.contains(ScriptFlags::ALLOW_STALE));
    let says_that_it_writes = call.flags.is_some() && may_write;
    if says_that_it_writes && shared.is_in_state(ServerState::ReadOnly) {
        return Err(Fail::READ_ONLY);
    }
    if !is_for_stale && shared.is_in_state(ServerState::Stale) {
        return Err(Fail::MASTER_DOWN);
    }
    match shared.write_refusal().filter(|_| says_that_it_writes) {
        Some(fail) => Err(fail),
        None => Ok(()),
    }
}

/// Runs a script as one transaction: every change that it makes lies between the locking and the
/// unlocking here, of its declared keys or of everything.
pub(crate) fn run(
    ctx: &mut Ctx<'_>,
    call: &Call<'_>,
    keys: &[&[u8]],
    mut script: impl FnMut(&mut Runner<'_>, &mut dyn Reply) -> Result<(), Failure>,
) -> Outcome {
    let says = |flag| call.flags.is_some_and(|flags| flags.contains(flag));
    if call.access == Access::Read && call.flags.is_some() && !says(ScriptFlags::NO_WRITES) {
        return Err(Fail::fixed(
            "ERR Can not execute a script with write flag using *_ro command.",
        ));
    }
    let nested = ctx.session.in_exec;
    let may_write = call.access == Access::Write && !says(ScriptFlags::NO_WRITES);
    // What a primary sends is executed in any state.
    let is_loader = ctx.session.is(Modes::LOADER);
    if !is_loader && ctx.exec.shared.refuses_some() {
        admit_in_state(ctx, call, may_write)?;
    }
    // A write within it is about as long as what it is called with, or more.
    let needed = ctx.args().iter().map(|arg| arg.len()).sum();
    let lacks_memory = !nested && !is_loader && !ctx.exec.make_room(needed);
    let read_only = !may_write;
    if lacks_memory && call.flags.is_some() && !read_only && !says(ScriptFlags::ALLOW_OOM) {
        return Err(Fail::fixed(match call.kind {
            ProgramKind::Script => {
                "OOM allow-oom flag is not set on the script, can not run it when used memory > 'maxmemory'"
            }
            ProgramKind::Function => {
                "OOM allow-oom flag is not set on the function, can not run it when used memory > 'maxmemory'"
            }
        }));
    }
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
        let mut runner = Runner {
            exec: ctx.exec,
            session: ctx.session,
            host: ctx.host,
            read_only,
            lacks_memory: lacks_memory && !says(ScriptFlags::ALLOW_OOM),
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
    read_only: bool,
    lacks_memory: bool,
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
    /// Whether scripts may call what is not meant for them.
    #[cold]
    fn allows_everything(&self) -> bool {
        self.exec.shared.scripts.allows_everything.load(Relaxed)
    }

    /// Why a command cannot be called, if it cannot.
    #[inline]
    fn admit(&mut self, request: &Request<'_>) -> Result<(), &'static [u8]> {
        let Some(command) = request.command else { return Err(UNKNOWN) };
        let spec = command.spec;
        if !spec.accepts(request.args.len()) {
            return Err(ARITY);
        }
        if spec.flags.contains(Flags::NOSCRIPT) && !self.allows_everything() {
            return Err(NOT_FROM_SCRIPT);
        }
        if spec.flags.contains(Flags::READONLY) {
            return Ok(());
        }
        let writes = spec.flags.contains(Flags::WRITE);
        if self.read_only && (writes || spec.flags.contains(Flags::MAY_REPLICATE)) {
            return Err(READ_ONLY);
        }
        if self.lacks_memory
            && !self.acted
            && spec.flags.contains(Flags::DENYOOM)
            // What keeps all writes from being executed is what they are told of.
            && self.exec.shared.write_refusal().is_none()
        {
            return Err(Fail::OUT_OF_MEMORY_TEXT);
        }
        Ok(())
    }

    /// Whether everything that a command touches is locked; what is not is locked now.
    #[inline]
    fn reach(&mut self, request: &Request<'_>) -> Result<(), &'static [u8]> {
        let Some(command) = request.command else { return Ok(()) };
        let covered = match (command.spec.locks, request.hash) {
            (Locks::Keys, Some(hash)) => self.exec.ks.holds(hash),
            (Locks::Everything, _) => self.exec.ks.holds_everything(),
            _ => self.exec.ks.holds_everything() || self.covers(request),
        };
        if covered || self.nested { Ok(()) } else { self.stray() }
    }

    #[cold]
    fn covers(&mut self, request: &Request<'_>) -> bool {
        let Some(command) = request.command else { return true };
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
        if let Err(text) = self.admit(&request).and_then(|()| self.reach(&request)) {
            if self.again {
                reply.break_off(text);
                return false;
            }
            if let Some(command) = request.command {
                self.exec.stats.rejected(command.index);
            }
            self.exec.shared.count_error(&Fail::new(text));
            reply.refuse(text);
            return false;
        }
        if let Some(command) = request.command
            && !self.acted
            && (command.spec.flags.contains(Flags::WRITE)
                || command.spec.flags.contains(Flags::MAY_REPLICATE))
        {
            self.acted = true;
            if let Some(watched) = &self.watched {
                watched.wrote.store(true, Relaxed);
            }
        }
        self.exec.script_calls += 1;
        self.exec.execute(&request, self.session, self.host, reply);
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
                if self.host.attend() {
                    return Some("ERR The server is shutting down".into());
                }
                self.attended = self.exec.now();
            }
        }
        if self.writes_result {
            return self.interrupt_result(&watched);
        }
        let killed = watched.killed.load(Relaxed);
        killed.then(|| {
            let text = match (self.exec.shared.dialect(), self.call.kind) {
                (Dialect::Redis, ProgramKind::Script) => {
                    "Error running script, script killed by user with SCRIPT KILL."
                }
                (Dialect::Redis, ProgramKind::Function) => {
                    "Error running function, function killed by user with FUNCTION KILL."
                }
                (Dialect::Valkey, ProgramKind::Script) => "Script killed by user with SCRIPT KILL.",
                (Dialect::Valkey, ProgramKind::Function) => {
                    "Script killed by user with FUNCTION KILL."
                }
            };
            text.into()
        })
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

/// A script that has run for a while.
#[derive(Debug)]
pub struct Watched {
    /// What it is.
    pub kind: ProgramKind,
    /// Its sum, or the function's name.
    pub name: String,
    /// The call, with its name first.
    pub command: Vec<Box<[u8]>>,
    /// About when it began.
    pub since: Instant,
    /// It has called a command that may have changed something.
    pub wrote: AtomicBool,
    killed: AtomicBool,
    is_slow: AtomicBool,
}

/// See [`Running::appear_busy`].
#[derive(Debug)]
pub struct AppearsBusy<'a>(&'a Running);

impl Drop for AppearsBusy<'_> {
    fn drop(&mut self) {
        self.0.slow.fetch_sub(1, Relaxed);
        self.0.apparent.fetch_sub(1, Relaxed);
    }
}

/// The scripts that have run for a while, on any thread.
#[derive(Debug, Default)]
pub struct Running {
    scripts: Mutex<Vec<Arc<Watched>>>,
    /// Those that run for longer than `busy-reply-threshold`, and those that seem to.
    slow: AtomicUsize,
    /// The latter.
    apparent: AtomicUsize,
}

impl Running {
    /// Whether one runs for longer than `busy-reply-threshold`.
    #[inline]
    pub fn is_busy(&self) -> bool {
        self.slow.load(Relaxed) > 0
    }

    /// Lets one seem to run as long as the answer lives: for a thread that one has kept out, until
    /// it is let in.
    pub fn appear_busy(&self) -> AppearsBusy<'_> {
        self.apparent.fetch_add(1, Relaxed);
        self.slow.fetch_add(1, Relaxed);
        AppearsBusy(self)
    }

    /// Whether none runs for long any more, though it seems so: who asks now is to be answered in a
    /// moment.
    #[cold]
    pub fn was_busy(&self) -> bool {
        self.slow.load(Relaxed) <= self.apparent.load(Relaxed)
    }

    /// The one that began first.
    pub fn first(&self) -> Option<Arc<Watched>> {
        self.lock().first().cloned()
    }

    /// Lets those of a kind end that may: those that have not written.
    ///
    /// # Errors
    /// If none runs, or none may be ended.
    pub fn kill(&self, kind: ProgramKind, dialect: Dialect) -> Outcome {
        let scripts = self.lock();
        if scripts.is_empty() {
            return Err(Fail::fixed("NOTBUSY No scripts in execution right now."));
        }
        let of_kind: Vec<_> = scripts.iter().filter(|script| script.kind == kind).collect();
        if of_kind.is_empty() {
            return Err(busy_with(scripts[0].kind, dialect));
        }
        let mut killed = false;
        for script in of_kind.iter().filter(|script| !script.wrote.load(Relaxed)) {
            script.killed.store(true, Relaxed);
            killed = true;
        }
        if killed {
            return Ok(());
        }
        Err(Fail::fixed(
            "UNKILLABLE Sorry the script already executed write commands against the dataset. You can either wait the \
             script termination or kill the server in a hard way using the SHUTDOWN NOSAVE command.",
        ))
    }

    /// What everybody is answered while a script is slow.
    pub fn busy(&self, dialect: Dialect) -> Fail {
        let slow = self
            .lock()
            .iter()
            .find(|script| script.is_slow.load(Relaxed))
            .map(|script| script.kind);
        busy_with(slow.unwrap_or(ProgramKind::Script), dialect)
    }

    fn begin(&self, script: Watched) -> Arc<Watched> {
        let script = Arc::new(script);
        self.lock().push(script.clone());
        script
    }

    fn end(&self, script: &Arc<Watched>) {
        self.lock().retain(|other| !Arc::ptr_eq(other, script));
        if script.is_slow.load(Relaxed) {
            self.slow.fetch_sub(1, Relaxed);
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Arc<Watched>>> {
        self.scripts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn busy_with(kind: ProgramKind, dialect: Dialect) -> Fail {
    let name = dialect.choose("Redis", "Valkey");
    let what = match kind {
        ProgramKind::Script => "SCRIPT",
        ProgramKind::Function => "FUNCTION",
    };
    Fail::new(format!(
        "BUSY {name} is busy running a script. You can only call {what} KILL or SHUTDOWN NOSAVE."
    ))
}
