//! Listing and restoring, on the calling thread.

use crate::catalog::{self, Listed};
use crate::download::download;
use crate::error::Error;
use crate::manifest::{FileEntry, Manifest};
use crate::name::{BackupKind, Name};
use crate::target::{Source, Target};
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

/// Destination of a restore.
#[derive(Clone, Debug)]
pub struct RestoreTarget {
    /// The snapshot's file.
    pub snapshot: PathBuf,
    /// The log; none if the server keeps none.
    pub log: Option<LogTarget>,
}

/// Destination of a log.
#[derive(Clone, Debug)]
pub struct LogTarget {
    /// The target directory, which is created.
    pub directory: PathBuf,
    /// The file in it that lists the others.
    pub index: String,
}

/// A finished restore.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Restored {
    /// Name of the backup.
    pub name: Name,
    /// Bytes restored.
    pub bytes: u64,
}

/// Interval of progress messages in the log.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(5);

/// Lists the backups in the store at an address, the oldest first.
///
/// # Errors
/// If the address cannot be used, or the store does not answer.
pub fn list(url: &str) -> Result<Vec<Listed>, Error> {
    block_on(async {
        let target = Target::open(url)?;
        target.exists()?;
        catalog::list(&target).await
    })
}

/// Fetches a backup and puts it into place once all of it is there and as its manifest says. What
/// is in the place already is replaced: the caller has made sure that nothing is.
///
/// # Errors
/// If there is no such backup, it is damaged, or it cannot be fetched or written; nothing is in the
/// place then.
pub fn restore(source: &Source, place: &RestoreTarget) -> Result<Restored, Error> {
    block_on(async {
        let target = Target::open(&source.url)?;
        target.exists()?;
        let manifest = find(&target, source).await?;
        let (name, bytes) = (manifest.name, manifest.bytes());
        tracing::info!("restoring the backup {name} of {}: {bytes} bytes", source.url);
        let fetch = Fetch { target: &target, name, bytes, done: 0, told: Instant::now() };
        match (name.kind, &place.log) {
            (BackupKind::Snapshot, _) => {
                fetch.snapshot(&manifest.files[0], &place.snapshot).await?
            }
            (BackupKind::Log, Some(place)) => fetch.log(&manifest, place).await?,
            (BackupKind::Log, None) => {
                let what = format!("the backup {name} is a log: start with --appendonly yes");
                return Err(Error::Missing { what });
            }
        }
        Ok(Restored { name, bytes })
    })
}

async fn find(target: &Target, source: &Source) -> Result<Manifest, Error> {
    let (found, which) = match source.name {
        Some(name) => (catalog::manifest(target, name).await?, format!(" {name}")),
        None => (catalog::latest(target).await?, String::new()),
    };
    let what = || format!("there is no complete backup{which} in {}", source.url);
    found.ok_or_else(|| Error::Missing { what: what() })
}

/// A backup that is being fetched.
struct Fetch<'t> {
    target: &'t Target,
    name: Name,
    bytes: u64,
    done: u64,
    told: Instant,
}

impl Fetch<'_> {
    async fn snapshot(mut self, entry: &FileEntry, to: &Path) -> Result<(), Error> {
        let mut part = to.as_os_str().to_owned();
        part.push(".restoring");
        let part = PathBuf::from(part);
        if let Err(error) = self.file(entry, &part, self.name.time()).await {
            // The first error is the one that counts.
            let _ = fs::remove_file(&part);
            return Err(error);
        }
        fs::rename(&part, to).and_then(|()| sync_parent(to)).map_err(|error| on_disk(to, error))
    }

    async fn log(mut self, manifest: &Manifest, place: &LogTarget) -> Result<(), Error> {
        let to = &place.directory;
        let mut part = to.as_os_str().to_owned();
        part.push(".restoring");
        let part = PathBuf::from(part);
        // Of a process that was stopped.
        let _ = fs::remove_dir_all(&part);
        fs::create_dir(&part).map_err(|error| on_disk(&part, error))?;
        if let Err(error) = self.log_files(manifest, place, &part).await {
            let _ = fs::remove_dir_all(&part);
            return Err(error);
        }
        let placed = File::open(&part).and_then(|directory| directory.sync_all());
        let placed = placed.and_then(|()| fs::rename(&part, to));
        placed.and_then(|()| sync_parent(to)).map_err(|error| on_disk(to, error))
    }

    async fn log_files(
        &mut self,
        manifest: &Manifest,
        place: &LogTarget,
        part: &Path,
    ) -> Result<(), Error> {
        // The first file's time is the backup's name.
        let mut modified = self.name.time();
        for entry in &manifest.files {
            self.file(entry, &part.join(&entry.name), modified).await?;
            modified = manifest.made;
        }
        match &manifest.index {
            Some(index) => self.file(index, &part.join(&place.index), modified).await,
            None => Ok(()),
        }
    }

    async fn file(
        &mut self,
        entry: &FileEntry,
        to: &Path,
        modified: SystemTime,
    ) -> Result<(), Error> {
        let (target, name) = (self.target, self.name);
        let fetched = |bytes| {
            self.done += bytes;
            if self.told.elapsed() >= PROGRESS_INTERVAL {
                self.told = Instant::now();
                tracing::info!("restoring: {} %", 100 * self.done / self.bytes.max(1));
            }
        };
        download(target, name, entry, to, modified, fetched).await
    }
}

fn on_disk(path: &Path, error: io::Error) -> Error {
    Error::file(format!("writing {}", path.display()), error)
}

/// The directory holds the file's name.
fn sync_parent(path: &Path) -> io::Result<()> {
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    File::open(directory.unwrap_or(Path::new(".")))?.sync_all()
}

/// Runs something on the calling thread.
fn block_on<T>(what: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
    runtime()?.block_on(what)
}

/// A runtime for one thread; what blocks (files, names of hosts) has two more at most.
pub fn runtime() -> Result<tokio::runtime::Runtime, Error> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(2)
        .thread_name("petrel-backup-io")
        .build();
    runtime.map_err(|error| Error::file("starting the backup thread", error))
}
