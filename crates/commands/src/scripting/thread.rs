//! State of a thread for running scripts: an interpreter, created on first use, and the compiled
//! functions.

use super::cache::{NO_SCRIPT, Script, ScriptRef, Scripts};
use super::declared::names_declared_keys;
use super::shebang;
use crate::fail::Fail;
use crate::registry::Registry;
use petrel_lua::{CallShape, Compiled, Lua, Purpose, Release, Server, Sha};
use petrel_resp::Dialect;
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use twox_hash::XxHash3_64;

/// Maximum number of functions that a thread keeps compiled; beyond, it drops all.
const COMPILED_MAX: usize = 2000;

/// Maximum bytes of their texts, unless a single one has more.
const COMPILED_BYTES_MAX: usize = 8 << 20;

/// Maximum bytes of a text that is hashed word by word.
const FOLDED_MAX: usize = 512;

/// Odd multiplier without a bit pattern: the fraction of the golden ratio.
const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;

/// Compiled script.
pub(crate) struct Ready {
    pub script: ScriptRef,
    pub function: Compiled,
}

/// A map with keys that are hashes already.
type ByHash<T> = HashMap<u64, T, BuildHasherDefault<Identity>>;

/// State of a thread for running scripts.
pub(crate) struct ScriptThread {
    pub lua: Lua,
    dialect: Dialect,
    by_text: ByHash<Arc<Ready>>,
    by_sha: ByHash<Arc<Ready>>,
    /// Bytes of the texts of all compiled scripts.
    compiled_bytes: usize,
    flushes: u64,
    counted: usize,
}

impl ScriptThread {
    pub fn new(scripts: &Scripts, release: Release) -> Self {
        let dialect = release.dialect;
        let memory_max = scripts.memory_max.load(Relaxed);
        let lua = Lua::new(Purpose::Scripts, memory_max, release);
        ScriptThread {
            lua,
            dialect,
            by_text: ByHash::default(),
            by_sha: ByHash::default(),
            compiled_bytes: 0,
            flushes: scripts.flushes(),
            counted: 0,
        }
    }

    /// Finds or compiles a script by its text.
    #[inline]
    pub fn of_text<H>(
        &mut self,
        scripts: &Scripts,
        registry: &Registry<H>,
        text: &[u8],
        server: &mut dyn Server,
    ) -> Result<Arc<Ready>, Fail> {
        self.follow(scripts);
        match self.by_text.get(&hash(text)) {
            Some(ready) if *ready.script.text == *text && !ready.script.is_forgotten() => {
                let ready = ready.clone();
                scripts.note_use(&ready.script);
                Ok(ready)
            }
            _ => self.compile((scripts, registry), text, false, server),
        }
    }

    /// Finds or compiles a script by its SHA-1.
    #[inline]
    pub fn of_sum<H>(
        &mut self,
        scripts: &Scripts,
        registry: &Registry<H>,
        sha: &Sha,
        server: &mut dyn Server,
    ) -> Result<Arc<Ready>, Fail> {
        self.follow(scripts);
        match self.by_sha.get(&word(sha)) {
            Some(ready) if ready.script.sha == *sha && !ready.script.is_forgotten() => {
                let ready = ready.clone();
                scripts.note_use(&ready.script);
                Ok(ready)
            }
            _ => {
                let script = scripts.find(sha).ok_or(NO_SCRIPT)?;
                self.compile((scripts, registry), &script.text, false, server)
            }
        }
    }

    /// Adds a script to the server's cache.
    pub fn load<H>(
        &mut self,
        scripts: &Scripts,
        registry: &Registry<H>,
        text: &[u8],
        server: &mut dyn Server,
    ) -> Result<ScriptRef, Fail> {
        self.follow(scripts);
        self.compile((scripts, registry), text, true, server).map(|ready| ready.script.clone())
    }

    fn compile<H>(
        &mut self,
        (scripts, registry): (&Scripts, &Registry<H>),
        text: &[u8],
        stays: bool,
        server: &mut dyn Server,
    ) -> Result<Arc<Ready>, Fail> {
        let script = Script::new(text, self.dialect)?;
        self.compiled_bytes += text.len();
        if self.lua.kept() >= COMPILED_MAX || self.compiled_bytes > COMPILED_BYTES_MAX {
            self.forget();
            self.compiled_bytes = text.len();
        }
        let function = self.lua.compile(shebang::body(text), c"@user_script", server);
        let function = function.map_err(|message| {
            Fail::new([b"ERR Error compiling script (new function): ", &message[..]].concat())
        })?;
        let script = scripts.add(script, stays);
        script.key_use.examine(|| {
            let keeps_to_keys = &mut |call: &CallShape<'_>| names_declared_keys(registry, call);
            self.lua.keeps_to_keys(&function, keeps_to_keys)
        });
        let ready = Arc::new(Ready { script, function });
        for replaced in [
            self.by_text.insert(hash(text), ready.clone()),
            self.by_sha.insert(word(&ready.script.sha), ready.clone()),
        ] {
            self.release(replaced);
        }
        self.count_memory(scripts);
        Ok(ready)
    }

    /// Records the memory of the interpreter.
    pub fn count_memory(&mut self, scripts: &Scripts) {
        let now = self.lua.memory();
        if now != self.counted {
            scripts.count_interpreter(0, self.counted, now);
            self.counted = now;
        }
    }

    /// Removes this interpreter's memory from the total.
    pub fn count_out(self, scripts: &Scripts) {
        scripts.count_interpreter(0, self.counted, 0);
    }

    /// Whether all scripts have been flushed since it ran one.
    pub fn is_flushed(&self, scripts: &Scripts) -> bool {
        scripts.flushes() != self.flushes
    }

    /// Drops functions compiled before the last flush.
    #[inline]
    fn follow(&mut self, scripts: &Scripts) {
        let flushes = scripts.flushes();
        if flushes != self.flushes {
            self.flushes = flushes;
            self.forget();
        }
    }

    #[cold]
    fn forget(&mut self) {
        let all = self
            .by_text
            .drain()
            .chain(self.by_sha.drain())
            .map(|(_, ready)| ready)
            .collect::<Vec<_>>();
        for ready in all {
            self.release(Some(ready));
        }
        self.compiled_bytes = 0;
        self.lua.collect();
    }

    fn release(&mut self, ready: Option<Arc<Ready>>) {
        if let Some(ready) = ready.and_then(Arc::into_inner) {
            self.lua.release(ready.function);
        }
    }
}

/// Hash of a text. Texts with equal hashes are compared.
#[inline]
fn hash(text: &[u8]) -> u64 {
    if text.len() > FOLDED_MAX { XxHash3_64::oneshot(text) } else { folded(text) }
}

/// Product of a text's words: for short texts faster than a hash for texts of any length.
#[inline]
fn folded(text: &[u8]) -> u64 {
    let fold = |hash: u64, word: [u8; 8]| {
        let product = u128::from(hash ^ u64::from_le_bytes(word)) * u128::from(FACTOR);
        product as u64 ^ (product >> 64) as u64
    };
    let (words, rest) = text.as_chunks::<8>();
    let mut last = [0; 8];
    last[..rest.len()].copy_from_slice(rest);
    let hash = words.iter().fold(FACTOR ^ text.len() as u64, |hash, word| fold(hash, *word));
    fold(hash, last)
}

fn word(sha: &Sha) -> u64 {
    let (first, _) = sha.split_first_chunk::<8>().unwrap_or((&[0; 8], &[]));
    u64::from_le_bytes(*first)
}

/// Hasher for keys that are hashes already.
#[derive(Default)]
struct Identity(u64);

impl Hasher for Identity {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, _: &[u8]) {}

    fn write_u64(&mut self, n: u64) {
        self.0 = n;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn texts_that_differ_little_have_hashes_of_their_own() {
        let mut hashes = HashSet::new();
        let text = "return redis.call('GET', KEYS[1])".repeat(20);
        for len in (0..80).chain([FOLDED_MAX - 1, FOLDED_MAX, FOLDED_MAX + 1]) {
            let mut text = text.as_bytes()[..len].to_vec();
            assert!(hashes.insert(hash(&text)), "{len}");
            for at in 0..len {
                text[at] ^= 1;
                assert!(hashes.insert(hash(&text)), "{len}: {at}");
                text[at] ^= 1;
            }
        }
    }
}
