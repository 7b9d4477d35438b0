//! Blocks, as they are appended to a file.

use super::format::{
    BLOCK_HEAD_LEN, BlockHead, FILE_HEAD_LEN, FileHead, checksum, checksum_of_both,
};
use super::segment::{Memory, Segment};
use super::storage::{Storage, Sync};
use crate::direct::{DIRECT_MIN, PAGE};
use std::io::{self, IoSlice};
use std::sync::Arc;

/// Pieces that are given to the system at once.
const PIECES_MAX: usize = 512;

/// Appends blocks to the current file.
pub(super) struct Writer {
    file: Box<dyn Storage>,
    /// Head of the file.
    head: FileHead,
    /// Bytes of whole blocks, and of the head.
    len: u64,
    /// Something was appended behind `len` and could not be cut off.
    torn: bool,
    /// Epoch of the last block, in this file or the one before.
    previous: u64,
    /// The beginning of a block: its head, and what fills the page up behind it.
    front: Segment,
}

impl Writer {
    /// A writer of a file that has its head and nothing more; the last block had the epoch
    /// `previous`.
    pub fn new(file: Box<dyn Storage>, head: FileHead, previous: u64) -> Self {
        let len = FILE_HEAD_LEN as u64;
        Writer {
            file,
            head,
            len,
            torn: false,
            previous,
            front: Segment::new(0, false, Memory::own(4 * PAGE)),
        }
    }

    /// Goes on in another file, which has its head and nothing more.
    pub fn go_on_in(&mut self, file: Box<dyn Storage>, head: FileHead) {
        (self.file, self.head, self.torn) = (file, head, false);
        self.len = FILE_HEAD_LEN as u64;
    }

    /// The number of the file.
    pub fn seq(&self) -> u64 {
        self.head.seq
    }

    /// Bytes of the file.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Returns an object that makes the file durable.
    pub fn syncer(&self) -> Arc<dyn Sync> {
        self.file.syncer()
    }

    /// Appends the block of one epoch, whole or not at all, which says that this many bytes of the
    /// file are `synced`. If it is large, its parts are filled up so that they can go to the disk
    /// as they lie: each begins and ends with a page, of memory and of the file.
    ///
    /// # Errors
    /// The system's error. The next call tries again to undo a partial write.
    pub fn block(
        &mut self,
        segments: &mut [&mut Segment],
        written_ms: i64,
        synced: u64,
        end: bool,
    ) -> io::Result<()> {
        if self.torn {
            self.file.cut(self.len)?;
            self.torn = false;
        }
        let epoch = segments.first().map_or(self.previous, |segment| segment.epoch);
        // A reader takes a block as one epoch, which follows on the one that it names.
        assert!(segments.iter().all(|segment| segment.epoch == epoch), "a block is one epoch");
        debug_assert!(segments.is_empty() || epoch > self.previous, "epochs ascend");
        assert!(synced <= self.len, "bytes are written before they are synced");
        let offset = (self.len % PAGE as u64) as usize;
        self.front.begin_at(offset);
        self.front.append(&[0; BLOCK_HEAD_LEN]);
        if segments.iter().map(|segment| segment.len()).sum::<usize>() >= DIRECT_MIN {
            self.front.fill_page(offset);
            segments.iter_mut().for_each(|segment| segment.fill_page(0));
        }
        let filling = &self.front.all()[BLOCK_HEAD_LEN..];
        let (mut sum, mut len) = (checksum(filling), filling.len() as u64);
        for segment in segments.iter_mut() {
            sum = checksum_of_both(sum, segment.sum(), segment.len() as u64);
            len += segment.len() as u64;
        }
        let head = BlockHead {
            serial: segments.iter().any(|segment| segment.serial),
            end,
            epoch,
            previous: self.previous,
            written_ms,
            len,
            synced,
            sum,
        };
        self.front.set_first(&head.to_bytes(&self.head));
        let mut pieces: Vec<IoSlice<'_>> = Vec::with_capacity(segments.len() + 1);
        pieces.push(IoSlice::new(self.front.all()));
        pieces.extend(segments.iter().map(|segment| IoSlice::new(segment.all())));
        self.torn = true;
        if let Err(error) =
            append_all(&mut *self.file, &mut pieces, BLOCK_HEAD_LEN as u64 + head.len)
        {
            // Whether or not it works: the next call looks.
            self.torn = self.file.cut(self.len).is_err();
            return Err(error);
        }
        self.torn = false;
        self.len += BLOCK_HEAD_LEN as u64 + head.len;
        self.previous = epoch;
        Ok(())
    }
}

fn append_all(
    file: &mut dyn Storage,
    mut pieces: &mut [IoSlice<'_>],
    mut left: u64,
) -> io::Result<()> {
    IoSlice::advance_slices(&mut pieces, 0);
    while !pieces.is_empty() {
        let some = &pieces[..pieces.len().min(PIECES_MAX)];
        match file.append(some, left) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(count) => {
                IoSlice::advance_slices(&mut pieces, count);
                left -= count as u64;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
