//! Shipping one file.

use crate::PART_BYTES;
use crate::error::Error;
use crate::manifest::Sum;
use crate::target::Target;
use object_store::path::Path;
use object_store::{ObjectStoreExt, PutPayload, WriteMultipart};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Parts of a file that are on their way at once; as many, and one more, are in memory.
const PARTS_AT_ONCE: usize = 2;
/// Most parts that every store takes (S3).
const PARTS_MAX: u64 = 10_000;

/// Ships the first `size` bytes of a file and returns their sum; adds to `sent` as it goes. The
/// file is read by its descriptor, so it may be renamed or removed meanwhile.
pub async fn upload(
    target: &Target,
    path: &Path,
    file: &File,
    size: u64,
    sent: &AtomicU64,
) -> Result<Sum, Error> {
    let doing = || format!("shipping {path}");
    let mut sum = Sum::begin();
    let part = part_bytes(size);
    if size <= part {
        let bytes = read(file, 0, size, path)?;
        sum.update(&bytes);
        let put = target.store.put(path, PutPayload::from(bytes)).await;
        put.map_err(|error| Error::store(doing(), error))?;
        sent.fetch_add(size, Relaxed);
        return Ok(Sum::finish(sum));
    }
    let upload = target.store.put_multipart(path).await;
    let upload = upload.map_err(|error| Error::store(doing(), error))?;
    let mut writer = WriteMultipart::new_with_chunk_size(upload, part as usize);
    let mut at = 0;
    while at < size {
        let sent_part = async {
            let bytes = read(file, at, part.min(size - at), path)?;
            let room = writer.wait_for_capacity(PARTS_AT_ONCE).await;
            room.map(|()| bytes).map_err(|error| Error::store(doing(), error))
        };
        match sent_part.await {
            Ok(bytes) => {
                sum.update(&bytes);
                at += bytes.len() as u64;
                sent.fetch_add(bytes.len() as u64, Relaxed);
                writer.put(bytes.into());
            }
            Err(error) => {
                // The first error is the one that counts; parts that stay are the store's to clear.
                let _ = writer.abort().await;
                return Err(error);
            }
        }
    }
    writer.finish().await.map_err(|error| Error::store(doing(), error))?;
    Ok(Sum::finish(sum))
}

/// Bytes of each part, so that there are not too many.
fn part_bytes(size: u64) -> u64 {
    size.div_ceil(PARTS_MAX).next_multiple_of(1 << 20).max(PART_BYTES)
}

fn read(file: &File, at: u64, len: u64, path: &Path) -> Result<Vec<u8>, Error> {
    let mut bytes = vec![0; len as usize];
    file.read_exact_at(&mut bytes, at)
        .map_err(|error| Error::file(format!("reading what is shipped as {path}"), error))?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_neither_small_nor_many() {
        for size in [0, 1, 8 << 20, 80 << 30, (80 << 30) + 1, 5 << 40] {
            let part = part_bytes(size);
            assert!(part >= PART_BYTES && size.div_ceil(part) <= PARTS_MAX, "{size}: {part}");
        }
        assert_eq!(part_bytes(1 << 30), PART_BYTES);
    }
}
