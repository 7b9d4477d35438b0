//! The way back in: the files of a log, at the start.

use crate::config::Config;
use crate::durability::snapshot::cannot_load;
use crate::observation::pluralized::Pluralized;
use crate::server::Server;
use crate::state::log::open::{LogOpening, Unwritten};
use petrel_commands::aux_state::AuxError;
use petrel_keyspace::Handle;
use petrel_persistence::aof::begins_as_rdb;
use petrel_persistence::log::{
    Chain, Directory, Entry, FileKind, LogSource, Manifest, Piece, Replayed, about_empty,
    check_base, check_len, check_names, is_full, replay,
};
use petrel_persistence::rdb::{FileError, Leniency};
use petrel_persistence::{LoadOptions, load};
use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

#[cfg(test)]
mod cuts;

/// Loaded state.
#[derive(Default)]
pub(super) struct Found {
    /// The files of effects.
    pub chain: Chain,
    /// Auxiliary state by name: whole forms.
    pub aux: BTreeMap<Vec<u8>, Vec<u8>>,
    /// Pending records that were applied after all files and are in none of them.
    pub unwritten: Option<Unwritten>,
}

impl Found {
    /// Adds later state than the present one: numbers of changes, and whole forms.
    pub fn add_aux(&mut self, later: BTreeMap<Vec<u8>, (u64, Vec<u8>)>) {
        self.aux.extend(later.into_iter().map(|(name, (_, form))| (name, form)));
    }
}

impl Server {
    /// The directory of the log.
    pub(super) fn open_directory(&self, config: &Config) -> io::Result<Directory> {
        let name = config.appendfilename.lossy().into_owned();
        let path = config.appenddirname.lossy().into_owned();
        // It stays where it is, whatever becomes of the working directory.
        Directory::open(&std::path::absolute(path)?, &name, log_id())
    }

    /// Loads the log and continues it. A new log begins with the append-only file of an older
    /// Redis, or else with the snapshot, if there is one. Until the data have been loaded, on a
    /// thread of its own, commands that need them are refused. If the load fails, the server stops.
    /// Returns whether there is anything to load.
    ///
    /// # Errors
    /// If the directory cannot be used, or no thread be started.
    pub(crate) fn begin_load_log(self: &Arc<Self>, config: &Config) -> io::Result<bool> {
        let mut directory = self.open_directory(config)?;
        let single = Path::new(&*config.appendfilename.lossy()).to_owned();
        let mut single = (directory.is_empty() && single.is_file()).then_some(single);
        if directory.is_empty() && single.is_none() && config.dbfilename.exists() {
            tracing::info!(
                "{} is the base of a new log in {}",
                config.dbfilename.display(),
                config.appenddirname.lossy()
            );
            match directory.adopt_base(&config.dbfilename) {
                Err(error) if is_full(&error) => {
                    tracing::error!("it cannot be that yet: {error}; it is only loaded");
                    single = Some(config.dbfilename.clone());
                }
                adopted => adopted?,
            }
        }
        if directory.is_empty() && single.is_none() {
            let mut handle = self.keyspace.attach();
            handle.enter();
            directory.sweep();
            let opening = LogOpening { unwritten: None, previous: 0, is_complete: true };
            let begun = self.begin_log(&mut handle, directory, config, opening, true);
            handle.exit();
            return begun.map(|()| false);
        }
        let len = |entry| directory.path_of(entry).metadata().map_or(0, |meta| meta.len());
        let total = directory.manifest().entries.iter().map(len).sum();
        self.snapshot.progress.total.store(total, Relaxed);
        self.begin_loading(config);
        let (server, config) = (self.clone(), self.config.snapshot());
        let work = move || {
            if let Err(why) = server.load_log(directory, single.as_deref(), &config) {
                server.fail(why);
            }
        };
        std::thread::Builder::new().name("petrel-loader".into()).spawn(work)?;
        Ok(true)
    }

    fn load_log(
        self: &Arc<Self>,
        mut directory: Directory,
        single: Option<&Path>,
        config: &Config,
    ) -> Result<(), String> {
        let start = Instant::now();
        let mut found = match single {
            // A snapshot that could not become the base.
            Some(path) if path == config.dbfilename => {
                Found { aux: self.load_log_base(path, config, false)?, ..Found::default() }
            }
            Some(path) => {
                self.load_single(path, config)?;
                Found::default()
            }
            None => self.load_files(&mut directory, config)?,
        };
        if self.snapshot.progress.stop.load(Relaxed) || self.is_stopping() {
            return Ok(());
        }
        if let Some((entry, whole)) = &found.chain.torn {
            cut(&directory.path_of(entry), *whole)
                .map_err(|error| format!("cannot cut {}: {error}", entry.name))?;
        }
        if single.is_none() {
            self.recover_pending(&mut directory, &mut found)?;
        }
        for (name, form) in &found.aux {
            self.commands.load_aux(name, form).map_err(|AuxError { name, why }| {
                format!("cannot load the {name} of the log: {why}")
            })?;
        }
        let databases = 0..self.keyspace.databases();
        let keys = databases.map(|db| self.keyspace.db_stats(db).keys).sum::<u64>();
        self.snapshot.progress.keys.store(keys, Relaxed);
        let mut handle = self.keyspace.attach();
        handle.enter();
        let previous = found.chain.last_epoch.unwrap_or(0);
        let opening = LogOpening {
            unwritten: found.unwritten.take(),
            previous,
            is_complete: single.is_none(),
        };
        // Before more room is asked for: all that is needed has been read.
        directory.sweep();
        let begun = self.begin_log(&mut handle, directory, config, opening, true);
        handle.exit();
        begun.map_err(|error| format!("cannot go on with the log: {error}"))?;
        if single.is_some() {
            // The new log begins with the loaded data.
            self.durability.schedule_rewrite();
        }
        let (keys, seconds) = (Pluralized(keys, "key"), start.elapsed().as_secs_f64());
        tracing::info!("loaded {keys} in {seconds:.2} s");
        self.finish_loading();
        Ok(())
    }

    /// Drops all data and loads them from the log again, which continues afterwards; if nothing is
    /// logged, from the last log or snapshot. Commands that need the data are refused meanwhile.
    /// `ks` is in a batch and holds no locks.
    ///
    /// # Errors
    /// If there is no log, or it cannot be written or read; in the last case nothing is left of the
    /// data.
    pub(crate) fn reload_log(self: &Arc<Self>, ks: &mut Handle) -> Result<(), String> {
        const PATIENCE: Duration = Duration::from_secs(10);
        let log = self.durability.log();
        let directory = self.durability.directory.lock().clone();
        let mut directory = directory.ok_or("there is no log")?;
        if log.is_none() && directory.manifest().base().is_none() {
            return Err("there is no log".into());
        }
        let config = self.config.snapshot();
        ks.lock_all();
        if let Some(log) = &log {
            ks.hand_over();
            let (epoch, start) = (self.keyspace.epochs().now(), Instant::now());
            log.want(epoch);
            while log.durable() < epoch {
                if start.elapsed() > PATIENCE {
                    ks.unlock();
                    return Err("the log cannot be written".into());
                }
                std::thread::sleep(Duration::from_millis(1));
            }
            ks.set_sinks(LogSource::NAME, None);
        }
        let cleared = ks.clear(None);
        ks.unlock();
        drop(cleared);
        ks.exit();
        self.begin_loading(&config);
        let loaded = self.load_files(&mut directory, &config).and_then(|found| {
            let states: Vec<_> = found.aux.into_iter().collect();
            let taken = self.commands.replace_aux(&states);
            taken.map_err(|error| format!("its {} cannot be loaded", error.name))
        });
        ks.enter();
        if let Some(log) = log {
            ks.lock_all();
            ks.set_sinks(LogSource::NAME, Some(Arc::new(LogSource(log))));
            ks.unlock();
        }
        self.finish_loading();
        loaded
    }

    /// Loads the files that the manifest names: perhaps some of Redis or Valkey, and then Petrel's
    /// own.
    pub(super) fn load_files(
        self: &Arc<Self>,
        directory: &mut Directory,
        config: &Config,
    ) -> Result<Found, String> {
        let manifest = directory.manifest().clone();
        let mut found = Found { chain: Chain::new(&manifest), ..Found::default() };
        let foreign = check_foreign(&manifest, directory)?;
        let own = manifest.logs().filter(|entry| entry.kind == FileKind::Effects);
        let is_end = own.clone().next().is_none();
        match manifest.base() {
            Some(base) if foreign.is_empty() && is_rdb(&directory.path_of(base)) => {
                let base = directory.path_of(base);
                found.aux = self.load_log_base(&base, config, !is_end)?;
            }
            base => {
                let files = base.into_iter().chain(foreign);
                let files: Vec<_> = files.map(|entry| directory.path_of(entry)).collect();
                let loaded = self.load_foreign(&files, config, is_end);
                loaded.map_err(|error| error.to_string())?;
            }
        }
        for entry in own {
            let path = directory.path_of(entry);
            let replayed = self.replay_file(&path, found.chain.last_epoch)?;
            found.chain.add(entry, &Piece::from(&replayed))?;
            if replayed.torn > 0 {
                self.judge_torn(&path, &replayed, config)?;
            }
            found.add_aux(replayed.aux);
        }
        if let Some(log_id) = found.chain.log_id_of_blocks {
            directory.set_log_id(log_id);
        }
        Ok(found)
    }

    /// Loads the one append-only file that servers before Redis 7 write.
    fn load_single(self: &Arc<Self>, path: &Path, config: &Config) -> Result<(), String> {
        let len = path.metadata().map_or(0, |meta| meta.len());
        if len == 0 && config.dbfilename.exists() {
            tracing::warn!(
                "{} is empty, and is what counts with appendonly yes: {} is not loaded; to start from that, move the empty \
                 file away",
                path.display(),
                config.dbfilename.display()
            );
        }
        let loaded = self.load_foreign(&[path.to_owned()], config, true);
        loaded.map_err(|error| error.to_string())
    }

    pub(super) fn load_log_base(
        &self,
        path: &Path,
        config: &Config,
        keeps_expired: bool,
    ) -> Result<BTreeMap<Vec<u8>, Vec<u8>>, String> {
        let failed =
            |error: &dyn std::fmt::Display| format!("cannot load {}: {error}", path.display());
        // Later changes of the log may not fit the remaining part of a damaged base.
        let cannot_load = |error: &FileError| match keeps_expired {
            true => failed(error),
            false => cannot_load(path, error),
        };
        let file = File::open(path).map_err(|error| failed(&error))?;
        let len = file.metadata().map_err(|error| failed(&error))?.len();
        let leniency = Leniency {
            any_version: config.accepts_any_rdb_version(),
            any_sum: !config.rdbchecksum,
            any_count: true,
        };
        let options =
            LoadOptions { threads: self.workers.len(), leniency, keeps_expired, merges: false };
        let progress = &self.snapshot.progress;
        tracing::info!("loading {}: {len} bytes", path.display());
        let total = progress.total.load(Relaxed);
        let loaded = load(file, len, &self.keyspace, options, progress)
            .map_err(|error| cannot_load(&error))?;
        progress.total.store(total, Relaxed);
        progress.loaded.store(len, Relaxed);
        Ok(loaded.aux_states().into_iter().collect())
    }

    fn replay_file(&self, path: &Path, previous: Option<u64>) -> Result<Replayed, String> {
        let start = Instant::now();
        let failed = |error: &dyn std::fmt::Display| {
            format!("cannot load {}: {error}; `petrel check` tells more", path.display())
        };
        let file = File::open(path).map_err(|error| failed(&error))?;
        let len = file.metadata().map_err(|error| failed(&error))?.len();
        let (threads, progress) = (self.workers.len(), &self.snapshot.progress);
        let replayed = replay(file, len, &self.keyspace, threads, previous, progress)
            .map_err(|error| failed(&error))?;
        tracing::info!(
            "loaded {}: {len} bytes, {} in {}, {:.2} s",
            path.display(),
            Pluralized(replayed.effects, "change"),
            Pluralized(replayed.blocks, "block"),
            start.elapsed().as_secs_f64()
        );
        Ok(replayed)
    }

    /// Decides about a file that ends within a block.
    fn judge_torn(&self, path: &Path, replayed: &Replayed, config: &Config) -> Result<(), String> {
        let Replayed { whole, torn, torn_blocks, .. } = *replayed;
        let path = path.display();
        if !config.aof_load_truncated {
            return Err(format!(
                "{path} ends in the middle of a block: of what begins at byte {whole}, only {torn} bytes are there. \
                 `petrel check --cut {path}` drops them, as a start with `aof-load-truncated yes` does"
            ));
        }
        match torn_blocks {
            0 => tracing::warn!(
                "{path} ends in the middle of a block that was being written when the server was stopped: its {torn} \
                 bytes from byte {whole} on are dropped"
            ),
            blocks => tracing::warn!(
                "{path}: the block at byte {whole} did not reach the disk before the machine stopped, and what follows \
                 had not been synced: {torn} bytes are dropped, with {}",
                Pluralized(blocks, "block")
            ),
        }
        Ok(())
    }
}

/// Whether a file begins as an RDB file does.
fn is_rdb(path: &Path) -> bool {
    let mut head = [0; 9];
    let read = File::open(path).and_then(|mut file| file.read_exact(&mut head));
    read.is_ok() && begins_as_rdb(&head)
}

/// The files of other servers that stand before Petrel's own, each of which is as long as it was
/// when Petrel went on behind it; the base too.
fn check_foreign<'m>(
    manifest: &'m Manifest,
    directory: &Directory,
) -> Result<Vec<&'m Entry>, String> {
    let foreign: Vec<&Entry> =
        manifest.logs().take_while(|entry| entry.kind == FileKind::Commands).collect();
    let mut behind = manifest.logs().skip(foreign.len());
    if behind.clone().any(|entry| entry.kind == FileKind::Commands) {
        return Err("the manifest names files of another server behind those of Petrel: both went on with the \
                    log, each without the other's changes"
            .into());
    }
    let is_end = behind.next().is_none();
    check_names(&directory.manifest_path(), manifest)?;
    for (number, entry) in (1..).zip(manifest.base().into_iter().chain(foreign.iter().copied())) {
        let path = directory.path_of(entry);
        let failed = |error: io::Error| format!("cannot load {}: {error}", path.display());
        let file = File::open(&path).map_err(failed)?;
        let len = file.metadata().map_err(failed)?.len();
        let mut head = Vec::new();
        file.take(8).read_to_end(&mut head).map_err(failed)?;
        check_len(entry, len)?;
        check_base(entry, &head, len)?;
        let is_last = is_end && number == foreign.len() + usize::from(manifest.base().is_some());
        if let Some(what) = about_empty(entry, len, is_last) {
            tracing::warn!("{} is {what}", path.display());
        }
    }
    Ok(foreign)
}

/// Logs once where the append-only files of another server are kept, when Petrel's log has taken
/// their place.
pub(super) fn report_kept(directory: &mut Directory) {
    if let Some(kept) = directory.take_kept() {
        tracing::warn!(
            "the files of the log that were here are kept in {}: the server that wrote them starts there, and not with what \
             Petrel writes from now on; delete that directory once no way back is needed (docs/moving-in.md)",
            kept.display()
        );
    }
}

/// 16 bytes that no other log has.
pub(super) fn log_id() -> [u8; 16] {
    use std::hash::{BuildHasher, Hasher, RandomState};
    let mut id = [0; 16];
    for half in id.chunks_exact_mut(8) {
        half.copy_from_slice(&RandomState::new().build_hasher().finish().to_le_bytes());
    }
    id
}

/// Truncates a file to its complete blocks; one without a head is created again.
fn cut(path: &Path, whole: u64) -> io::Result<()> {
    let file = OpenOptions::new().write(true).open(path)?;
    file.set_len(whole)?;
    file.sync_all()
}
