//! The directory of a log.
//!
//! A file is made, and named in the manifest, before anything is written to it; the manifest is
//! replaced as a whole. So whatever moment the machine stops at, the manifest names files that
//! together are everything that was durable.
//!
//! A new manifest is certain to be the one that is found after a power cut once the directory was
//! synced behind its rename. Until then, which may be long if that sync fails, an older one may
//! come back: nothing is deleted that any of them names.

use super::format::{FileHead, VERSION};
use super::manifest::{Entry, FileKind, Manifest};
use super::pending::Pending;
use crate::leftover;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Whether there was no room on the disk, which there may be again.
pub fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

/// The directory of a log.
#[derive(Clone, Debug)]
pub struct Directory {
    path: PathBuf,
    /// What the names of its files begin with: `appendfilename`.
    name: String,
    /// What the log consists of.
    manifest: Manifest,
    /// A file that the manifest will name with the next base.
    unnamed: Option<Entry>,
    /// The manifests of which one is found after a power cut; the last is the one that is read
    /// now.
    possible: Vec<Manifest>,
    /// `possible` is known: the directory was synced since it was opened, and since the manifest
    /// was replaced.
    is_settled: bool,
    /// Files that are no longer needed, but that a manifest in `possible` may name.
    dispensable: Vec<Entry>,
    log_id: [u8; 16],
}

impl Directory {
    /// Opens a directory, which is made if there is none.
    ///
    /// # Errors
    /// If it cannot be read, or its manifest is none.
    pub fn open(path: &Path, name: &str, log_id: [u8; 16]) -> io::Result<Self> {
        match fs::create_dir_all(path) {
            // Then there is nothing in it, and it is made with the first file.
            Err(error) if is_full(&error) => {}
            made => made?,
        }
        let mut directory = Directory {
            path: path.into(),
            name: name.into(),
            manifest: Manifest::default(),
            unnamed: None,
            possible: Vec::new(),
            is_settled: false,
            dispensable: Vec::new(),
            log_id,
        };
        directory.manifest = directory.read_manifest()?;
        directory.possible.push(directory.manifest.clone());
        Ok(directory)
    }

    fn read_manifest(&self) -> io::Result<Manifest> {
        let path = self.manifest_path();
        match fs::read_to_string(&path) {
            Ok(text) => Manifest::parse(&text).map_err(|error| {
                let text = format!("{}: {error}", path.display());
                io::Error::new(io::ErrorKind::InvalidData, text)
            }),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Manifest::default()),
            Err(error) => Err(error),
        }
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

    /// Path of the file of pending records.
    pub fn pending_path(&self) -> PathBuf {
        self.path.join(format!("{}.pending", self.name))
    }

    /// Makes the file of pending records anew: see [`Pending::create`].
    ///
    /// # Errors
    /// If it cannot be made, or not be mapped.
    pub fn create_pending(&self, written: u64) -> io::Result<Arc<Pending>> {
        Pending::create(self.pending_path(), self.log_id, written)
    }

    /// Goes on under the identity of the files that are there.
    pub fn set_log_id(&mut self, log_id: [u8; 16]) {
        self.log_id = log_id;
    }

    /// Makes the next file for effects. The manifest names it from now on, or, if it is not
    /// `named`, with the next base: what is there already is not what its effects follow on.
    /// The file, and its head, which is all that is there of it.
    ///
    /// # Errors
    /// If it cannot be made; the manifest has not changed then.
    pub fn begin_effects(&mut self, made_ms: i64, named: bool) -> io::Result<(File, FileHead)> {
        self.settle_if_needed()?;
        let seq = self.last_seq() + 1;
        let entry = self.effects_entry(seq);
        let head = FileHead { version: VERSION, seq, made_ms, log_id: self.log_id };
        let made = self.make(&entry, head).and_then(|file| {
            if named {
                let mut manifest = self.manifest.clone();
                manifest.entries.push(entry.clone());
                self.replace_manifest(manifest)?;
            } else if let Some(before) = self.unnamed.replace(entry.clone()) {
                // Nothing will ever follow on a base with it.
                self.dispensable.push(before);
            }
            Ok(file)
        });
        if made.is_err() {
            self.dispensable.push(entry);
        }
        self.delete_dispensable();
        Ok((made?, head))
    }

    fn effects_entry(&self, seq: u64) -> Entry {
        Entry { name: format!("{}.{seq}.effects.log", self.name), seq, kind: FileKind::Effects }
    }

    fn base_entry(&self, seq: u64) -> Entry {
        Entry { name: format!("{}.{seq}.base.rdb", self.name), seq, kind: FileKind::Base }
    }

    fn make(&self, entry: &Entry, head: FileHead) -> io::Result<File> {
        let path = self.path_of(entry);
        let mut file = OpenOptions::new().write(true).create(true).truncate(true).open(path)?;
        file.write_all(&head.to_bytes())?;
        file.sync_all()?;
        Ok(file)
    }

    /// The log did not go on in the file with this number after all.
    pub fn abandon_effects(&mut self, seq: u64) {
        let named = self.manifest.entries.extract_if(.., |entry| entry.seq == seq);
        self.dispensable.extend(named);
        self.dispensable.extend(self.unnamed.take_if(|entry| entry.seq == seq));
        self.delete_dispensable();
    }

    /// The highest number of a file.
    pub fn last_seq(&self) -> u64 {
        let manifests = self.possible.iter().chain([&self.manifest]).map(Manifest::last_seq);
        manifests.chain(self.unnamed.iter().map(|entry| entry.seq)).max().unwrap_or(0)
    }

    /// Path of a base that is being written.
    pub fn base_in_work(&self) -> PathBuf {
        self.path.join(format!("temp-{}-{}.rdb", self.name, std::process::id()))
    }

    /// A base that was written to [`Directory::base_in_work`] and synced takes the place of all
    /// files before the one for effects with the number `first`. Those are deleted; the answer
    /// is about those that could not be, which the manifest names no more.
    ///
    /// # Errors
    /// If that cannot be done, or it is not certain that it was: the log goes on as it was then,
    /// and no file of either is deleted.
    pub fn complete_base(&mut self, first: u64) -> io::Result<Vec<String>> {
        self.settle_if_needed()?;
        let entry = self.base_entry(self.last_seq() + 1);
        fs::rename(self.base_in_work(), self.path_of(&entry))?;
        let stays = |entry: &&Entry| entry.kind == FileKind::Effects && entry.seq >= first;
        let later = self.manifest.entries.iter().chain(&self.unnamed).filter(stays).cloned();
        let manifest = Manifest { entries: std::iter::once(entry.clone()).chain(later).collect() };
        match self.replace_manifest(manifest) {
            Ok(()) => self.unnamed = None,
            Err(error) => {
                self.dispensable.push(entry);
                self.delete_dispensable();
                return Err(error);
            }
        }
        Ok(self.delete_dispensable())
    }

    /// A file that lies elsewhere, such as a snapshot, becomes the base of an empty log. It stays
    /// where it is, too.
    ///
    /// # Errors
    /// If it can neither be linked nor copied.
    pub fn adopt_base(&mut self, file: &Path) -> io::Result<()> {
        self.settle_if_needed()?;
        // One that an earlier try has left behind may be a second name of the very file, so nothing
        // may be written to it.
        let is_free = |entry: &Entry| self.path_of(entry).symlink_metadata().is_err();
        let entry = (1..).map(|seq| self.base_entry(seq)).find(is_free);
        let Some(entry) = entry else { return Err(io::ErrorKind::AlreadyExists.into()) };
        let to = self.path_of(&entry);
        let adopted = fs::hard_link(file, &to)
            .or_else(|_| fs::copy(file, &to).map(drop))
            .and_then(|()| File::open(&to)?.sync_all())
            .and_then(|()| self.replace_manifest(Manifest { entries: vec![entry.clone()] }));
        if adopted.is_err() {
            self.dispensable.push(entry);
            self.delete_dispensable();
        }
        adopted
    }

    /// Takes another manifest, once it is safely on the disk.
    ///
    /// # Errors
    /// If that cannot be done: the old one is in force then. The new one may be found after a power
    /// cut nevertheless, or at the next start.
    fn replace_manifest(&mut self, manifest: Manifest) -> io::Result<()> {
        let part = self.path.join(format!("temp-{}.manifest", self.name));
        let mut file = File::create(&part)?;
        file.write_all(manifest.to_string().as_bytes())?;
        file.sync_all()?;
        // The names of new files are there before the manifest that names them.
        self.settle()?;
        self.is_settled = false;
        self.possible.push(manifest.clone());
        fs::rename(&part, self.manifest_path())?;
        self.sync()?;
        self.is_settled = true;
        self.possible = vec![manifest.clone()];
        let before = std::mem::replace(&mut self.manifest, manifest);
        let is_named = |entry: &Entry| self.manifest.entries.contains(entry);
        self.dispensable.extend(before.entries.into_iter().filter(|entry| !is_named(entry)));
        Ok(())
    }

    /// Makes sure that the manifest that is read now is the one that is found after a power cut.
    fn settle(&mut self) -> io::Result<()> {
        fs::create_dir_all(&self.path)?;
        self.sync()?;
        if !self.is_settled {
            self.possible = vec![self.read_manifest()?];
            self.is_settled = true;
        }
        Ok(())
    }

    /// The same, unless it is certain. Before that no file is made, so that a disk which fails is
    /// not filled up with those that must not be deleted.
    fn settle_if_needed(&mut self) -> io::Result<()> {
        if self.is_settled { Ok(()) } else { self.settle() }
    }

    fn sync(&self) -> io::Result<()> {
        // The directory holds the files' names, and its parent the directory's.
        File::open(&self.path)?.sync_all()?;
        match self.path.parent().filter(|parent| !parent.as_os_str().is_empty()) {
            Some(parent) => File::open(parent)?.sync_all(),
            None => Ok(()),
        }
    }

    /// Deletes what is not needed and what no manifest names that may be found; a line about each
    /// that cannot be deleted.
    fn delete_dispensable(&mut self) -> Vec<String> {
        let possible = &self.possible;
        let is_named =
            |entry: &Entry| possible.iter().any(|manifest| manifest.entries.contains(entry));
        let unnamed: Vec<Entry> =
            self.dispensable.extract_if(.., |entry| !is_named(entry)).collect();
        let left = |entry: &Entry| match fs::remove_file(self.path_of(entry)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Some(format!("{} cannot be deleted: {error}", entry.name))
            }
            _ => None,
        };
        unnamed.iter().filter_map(left).collect()
    }

    /// Deletes what a process that was stopped has left behind: what was unfinished, and what had
    /// been replaced. Only to be called once every file that the manifest names has been read.
    pub fn sweep(&mut self) {
        if self.settle_if_needed().is_err() {
            return;
        }
        // Nothing needs them: what cannot be removed is in the way of nothing.
        leftover::sweep(&self.path, &format!("temp-{}-", self.name), ".rdb", |_| true);
        let _ = fs::remove_file(self.path.join(format!("temp-{}.manifest", self.name)));
        let Ok(files) = fs::read_dir(&self.path) else { return };
        for file in files.flatten() {
            if self.is_replaced(&file.file_name().to_string_lossy()) {
                let _ = fs::remove_file(file.path());
            }
        }
    }

    /// Whether a file of a log has this name that the manifest does not name, but files that came
    /// after it.
    fn is_replaced(&self, name: &str) -> bool {
        let number = name.strip_prefix(&self.name).and_then(|rest| rest.strip_prefix('.'));
        let number = number.and_then(|rest| {
            rest.strip_suffix(".base.rdb").or_else(|| rest.strip_suffix(".effects.log"))
        });
        let number = number.and_then(|number| number.parse::<u64>().ok());
        let is_named =
            |manifest: &Manifest| manifest.entries.iter().any(|entry| entry.name == name);
        !self.possible.iter().any(is_named)
            && number.is_some_and(|number| number < self.manifest.last_seq())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_kill_leaves_behind_is_deleted_and_nothing_else() {
        let path = std::env::temp_dir().join(format!("petrel-directory-{}", std::process::id()));
        let mut directory = Directory::open(&path, "a.aof", [0; 16]).unwrap();
        // Without a manifest it is unknown what is needed.
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

    #[test]
    fn a_file_that_was_not_gone_on_in_is_named_no_more() {
        let path = std::env::temp_dir().join(format!("petrel-abandoned-{}", std::process::id()));
        let mut directory = Directory::open(&path, "a.aof", [0; 16]).unwrap();
        directory.begin_effects(0, true).unwrap();
        let before = directory.manifest().clone();
        directory.begin_effects(0, true).unwrap();
        directory.abandon_effects(2);
        assert_eq!(directory.manifest(), &before);
        // The manifest on the disk names it still, so it stays, and its number is not used again.
        assert!(path.join("a.aof.2.effects.log").exists());
        directory.begin_effects(0, false).unwrap();
        assert!(path.join("a.aof.3.effects.log").exists());
        directory.abandon_effects(3);
        assert!(!path.join("a.aof.3.effects.log").exists());
        directory.begin_effects(0, true).unwrap();
        let named: Vec<u64> = directory.manifest().logs().map(|entry| entry.seq).collect();
        assert_eq!(named, [1, 3]);
        assert!(!path.join("a.aof.2.effects.log").exists());
        fs::remove_dir_all(&path).unwrap();
    }
}
