//! Backups in object stores: uploads of snapshots and the log, and starting from a backup. A build
//! without them refuses their parameters.

#[cfg(feature = "object-store")]
mod log;
pub use crate::state::backups::list;

use crate::config::{Config, PreloadFile};
use crate::durability::log::is_own_log;
use crate::durability::present::data_here;
use crate::server::Server;
use crate::state::backups::{Backups, fetch};
use std::fs::{File, ReadDir};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

impl Server {
    /// Begins uploads and the load of the data; before that, if `restore-from` is set, a thread
    /// downloads that backup. Until all is loaded, commands that need the data are refused. If it
    /// fails, the server stops.
    ///
    /// # Errors
    /// If nothing can begin, or there is data already that a backup would replace: one line that
    /// says what to change.
    pub(crate) fn begin_with_data(self: &Arc<Self>, config: &Config) -> io::Result<()> {
        if config.preload_file != PreloadFile::None && !is_own_log(config)? {
            self.begin_backups(config)?;
            return self.begin_preload(config);
        }
        if config.restore_from.is_empty() {
            self.begin_backups(config)?;
            return self.begin_load(config).map(drop);
        }
        let log = PathBuf::from(config.appenddirname.lossy().into_owned());
        let log_holds = |mut files: ReadDir| files.next().is_some();
        let snapshot_is_there = config.dbfilename.symlink_metadata().is_ok();
        let log_is_there = config.appendonly && log.read_dir().is_ok_and(log_holds);
        // It would be loaded at the next start, or lost once a log is turned on.
        let data = data_here(config);
        if snapshot_is_there || log_is_there || data.is_some() {
            let path = match (log_is_there, &data) {
                (true, _) => &log,
                (false, Some(data)) => data,
                (false, None) => &config.dbfilename,
            };
            return Err(io::Error::other(format!(
                "restore-from: {} is there already and would be replaced; move it out of {}, or start without restore-from",
                path.display(),
                config.dir.display()
            )));
        }
        self.begin_loading(config);
        let (server, config) = (self.clone(), self.config.snapshot());
        let work = move || {
            if let Err(error) = server.restore(&config, &log) {
                server.fail(error.to_string());
            }
        };
        std::thread::Builder::new().name("petrel-restorer".into()).spawn(work)?;
        Ok(())
    }

    /// Fetches a backup, and begins to load it.
    fn restore(self: &Arc<Self>, config: &Config, log: &Path) -> io::Result<()> {
        fetch(config, log).map_err(|error| io::Error::other(format!("restore-from: {error}")))?;
        // CONFIG REWRITE does not write it: it was for this start.
        self.config.settle(|config| config.restore_from = Default::default());
        self.begin_backups(config)?;
        if !self.begin_load(config)? {
            self.finish_loading();
        }
        Ok(())
    }

    /// Starts to ship, if there is a store to ship to.
    ///
    /// # Errors
    /// If the address of the store cannot be used.
    fn begin_backups(self: &Arc<Self>, config: &Config) -> io::Result<()> {
        if config.backup_store.is_empty() {
            return Ok(());
        }
        self.backups.start(config)?;
        #[cfg(feature = "object-store")]
        log::follow(self)?;
        Ok(())
    }

    /// Ends it, once what waits is shipped or has been waited for. The log has ended.
    pub(crate) fn end_backups(&self) {
        let config = self.config.snapshot();
        self.backups.ship_rest(&self.durability, &config);
        let seconds = config.backup_shutdown_timeout;
        self.backups.stop(Duration::from_secs(seconds.into()));
    }

    /// Ships the snapshot that was saved.
    pub(crate) fn ship_snapshot(&self) {
        self.ship(Backups::ship);
    }

    /// Ships the snapshot that was loaded, unless the store has a newer one: it may be that the
    /// server was stopped before it could.
    pub(crate) fn ship_loaded(&self) {
        self.ship(Backups::ship_if_newer);
    }

    fn ship(&self, how: fn(&Backups, File)) {
        let config = self.config.snapshot();
        if !self.backups.is_on() || !config.backup_snapshots {
            return;
        }
        // The open file stays the same: the next snapshot gets a file of its own.
        match File::open(&config.dbfilename) {
            Ok(file) => how(&self.backups, file),
            Err(error) => {
                tracing::error!("cannot upload {}: {error}", config.dbfilename.display());
            }
        }
    }
}
