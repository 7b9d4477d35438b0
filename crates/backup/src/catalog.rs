//! Catalogue of a store: its backups, complete and incomplete.

use crate::error::Error;
use crate::manifest::Manifest;
use crate::name::{BackupKind, Name};
use crate::target::Target;
use futures_util::TryStreamExt;
use object_store::ObjectStoreExt;
use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

/// The object that is written last.
pub const MANIFEST: &str = "manifest";

/// Backups that were not completed are removed after this time: their shipper gave up
/// long ago.
const INCOMPLETE_AGE: Duration = Duration::from_secs(24 * 3600);

/// A backup that is in a store.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Listed {
    /// Name of the backup.
    pub name: Name,
    /// Bytes of its files; none if it is not complete.
    pub bytes: Option<u64>,
    /// Version of the server that made it, or the fault of an incomplete one.
    pub about: String,
}

/// All backups, and whether each is complete.
pub async fn names(target: &Target) -> Result<BTreeMap<Name, bool>, Error> {
    let doing = |error| Error::store(format!("listing {}", target.prefix()), error);
    let mut names = BTreeMap::new();
    let mut objects = target.store.list(Some(target.prefix()));
    while let Some(object) = objects.try_next().await.map_err(doing)? {
        let Some(mut parts) = object.location.prefix_match(target.prefix()) else { continue };
        // An object with another name is not a backup of Petrel.
        let name = parts.next().and_then(|part| Name::parse(part.as_ref()));
        let (Some(name), Some(object)) = (name, parts.next()) else { continue };
        *names.entry(name).or_default() |= object.as_ref() == MANIFEST;
    }
    Ok(names)
}

/// The manifest of a backup; none while it is not complete.
pub async fn manifest(target: &Target, name: Name) -> Result<Option<Manifest>, Error> {
    let Some(bytes) = target.small(&target.object(name, MANIFEST)).await? else { return Ok(None) };
    let corrupt = |why: String| Error::Corrupt { name, why: format!("its manifest {why}") };
    let manifest = Manifest::parse(&bytes).map_err(corrupt)?;
    if manifest.name != name {
        return Err(corrupt(format!("is that of {}", manifest.name)));
    }
    Ok(Some(manifest))
}

/// The complete backup with the newest content. A log goes on growing, so one that began before a
/// snapshot may hold more.
pub async fn latest(target: &Target) -> Result<Option<Manifest>, Error> {
    let names = names(target).await?;
    let newest = |kind| latest_of(target, &names, kind);
    let (snapshot, log) = (newest(BackupKind::Snapshot).await?, newest(BackupKind::Log).await?);
    Ok([snapshot, log].into_iter().flatten().max_by_key(|manifest| manifest.made))
}

async fn latest_of(
    target: &Target,
    names: &BTreeMap<Name, bool>,
    kind: BackupKind,
) -> Result<Option<Manifest>, Error> {
    for (&name, &is_complete) in names.iter().rev().filter(|(name, _)| name.kind == kind) {
        if is_complete && let Some(manifest) = manifest(target, name).await? {
            return Ok(Some(manifest));
        }
        tracing::info!("the backup {name} is not complete and is passed over");
    }
    Ok(None)
}

/// All backups, the oldest first.
pub async fn list(target: &Target) -> Result<Vec<Listed>, Error> {
    let mut all = Vec::new();
    for name in names(target).await?.into_keys() {
        let (bytes, about) = match manifest(target, name).await {
            Ok(Some(manifest)) => (Some(manifest.bytes()), about(&manifest)),
            Ok(None) => (None, "not complete".into()),
            Err(Error::Corrupt { why, .. }) => (None, format!("damaged: {why}")),
            Err(error) => return Err(error),
        };
        all.push(Listed { name, bytes, about });
    }
    Ok(all)
}

/// Description of a complete backup in a list.
fn about(manifest: &Manifest) -> String {
    let until = match manifest.name.kind {
        BackupKind::Snapshot => String::new(),
        BackupKind::Log => format!(", up to {}", Name::at(manifest.made, BackupKind::Snapshot)),
    };
    format!("Petrel {}{until}", manifest.server)
}

/// Removes all complete backups except the newest `keep` of each kind (0 keeps all), and old
/// incomplete ones; returns the number removed.
pub async fn prune(target: &Target, keep: usize) -> Result<u64, Error> {
    let stale = SystemTime::now() - INCOMPLETE_AGE;
    let (mut complete, mut removed) = ([0; 2], 0);
    for (name, is_complete) in names(target).await?.into_iter().rev() {
        let complete = &mut complete[usize::from(name.kind == BackupKind::Log)];
        *complete += usize::from(is_complete);
        let goes = if is_complete { keep > 0 && *complete > keep } else { name.time() < stale };
        if goes {
            remove(target, name).await?;
            removed += 1;
        }
    }
    Ok(removed)
}

/// Removes a backup, its manifest first: the rest is then never taken for a complete backup.
async fn remove(target: &Target, name: Name) -> Result<(), Error> {
    let doing = |error| Error::store(format!("removing the backup {name}"), error);
    match target.store.delete(&target.object(name, MANIFEST)).await {
        Ok(()) | Err(object_store::Error::NotFound { .. }) => {}
        Err(error) => return Err(doing(error)),
    }
    let directory = target.backup(name);
    let objects: Vec<_> = target.store.list(Some(&directory)).try_collect().await.map_err(doing)?;
    for object in objects {
        target.store.delete(&object.location).await.map_err(doing)?;
    }
    tracing::info!("removed the backup {name}");
    Ok(())
}
