//! A unit of shipping: a snapshot, or those files of a log that no longer change.

use crate::SNAPSHOT;
use crate::catalog::{self, MANIFEST};
use crate::error::Error;
use crate::manifest::{FileEntry, Manifest, Sum, is_object_name};
use crate::name::{BackupKind, Name};
use crate::shipper::Figures;
use crate::target::Target;
use crate::upload::upload;
use object_store::{ObjectStoreExt, PutPayload};
use std::fs::File;
use std::path::PathBuf;
use std::sync::atomic::Ordering::Relaxed;
use std::time::SystemTime;

/// Something to ship.
#[derive(Debug)]
pub enum Job {
    /// A snapshot.
    Snapshot(Snapshot),
    /// A log.
    Log(LogState),
}

/// An open snapshot: its bytes do not change, even if the file is replaced or removed.
#[derive(Debug)]
pub struct Snapshot {
    pub name: Name,
    pub file: File,
    /// Only if it is newer than everything in the store.
    pub if_newer: bool,
}

/// A log at a moment: the files of it that do not change any more.
#[derive(Clone, Debug, Default)]
pub struct LogState {
    /// Name and path of each, in their order; the time of the first one's last change names the
    /// backup.
    pub files: Vec<(String, PathBuf)>,
    /// Name of the file that lists the others.
    pub index: String,
}

/// Result of a job.
pub struct Shipped {
    pub name: Name,
    /// Time of the data now in the store.
    pub made: SystemTime,
    /// Bytes that were sent.
    pub bytes: u64,
}

/// Context of an upload.
pub struct Sender<'a> {
    pub target: &'a Target,
    /// The version that manifests name.
    pub server: &'a str,
    pub figures: &'a Figures,
}

/// State of a log in the store.
#[derive(Default)]
pub struct Known {
    name: Option<Name>,
    files: Vec<FileEntry>,
    /// Index files, the newest last: a reader of the previous manifest may still need the previous
    /// one.
    indexes: Vec<String>,
}

const INDEXES_KEPT: usize = 2;

impl Job {
    /// Name in log messages.
    pub fn title(&self) -> String {
        match self {
            Job::Snapshot(snapshot) => format!("the backup {}", snapshot.name),
            Job::Log(_) => "the backup of the log".into(),
        }
    }
}

impl Sender<'_> {
    /// Ships a snapshot; nothing if it is not to be.
    pub async fn snapshot(&self, snapshot: &Snapshot) -> Result<Option<Shipped>, Error> {
        let name = snapshot.name;
        if snapshot.if_newer {
            let newest = catalog::latest(self.target).await?;
            if newest.is_some_and(|newest| newest.made >= name.time()) {
                return Ok(None);
            }
        }
        let file = self.file(name, SNAPSHOT, &snapshot.file).await?;
        let (bytes, made) = (file.size, name.time());
        let server = self.server.to_owned();
        self.manifest(&Manifest { name, made, server, files: vec![file], index: None }).await?;
        Ok(Some(Shipped { name, made, bytes }))
    }

    /// Ships the files of a log that are not in the store yet; none if all are.
    pub async fn log(&self, log: &LogState, known: &mut Known) -> Result<Option<Shipped>, Error> {
        let Some((_, first)) = log.files.first() else { return Ok(None) };
        let name = Name::at(modified(first)?, BackupKind::Log);
        if known.name != Some(name) {
            *known = self.look_up(name).await?;
        }
        let (mut files, mut bytes, mut made) = (Vec::new(), 0, name.time());
        let mut is_new = false;
        for (object, path) in &log.files {
            if !is_object_name(object) {
                let what = format!(
                    "{} cannot be shipped: its name, which follows appendfilename, may hold letters, digits, '.', '_' and '-'",
                    path.display()
                );
                return Err(Error::Missing { what });
            }
            let reading = |error| Error::file(format!("reading {}", path.display()), error);
            let file = File::open(path).map_err(reading)?;
            let metadata = file.metadata().map_err(reading)?;
            made = made.max(metadata.modified().map_err(reading)?);
            let same = |entry: &&FileEntry| entry.name == *object && entry.size == metadata.len();
            if let Some(entry) = known.files.iter().find(same) {
                files.push(entry.clone());
                continue;
            }
            let entry = self.file(name, object, &file).await?;
            (bytes, is_new) = (bytes + entry.size, true);
            known.files.retain(|entry| entry.name != *object);
            known.files.push(entry.clone());
            files.push(entry);
        }
        let sum = Sum::of(log.index.as_bytes());
        let index = format!("index.{}", sum.short());
        if !is_new && known.indexes.last() == Some(&index) {
            return Ok(None);
        }
        self.small(name, &index, log.index.clone()).await?;
        let entry = FileEntry { name: index.clone(), size: log.index.len() as u64, sum };
        // A manifest holds milliseconds.
        let made = Name::at(made, BackupKind::Log).time();
        let server = self.server.to_owned();
        self.manifest(&Manifest { name, made, server, files, index: Some(entry) }).await?;
        known.indexes.retain(|before| *before != index);
        known.indexes.push(index);
        self.forget_indexes(name, known).await;
        Ok(Some(Shipped { name, made, bytes }))
    }

    /// Reads the state of a log in the store.
    async fn look_up(&self, name: Name) -> Result<Known, Error> {
        let manifest = match catalog::manifest(self.target, name).await {
            Ok(manifest) => manifest,
            Err(Error::Corrupt { why, .. }) => {
                tracing::warn!("the backup {name} is shipped anew: {why}");
                None
            }
            Err(error) => return Err(error),
        };
        let (mut files, mut indexes) = (Vec::new(), Vec::new());
        if let Some(manifest) = manifest {
            files = manifest.files;
            indexes.extend(manifest.index.map(|index| index.name));
        }
        Ok(Known { name: Some(name), files, indexes })
    }

    async fn forget_indexes(&self, name: Name, known: &mut Known) {
        while known.indexes.len() > INDEXES_KEPT {
            let object = self.target.object(name, &known.indexes.remove(0));
            if let Err(error) = self.target.store.delete(&object).await {
                tracing::debug!("{object} stays: {error}");
            }
        }
    }

    async fn file(&self, name: Name, object: &str, file: &File) -> Result<FileEntry, Error> {
        self.target.is_ready()?;
        let path = self.target.object(name, object);
        let size =
            file.metadata().map_err(|error| Error::file(format!("shipping {path}"), error))?;
        let (size, figures) = (size.len(), self.figures);
        figures.current_sent.store(0, Relaxed);
        figures.current_bytes.store(size, Relaxed);
        let sum = upload(self.target, &path, file, size, &figures.current_sent).await?;
        figures.files.fetch_add(1, Relaxed);
        Ok(FileEntry { name: object.to_owned(), size, sum })
    }

    async fn manifest(&self, manifest: &Manifest) -> Result<(), Error> {
        self.small(manifest.name, MANIFEST, manifest.text()).await
    }

    async fn small(&self, name: Name, object: &str, text: String) -> Result<(), Error> {
        self.target.is_ready()?;
        let path = self.target.object(name, object);
        let put = self.target.store.put(&path, PutPayload::from(text)).await;
        put.map(drop).map_err(|error| Error::store(format!("shipping {path}"), error))
    }
}

fn modified(path: &std::path::Path) -> Result<SystemTime, Error> {
    let metadata = path.metadata().and_then(|metadata| metadata.modified());
    metadata.map_err(|error| Error::file(format!("reading {}", path.display()), error))
}
