//! Fetching one file.

use crate::PART_BYTES;
use crate::error::Error;
use crate::manifest::{FileEntry, Sum};
use crate::name::Name;
use crate::target::Target;
use futures_util::{StreamExt, TryStreamExt};
use object_store::ObjectStoreExt;
use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::time::SystemTime;

/// Parts that are fetched at once, and so are in memory.
const PARTS_AT_ONCE: usize = 4;

/// Fetches a file of a backup to `path`, checks it and leaves it safely on the disk, with a time of
/// its last change; tells of each part how many bytes it had.
pub async fn download(
    target: &Target,
    name: Name,
    entry: &FileEntry,
    path: &Path,
    modified: SystemTime,
    mut fetched: impl FnMut(u64),
) -> Result<(), Error> {
    let object = target.object(name, &entry.name);
    let on_disk = |error| Error::file(format!("writing {}", path.display()), error);
    let mut file = File::create(path).map_err(on_disk)?;
    let starts = (0..entry.size).step_by(PART_BYTES as usize);
    let parts = starts.map(|at| at..entry.size.min(at + PART_BYTES));
    let requests = parts.map(|range| {
        let object = &object;
        async move {
            let bytes = target.store.get_range(object, range.clone()).await?;
            Ok((range, bytes))
        }
    });
    let mut answers = futures_util::stream::iter(requests).buffered(PARTS_AT_ONCE);
    let mut sum = Sum::begin();
    while let Some((range, bytes)) = answers.try_next().await.map_err(|error| gone(name, error))? {
        if bytes.len() as u64 != range.end - range.start {
            let why = format!("{} is shorter than {} bytes", entry.name, entry.size);
            return Err(Error::Corrupt { name, why });
        }
        sum.update(&bytes);
        file.write_all(&bytes).map_err(on_disk)?;
        fetched(bytes.len() as u64);
    }
    let sum = Sum::finish(sum);
    if sum != entry.sum {
        let why = format!("{} has the checksum {sum} instead of {}", entry.name, entry.sum);
        return Err(Error::Corrupt { name, why });
    }
    file.set_modified(modified).and_then(|()| file.sync_all()).map_err(on_disk)
}

/// The error for a part that cannot be fetched.
fn gone(name: Name, error: object_store::Error) -> Error {
    match error {
        object_store::Error::NotFound { path, .. } => {
            Error::Corrupt { name, why: format!("{path} is missing") }
        }
        error => Error::store(format!("fetching the backup {name}"), error),
    }
}
