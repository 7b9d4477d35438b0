//! Backups in a build with object stores.

use crate::config::Config;
use crate::state::log::Durability;
use petrel_backup::{LogState, LogTarget, Options, RestoreTarget, Shipper, Source};
use petrel_persistence::log::Manifest;
use std::fmt::Write;
use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::OnceLock;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

/// Ships to the configured store, if there is one.
#[derive(Default)]
pub struct Backups {
    shipper: OnceLock<Shipper>,
}

/// Lists the backups at an address: a line for each, the oldest first.
///
/// # Errors
/// If the address cannot be used, or the store does not answer.
pub fn list(url: &str) -> io::Result<String> {
    let mut text = String::new();
    for backup in petrel_backup::list(url).map_err(io::Error::other)? {
        let bytes = backup.bytes.map_or("-".to_owned(), |bytes| bytes.to_string());
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{} {bytes:>16}  {}", backup.name, backup.about);
    }
    Ok(text)
}

/// Fetches the backup that `restore-from` names to where the load will look for it; a log to a
/// directory.
pub(crate) fn fetch(config: &Config, log: &Path) -> io::Result<()> {
    let source = Source::parse(&config.restore_from.lossy()).map_err(io::Error::other)?;
    let log = config.appendonly.then(|| LogTarget {
        directory: log.to_owned(),
        index: format!("{}.manifest", config.appendfilename.lossy()),
    });
    let place = RestoreTarget { snapshot: config.dbfilename.clone(), log };
    let restored = petrel_backup::restore(&source, &place).map_err(io::Error::other)?;
    tracing::info!("restored the backup {}: {} bytes", restored.name, restored.bytes);
    Ok(())
}

impl Backups {
    pub(crate) fn start(&self, config: &Config) -> io::Result<()> {
        let options =
            Options { server: env!("CARGO_PKG_VERSION").into(), keep: config.backup_keep };
        let shipper = Shipper::start(&config.backup_store.lossy(), options);
        let shipper =
            shipper.map_err(|error| io::Error::other(format!("backup-store: {error}")))?;
        // A server starts once.
        let _ = self.shipper.set(shipper);
        tracing::info!("uploading backups to {}", config.backup_store.lossy());
        Ok(())
    }

    pub(crate) fn is_on(&self) -> bool {
        self.shipper.get().is_some()
    }

    pub(crate) fn ship(&self, file: File) {
        if let Some(shipper) = self.shipper.get() {
            shipper.ship_snapshot(file);
        }
    }

    pub(crate) fn ship_if_newer(&self, file: File) {
        if let Some(shipper) = self.shipper.get() {
            shipper.ship_if_newer(file);
        }
    }

    /// Ships files of the log, to which nothing is written any more.
    pub(crate) fn ship_log(&self, durability: &Durability, files: &Manifest) {
        if let Some(shipper) = self.shipper.get() {
            let paths = durability.settle(files);
            shipper.ship_log(LogState { files: paths, index: files.to_string() });
        }
    }

    /// Ships all of a log that has ended.
    pub(crate) fn ship_rest(&self, durability: &Durability, config: &Config) {
        if config.backup_log_interval > 0 {
            self.ship_log(durability, &durability.closed_files());
        }
    }

    pub(crate) fn stop(&self, patience: Duration) {
        if let Some(shipper) = self.shipper.get() {
            shipper.stop(patience);
        }
    }

    /// Takes over what may change while the server runs.
    pub(crate) fn configure(&self, config: &Config) {
        if let Some(shipper) = self.shipper.get() {
            shipper.set_keep(config.backup_keep);
        }
    }

    /// Whether a backup is sent to a store, or is to be tried again.
    pub(crate) fn is_sending(&self) -> bool {
        self.shipper.get().is_some_and(|shipper| shipper.is_busy())
    }

    /// The fields of `INFO`.
    pub(crate) fn describe(&self, mut field: impl FnMut(&str, i64)) {
        let Some(shipper) = self.shipper.get() else { return field("backup_enabled", 0) };
        let figures = shipper.figures();
        let count = |count: &std::sync::atomic::AtomicU64| {
            i64::try_from(count.load(Relaxed)).unwrap_or(i64::MAX)
        };
        field("backup_enabled", 1);
        field("backup_current_bytes", count(&figures.current_bytes));
        field("backup_current_bytes_sent", count(&figures.current_sent));
        field("backup_failing", figures.is_failing.load(Relaxed).into());
        field("backup_last_time", figures.last_at.load(Relaxed));
        field("backup_last_content_time", figures.last_made.load(Relaxed));
        field("backup_last_bytes", count(&figures.last_bytes));
        field("backup_last_duration_ms", count(&figures.last_millis));
        field("backup_total_shipped", count(&figures.shipped));
        field("backup_total_files", count(&figures.files));
        field("backup_total_bytes", count(&figures.bytes));
        field("backup_total_failures", count(&figures.failed));
        field("backup_total_given_up", count(&figures.given_up));
        field("backup_total_removed", count(&figures.removed));
    }
}
