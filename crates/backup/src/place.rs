//! A directory that backups are shipped to. Petrel never makes it: where its volume is not mounted,
//! it would fill the disk that the mount point is on.
//!
//! A file within the directory marks it. The mark disappears with its volume: so a mount point
//! without its volume is recognised while the server runs, too.

use crate::error::Error;
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// The file that marks a directory; no backup has such a name.
const MARK: &str = "petrel-backups-go-here";

const WHAT_IT_SAYS: &str = "A Petrel server ships its backups to this directory. While it runs, this file tells it that the directory is \
                            the one that it began with, and so that its volume is mounted.\n";

/// A directory of a `file://` address.
#[derive(Clone, Debug)]
pub struct Place {
    path: PathBuf,
    /// The mark was there, or was made.
    is_marked: Arc<AtomicBool>,
}

impl Place {
    pub fn new(path: PathBuf) -> Self {
        Place { path, is_marked: Arc::default() }
    }

    /// Checks that the directory is there, to read from.
    pub fn exists(&self) -> Result<(), Error> {
        match fs::metadata(&self.path) {
            Ok(metadata) if metadata.is_dir() => Ok(()),
            Ok(_) => Err(self.missing("it is no directory")),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Err(self
                .missing("there is no such directory, and none is made: is its volume mounted?")),
            Err(error) => Err(Error::file(format!("looking at {}", self.path.display()), error)),
        }
    }

    /// Checks that the directory is there, and the one that it was, to write to.
    pub fn is_ready(&self) -> Result<(), Error> {
        self.exists()?;
        let mark = self.path.join(MARK);
        if mark.exists() {
            self.is_marked.store(true, Relaxed);
            return Ok(());
        }
        if self.is_marked.load(Relaxed) {
            return Err(self.missing(&format!(
                "{MARK} is not in it any more: is its volume mounted? If another is to take its place, make a file of that name"
            )));
        }
        write(&mark).map_err(|error| Error::file(format!("making {}", mark.display()), error))?;
        self.is_marked.store(true, Relaxed);
        Ok(())
    }

    fn missing(&self, why: &str) -> Error {
        Error::Missing { what: format!("{}: {why}", self.path.display()) }
    }
}

fn write(mark: &Path) -> io::Result<()> {
    let made = OpenOptions::new().write(true).create_new(true).open(mark);
    match made.and_then(|mut file| file.write_all(WHAT_IT_SAYS.as_bytes())) {
        // Another server's, a moment before.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        made => made,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_that_is_not_there_or_another_one_is_not_written_to() {
        let path = std::env::temp_dir().join(format!("petrel-place-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        let place = Place::new(path.clone());
        assert!(place.exists().is_err() && place.is_ready().is_err() && !path.exists());
        fs::create_dir(&path).unwrap();
        assert!(place.exists().is_ok() && fs::read_dir(&path).unwrap().next().is_none());
        assert!(place.is_ready().is_ok() && place.is_ready().is_ok());
        let away = path.with_extension("away");
        fs::rename(&path, &away).unwrap();
        assert!(place.is_ready().is_err() && !path.exists());
        // The mount point.
        fs::create_dir(&path).unwrap();
        assert!(place.exists().is_ok() && place.is_ready().is_err());
        assert!(fs::read_dir(&path).unwrap().next().is_none());
        // One that the operator has marked, and one of a server that has just begun.
        fs::write(path.join(MARK), "").unwrap();
        assert!(place.is_ready().is_ok());
        fs::remove_dir_all(&path).unwrap();
        fs::rename(&away, &path).unwrap();
        assert!(Place::new(path.clone()).is_ready().is_ok());
        fs::remove_dir_all(&path).unwrap();
    }
}
