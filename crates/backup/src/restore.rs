//! Listing and restoring, on the calling thread.

use crate::SNAPSHOT;
use crate::catalog::{self, Listed};
use crate::download::download;
use crate::error::Error;
use crate::name::Name;
use crate::target::{Source, Target};
use std::fs::{self, File};
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Where what is restored goes.
#[derive(Clone, Debug)]
pub struct Place {
    /// The snapshot's file.
    pub snapshot: PathBuf,
}

/// What was restored.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Restored {
    /// Which backup.
    pub name: Name,
    /// Its bytes.
    pub bytes: u64,
}

/// How often the log says how far it is.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(5);

/// What is in the store at an address, the oldest first.
///
/// # Errors
/// If the address cannot be used, or the store does not answer.
pub fn list(url: &str) -> Result<Vec<Listed>, Error> {
    block_on(async { catalog::list(&Target::open(url)?).await })
}

/// Fetches a backup and puts it into place once all of it is there and as its manifest says. What is in the place already
/// is replaced: whoever calls has seen to it that nothing is.
///
/// # Errors
/// If there is no such backup, it is damaged, or it cannot be fetched or written; nothing is in the place then.
pub fn restore(source: &Source, place: &Place) -> Result<Restored, Error> {
    block_on(fetch(source, place))
}

async fn fetch(source: &Source, place: &Place) -> Result<Restored, Error> {
    let target = Target::open(&source.url)?;
    let (manifest, what) = match source.name {
        Some(name) => {
            (catalog::manifest(&target, name).await?, format!("no complete backup {name}"))
        }
        None => (catalog::latest(&target).await?, "no complete backup".into()),
    };
    let Some(manifest) = manifest else {
        return Err(Error::Missing { what: format!("there is {what} in {}", source.url) });
    };
    let name = manifest.made;
    let [entry] = &manifest.files[..] else {
        let why = "it has files that this version of Petrel does not know".into();
        return Err(Error::Corrupt { name, why });
    };
    if entry.name != SNAPSHOT {
        let why = format!("it has no {SNAPSHOT}");
        return Err(Error::Corrupt { name, why });
    }
    tracing::info!("restoring the backup {name} of {}: {} bytes", source.url, entry.size);
    let mut part = place.snapshot.clone().into_os_string();
    part.push(".restoring");
    let part = PathBuf::from(part);
    let (mut done, mut told) = (0, Instant::now());
    let fetched = download(&target, name, entry, &part, |bytes| {
        done += bytes;
        if told.elapsed() >= PROGRESS_INTERVAL {
            told = Instant::now();
            tracing::info!("restoring: {} %", 100 * done / entry.size.max(1));
        }
    });
    if let Err(error) = fetched.await {
        // The first error is the one that counts.
        let _ = fs::remove_file(&part);
        return Err(error);
    }
    put_in_place(&part, place)
        .map_err(|error| Error::file(format!("writing {}", place.snapshot.display()), error))?;
    Ok(Restored { name, bytes: entry.size })
}

fn put_in_place(part: &std::path::Path, place: &Place) -> std::io::Result<()> {
    fs::rename(part, &place.snapshot)?;
    // The directory holds the file's name.
    let directory = place.snapshot.parent().filter(|parent| !parent.as_os_str().is_empty());
    File::open(directory.unwrap_or(std::path::Path::new(".")))?.sync_all()
}

/// Runs something on the calling thread.
fn block_on<T>(what: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
    runtime()?.block_on(what)
}

/// A runtime for one thread; what blocks (files, names of hosts) has two more at most.
pub fn runtime() -> Result<tokio::runtime::Runtime, Error> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(2)
        .thread_name("petrel-backup-io")
        .build();
    runtime.map_err(|error| Error::file("starting the backup thread", error))
}
