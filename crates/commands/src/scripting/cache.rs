//! The scripts that the server knows. Every thread compiles for itself those that it runs.

use super::run::Running;
use super::shebang::{self, Flags};
use petrel_lua::{Sha, sha1};
use petrel_resp::Dialect;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Scripts kept that came with `EVAL` alone; those that `SCRIPT LOAD` brought stay until they are flushed.
const EVAL_MAX: usize = 500;

/// Bytes that an interpreter may have, unless it is configured.
const MEMORY_MAX: usize = 512 << 20;

/// A script.
#[derive(Debug)]
pub struct Script {
    /// Its sum.
    pub sha: Sha,
    /// Its text, the first line with its flags included.
    pub text: Box<[u8]>,
    /// What the first line says; none if it says nothing.
    pub flags: Option<Flags>,
    /// It has used keys that it had not declared.
    pub strays: AtomicBool,
    /// It is kept however many others there are.
    loaded: AtomicBool,
    /// When it was used last, in calls of scripts that were looked up.
    used: AtomicU64,
    /// It is not known any more.
    forgotten: AtomicBool,
}

impl Script {
    /// Whether the server has forgotten it.
    pub fn is_forgotten(&self) -> bool {
        self.forgotten.load(Relaxed)
    }

    /// Bytes that it takes.
    fn footprint(&self) -> usize {
        size_of::<Self>() + self.text.len()
    }
}

/// What all threads know of scripts.
#[derive(Debug)]
pub struct Scripts {
    /// Which script runs, and whether it is to end.
    pub running: Running,
    /// Bytes that each thread's interpreters may have.
    pub memory_max: AtomicUsize,
    /// Milliseconds after which a script is slow; 0: none is.
    pub slow_ms: AtomicU64,
    /// Scripts may call the commands too that are not meant for them (`DEBUG SET-DISABLE-DENY-SCRIPTS`).
    pub allows_everything: AtomicBool,
    /// Bytes of the interpreters of all threads: of those for scripts, and of those for functions.
    pub interpreters: [AtomicUsize; 2],
    by_sha: Mutex<HashMap<Sha, Arc<Script>>>,
    calls: AtomicU64,
    flushes: AtomicU64,
    evicted: AtomicU64,
}

impl Default for Scripts {
    fn default() -> Self {
        Scripts {
            running: Running::default(),
            memory_max: AtomicUsize::new(MEMORY_MAX),
            slow_ms: AtomicU64::new(5000),
            allows_everything: AtomicBool::new(false),
            interpreters: Default::default(),
            by_sha: Mutex::default(),
            calls: AtomicU64::new(0),
            flushes: AtomicU64::new(0),
            evicted: AtomicU64::new(0),
        }
    }
}

impl Scripts {
    /// The script of this sum.
    pub fn find(&self, sha: &Sha) -> Option<Arc<Script>> {
        self.lock().get(sha).cloned()
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.lock().len()
    }

    /// How many were forgotten because there were too many.
    pub fn evicted(&self) -> u64 {
        self.evicted.load(Relaxed)
    }

    /// Counts evictions from 0 again.
    pub fn reset_stats(&self) {
        self.evicted.store(0, Relaxed);
    }

    /// Bytes that the texts take.
    pub fn footprint(&self) -> usize {
        self.lock().values().map(|script| script.footprint()).sum()
    }

    /// Forgets them all.
    pub fn flush(&self) {
        let forgotten = std::mem::take(&mut *self.lock());
        forgotten.values().for_each(|script| script.forgotten.store(true, Relaxed));
        self.flushes.fetch_add(1, Relaxed);
    }

    /// Changes with every flush.
    pub fn flushes(&self) -> u64 {
        self.flushes.load(Relaxed)
    }

    /// Makes a script known, which has been compiled; `loaded` if it is to stay. The same again, if it is known.
    pub fn add(&self, script: Script, loaded: bool) -> Arc<Script> {
        let mut by_sha = self.lock();
        let script = by_sha.entry(script.sha).or_insert_with(|| Arc::new(script)).clone();
        script.loaded.fetch_or(loaded, Relaxed);
        self.note_use(&script);
        if !loaded {
            self.make_room(&mut by_sha);
        }
        script
    }

    /// Notes that a script is used.
    #[inline]
    pub fn note_use(&self, script: &Script) {
        if !script.loaded.load(Relaxed) {
            script.used.store(self.calls.fetch_add(1, Relaxed), Relaxed);
        }
    }

    /// Forgets the one that was not used for longest of those that came with `EVAL`, if there are too many.
    fn make_room(&self, by_sha: &mut HashMap<Sha, Arc<Script>>) {
        let ours = || by_sha.values().filter(|script| !script.loaded.load(Relaxed));
        if ours().count() <= EVAL_MAX {
            return;
        }
        let Some(oldest) =
            ours().min_by_key(|script| script.used.load(Relaxed)).map(|script| script.sha)
        else {
            return;
        };
        if let Some(script) = by_sha.remove(&oldest) {
            script.forgotten.store(true, Relaxed);
            self.evicted.fetch_add(1, Relaxed);
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Sha, Arc<Script>>> {
        self.by_sha.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Script {
    /// A script of this text.
    ///
    /// # Errors
    /// If its first line cannot be understood.
    pub fn new(text: &[u8], dialect: Dialect) -> Result<Self, crate::fail::Fail> {
        Ok(Script {
            sha: sha1(text),
            flags: shebang::parse_script(text, dialect)?,
            text: text.into(),
            strays: AtomicBool::new(false),
            loaded: AtomicBool::new(false),
            used: AtomicU64::new(0),
            forgotten: AtomicBool::new(false),
        })
    }
}
