//! The configuration of a running server: CONFIG GET, CONFIG SET, and how threads see changes.

use petrel_commands::glob::{self, Case};
use std::fmt;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::{Mutex, RwLock};

use super::error::reason;
use super::load::resolve_dir;
use super::params::{Config, PARAMS};
use super::renames::Rename;
use super::rewrite::{self, Extent, RewriteError};
use super::table::{Mutability, Param};
use super::user_line::UserLine;
use super::value::Rule;

/// The current configuration, shared by all threads. Threads that read it often keep a
/// [`ConfigReader`], which takes one atomic load to refresh as long as nothing changes.
pub struct SharedConfig {
    version: Version,
    current: RwLock<Arc<Config>>,
    /// Held while changing or rewriting, so that changes come one after the other.
    changing: Mutex<()>,
    file: Option<ConfigFile>,
    users: Vec<UserLine>,
    renames: Vec<Rename>,
    dropped: Vec<&'static str>,
}

/// On a cache line of its own: every worker reads it every turn.
#[repr(align(128))]
struct Version(AtomicU64);

/// The file that the configuration was read from.
#[derive(Clone, Debug)]
pub struct ConfigFile {
    pub(super) path: PathBuf,
    /// The working directory at start, where its relative paths begin.
    pub(super) base: PathBuf,
}

/// A thread's copy of the configuration with its version.
pub struct ConfigReader {
    shared: Arc<SharedConfig>,
    version: u64,
    config: Arc<Config>,
}

/// A change that has been validated and waits to be taken over.
pub struct Change<'a> {
    /// The configuration that threads see until the change is accepted.
    pub old: &'a Config,
    /// The configuration that they will see.
    pub new: &'a Config,
    /// The changed parameters, in the order of the table.
    pub params: &'a [&'static Param],
}

/// Reason that the server could not apply a change.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Refusal {
    /// The parameter that it could not act on.
    pub name: &'static str,
    /// Description of the failure.
    pub reason: String,
}

/// Reason that CONFIG SET changed nothing. `Display` is Redis's error reply with its code.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum SetError {
    /// No parameter has this name.
    Unknown(String),
    /// A parameter, by the name that was given, cannot have this value.
    Failed {
        /// The name as it was given, or the documented one if the value is at fault.
        name: String,
        /// Description of the error.
        reason: String,
    },
}

impl SharedConfig {
    /// Starts with `config`; `file` is what CONFIG REWRITE will rewrite.
    pub fn new(config: Config, file: Option<ConfigFile>) -> Self {
        Self {
            version: Version(AtomicU64::new(0)),
            current: RwLock::new(Arc::new(config)),
            changing: Mutex::new(()),
            file,
            users: Vec::new(),
            renames: Vec::new(),
            dropped: Vec::new(),
        }
    }

    /// Adds the users named in the configuration.
    pub(super) fn with_users(self, users: Vec<UserLine>) -> Self {
        Self { users, ..self }
    }

    /// Adds the renamed commands.
    pub(super) fn with_renames(self, renames: Vec<Rename>) -> Self {
        Self { renames, ..self }
    }

    /// Creates it with the dropped directives that were read when it was loaded.
    pub(super) fn with_dropped(self, dropped: Vec<&'static str>) -> Self {
        Self { dropped, ..self }
    }

    /// A line that names the configured directives without effect: the threads of Redis and Valkey,
    /// and directives that they have dropped.
    pub fn ignored(&self) -> Option<String> {
        const THREADS: [&str; 2] = ["io-threads", "io-threads-do-reads"];
        let (config, default) = (self.snapshot(), Config::default());
        let is_set =
            |param: &&Param| THREADS.contains(&param.name) && !param.same(&config, &default);
        let threads: Vec<&str> = PARAMS.iter().filter(is_set).map(|param| param.name).collect();
        let names = [&threads[..], &self.dropped].concat().join(", ");
        let hint = if threads.is_empty() { "" } else { "; threads sets the number of workers" };
        (!names.is_empty()).then(|| format!("configured, but ignored: {names}{hint}"))
    }

    /// The commands that are to have other names, in the order in which they get them.
    pub fn renames(&self) -> &[Rename] {
        &self.renames
    }

    /// The users that were named when the configuration was loaded.
    pub fn users(&self) -> &[UserLine] {
        &self.users
    }

    /// The configuration as it is now.
    pub fn snapshot(&self) -> Arc<Config> {
        self.current.read().clone()
    }

    /// A view for one thread.
    pub fn reader(self: &Arc<Self>) -> ConfigReader {
        // The version before the snapshot: a change in between is seen as a change, not missed.
        let version = self.version.0.load(Ordering::Acquire);
        ConfigReader { shared: self.clone(), version, config: self.snapshot() }
    }

    /// The absolute path of the configuration file, if the server was started with one.
    pub fn file(&self) -> Option<&Path> {
        self.file.as_ref().map(|file| file.path.as_path())
    }

    /// CONFIG GET: names and values of all parameters that one of `patterns` names, in any case, in
    /// the order of the names. A name without wildcards is answered as it was written.
    pub fn get<P: AsRef<[u8]>>(&self, patterns: &[P]) -> Vec<(Vec<u8>, Vec<u8>)> {
        let config = self.snapshot();
        let mut found = Vec::new();
        for param in PARAMS {
            for name in param.names() {
                let shown = patterns.iter().find_map(|pattern| shown_as(name, pattern.as_ref()));
                found.extend(shown.map(|shown| (name, shown, param.text(&config))));
            }
        }
        found.sort_unstable_by_key(|(name, ..)| *name);
        found.into_iter().map(|(_, shown, value)| (shown, value)).collect()
    }

    /// CONFIG SET: takes over all of `pairs` or none.
    ///
    /// `client_is_local` says whether the client may change protected parameters if
    /// `enable-protected-configs` is `local`. Once all values are valid, `apply` makes the server
    /// use them; if it fails, it must have undone its work, and the old values stay. Returns the
    /// parameters with new values.
    pub fn set<T: AsRef<[u8]>>(
        &self,
        pairs: &[(T, T)],
        client_is_local: bool,
        apply: impl FnOnce(&Change<'_>) -> Result<(), Refusal>,
    ) -> Result<Vec<&'static Param>, SetError> {
        let _changing = self.changing.lock();
        let old = self.snapshot();
        let params = find_settable(&old, pairs, client_is_local)?;
        let mut new = Config::clone(&old);
        for (param, (_, value)) in params.iter().zip(pairs) {
            assign(param, value.as_ref(), &mut new)?;
        }
        let reloads = |param: &&Param| {
            param.mutability == Mutability::Reloads && params.iter().any(|p| p.name == param.name)
        };
        let changed: Vec<_> =
            PARAMS.iter().filter(|param| !param.same(&old, &new) || reloads(param)).collect();
        if let Some(fixed) = changed.iter().find(|param| param.mutability.is_fixed()) {
            let (name, reason) = (fixed.name.to_owned(), FIXED.to_owned());
            return Err(SetError::Failed { name, reason });
        }
        if changed.is_empty() {
            return Ok(changed);
        }
        apply(&Change { old: &old, new: &new, params: &changed })
            .map_err(|Refusal { name, reason }| SetError::Failed { name: name.into(), reason })?;
        *self.current.write() = Arc::new(new);
        self.version.0.fetch_add(1, Ordering::Release);
        Ok(changed)
    }

    /// Stores a change that no client requested, such as resetting an option that applies only
    /// once.
    pub fn settle(&self, change: impl FnOnce(&mut Config)) {
        let _changing = self.changing.lock();
        let mut new = Config::clone(&self.snapshot());
        change(&mut new);
        *self.current.write() = Arc::new(new);
        self.version.0.fetch_add(1, Ordering::Release);
    }

    /// CONFIG REWRITE: writes the present values into the configuration file, and `users`, each as
    /// a directive `user`, unless they are kept elsewhere.
    pub fn rewrite(
        &self,
        users: Option<&[Vec<Vec<u8>>]>,
        extent: Extent,
    ) -> Result<(), RewriteError> {
        let _changing = self.changing.lock();
        let file = self.file.as_ref().ok_or(RewriteError::NoFile)?;
        rewrite::rewrite(file, &self.snapshot(), users, extent)
    }
}

impl ConfigFile {
    /// The file at `path`, which starts at `base` if it is relative.
    pub fn new(path: &Path, base: &Path) -> Self {
        Self { path: base.join(path), base: base.to_path_buf() }
    }
}

impl ConfigReader {
    /// Takes over what changed since the last call; says whether anything did.
    #[inline]
    pub fn refresh(&mut self) -> bool {
        let version = self.shared.version.0.load(Ordering::Acquire);
        if version == self.version {
            return false;
        }
        self.config = self.shared.snapshot();
        self.version = version;
        true
    }

    /// The configuration shared by all readers.
    pub fn shared(&self) -> &Arc<SharedConfig> {
        &self.shared
    }
}

impl Deref for ConfigReader {
    type Target = Config;

    fn deref(&self) -> &Config {
        &self.config
    }
}

impl std::error::Error for SetError {}

impl fmt::Display for SetError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown(name) => {
                write!(f, "ERR Unknown option or number of arguments for CONFIG SET - '{name}'")
            }
            Self::Failed { name, reason } => write!(
                f,
                "ERR CONFIG SET failed (possibly related to argument '{name}') - {reason}"
            ),
        }
    }
}

/// Name that CONFIG GET shows for `name` with this `pattern`; `None` if it does not match.
fn shown_as(name: &str, pattern: &[u8]) -> Option<Vec<u8>> {
    if glob::is_pattern(pattern) {
        if HIDDEN.split(' ').any(|hidden| hidden == name) {
            return None;
        }
        let matches = glob::matches(pattern, name.as_bytes(), Case::Insensitive);
        return matches.then(|| name.into());
    }
    name.as_bytes().eq_ignore_ascii_case(pattern).then(|| pattern.to_vec())
}

/// Looks up the parameters in the order given; the first that may not be set is the error.
fn find_settable<T: AsRef<[u8]>>(
    config: &Config,
    pairs: &[(T, T)],
    client_is_local: bool,
) -> Result<Vec<&'static Param>, SetError> {
    let mut params: Vec<&'static Param> = Vec::new();
    for (name, _) in pairs {
        let name = name.as_ref();
        let failed = |reason: &str| {
            Err(SetError::Failed { name: in_a_reply(name), reason: reason.to_owned() })
        };
        let Some(param) = Param::find(name) else {
            return Err(SetError::Unknown(in_a_reply(name)));
        };
        match param.mutability {
            Mutability::AtStart => return failed(FIXED),
            Mutability::Protected if !config.enable_protected_configs.allows(client_is_local) => {
                return failed("can't set protected config");
            }
            _ => {}
        }
        // By whichever of its names.
        if params.iter().any(|other| other.name == param.name) {
            return failed("duplicate parameter");
        }
        params.push(param);
    }
    Ok(params)
}

fn assign(param: &Param, value: &[u8], config: &mut Config) -> Result<(), SetError> {
    let result = param.update(config, &[value.to_vec()]).map_err(|invalid| invalid.to_string());
    let result = result.and_then(|()| match param.rule {
        Rule::Directory => {
            let base = std::env::current_dir().map_err(|error| reason(&error))?;
            resolve_dir(config, &base).map_err(|invalid| invalid.to_string())
        }
        _ => Ok(()),
    });
    result.map_err(|reason| SetError::Failed { name: param.name.to_owned(), reason })
}

/// A name as an error reply can hold it: bounded, without line ends.
fn in_a_reply(name: &[u8]) -> String {
    let shown = &name[..name.len().min(NAME_SHOWN_BYTES_MAX)];
    String::from_utf8_lossy(shown).replace(['\r', '\n'], " ")
}

/// Parameters that CONFIG GET shows only by their full names.
pub(super) const HIDDEN: &str = "\
    enable-debug-assert io-threads-always-active key-load-delay \
    lazyexpire-nested-arbitrary-keys loading-process-events-interval-bytes \
    lua-enable-deprecated-api min-io-threads-avoid-copy-reply min-string-size-avoid-copy-reply \
    min-string-size-avoid-copy-reply-threaded rdb-key-save-delay repl-rdb-channel";
const FIXED: &str = "can't set immutable config";
const NAME_SHOWN_BYTES_MAX: usize = 128;
