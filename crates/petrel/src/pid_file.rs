//! `pidfile`: the process id, in a file for as long as the server runs.

use std::fs;
use std::path::{Path, PathBuf};

/// A file that holds the process id; removed when dropped.
pub struct PidFile(PathBuf);

impl PidFile {
    /// Writes the file. On failure the server runs without it and logs the error.
    pub fn write(path: &Path) -> Option<Self> {
        let write = || {
            // Absolute, since the working directory may change.
            let path = std::path::absolute(path)?;
            fs::write(&path, format!("{}\n", std::process::id()))?;
            Ok::<_, std::io::Error>(path)
        };
        match write() {
            Ok(path) => Some(PidFile(path)),
            Err(error) => {
                tracing::warn!("cannot write the pid file {}: {error}", path.display());
                None
            }
        }
    }
}

impl Drop for PidFile {
    fn drop(&mut self) {
        // A file that is gone already is as it should be.
        let _ = fs::remove_file(&self.0);
    }
}
