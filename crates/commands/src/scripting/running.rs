//! Long-running scripts of all threads: `SCRIPT KILL` can end them, and slow ones make other
//! clients get `BUSY`.

use crate::clock::monotonic_nanos;
use crate::fail::{Fail, Outcome};
use petrel_resp::Dialect;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Kind of a running program.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum ProgramKind {
    /// A script.
    Script,
    /// A function of a library.
    Function,
}

/// A script that has run for a while.
#[derive(Debug)]
pub struct Watched {
    /// Script or function.
    pub kind: ProgramKind,
    /// SHA-1 of the script, or name of the function.
    pub name: String,
    /// The call, with its name first.
    pub command: Vec<Box<[u8]>>,
    /// About when it began.
    pub since: Instant,
    /// One of [`CLEAN`], [`WROTE`] and [`KILLED`]: what has written is not killed.
    fate: AtomicU8,
    pub(super) is_slow: AtomicBool,
}

/// Has called no command that may have changed something.
const CLEAN: u8 = 0;

/// Has called one.
const WROTE: u8 = 1;

/// Has to end.
const KILLED: u8 = 2;

/// The deadline of scripts at shutdown.
pub(super) const SHUTTING_DOWN: &str = "The server is shutting down";

/// Nanoseconds that a script which is not slow yet may take once the server stops.
const STOP_PATIENCE: u64 = 5_000_000_000;

impl Watched {
    pub(crate) fn new(kind: ProgramKind, name: String, command: &[&[u8]], wrote: bool) -> Self {
        Watched {
            kind,
            name,
            command: command.iter().map(|&arg| arg.into()).collect(),
            since: Instant::now(),
            fate: AtomicU8::new(if wrote { WROTE } else { CLEAN }),
            is_slow: AtomicBool::new(false),
        }
    }

    /// Whether it is to end.
    pub(crate) fn is_killed(&self) -> bool {
        self.fate.load(Relaxed) == KILLED
    }

    fn has_written(&self) -> bool {
        self.fate.load(Relaxed) == WROTE
    }

    fn change(&self, from: u8, to: u8) -> bool {
        self.fate.compare_exchange(from, to, Relaxed, Relaxed).is_ok()
    }

    /// Ends it; false if it has written.
    fn kill(&self) -> bool {
        self.change(CLEAN, KILLED) || self.is_killed()
    }

    /// Prepares a command that may change something; false if it was killed before.
    pub(crate) fn begin_to_write(&self) -> bool {
        self.change(CLEAN, WROTE) || self.has_written()
    }

    /// Lets it be killed again: the command that was going to write has changed nothing yet, or the
    /// result is being written.
    pub(crate) fn withdraw_write(&self) {
        self.change(WROTE, CLEAN);
    }

    /// Notes that a command may have changed something. A kill since its last step has no effect.
    pub(crate) fn note_write(&self) {
        self.fate.store(WROTE, Relaxed);
    }

    /// The error that ends it, if it was killed by a client.
    pub(super) fn killed_by(&self, dialect: Dialect) -> Option<&'static str> {
        self.is_killed().then_some(match (dialect, self.kind) {
            (Dialect::Redis, ProgramKind::Script) => {
                "Error running script, script killed by user with SCRIPT KILL."
            }
            (Dialect::Redis, ProgramKind::Function) => {
                "Error running function, function killed by user with FUNCTION KILL."
            }
            (Dialect::Valkey, ProgramKind::Script) => "Script killed by user with SCRIPT KILL.",
            (Dialect::Valkey, ProgramKind::Function) => "Script killed by user with FUNCTION KILL.",
        })
    }
}

/// Deadline of the scripts that run at shutdown, in nanoseconds of [`monotonic_nanos`].
#[derive(Debug)]
struct Deadline {
    nanos: AtomicU64,
    /// Whether the deadline is ignored for a slow script that has written.
    is_short: AtomicBool,
}

impl Default for Deadline {
    fn default() -> Self {
        Deadline { nanos: AtomicU64::new(u64::MAX), is_short: AtomicBool::new(false) }
    }
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
    /// Number of scripts that run for longer than `busy-reply-threshold`, including apparent ones.
    pub(super) slow: AtomicUsize,
    /// Number of apparent ones, see [`Running::appear_busy`].
    apparent: AtomicUsize,
    deadline: Deadline,
}

impl Running {
    /// Whether one runs for longer than `busy-reply-threshold`.
    #[inline]
    pub fn is_busy(&self) -> bool {
        self.slow.load(Relaxed) > 0
    }

    /// Whether another one does than the script that asks, which is slow itself or not.
    pub(super) fn is_busy_beside(&self, is_slow: bool) -> bool {
        let others = self.apparent.load(Relaxed) + usize::from(is_slow);
        self.slow.load(Relaxed) > others
    }

    /// Lets one seem to run as long as the answer lives: for a thread that one has kept out, until
    /// it is let in.
    pub fn appear_busy(&self) -> AppearsBusy<'_> {
        self.apparent.fetch_add(1, Relaxed);
        self.slow.fetch_add(1, Relaxed);
        AppearsBusy(self)
    }

    /// Whether only apparent slow scripts are left: clients will be served in a moment.
    #[cold]
    pub fn was_busy(&self) -> bool {
        self.slow.load(Relaxed) <= self.apparent.load(Relaxed)
    }

    /// The script that began first.
    pub fn first(&self) -> Option<Arc<Watched>> {
        self.lock().first().cloned()
    }

    /// Kills all scripts of a kind that have not written.
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
        for script in of_kind {
            killed |= script.kill();
        }
        if killed {
            return Ok(());
        }
        Err(Fail::fixed(
            "UNKILLABLE Sorry the script already executed write commands against the dataset. You can either wait the \
             script termination or kill the server in a hard way using the SHUTDOWN NOSAVE command.",
        ))
    }

    /// Ends all scripts, since the server is to stop: one that has not written as soon as it is
    /// slow, and any of them once `patience` is over.
    pub fn end_all(&self, patience: Duration) {
        let patience = u64::try_from(patience.as_nanos()).unwrap_or(u64::MAX);
        self.deadline.nanos.store(monotonic_nanos().saturating_add(patience), Relaxed);
    }

    /// Ends all scripts, since the server stops: any as soon as it is slow, and no later than in
    /// some seconds.
    pub fn end_all_soon(&self) {
        let soon = monotonic_nanos().saturating_add(STOP_PATIENCE);
        self.deadline.nanos.fetch_min(soon, Relaxed);
        self.deadline.is_short.store(true, Relaxed);
    }

    /// Cancels the end of scripts, because the server does not stop.
    pub fn end_none(&self) {
        self.deadline.nanos.store(u64::MAX, Relaxed);
        self.deadline.is_short.store(false, Relaxed);
    }

    /// Whether a script is to end since the server is to stop.
    pub(super) fn is_ending(&self, script: &Watched) -> bool {
        let nanos = self.deadline.nanos.load(Relaxed);
        if nanos == u64::MAX {
            return false;
        }
        let waits = script.has_written() && !self.deadline.is_short.load(Relaxed);
        !waits && script.is_slow.load(Relaxed) || monotonic_nanos() >= nanos
    }

    /// Error for clients while a script is slow.
    pub fn busy(&self, dialect: Dialect) -> Fail {
        let slow = self
            .lock()
            .iter()
            .find(|script| script.is_slow.load(Relaxed))
            .map(|script| script.kind);
        busy_with(slow.unwrap_or(ProgramKind::Script), dialect)
    }

    /// Shows a command that holds the whole keyspace for long, as a script that has changed
    /// nothing.
    pub(crate) fn begin_slow(&self, command: Vec<Box<[u8]>>, since: Instant) -> Arc<Watched> {
        let name = command.first().map(|name| String::from_utf8_lossy(name).into_owned());
        self.slow.fetch_add(1, Relaxed);
        self.begin(Watched {
            kind: ProgramKind::Script,
            name: name.unwrap_or_default(),
            command,
            since,
            fate: AtomicU8::new(CLEAN),
            is_slow: AtomicBool::new(true),
        })
    }

    pub(super) fn begin(&self, script: Watched) -> Arc<Watched> {
        let script = Arc::new(script);
        self.list(script.clone());
        script
    }

    /// Shows a script to others.
    pub(super) fn list(&self, script: Arc<Watched>) {
        self.lock().push(script);
    }

    pub(crate) fn end(&self, script: &Arc<Watched>) {
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
