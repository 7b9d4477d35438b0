//! Finds the append-only files.

use crate::log::{FileKind, Manifest};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Append-only files in a server's directory.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Found {
    /// Nothing.
    Nothing,
    /// Files that Redis or Valkey wrote, in the order in which they are to be read.
    Foreign(Vec<PathBuf>),
    /// A log that Petrel goes on with, of which perhaps the beginning was written by others.
    Own(Manifest),
}

/// Looks for a manifest in a directory, or else for the one file that servers before Redis 7 write.
/// `name` is `appendfilename`; the one file lies in the working directory.
///
/// # Errors
/// If the manifest cannot be read, or is none.
pub fn find(directory: &Path, name: &str) -> io::Result<Found> {
    let manifest = directory.join(format!("{name}.manifest"));
    match fs::read_to_string(&manifest) {
        Ok(text) => of_manifest(&manifest, &text),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let single = PathBuf::from(name);
            Ok(if single.is_file() { Found::Foreign(vec![single]) } else { Found::Nothing })
        }
        Err(error) => Err(located(&manifest, error.kind(), &error)),
    }
}

/// Returns the files named by a manifest with this text, at this path.
///
/// # Errors
/// If it is no manifest.
pub fn of_manifest(path: &Path, text: &str) -> io::Result<Found> {
    let manifest =
        Manifest::parse(text).map_err(|error| located(path, io::ErrorKind::InvalidData, &error))?;
    if manifest.entries.iter().any(|entry| entry.kind == FileKind::Effects) {
        return Ok(Found::Own(manifest));
    }
    let directory = path.parent().unwrap_or(Path::new(""));
    let files = manifest.base().into_iter().chain(manifest.logs());
    Ok(Found::Foreign(files.map(|entry| directory.join(&entry.name)).collect()))
}

fn located(path: &Path, kind: io::ErrorKind, error: &dyn std::fmt::Display) -> io::Error {
    io::Error::new(kind, format!("{}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_manifest_names_its_files_in_order() {
        let of = |text| of_manifest(Path::new("d/a.manifest"), text).unwrap();
        let found = of("file i.1 seq 1 type i\nfile old seq 1 type h\nfile b seq 2 type b\n\
                        # a note\nfile \"i 2\" seq 2 type i startoffset 17\n");
        let files = ["d/b", "d/i.1", "d/i 2"].map(PathBuf::from);
        assert_eq!(found, Found::Foreign(files.into()));
        assert!(matches!(of("file b seq 1 type b\nfile e seq 2 type e\n"), Found::Own(_)));
        let error = of_manifest(Path::new("d/a.manifest"), "file b seq x type b").unwrap_err();
        assert_eq!(error.to_string(), "d/a.manifest: line 1: the file has no number");
    }
}
