//! The script cache of the server, by SHA-1. Every thread compiles for itself the scripts that it
//! runs.

use super::key_use::KeyUse;
use super::running::Running;
use super::shebang::{self, Flags};
use crate::fail::Fail;
use petrel_lua::{Sha, sha1};
use petrel_resp::Dialect;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Maximum number of scripts cached by `EVAL` alone; scripts loaded with `SCRIPT LOAD` stay until
/// they are flushed.
const EVAL_MAX: usize = 500;

/// Maximum bytes of the scripts cached by `EVAL` alone.
const EVAL_BYTES_MAX: usize = 16 << 20;

/// Default maximum bytes of an interpreter.
const MEMORY_MAX: usize = 512 << 20;

/// Error of an unknown SHA-1.
pub(crate) const NO_SCRIPT: Fail = Fail::fixed("NOSCRIPT No matching script. Please use EVAL.");

/// Cached script.
#[derive(Debug)]
pub struct Script {
    /// SHA-1 of the text.
    pub sha: Sha,
    /// Text, including the first line with its flags.
    pub text: Box<[u8]>,
    /// Flags of the first line; `None` without such a line.
    pub flags: Option<Flags>,
    /// Use of keys, as far as known.
    pub key_use: KeyUse,
    /// Exempt from eviction (`SCRIPT LOAD`).
    loaded: AtomicBool,
    /// Time of the last use, counted in script look-ups.
    used: AtomicU64,
    /// Evicted or flushed.
    forgotten: AtomicBool,
}

impl Script {
    /// Whether it was evicted or flushed.
    pub fn is_forgotten(&self) -> bool {
        self.forgotten.load(Relaxed)
    }

    /// Memory in bytes.
    fn footprint(&self) -> usize {
        size_of::<Self>() + self.text.len()
    }
}

/// Scripts by SHA-1.
#[derive(Debug, Default)]
struct Known {
    by_sha: HashMap<Sha, Arc<Script>>,
    /// Bytes of all.
    bytes: usize,
    /// Number of scripts cached by `EVAL` alone, and their bytes.
    passing: usize,
    passing_bytes: usize,
}

impl Known {
    /// Adds a script for `EVAL`, or finds it.
    fn add(&mut self, script: Script) -> Arc<Script> {
        if let Some(known) = self.by_sha.get(&script.sha) {
            return known.clone();
        }
        let script = Arc::new(script);
        let bytes = script.footprint();
        self.bytes += bytes;
        self.passing += 1;
        self.passing_bytes += bytes;
        self.by_sha.insert(script.sha, script.clone());
        script
    }

    /// Evicts the least recently used of the scripts cached by `EVAL` alone; false if there is
    /// none.
    fn evict(&mut self) -> bool {
        let passing = self.by_sha.values().filter(|script| !script.loaded.load(Relaxed));
        let oldest =
            passing.min_by_key(|script| script.used.load(Relaxed)).map(|script| script.sha);
        let Some(script) = oldest.and_then(|sha| self.by_sha.remove(&sha)) else { return false };
        script.forgotten.store(true, Relaxed);
        self.bytes -= script.footprint();
        self.passing -= 1;
        self.passing_bytes -= script.footprint();
        true
    }
}

/// Script state shared by all threads.
#[derive(Debug)]
pub struct Scripts {
    /// Running scripts, and their termination.
    pub running: Running,
    /// Maximum bytes of each thread's interpreters.
    pub memory_max: AtomicUsize,
    /// Milliseconds after which a script is slow; 0: none is.
    pub slow_ms: AtomicU64,
    /// Scripts may call all commands (`DEBUG SET-DISABLE-DENY-SCRIPTS`).
    pub allows_everything: AtomicBool,
    /// Bytes of all threads' interpreters: for scripts, and for functions.
    pub interpreters: [AtomicUsize; 2],
    known: Mutex<Known>,
    /// Growth of the scripts' memory since [`Scripts::take_uncounted`], in bytes.
    uncounted: AtomicI64,
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
            known: Mutex::default(),
            uncounted: AtomicI64::new(0),
            calls: AtomicU64::new(0),
            flushes: AtomicU64::new(0),
            evicted: AtomicU64::new(0),
        }
    }
}

impl Scripts {
    /// Finds a script by its SHA-1.
    pub fn find(&self, sha: &Sha) -> Option<Arc<Script>> {
        self.lock().by_sha.get(sha).cloned()
    }

    /// Number of cached scripts.
    pub fn count(&self) -> usize {
        self.lock().by_sha.len()
    }

    /// Number of scripts evicted because there were too many, or they were too large.
    pub fn evicted(&self) -> u64 {
        self.evicted.load(Relaxed)
    }

    /// Resets the counter of evictions.
    pub fn reset_stats(&self) {
        self.evicted.store(0, Relaxed);
    }

    /// Memory of the texts, in bytes.
    pub fn footprint(&self) -> usize {
        self.lock().bytes
    }

    /// Records the memory of an interpreter for scripts (0) or for functions (1).
    pub(super) fn count_interpreter(&self, of: usize, before: usize, now: usize) {
        self.interpreters[of].fetch_add(now.wrapping_sub(before), Relaxed);
        self.uncounted.fetch_add(now as i64 - before as i64, Relaxed);
    }

    /// Growth of the memory of scripts and interpreters since the last call, in bytes: to be
    /// counted as used memory.
    #[inline]
    pub fn take_uncounted(&self) -> i64 {
        if self.uncounted.load(Relaxed) == 0 { 0 } else { self.uncounted.swap(0, Relaxed) }
    }

    /// Removes all scripts.
    pub fn flush(&self) {
        let forgotten = std::mem::take(&mut *self.lock());
        forgotten.by_sha.values().for_each(|script| script.forgotten.store(true, Relaxed));
        self.uncounted.fetch_sub(forgotten.bytes as i64, Relaxed);
        self.flushes.fetch_add(1, Relaxed);
    }

    /// Changes with every flush.
    pub fn flushes(&self) -> u64 {
        self.flushes.load(Relaxed)
    }

    /// Adds a compiled script, or returns the existing one; `loaded` exempts it from eviction.
    pub fn add(&self, script: Script, loaded: bool) -> Arc<Script> {
        let mut known = self.lock();
        let before = known.bytes;
        let script = known.add(script);
        if loaded && !script.loaded.swap(true, Relaxed) {
            known.passing -= 1;
            known.passing_bytes -= script.footprint();
        }
        self.note_use(&script);
        while known.passing > EVAL_MAX || known.passing_bytes > EVAL_BYTES_MAX {
            if !known.evict() {
                break;
            }
            self.evicted.fetch_add(1, Relaxed);
        }
        self.uncounted.fetch_add(known.bytes as i64 - before as i64, Relaxed);
        script
    }

    /// Updates the last use of a script.
    #[inline]
    pub fn note_use(&self, script: &Script) {
        if !script.loaded.load(Relaxed) {
            script.used.store(self.calls.fetch_add(1, Relaxed), Relaxed);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Script {
    /// Creates a script.
    ///
    /// # Errors
    /// If its first line cannot be understood.
    pub fn new(text: &[u8], dialect: Dialect) -> Result<Self, crate::fail::Fail> {
        Ok(Script {
            sha: sha1(text),
            flags: shebang::parse_script(text, dialect)?,
            text: text.into(),
            key_use: KeyUse::default(),
            loaded: AtomicBool::new(false),
            used: AtomicU64::new(0),
            forgotten: AtomicBool::new(false),
        })
    }
}

/// Parses a SHA-1 of 40 hexadecimal digits.
pub(crate) fn parse_sum(text: &[u8]) -> Option<Sha> {
    let digits: &[u8; 40] = text.try_into().ok()?;
    let mut sum = [0; 20];
    for (byte, pair) in sum.iter_mut().zip(digits.chunks_exact(2)) {
        let high = char::from(pair[0]).to_digit(16)?;
        let low = char::from(pair[1]).to_digit(16)?;
        *byte = (high << 4 | low) as u8;
    }
    Some(sum)
}

/// Reference to a cached script.
pub(crate) type ScriptRef = Arc<Script>;

#[cfg(test)]
mod tests {
    use super::*;

    fn add(scripts: &Scripts, n: usize, len: usize, loaded: bool) -> Sha {
        let text = format!("{n}{}", " ".repeat(len));
        scripts.add(Script::new(text.as_bytes(), Dialect::Redis).unwrap(), loaded).sha
    }

    #[test]
    fn what_eval_brings_is_bounded_in_number_and_bytes() {
        let (scripts, mut counted) = (Scripts::default(), 0);
        let kept = add(&scripts, 0, 1 << 20, true);
        for (len, count) in [(100, EVAL_MAX + 9), (5 << 20, 5), (20 << 20, 2), (1000, EVAL_MAX + 9)]
        {
            let shas: Vec<Sha> = (1..=count).map(|n| add(&scripts, n, len, false)).collect();
            assert!(scripts.count() <= EVAL_MAX + 1);
            assert!(scripts.footprint() <= EVAL_BYTES_MAX + (2 << 20), "{}", scripts.footprint());
            counted += scripts.take_uncounted();
            assert_eq!(counted, scripts.footprint() as i64);
            // The most recent stay, unless one alone is too large.
            let last = scripts.find(shas.last().unwrap()).is_some();
            assert_eq!(last, len < EVAL_BYTES_MAX);
            assert!(scripts.find(&shas[0]).is_none());
            assert!(scripts.find(&kept).is_some());
        }
        // Loaded scripts stay, and do not count among those.
        let (used, evicted) = (scripts.footprint(), scripts.evicted());
        let stays = add(&scripts, 1, 6 << 20, false);
        assert_eq!(add(&scripts, 1, 6 << 20, true), stays);
        for n in 2..5 {
            add(&scripts, n, 6 << 20, false);
        }
        assert!(scripts.find(&stays).is_some() && scripts.evicted() > evicted);
        assert!(scripts.footprint() > used);
        scripts.flush();
        counted += scripts.take_uncounted();
        assert_eq!((counted, scripts.footprint(), scripts.count()), (0, 0, 0));
    }
}
