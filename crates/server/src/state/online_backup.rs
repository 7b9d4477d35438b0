//! State of the online backup (`BACKUP`).

use std::path::{Path, PathBuf};
use std::{fmt, fs, io};

/// Phase of a backup.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Phase {
    /// No backup.
    #[default]
    Idle,
    /// Waits until the log can be rewritten.
    Pending,
    /// The base is written.
    Snapshotting,
    /// The base is there, changes are logged.
    Incrementing,
    /// All files are there.
    Sealed,
    /// Failed, or was given up.
    Failed,
}

impl Phase {
    /// The name that `BACKUP STATUS` answers.
    pub fn name(self) -> &'static str {
        match self {
            Phase::Idle => "idle",
            Phase::Pending => "pending",
            Phase::Snapshotting => "snapshotting",
            Phase::Incrementing => "incrementing",
            Phase::Sealed => "sealed",
            Phase::Failed => "failed",
        }
    }

    /// Whether the backup has begun and is neither sealed nor given up.
    pub fn is_active(self) -> bool {
        matches!(self, Phase::Pending | Phase::Snapshotting | Phase::Incrementing)
    }
}

/// Reason that a backup does not begin or go on.
#[derive(Debug)]
pub struct BackupError(String);

impl fmt::Display for BackupError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for BackupError {}

impl From<&str> for BackupError {
    fn from(text: &str) -> Self {
        BackupError(text.into())
    }
}

impl From<io::Error> for BackupError {
    fn from(error: io::Error) -> Self {
        BackupError(format!("Backup failed: {error}"))
    }
}

/// The log runs only for the backup.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BorrowedLog {
    /// The directory of the log was there before, so that its files stay.
    pub keeps_files: bool,
}

/// The backup of a server: at most one.
#[derive(Debug, Default)]
pub struct OnlineBackup {
    phase: Phase,
    error: String,
    started_at: i64,
    ended_at: i64,
    files: Vec<PathBuf>,
    /// Number of rewrites of the log before that of the backup.
    pub(crate) rewrites: u64,
    /// A thread seals the backup, or is to.
    pub(crate) is_sealing: bool,
    pub(crate) is_seal_wanted: bool,
    pub(crate) borrowed: Option<BorrowedLog>,
}

impl OnlineBackup {
    /// Phase of the backup.
    pub fn phase(&self) -> Phase {
        self.phase
    }

    /// Reason that it failed; empty if it has not.
    pub fn error(&self) -> &str {
        &self.error
    }

    /// Unix time in seconds at which it began; 0 if there is none.
    pub fn started_at(&self) -> i64 {
        self.started_at
    }

    /// Unix time in seconds at which it was sealed; 0 if it is not.
    pub fn ended_at(&self) -> i64 {
        self.ended_at
    }

    /// Files that do not change any more: the base, those of changes, the manifest.
    pub fn files(&self) -> &[PathBuf] {
        &self.files
    }

    /// Begins a backup in an empty directory, which is made if there is none.
    ///
    /// # Errors
    /// If there is a backup already, or a file in the directory.
    pub(crate) fn start(&mut self, directory: &Path, now: i64) -> Result<(), BackupError> {
        match self.phase {
            Phase::Sealed => return Err("A sealed backup exists, CLEANUP it first".into()),
            phase if phase.is_active() => {
                return Err("A backup is already in progress, ABORT it first".into());
            }
            _ => {}
        }
        fs::create_dir_all(directory)?;
        if fs::read_dir(directory)?.next().is_some() {
            return Err(BackupError(format!(
                "Backup directory {} is not empty: move its files away",
                directory.display()
            )));
        }
        let borrowed = self.borrowed.take();
        let phase = Phase::Pending;
        *self = OnlineBackup { phase, started_at: now, borrowed, ..OnlineBackup::default() };
        Ok(())
    }

    /// The base is being written.
    pub(crate) fn begin_base(&mut self, rewrites: u64) {
        if self.phase == Phase::Pending {
            (self.phase, self.rewrites) = (Phase::Snapshotting, rewrites);
        }
    }

    /// Links the base, which was written.
    pub(crate) fn add_base(&mut self, base: &Path, directory: &Path) -> io::Result<()> {
        if self.phase == Phase::Snapshotting {
            self.add(base, directory)?;
            self.phase = Phase::Incrementing;
        }
        Ok(())
    }

    /// Begins to seal the backup.
    ///
    /// # Errors
    /// If the base is not there, or it is sealed by another thread.
    pub(crate) fn begin_seal(&mut self) -> Result<(), BackupError> {
        if self.phase != Phase::Incrementing || self.is_sealing {
            return Err("No backup ready to seal (must be in the incrementing state)".into());
        }
        (self.is_sealing, self.is_seal_wanted) = (true, false);
        Ok(())
    }

    /// Links the files of changes, and writes the manifest of all.
    pub(crate) fn seal(
        &mut self,
        logs: &[PathBuf],
        (manifest, text): (&str, &str),
        directory: &Path,
        now: i64,
    ) -> Result<(), BackupError> {
        self.is_sealing = false;
        if self.phase != Phase::Incrementing {
            return Err("No backup in progress".into());
        }
        logs.iter().try_for_each(|path| self.add(path, directory))?;
        let path = directory.join(manifest);
        self.files.push(path.clone());
        fs::write(&path, text)?;
        fs::File::open(&path)?.sync_all()?;
        fs::File::open(directory)?.sync_all()?;
        (self.phase, self.ended_at) = (Phase::Sealed, now);
        Ok(())
    }

    fn add(&mut self, file: &Path, directory: &Path) -> io::Result<()> {
        let path = directory.join(file.file_name().unwrap_or_default());
        self.files.push(path.clone());
        fs::hard_link(file, &path).or_else(|error| match error.kind() {
            io::ErrorKind::NotFound => Err(error),
            // Another file system.
            _ => fs::copy(file, &path).and_then(|_| fs::File::open(&path)?.sync_all()),
        })
    }

    /// Gives up a backup that is not sealed, and removes its files.
    pub(crate) fn fail(&mut self, why: &str) {
        if self.phase.is_active() {
            tracing::warn!("the backup has failed: {why}");
            self.remove_files();
            (self.phase, self.error) = (Phase::Failed, why.into());
        }
    }

    /// Removes the files of a backup that is sealed or has failed.
    ///
    /// # Errors
    /// If it is in progress.
    pub(crate) fn clean_up(&mut self) -> Result<(), BackupError> {
        if self.phase.is_active() {
            return Err("Backup is in progress".into());
        }
        self.remove_files();
        let borrowed = self.borrowed.take();
        *self = OnlineBackup { borrowed, ..OnlineBackup::default() };
        Ok(())
    }

    fn remove_files(&mut self) {
        for path in self.files.drain(..) {
            match fs::remove_file(&path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    tracing::warn!("cannot remove {}: {error}", path.display());
                }
                _ => {}
            }
        }
    }
}
