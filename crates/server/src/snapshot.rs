//! The snapshot: the RDB file that `SAVE` writes and that the server starts from.

use crate::commands::connection::REDIS_VERSION;
use crate::config::{Config, DumpDialect, VersionCheck};
use crate::server::{Server, unix_ms};
use petrel_keyspace::Handle;
use petrel_persistence::rdb::{Dialect, FileError, FileOptions, FileWriter, Leniency};
use petrel_persistence::{LoadOptions, Loaded, Progress, load, save};
use std::fs::{self, File};
use std::io;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering::Relaxed};
use std::time::Instant;

/// What is known of the snapshot.
#[derive(Debug)]
pub struct Snapshot {
    /// How far the load at start is, or was.
    pub progress: Progress,
    /// When the load began, in Unix seconds; 0 if there was none.
    pub load_began: AtomicI64,
    /// When the data was last saved or loaded, in Unix seconds; at first, when the server started.
    pub saved_at: AtomicI64,
    /// [`petrel_keyspace::Stats::changes`] at that time.
    pub changes_then: AtomicU64,
    /// How often it was saved.
    pub saves: AtomicU64,
}

impl Default for Snapshot {
    fn default() -> Self {
        Snapshot {
            progress: Progress::default(),
            load_began: AtomicI64::new(0),
            saved_at: AtomicI64::new(unix_ms() / 1000),
            changes_then: AtomicU64::new(0),
            saves: AtomicU64::new(0),
        }
    }
}

impl Snapshot {
    /// Part of the file that is loaded, in percent.
    pub fn loaded_percent(&self) -> f64 {
        let total = self.progress.total.load(Relaxed).max(1);
        100.0 * self.progress.loaded.load(Relaxed) as f64 / total as f64
    }

    /// Seconds that the load is expected to take still, from how it went so far.
    pub fn seconds_left(&self) -> i64 {
        let loaded = self.progress.loaded.load(Relaxed) as f64;
        let left = self.progress.total.load(Relaxed) as f64 - loaded;
        let elapsed = (unix_ms() / 1000 - self.load_began.load(Relaxed)).max(1) as f64;
        if loaded > 0.0 { (elapsed * left / loaded) as i64 } else { -1 }
    }
}

impl Server {
    /// Writes every key into the configured file, all as they are at this moment: the keyspace is held until it is done. The file
    /// takes the place of the old one once it is safely on the disk. The thread is in a batch and holds nothing.
    ///
    /// # Errors
    /// If the file cannot be written; the old one is untouched then.
    pub fn save(&self, ks: &mut Handle, config: &Config) -> Result<(), FileError> {
        let start = Instant::now();
        let path = &config.dbfilename;
        let part = PathBuf::from(format!("temp-{}.rdb", std::process::id()));
        ks.lock_all();
        let changes = self.keyspace.stats().changes;
        let written = write(self, ks, config, &part);
        ks.unlock();
        let moved = written.and_then(|keys| {
            fs::rename(&part, path)?;
            // The directory holds the file's name.
            File::open(".")?.sync_all()?;
            Ok(keys)
        });
        let keys = moved.inspect_err(|error| {
            // There may be no such file.
            let _ = fs::remove_file(&part);
            tracing::error!("saving {} failed: {error}", path.display());
        })?;
        let snapshot = &self.snapshot;
        snapshot.saved_at.store(unix_ms() / 1000, Relaxed);
        snapshot.changes_then.store(changes, Relaxed);
        snapshot.saves.fetch_add(1, Relaxed);
        let seconds = start.elapsed().as_secs_f64();
        tracing::info!("saved {keys} keys to {} in {seconds:.2} s", path.display());
        Ok(())
    }

    /// Loads the configured file, if it is there, on a thread of its own; until that is done, commands that need the data are
    /// refused. If it fails, the server stops.
    ///
    /// # Errors
    /// If the file cannot be opened, or no thread be started.
    pub fn begin_load(self: &Arc<Self>, config: &Config) -> io::Result<()> {
        let path = &config.dbfilename;
        let file = match File::open(path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => {
                let path = path.display();
                return Err(io::Error::new(error.kind(), format!("cannot open {path}: {error}")));
            }
        };
        let len = file.metadata()?.len();
        let leniency = Leniency {
            any_version: config.accepts_any_rdb_version(),
            any_sum: !config.rdbchecksum,
        };
        let options = LoadOptions { threads: self.workers.len(), leniency };
        self.snapshot.progress.total.store(len, Relaxed);
        self.snapshot.load_began.store(unix_ms() / 1000, Relaxed);
        self.commands.set_loading(true);
        let (server, path) = (self.clone(), path.to_owned());
        let work = move || server.load(file, len, options, &path);
        std::thread::Builder::new().name("petrel-loader".into()).spawn(work)?;
        Ok(())
    }

    fn load(&self, file: File, len: u64, options: LoadOptions, path: &Path) {
        let start = Instant::now();
        tracing::info!("loading {}: {len} bytes", path.display());
        match load(file, len, &self.keyspace, options, &self.snapshot.progress) {
            Ok(loaded) => self.loaded(&loaded, start),
            Err(error) => self.fail(format!("cannot load {}: {error}", path.display())),
        }
    }

    fn loaded(&self, loaded: &Loaded, start: Instant) {
        let progress = &self.snapshot.progress;
        let (keys, expired) = (progress.keys.load(Relaxed), progress.expired.load(Relaxed));
        let seconds = start.elapsed().as_secs_f64();
        tracing::info!(
            "loaded {keys} keys in {seconds:.2} s; {expired} more had expired; RDB version {}",
            loaded.version
        );
        if loaded.modules > 0 {
            tracing::warn!("data of {} modules beside the keys was skipped", loaded.modules);
        }
        self.snapshot.changes_then.store(self.keyspace.stats().changes, Relaxed);
        self.commands.set_loading(false);
    }
}

/// Writes the file; how many keys it has.
fn write(server: &Server, ks: &mut Handle, config: &Config, path: &Path) -> Result<u64, FileError> {
    let options = FileOptions {
        compress: config.rdbcompression,
        sum: config.rdbchecksum,
        dialect: config.dialect(),
    };
    let mut file = FileWriter::new(File::create(path)?, options)?;
    file.aux("redis-ver", REDIS_VERSION.as_bytes());
    file.aux("redis-bits", b"64");
    file.aux("ctime", (unix_ms() / 1000).to_string().as_bytes());
    file.aux("used-mem", server.keyspace.stats().used.to_string().as_bytes());
    file.aux("petrel-ver", env!("CARGO_PKG_VERSION").as_bytes());
    ks.refresh_clock();
    let keys = save(ks, &mut file, |_| ControlFlow::Continue(()))?;
    file.finish()?.sync_all()?;
    Ok(keys)
}

impl Config {
    /// Whose form is written where Redis and Valkey part.
    pub fn dialect(&self) -> Dialect {
        match self.dump_dialect {
            DumpDialect::Redis => Dialect::Redis,
            DumpDialect::Valkey => Dialect::Valkey,
        }
    }

    /// Whether RDB files and payloads of versions that are not known are tried.
    pub fn accepts_any_rdb_version(&self) -> bool {
        self.rdb_version_check == VersionCheck::Relaxed
    }
}
