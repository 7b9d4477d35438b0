//! `preload-file`: a start from a given file instead of the log and the snapshot.

use super::load::{Found, log_id};
use crate::config::{Config, PreloadFile};
use crate::observation::pluralized::Pluralized;
use crate::server::Server;
use crate::state::log::open::LogOpening;
use petrel_commands::aux_state::AuxError;
use petrel_persistence::log::Directory;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

/// Whether the file to start from is the manifest of the log that is loaded anyway.
pub(crate) fn is_own_log(config: &Config) -> io::Result<bool> {
    let PreloadFile::Aof(path) = &config.preload_file else { return Ok(false) };
    let directory = std::path::absolute(&*config.appenddirname.lossy())?;
    let manifest = format!("{}.manifest", config.appendfilename.lossy());
    Ok(config.appendonly && *path == directory.join(manifest))
}

impl Server {
    /// Begins to load the file on a thread of its own. If that fails, the server stops. With
    /// `appendonly`, a log begins with its data and takes the place of the one that is here.
    ///
    /// # Errors
    /// If the file is not there, or no thread can be started.
    pub(crate) fn begin_preload(self: &Arc<Self>, config: &Config) -> io::Result<()> {
        let (PreloadFile::Rdb(path) | PreloadFile::Aof(path)) = &config.preload_file else {
            return Ok(());
        };
        let failed = |error: io::Error| {
            io::Error::new(error.kind(), format!("preload-file: {}: {error}", path.display()))
        };
        let len = path.metadata().map_err(failed)?.len();
        self.snapshot.progress.total.store(len, Relaxed);
        self.begin_loading(config);
        let (server, config) = (self.clone(), self.config.snapshot());
        let work = move || {
            if let Err(why) = server.preload(&config) {
                server.fail(format!("preload-file: {why}"));
            }
        };
        std::thread::Builder::new().name("petrel-loader".into()).spawn(work)?;
        Ok(())
    }

    fn preload(self: &Arc<Self>, config: &Config) -> Result<(), String> {
        let start = Instant::now();
        let found = match &config.preload_file {
            PreloadFile::None => Found::default(),
            PreloadFile::Rdb(path) => {
                Found { aux: self.load_log_base(path, config, false)?, ..Found::default() }
            }
            PreloadFile::Aof(manifest) => self.load_manifest(manifest, config)?,
        };
        if self.snapshot.progress.stop.load(Relaxed) || self.is_stopping() {
            return Ok(());
        }
        for (name, form) in &found.aux {
            self.commands
                .load_aux(name, form)
                .map_err(|AuxError { name, why }| format!("its {name} cannot be loaded: {why}"))?;
        }
        let databases = 0..self.keyspace.databases();
        let keys = databases.map(|db| self.keyspace.db_stats(db).keys).sum::<u64>();
        self.snapshot.progress.keys.store(keys, Relaxed);
        if config.appendonly {
            self.log_preloaded(found.chain.last_epoch.unwrap_or(0), config)
                .map_err(|error| format!("the log cannot begin: {error}"))?;
        }
        let (keys, seconds) = (Pluralized(keys, "key"), start.elapsed().as_secs_f64());
        tracing::info!("loaded {keys} in {seconds:.2} s");
        self.finish_loading();
        Ok(())
    }

    fn load_manifest(self: &Arc<Self>, path: &Path, config: &Config) -> Result<Found, String> {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let name = name.strip_suffix(".manifest").ok_or("a manifest ends in .manifest")?;
        let parent = path.parent().unwrap_or(Path::new("/"));
        let directory = Directory::open(parent, name, log_id());
        let mut directory = directory.map_err(|error| error.to_string())?;
        self.load_files(&mut directory, config)
    }

    /// Begins a log of its own. Its base is written next.
    fn log_preloaded(self: &Arc<Self>, previous: u64, config: &Config) -> io::Result<()> {
        let directory = self.open_directory(config)?;
        let opening = LogOpening { unwritten: None, previous, is_complete: false };
        let mut handle = self.keyspace.attach();
        handle.enter();
        let begun = self.begin_log(&mut handle, directory, config, opening, true);
        handle.exit();
        begun?;
        self.durability.schedule_rewrite();
        Ok(())
    }
}
