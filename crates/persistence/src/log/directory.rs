//! The directory of a log.
//!
//! A file is made, with its head, and named in the manifest, before anything is written to it; the
//! manifest is there before any file, and is replaced as a whole. So whatever moment the machine
//! stops at, the manifest names files that together are everything that was durable.
//!
//! A new manifest is certain to be the one that is found after a power cut once the directory was
//! synced behind its rename. Until then, which may be long if that sync fails, an older one may
//! come back: nothing is deleted that any of them names.

use super::foreign::link;
use super::format::{FILE_HEAD_LEN, FileHead, VERSION};
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
    pub(super) path: PathBuf,
    /// Prefix of the files' names: `appendfilename`.
    name: String,
    /// Files of the log.
    pub(super) manifest: Manifest,
    has_manifest: bool,
    /// The directory for the other server's files from which the log began.
    pub(super) kept: Option<PathBuf>,
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
    /// If it cannot be read, its manifest is none, or there is none and files of a log are there.
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
            has_manifest: false,
            kept: None,
            unnamed: None,
            possible: Vec::new(),
            is_settled: false,
            dispensable: Vec::new(),
            log_id,
        };
        let read = directory.read_manifest()?;
        directory.has_manifest = read.is_some();
        if read.is_none() {
            directory.refuse_without_manifest()?;
        }
        directory.manifest = read.unwrap_or_default();
        directory.possible.push(directory.manifest.clone());
        Ok(directory)
    }

    /// The manifest, if there is one.
    fn read_manifest(&self) -> io::Result<Option<Manifest>> {
        let path = self.manifest_path();
        let failed = |kind, why: &dyn std::fmt::Display| {
            io::Error::new(kind, format!("{}: {why}", path.display()))
        };
        match fs::read_to_string(&path) {
            Ok(text) => Manifest::parse(&text)
                .map(Some)
                .map_err(|error| failed(io::ErrorKind::InvalidData, &error)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(failed(error.kind(), &error)),
        }
    }

    /// Refuses a directory in which files of a log are and no manifest says which of them belong
    /// together: there is one before the first of them.
    fn refuse_without_manifest(&self) -> io::Result<()> {
        let Ok(files) = fs::read_dir(&self.path) else { return Ok(()) };
        let holds_data = |name: &String| {
            let Some(rest) = name.strip_prefix(&self.name) else { return false };
            let len = self.path.join(name).metadata().map_or(0, |meta| meta.len());
            match rest.ends_with(".effects.log") {
                true => len > FILE_HEAD_LEN as u64,
                false => {
                    let kinds = [".base.rdb", ".base.aof", ".incr.aof"];
                    len > 0 && kinds.iter().any(|kind| rest.ends_with(kind))
                }
            }
        };
        let names = files.flatten().map(|file| file.file_name().to_string_lossy().into_owned());
        match names.filter(holds_data).min() {
            None => Ok(()),
            Some(first) => Err(io::Error::new(
                io::ErrorKind::InvalidData,
                format!(
                    "{} has files of a log, such as {first}, but no {}.manifest, which says which of them belong together: \
                     put it back, or move the files away to start without them",
                    self.path.display(),
                    self.name
                ),
            )),
        }
    }

    /// Writes a manifest that names nothing, if there is none, before the first file is made.
    fn begin(&mut self) -> io::Result<()> {
        self.settle_if_needed()?;
        match self.has_manifest {
            true => Ok(()),
            false => self.replace_manifest(Manifest::own(Vec::new())),
        }
    }

    /// Whether the manifest names nothing yet.
    pub fn is_empty(&self) -> bool {
        self.manifest.entries.is_empty()
    }

    /// The current manifest.
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

    /// Creates an empty file of pending records: see [`Pending::create`].
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

    /// Creates the next file of effects, with its head only. If `named`, the manifest names it at
    /// once; otherwise together with the next base, because its effects do not follow on the
    /// present files. Returns the file and its head.
    ///
    /// # Errors
    /// If it cannot be made; the manifest has not changed then.
    pub fn begin_effects(&mut self, made_ms: i64, named: bool) -> io::Result<(File, FileHead)> {
        self.begin()?;
        let seq = self.free_seq();
        let entry = self.effects_entry(seq);
        let head = FileHead { version: VERSION, seq, made_ms, log_id: self.log_id };
        let made = self.make(&entry, head).and_then(|file| {
            if named {
                let mut entries = self.closed_entries()?;
                entries.push(entry.clone());
                self.replace_manifest(Manifest::own(entries))?;
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

    /// The files that the manifest names; those of another server with their lengths, which do not
    /// change any more.
    fn closed_entries(&self) -> io::Result<Vec<Entry>> {
        let mut entries = self.manifest.entries.clone();
        if self.manifest.is_foreign() {
            for entry in entries.iter_mut().filter(|entry| entry.kind != FileKind::History) {
                entry.len = Some(self.path_of(entry).metadata()?.len());
            }
        }
        Ok(entries)
    }

    /// The next number with which nothing is overwritten that was logged.
    fn free_seq(&self) -> u64 {
        let len = |entry: Entry| self.path_of(&entry).metadata().map_or(0, |meta| meta.len());
        let is_free = |&seq: &u64| {
            len(self.effects_entry(seq)) <= FILE_HEAD_LEN as u64 && len(self.base_entry(seq)) == 0
        };
        let last = self.last_seq();
        (last + 1..).find(is_free).unwrap_or(last + 1)
    }

    fn effects_entry(&self, seq: u64) -> Entry {
        Entry::new(format!("{}.{seq}.effects.log", self.name), seq, FileKind::Effects)
    }

    fn base_entry(&self, seq: u64) -> Entry {
        Entry::new(format!("{}.{seq}.base.rdb", self.name), seq, FileKind::Base)
    }

    fn make(&self, entry: &Entry, head: FileHead) -> io::Result<File> {
        let path = self.path_of(entry);
        let mut file = OpenOptions::new().write(true).create(true).truncate(true).open(path)?;
        file.write_all(&head.to_bytes())?;
        file.sync_all()?;
        Ok(file)
    }

    /// Adds the file that was made without being named, after the named ones.
    ///
    /// # Errors
    /// If the manifest cannot be replaced.
    pub fn name_unnamed(&mut self) -> io::Result<()> {
        let Some(entry) = self.unnamed.clone() else { return Ok(()) };
        self.settle_if_needed()?;
        let mut entries = self.closed_entries()?;
        entries.push(entry);
        self.replace_manifest(Manifest::own(entries))?;
        self.unnamed = None;
        Ok(())
    }

    /// Removes the files of the log, and the directory if nothing else is in it.
    pub fn remove(self) {
        let entries = self.manifest.entries.iter().chain(&self.unnamed).chain(&self.dispensable);
        // First the manifest: files that it names are not missing then.
        let paths = [self.manifest_path(), self.pending_path(), self.base_in_work()].into_iter();
        for path in paths.chain(entries.map(|entry| self.path_of(entry))) {
            let _ = fs::remove_file(path);
        }
        let _ = fs::remove_dir(&self.path);
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
    /// files before the one for effects with the number `first`, which begins with this `epoch`.
    /// Deletes these files; returns the files that could not be deleted, which the manifest no longer
    /// names.
    ///
    /// # Errors
    /// If that cannot be done, or it is not certain that it was: the log goes on as it was then,
    /// and no file of either is deleted.
    pub fn complete_base(&mut self, first: u64, epoch: u64) -> io::Result<Vec<String>> {
        self.begin()?;
        let entry = Entry { epoch: Some(epoch), ..self.base_entry(self.free_seq()) };
        fs::rename(self.base_in_work(), self.path_of(&entry))?;
        let stays = |entry: &&Entry| entry.kind == FileKind::Effects && entry.seq >= first;
        let later = self.manifest.entries.iter().chain(&self.unnamed).filter(stays).cloned();
        let manifest = Manifest::own(std::iter::once(entry.clone()).chain(later).collect());
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
        self.begin()?;
        // One that an earlier try has left behind may be a second name of the very file, so nothing
        // may be written to it.
        let is_free = |entry: &Entry| self.path_of(entry).symlink_metadata().is_err();
        let entry = (1..).map(|seq| self.base_entry(seq)).find(is_free);
        let Some(entry) = entry else { return Err(io::ErrorKind::AlreadyExists.into()) };
        let to = self.path_of(&entry);
        let adopted = link(file, &to)
            .and_then(|()| File::open(&to)?.sync_all())
            .and_then(|()| self.replace_manifest(Manifest::own(vec![entry.clone()])));
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
        if self.manifest.is_foreign() && self.kept.is_none() {
            self.keep_foreign()?;
        }
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
        self.has_manifest = true;
        self.possible = vec![manifest.clone()];
        let before = std::mem::replace(&mut self.manifest, manifest);
        let is_named = |entry: &Entry| self.manifest.names(&entry.name);
        self.dispensable.extend(before.entries.into_iter().filter(|entry| !is_named(entry)));
        Ok(())
    }

    /// Makes sure that the manifest that is read now is the one that is found after a power cut.
    fn settle(&mut self) -> io::Result<()> {
        fs::create_dir_all(&self.path)?;
        self.sync()?;
        if !self.is_settled {
            self.possible = vec![self.read_manifest()?.unwrap_or_default()];
            self.is_settled = true;
        }
        Ok(())
    }

    /// Like `settle`, unless the manifest is known to be on the disk. No file is created before
    /// that, so that a failing disk is not filled with files that must not be deleted.
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

    /// Deletes unneeded files and files that no possible manifest names. Returns a line for each
    /// that cannot be deleted.
    fn delete_dispensable(&mut self) -> Vec<String> {
        let possible = &self.possible;
        let is_named = |entry: &Entry| possible.iter().any(|manifest| manifest.names(&entry.name));
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

    /// Deletes files of a stopped process: unfinished ones and replaced ones. Must be called only
    /// after every file named by the manifest was read.
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
        let is_named = |manifest: &Manifest| manifest.names(name);
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
        // Without a manifest, the needed files are not known.
        fs::write(path.join("a.aof.1.base.rdb"), "").unwrap();
        directory.sweep();
        for _ in 0..3 {
            directory.begin_effects(0, true).unwrap();
        }
        fs::write(directory.base_in_work(), "").unwrap();
        assert_eq!(directory.complete_base(3, 1).unwrap(), [""; 0]);
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
