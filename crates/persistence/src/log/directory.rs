//! The directory of a log.
//!
//! A file is made, and named in the manifest, before anything is written to it, and deleted once the manifest names it no more; the
//! manifest is replaced as a whole. So whatever moment the machine stops at, the manifest names files that together are
//! everything that was durable.

use super::format::{FileHead, VERSION};
use super::manifest::{Entry, Kind, Manifest};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// The directory of a log.
#[derive(Clone, Debug)]
pub struct Directory {
    path: PathBuf,
    /// What the names of its files begin with: `appendfilename`.
    name: String,
    manifest: Manifest,
    /// A file that the manifest will name with the next base.
    unnamed: Option<Entry>,
    log_id: [u8; 16],
}

impl Directory {
    /// Opens a directory, which is made if there is none.
    ///
    /// # Errors
    /// If it cannot be read, or its manifest is none.
    pub fn open(path: &Path, name: &str, log_id: [u8; 16]) -> io::Result<Self> {
        fs::create_dir_all(path)?;
        let mut directory = Directory {
            path: path.into(),
            name: name.into(),
            manifest: Manifest::default(),
            unnamed: None,
            log_id,
        };
        match fs::read_to_string(directory.manifest_path()) {
            Ok(text) => {
                directory.manifest = Manifest::parse(&text).map_err(|error| {
                    let path = directory.manifest_path();
                    io::Error::new(
                        io::ErrorKind::InvalidData,
                        format!("{}: {error}", path.display()),
                    )
                })?;
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        Ok(directory)
    }

    /// Whether the manifest names nothing yet.
    pub fn is_empty(&self) -> bool {
        self.manifest.entries.is_empty()
    }

    /// Which files there are.
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// Path of a file.
    pub fn path_of(&self, entry: &Entry) -> PathBuf {
        self.path.join(&entry.name)
    }

    /// Path of the manifest.
    pub fn manifest_path(&self) -> PathBuf {
        self.path.join(format!("{}.manifest", self.name))
    }

    /// Goes on under the identity of the files that are there.
    pub fn set_log_id(&mut self, log_id: [u8; 16]) {
        self.log_id = log_id;
    }

    /// Makes the next file for effects. The manifest names it from now on, or, if it is not `named`, with the next base: what is there
    /// already is not what its effects follow on. The file, and how many bytes of it are there.
    ///
    /// # Errors
    /// If it cannot be made; the manifest has not changed then.
    pub fn begin_effects(&mut self, made_ms: i64, named: bool) -> io::Result<(File, u64)> {
        let seq = self.last_seq() + 1;
        let entry =
            Entry { name: format!("{}.{seq}.effects.log", self.name), seq, kind: Kind::Effects };
        let head = FileHead { version: VERSION, seq, made_ms, log_id: self.log_id }.to_bytes();
        let path = self.path_of(&entry);
        let mut file = OpenOptions::new().write(true).create(true).truncate(true).open(&path)?;
        file.write_all(&head)?;
        file.sync_all()?;
        if named {
            let mut manifest = self.manifest.clone();
            manifest.entries.push(entry);
            self.replace_manifest(manifest)?;
        } else if let Some(before) = self.unnamed.replace(entry) {
            // Nothing will ever follow on a base with it.
            let _ = fs::remove_file(self.path_of(&before));
        }
        Ok((file, head.len() as u64))
    }

    /// The highest number of a file.
    pub fn last_seq(&self) -> u64 {
        self.manifest.last_seq().max(self.unnamed.as_ref().map_or(0, |entry| entry.seq))
    }

    /// Path of a base that is being written.
    pub fn base_in_work(&self) -> PathBuf {
        self.path.join(format!("temp-{}-{}.rdb", self.name, std::process::id()))
    }

    /// A base that was written to [`Directory::base_in_work`] and synced takes the place of all files before the one for effects with the
    /// number `first`. Those are deleted; the answer is about those that
    /// could not be, which the manifest names no more.
    ///
    /// # Errors
    /// If that cannot be done; everything is as it was then.
    pub fn complete_base(&mut self, first: u64) -> io::Result<Vec<String>> {
        let seq = self.last_seq() + 1;
        let entry = Entry { name: format!("{}.{seq}.base.rdb", self.name), seq, kind: Kind::Base };
        fs::rename(self.base_in_work(), self.path_of(&entry))?;
        let stays = |entry: &&Entry| entry.kind == Kind::Effects && entry.seq >= first;
        let later = self.manifest.entries.iter().chain(&self.unnamed).filter(stays).cloned();
        let manifest = Manifest { entries: std::iter::once(entry.clone()).chain(later).collect() };
        let before = self.manifest.clone();
        if let Err(error) = self.replace_manifest(manifest) {
            // Nobody names it.
            let _ = fs::remove_file(self.path_of(&entry));
            return Err(error);
        }
        self.unnamed = None;
        let replaced: Vec<Entry> =
            before.entries.into_iter().filter(|entry| !stays(&entry)).collect();
        let left = |entry: &Entry| match fs::remove_file(self.path_of(entry)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Some(format!("{} cannot be deleted: {error}", entry.name))
            }
            _ => None,
        };
        Ok(replaced.iter().filter_map(left).collect())
    }

    /// A file that lies elsewhere, such as a snapshot, becomes the base of an empty log. It stays where it is, too.
    ///
    /// # Errors
    /// If it can neither be linked nor copied.
    pub fn adopt_base(&mut self, file: &Path) -> io::Result<()> {
        let entry = Entry { name: format!("{}.1.base.rdb", self.name), seq: 1, kind: Kind::Base };
        let to = self.path_of(&entry);
        if fs::hard_link(file, &to).is_err() {
            fs::copy(file, &to)?;
            File::open(&to)?.sync_all()?;
        }
        self.replace_manifest(Manifest { entries: vec![entry] })
    }

    /// Takes another manifest, once it is safely on the disk.
    ///
    /// # Errors
    /// If it cannot be written; the old one is in force then.
    pub fn replace_manifest(&mut self, manifest: Manifest) -> io::Result<()> {
        let part = self.path.join(format!("temp-{}.manifest", self.name));
        let mut file = File::create(&part)?;
        file.write_all(manifest.to_string().as_bytes())?;
        file.sync_all()?;
        fs::rename(&part, self.manifest_path())?;
        // The directory holds the files' names, and its parent the directory's.
        File::open(&self.path)?.sync_all()?;
        if let Some(parent) = self.path.parent().filter(|parent| !parent.as_os_str().is_empty()) {
            File::open(parent)?.sync_all()?;
        }
        self.manifest = manifest;
        Ok(())
    }

    /// Deletes what a process that was stopped has left behind: what was unfinished, and what had been replaced.
    pub fn sweep(&self) {
        let Ok(files) = fs::read_dir(&self.path) else { return };
        let prefix = format!("temp-{}", self.name);
        for file in files.flatten() {
            let name = file.file_name();
            let name = name.to_string_lossy();
            if name.starts_with(&prefix) || self.is_replaced(&name) {
                // It is in nobody's way.
                let _ = fs::remove_file(file.path());
            }
        }
    }

    /// Whether a file of a log has this name that the manifest does not name, but files that came after it.
    fn is_replaced(&self, name: &str) -> bool {
        let number = name.strip_prefix(&self.name).and_then(|rest| rest.strip_prefix('.'));
        let number = number.and_then(|rest| {
            rest.strip_suffix(".base.rdb").or_else(|| rest.strip_suffix(".effects.log"))
        });
        let number = number.and_then(|number| number.parse::<u64>().ok());
        let is_named = self.manifest.entries.iter().any(|entry| entry.name == name);
        !is_named && number.is_some_and(|number| number < self.manifest.last_seq())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_kill_leaves_behind_is_deleted_and_nothing_else() {
        let path = std::env::temp_dir().join(format!("petrel-directory-{}", std::process::id()));
        let mut directory = Directory::open(&path, "a.aof", [0; 16]).unwrap();
        // Without a manifest nobody knows what is needed.
        fs::write(path.join("a.aof.1.base.rdb"), "").unwrap();
        directory.sweep();
        for _ in 0..3 {
            directory.begin_effects(0, true).unwrap();
        }
        fs::write(directory.base_in_work(), "").unwrap();
        assert_eq!(directory.complete_base(3).unwrap(), [""; 0]);
        let left = ["a.aof.1.base.rdb", "a.aof.2.effects.log", "temp-a.aof.manifest"];
        let others =
            ["a.aof.9.effects.log", "a.aof.x.base.rdb", "b.aof.1.base.rdb", "a.aof.1.base.rdb.old"];
        for name in left.iter().chain(&others) {
            fs::write(path.join(name), "").unwrap();
        }
        Directory::open(&path, "a.aof", [0; 16]).unwrap().sweep();
        let mut names: Vec<String> = fs::read_dir(&path)
            .unwrap()
            .map(|file| file.unwrap().file_name().to_string_lossy().into_owned())
            .collect();
        names.sort();
        let stays = ["a.aof.3.effects.log", "a.aof.4.base.rdb", "a.aof.manifest"];
        let mut expected: Vec<&str> = stays.iter().chain(&others).copied().collect();
        expected.sort_unstable();
        assert_eq!(names, expected);
        fs::remove_dir_all(&path).unwrap();
    }
}
