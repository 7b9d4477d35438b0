//! The snapshot: the RDB file that `SAVE` writes and that the server starts from.

use crate::config::Config;
use crate::observation::pluralized::Pluralized;
use crate::replication::rdb_aux::SavedHistory;
use crate::server::Server;
use crate::unix_time::unix_ms;
use petrel_commands::aux_state::{AuxError, NamedForm};
use petrel_commands::{REDIS_VERSION, ServerState};
use petrel_keyspace::Handle;
use petrel_persistence::leftover::{self, create_locked};
use petrel_persistence::rdb::{FileError, FileOptions, FileReader, FileWriter, Leniency};
use petrel_persistence::{AUX_COMPACT, Image, LoadOptions, Loaded, PacedFile, load, save};
use std::fs::{self, File};
use std::io::{self, Read, Seek, Write};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

/// Result of a request for a background save.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Begun {
    /// The save has begun.
    Now,
    /// A save is running.
    AlreadySaving,
    /// Something else takes an image of the data at this moment.
    ImageIsTaken,
}

/// The error of an RDB file that cannot be loaded, with the way to load the rest of it.
pub(crate) fn cannot_load(path: &Path, error: &FileError) -> String {
    let path = path.display();
    let advice = if error.is_mendable() { mending(&path) } else { String::new() };
    format!("cannot load {path}: {error}{advice}")
}

/// The advice for making an RDB file loadable.
pub(crate) fn mending(path: &impl std::fmt::Display) -> String {
    format!(
        "; `petrel check --fix {path}` keeps what can be loaded, and puts the rest into a file beside it"
    )
}

impl Server {
    /// Writes every key into the configured file, all as they are at this moment: the keyspace is
    /// held until they are written. The file takes the place of the old one once it is safely
    /// on the disk. The thread is in a batch and holds nothing.
    ///
    /// # Errors
    /// If the file cannot be written; the old one is untouched then.
    pub fn save(&self, ks: &mut Handle, config: &Config) -> Result<(), FileError> {
        let start = Instant::now();
        self.replication.lock_all_at_a_point(ks);
        // Under the locks, so that files take their places in the order of the moments that they
        // show.
        let _placing = self.snapshot.placing.lock();
        let changes = self.keyspace.stats().changes;
        let written = self.write_all(ks, config);
        ks.unlock();
        let saved = self.place(written, config, changes, start);
        if saved.is_ok() {
            self.snapshot.saves.fetch_add(1, Relaxed);
        }
        saved
    }

    /// Saves while the thread holds the whole keyspace, which stays locked.
    ///
    /// # Errors
    /// As [`Server::save`].
    pub fn save_holding(&self, ks: &mut Handle, config: &Config) -> Result<(), FileError> {
        let start = Instant::now();
        let _placing = self.snapshot.placing.lock();
        let changes = self.keyspace.stats().changes;
        let written = self.write_all(ks, config);
        self.place(written, config, changes, start)
    }

    /// Writes every key; everything is held, and `placing` too. How many keys there are.
    fn write_all(
        &self,
        ks: &mut Handle,
        config: &Config,
    ) -> Result<(FileWriter<PacedFile>, u64), FileError> {
        let is_paced = config.rdb_save_incremental_fsync;
        let mut file = self.create(&part_path(""), is_paced, file_options(config))?;
        if let Some(history) = self.history_to_save() {
            history.describe(&mut file);
        }
        ks.refresh_clock();
        let keys = save(ks, &mut file, |keys| {
            self.delay_saving(keys, || false);
            ControlFlow::Continue(())
        })?;
        Ok((file, keys))
    }

    /// Moves the written file to its place; `placing` is locked.
    fn place(
        &self,
        written: Result<(FileWriter<PacedFile>, u64), FileError>,
        config: &Config,
        changes: u64,
        start: Instant,
    ) -> Result<(), FileError> {
        let part = part_path("");
        let saved = written.and_then(|(file, keys)| {
            complete(file)?;
            fs::rename(&part, &config.dbfilename)?;
            sync_directory().map(|()| keys)
        });
        let saved = self.note_saved(config, &part, saved.map(Some), changes, start).map(drop);
        if saved.is_ok() {
            self.note_health(true);
        }
        saved
    }

    /// Saves the data as it is at this moment on a thread of its own, while the server goes on. The
    /// calling thread is in a batch and holds nothing.
    ///
    /// # Errors
    /// If the file cannot be created, or no thread be started.
    pub fn begin_save(self: &Arc<Self>, ks: &mut Handle) -> Result<Begun, FileError> {
        let snapshot = &self.snapshot;
        if snapshot.saving_since.compare_exchange(0, unix_ms(), Relaxed, Relaxed).is_err() {
            return Ok(Begun::AlreadySaving);
        }
        let (config, part) = (self.config.snapshot(), part_path("bg-"));
        snapshot.tried_at.store(unix_ms() / 1000, Relaxed);
        snapshot.cancelled.store(false, Relaxed);
        snapshot.keys_written.store(0, Relaxed);
        let is_paced = config.rdb_save_incremental_fsync;
        let options = file_options(&config);
        let begun = self.create(&part, is_paced, options).and_then(|mut file| {
            let (server, (send, image)) = (self.clone(), mpsc::sync_channel(1));
            let work = move || match image.recv() {
                Ok((image, history)) => {
                    if let Some(history) = history {
                        SavedHistory::describe(&history, &mut file);
                    }
                    server.save_beside(image, file, &config, &part);
                }
                Err(_) => {
                    let _ = fs::remove_file(&part);
                    server.snapshot.saving_since.store(0, Relaxed);
                }
            };
            std::thread::Builder::new().name("petrel-saver".into()).spawn(work)?;
            // Once there is a thread, for an image that was begun has to be gone through.
            self.replication.lock_all_at_a_point(ks);
            let (mut image, history) = (Image::begin(ks, options), self.history_to_save());
            ks.unlock();
            if let Some(image) = &mut image {
                // Leave the other cores to clients.
                image.threads = (self.workers.len() / 2).max(1);
            }
            snapshot.keys_total.store(image.as_ref().map_or(0, Image::keys), Relaxed);
            let begun = image.is_some_and(|image| send.send((image, history)).is_ok());
            Ok(if begun { Begun::Now } else { Begun::ImageIsTaken })
        });
        if let Ok(Begun::Now) = begun {
            snapshot.scheduled.store(false, Relaxed);
        }
        begun.inspect_err(|error| {
            self.note_health(false);
            snapshot.saving_since.store(0, Relaxed);
            tracing::error!("saving in the background failed: {error}");
        })
    }

    /// Waits until nothing is saved in the background, for a moment at most: a server that stops
    /// gives it up. A disk may keep the saver for longer; then the file is removed here.
    pub(crate) fn await_saver(&self) {
        const PATIENCE: Duration = Duration::from_secs(5);
        let start = Instant::now();
        while self.snapshot.is_saving() {
            if start.elapsed() >= PATIENCE {
                self.snapshot.give_up();
                let _ = fs::remove_file(part_path("bg-"));
                return;
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// Writes an image into the file that was created for it, on the calling thread.
    fn save_beside(
        &self,
        image: Image,
        mut file: FileWriter<PacedFile>,
        config: &Config,
        part: &Path,
    ) {
        let (start, changes, snapshot) = (Instant::now(), image.changes, &self.snapshot);
        let saved = image.write(&mut self.keyspace.attach(), &mut file, |keys| {
            let before = snapshot.keys_written.swap(keys, Relaxed);
            let ends = || snapshot.cancelled.load(Relaxed) || self.is_stopping();
            self.delay_saving(keys - before, ends);
            if ends() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        let saved = saved.and_then(|keys| match keys {
            Some(_) => {
                complete(file)?;
                let placing = snapshot.placing.lock();
                if snapshot.cancelled.load(Relaxed) {
                    return Ok(None);
                }
                fs::rename(part, &config.dbfilename)?;
                drop(placing);
                sync_directory().map(|()| keys)
            }
            None => Ok(None),
        });
        // Its errors are in the log.
        match self.note_saved(config, part, saved, changes, start) {
            Ok(Some(_)) => {
                snapshot.saves.fetch_add(1, Relaxed);
                self.note_health(true);
            }
            Ok(None) => {}
            Err(_) => self.note_health(false),
        }
        snapshot.last_seconds.store(start.elapsed().as_secs() as i64, Relaxed);
        snapshot.saving_since.store(0, Relaxed);
    }

    /// Waits for `keys` keys as `rdb-key-save-delay` requires, unless `unwanted` returns true.
    pub(crate) fn delay_saving(&self, keys: u64, unwanted: impl Fn() -> bool) {
        const STEP: Duration = Duration::from_millis(1);
        let micros = self.config.snapshot().rdb_key_save_delay.max(0) as u64;
        let (start, delay) = (Instant::now(), Duration::from_micros(micros.saturating_mul(keys)));
        while start.elapsed() < delay && !unwanted() {
            std::thread::sleep(STEP.min(delay));
        }
    }

    /// Notes how it ended to save: how many keys there are, or none if it was given up.
    fn note_saved(
        &self,
        config: &Config,
        part: &Path,
        saved: Result<Option<u64>, FileError>,
        changes: u64,
        start: Instant,
    ) -> Result<Option<u64>, FileError> {
        let path = config.dbfilename.display();
        match &saved {
            Ok(Some(keys)) => {
                let snapshot = &self.snapshot;
                snapshot.saved_at.store(unix_ms() / 1000, Relaxed);
                snapshot.changes_then.store(changes, Relaxed);
                let seconds = start.elapsed().as_secs_f64();
                let keys = Pluralized(*keys, "key");
                tracing::info!("saved {keys} to {path} in {seconds:.2} s");
                self.ship_snapshot();
                return saved;
            }
            Ok(None) => tracing::warn!("saving to {path} was abandoned"),
            Err(error) => tracing::error!("saving to {path} failed: {error}"),
        }
        // There may be no such file.
        let _ = fs::remove_file(part);
        saved
    }

    /// Begins a file; one that is paced is synced as it is written.
    pub(crate) fn create(
        &self,
        path: &Path,
        is_paced: bool,
        options: FileOptions,
    ) -> Result<FileWriter<PacedFile>, FileError> {
        let file = create_locked(path)?;
        let file = if is_paced { PacedFile::paced(file)? } else { PacedFile::unpaced(file)? };
        let mut file = FileWriter::new(file, options)?;
        let libraries = self.commands.libraries.list().libraries.len();
        if options.version_max < FileWriter::<File>::FUNCTIONS_VERSION && libraries > 0 {
            tracing::warn!(
                "functions are omitted because of rdb-version; their libraries: {libraries}"
            );
        }
        let mut forms = self.commands.aux_forms();
        forms.extend(self.durability.added_forms());
        self.describe_file(&mut file, &forms);
        Ok(file)
    }

    /// Writes the parts of a file before its keys: auxiliary fields and auxiliary state.
    pub(crate) fn describe_file<W: Write>(&self, file: &mut FileWriter<W>, states: &[NamedForm]) {
        file.aux("redis-ver", REDIS_VERSION.as_bytes());
        file.aux("redis-bits", b"64");
        file.aux("ctime", (unix_ms() / 1000).to_string().as_bytes());
        file.aux("used-mem", self.keyspace.stats().used.to_string().as_bytes());
        file.aux(AUX_OWN, env!("CARGO_PKG_VERSION").as_bytes());
        if self.keyspace.stats().schemas > 0 {
            file.aux(AUX_COMPACT, b"1");
        }
        states.iter().for_each(|(name, form)| file.aux_state(name, form));
    }

    /// Loads the configured file, if it is there, on a thread of its own; until that is done,
    /// commands that need the data are refused. If it fails, the server stops. Whether there is
    /// anything to load.
    ///
    /// # Errors
    /// If the file cannot be opened, or no thread be started.
    pub fn begin_load(self: &Arc<Self>, config: &Config) -> io::Result<bool> {
        if config.appendonly {
            return self.begin_load_log(config);
        }
        let path = &config.dbfilename;
        let mut file = match File::open(path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
            Err(error) => {
                let path = path.display();
                return Err(io::Error::new(error.kind(), format!("cannot open {path}: {error}")));
            }
        };
        let len = file.metadata()?.len();
        let options = self.load_options(config);
        let history = SavedHistory::peek(&mut file, len, options.leniency);
        // Replicas still have expired keys, and are sent their removal.
        let options = LoadOptions { keeps_expired: history.is_some(), ..options };
        self.snapshot.progress.total.store(len, Relaxed);
        self.begin_loading(config);
        let (server, path) = (self.clone(), path.to_owned());
        let is_replica = config.replication.replicaof.get().is_some();
        let work = move || server.load(file, (len, options), &path, (history, is_replica));
        std::thread::Builder::new().name("petrel-loader".into()).spawn(work)?;
        Ok(true)
    }

    /// Loads the configured file. Its keys replace all data, or with `keeps` are added; then a
    /// present key is replaced with `merges`, and is an error otherwise. The log records it like
    /// any other change. The calling thread is in a batch and holds no locks.
    ///
    /// # Errors
    /// If the file cannot be opened or has an unknown version: nothing has changed then. If it
    /// cannot be read to its end, the keys loaded until then are left.
    pub(crate) fn reload_snapshot(
        &self,
        ks: &mut Handle,
        keeps: bool,
        merges: bool,
    ) -> Result<(), String> {
        let config = self.config.snapshot();
        let opened = File::open(&config.dbfilename);
        let file = opened.and_then(|file| file.metadata().map(|metadata| (file, metadata.len())));
        let (mut file, len) = file.map_err(|error| error.to_string())?;
        let options = LoadOptions { merges, ..self.load_options(&config) };
        FileReader::new(&file, len, options.leniency).map_err(|error| error.to_string())?;
        file.rewind().map_err(|error| error.to_string())?;
        let progress = &self.snapshot.progress;
        for figure in [&progress.total, &progress.loaded, &progress.keys, &progress.expired] {
            figure.store(0, Relaxed);
        }
        progress.stop.store(false, Relaxed);
        self.begin_loading(&config);
        if !keeps {
            ks.lock_all();
            let cleared = ks.clear(None);
            ks.unlock();
            drop(cleared);
        }
        ks.exit();
        let loaded = load(file, len, &self.keyspace, options, progress);
        let loaded = loaded.map_err(|error| error.to_string()).and_then(|loaded| {
            let states = loaded.aux_states();
            let taken = match keeps {
                true => self.commands.merge_aux(&states, merges),
                false => self.commands.replace_aux(&states),
            };
            taken.map_err(|error| format!("its {} cannot be loaded", error.name))
        });
        ks.enter();
        // Later than all that the threads have committed which loaded.
        self.commands.record_all_aux(ks);
        self.finish_loading();
        loaded
    }

    /// Options for loading the configured file.
    fn load_options(&self, config: &Config) -> LoadOptions {
        let leniency = Leniency {
            any_version: config.accepts_any_rdb_version(),
            any_sum: !config.rdbchecksum,
            any_count: true,
        };
        LoadOptions { threads: self.workers.len(), leniency, keeps_expired: false, merges: false }
    }

    fn load(
        self: &Arc<Self>,
        file: File,
        (len, options): (u64, LoadOptions),
        path: &Path,
        (history, is_replica): (Option<SavedHistory>, bool),
    ) {
        let start = Instant::now();
        tracing::info!("loading {}: {len} bytes", path.display());
        match load(file, len, &self.keyspace, options, &self.snapshot.progress) {
            Ok(loaded) => match self.commands.merge_aux(&loaded.aux_states(), false) {
                Ok(()) => {
                    if let Some(history) = history {
                        self.resume_history(history, is_replica);
                    }
                    self.loaded(&loaded, start);
                }
                Err(AuxError { name, why }) => {
                    let path = path.display();
                    self.fail(format!("cannot load the {name} of {path}: {why}{}", mending(&path)));
                }
            },
            Err(error) => self.fail(cannot_load(path, &error)),
        }
    }

    fn loaded(&self, loaded: &Loaded, start: Instant) {
        let progress = &self.snapshot.progress;
        let (keys, expired) = (progress.keys.load(Relaxed), progress.expired.load(Relaxed));
        let seconds = start.elapsed().as_secs_f64();
        tracing::info!(
            "loaded {} in {seconds:.2} s; {expired} more had expired; RDB version {}",
            Pluralized(keys, "key"),
            loaded.version
        );
        if loaded.modules > 0 {
            let modules = Pluralized(loaded.modules as u64, "module");
            tracing::warn!("auxiliary data of {modules} was skipped");
        }
        self.finish_loading();
        self.ship_loaded();
    }

    /// Commands that need the data are refused from now on, and nothing expires or is evicted.
    pub(crate) fn begin_loading(&self, config: &Config) {
        self.snapshot.load_began.store(unix_ms() / 1000, Relaxed);
        self.commands.set_state(ServerState::Loading, true);
        self.commands.suspend_indexes();
        self.apply(config);
    }

    /// The data is there, as it was saved.
    pub(crate) fn finish_loading(&self) {
        for note in self.snapshot.progress.take_notes() {
            tracing::warn!("loaded, but {note}");
        }
        self.snapshot.changes_then.store(self.keyspace.stats().changes, Relaxed);
        self.commands.resume_indexes();
        self.commands.set_state(ServerState::Loading, false);
        self.apply(&self.config.snapshot());
        let waiting = self.when_loaded.lock().take();
        if let Some(work) = waiting {
            work();
        }
    }

    /// Does something once the data is there: now, or on the thread that loads it. At most one
    /// caller waits for that.
    pub fn when_loaded(&self, work: impl FnOnce() + Send + 'static) {
        let mut waiting = self.when_loaded.lock();
        if self.commands.is_loading() {
            *waiting = Some(Box::new(work));
        } else {
            drop(waiting);
            work();
        }
    }
}

/// Removes unfinished files of any thread: the process ends.
pub fn remove_parts() {
    for by in ["", "bg-"] {
        // Most often there is none.
        let _ = fs::remove_file(part_path(by));
    }
}

/// Removes the files that a process was writing here which was killed.
pub(crate) fn sweep_parts() {
    for prefix in ["temp-bg-", "temp-"] {
        for name in leftover::sweep(Path::new("."), prefix, ".rdb", is_part) {
            tracing::info!("removed {name}, which a server that was killed had not completed");
        }
    }
}

/// Whether a file is a part of a snapshot of this server: Redis names its own like that.
fn is_part(path: &Path) -> bool {
    const HEAD: u64 = 512;
    let mut head = Vec::new();
    let read = File::open(path).and_then(|file| file.take(HEAD).read_to_end(&mut head));
    read.is_ok()
        && (head.is_empty() || head.windows(AUX_OWN.len()).any(|at| at == AUX_OWN.as_bytes()))
}

/// The name of the text in a file that only this server writes.
const AUX_OWN: &str = "petrel-ver";

/// A name for a file that is being written: by a command, or in the background.
fn part_path(by: &str) -> PathBuf {
    format!("temp-{by}{}.rdb", std::process::id()).into()
}

/// Completes a file and waits until it is safely on the disk.
fn complete(file: FileWriter<PacedFile>) -> Result<(), FileError> {
    file.finish()?.sync_all()?;
    Ok(())
}

/// Lets the new name of a file be safely on the disk.
fn sync_directory() -> Result<(), FileError> {
    File::open(".")?.sync_all()?;
    Ok(())
}

impl Server {
    /// Options of copies for replicas: those of snapshots.
    pub(crate) fn copy_options(&self, config: &Config) -> FileOptions {
        file_options(config)
    }

    /// Options of the log's bases: nothing is omitted.
    pub(crate) fn base_options(&self) -> FileOptions {
        FileOptions {
            version_max: FileOptions::ANY_VERSION,
            ..file_options(&self.config.snapshot())
        }
    }
}

/// Options of snapshots.
fn file_options(config: &Config) -> FileOptions {
    FileOptions {
        compress: config.rdbcompression,
        sum: config.rdbchecksum,
        dialect: config.form(),
        version_max: config.rdb_version_max(),
        only_redis_types: false,
    }
}
