//! Files of Redis or Valkey that a log begins with. Once Petrel has written its own manifest, the
//! other server cannot read the directory any more; so its files are kept beside the directory.

use super::directory::Directory;
use super::manifest::Entry;
use crate::leftover::stamp;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

impl Directory {
    /// Takes the directory with the files of another server that Petrel's manifest has replaced: it
    /// is reported once.
    pub fn take_kept(&mut self) -> Option<PathBuf> {
        self.kept.take()
    }

    /// Keeps the manifest of another server, and the files that it names, in a directory beside
    /// this one, from which that server can start. They take no room until one of both is deleted.
    pub(super) fn keep_foreign(&mut self) -> io::Result<()> {
        let aside = self.make_aside()?;
        let kept = self.link_into(&aside);
        if kept.is_err() {
            // Nothing is lost with it: it has second names of files that are here.
            let _ = fs::remove_dir_all(&aside);
        }
        kept?;
        self.kept = Some(aside);
        Ok(())
    }

    fn make_aside(&self) -> io::Result<PathBuf> {
        let mut name = self.path.as_os_str().to_owned();
        name.push(format!(".before-petrel-{}", stamp()));
        let mut aside = PathBuf::from(&name);
        let mut number = 1;
        loop {
            match fs::create_dir(&aside) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                    number += 1;
                    let mut next = name.clone();
                    next.push(format!("-{number}"));
                    aside = next.into();
                }
                made => return made.map(|()| aside),
            }
        }
    }

    fn link_into(&self, aside: &Path) -> io::Result<()> {
        let manifest = self.manifest_path();
        for Entry { name, .. } in &self.manifest.entries {
            match link(&self.path.join(name), &aside.join(name)) {
                // The other server deletes files of history before it names them no more.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                linked => linked?,
            }
        }
        // Last, so that a directory with a manifest is complete.
        link(&manifest, &aside.join(manifest.file_name().unwrap_or_default()))?;
        File::open(aside)?.sync_all()
    }
}

/// Gives a file a second name, or, where the file system cannot, copies it.
pub(super) fn link(from: &Path, to: &Path) -> io::Result<()> {
    fs::hard_link(from, to).or_else(|error| match error.kind() {
        io::ErrorKind::NotFound => Err(error),
        _ => fs::copy(from, to).and_then(|_| File::open(to)?.sync_all()),
    })
}
