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
    /// A thread links or copies files.
    pub(crate) is_working: bool,
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
            _ if self.is_working => {
                return Err("The files of the last backup are being removed, try again".into());
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

    /// Adds the link to the base. Returns false if the backup was given up meanwhile.
    pub(crate) fn add_base(&mut self, link: &Path) -> bool {
        self.is_working = false;
        let is_wanted = self.phase == Phase::Snapshotting;
        if is_wanted {
            self.files.push(link.into());
            self.phase = Phase::Incrementing;
        }
        is_wanted
    }

    /// Begins to seal the backup.
    ///
    /// # Errors
    /// If the base is not there, or it is sealed by another thread.
    pub(crate) fn begin_seal(&mut self) -> Result<(), BackupError> {
        if self.phase != Phase::Incrementing || self.is_working {
            return Err("No backup ready to seal (must be in the incrementing state)".into());
        }
        (self.is_working, self.is_seal_wanted) = (true, false);
        Ok(())
    }

    /// Adds the links to the files of changes, and the manifest. Returns false if the backup was
    /// given up meanwhile.
    pub(crate) fn seal(&mut self, files: &[PathBuf], now: i64) -> bool {
        self.is_working = false;
        let is_wanted = self.phase == Phase::Incrementing;
        if is_wanted {
            self.files.extend_from_slice(files);
            (self.phase, self.ended_at) = (Phase::Sealed, now);
        }
        is_wanted
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
        let (borrowed, is_working) = (self.borrowed.take(), self.is_working);
        *self = OnlineBackup { borrowed, is_working, ..OnlineBackup::default() };
        Ok(())
    }

    fn remove_files(&mut self) {
        self.files.drain(..).for_each(|path| remove(&path));
    }
}

/// Links a file into a directory, or copies it to another file system. Returns the new path.
pub(crate) fn link_into(directory: &Path, file: &Path) -> io::Result<PathBuf> {
    let path = directory.join(file.file_name().unwrap_or_default());
    let linked = fs::hard_link(file, &path).or_else(|error| match error.kind() {
        io::ErrorKind::NotFound => Err(error),
        // Another file system.
        _ => fs::copy(file, &path).and_then(|_| fs::File::open(&path)?.sync_all()),
    });
    match linked {
        Ok(()) => Ok(path),
        Err(error) => {
            remove(&path);
            Err(error)
        }
    }
}

/// Removes a file of a backup, if it is there.
pub(crate) fn remove(path: &Path) {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            tracing::warn!("cannot remove {}: {error}", path.display());
        }
        _ => {}
    }
}
