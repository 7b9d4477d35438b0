//! The last bytes of the replication stream.
//!
//! ```text
//!        start                                            end
//!          │  chunk  │   chunk   │ chunk │    current ...   │   offsets: bytes since the stream began
//!          ▲              ▲                                 ▲
//!          oldest byte    a replica is here                 the next command goes here
//! ```
//!
//! An offset is the number of bytes before it, so the end is what Redis calls
//! `master_repl_offset`. At least the last [`Backlog::size`] bytes are kept, and all that an
//! attached replica has yet to be sent: how much that may be is decided by its output limit.

use crate::commands::{Batch, MULTI};
use crate::frame::{HEAD_LEN_MAX, TURN, put_head};
use bytes::{BufMut, Bytes, BytesMut};
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Acquire, Ordering::Relaxed, Ordering::Release};

/// Bytes of memory that is filled by many commands.
const CHUNK_LEN: usize = 128 * 1024;

/// Minimum length in bytes of a run of commands that becomes a chunk without being copied.
const OWN_CHUNK_LEN: usize = 64 * 1024;

/// Fewer bytes than this of the chunk that is being filled are copied for a replica; if there are
/// more, the chunk is divided there.
const COPIED_MAX: usize = 16 * 1024;

/// The least that [`Backlog::size`] may be, as in Redis.
const SIZE_MIN: u64 = 16 * 1024;

/// The requested part of the stream is no longer in the backlog.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Lost;

/// Bytes of the stream.
#[derive(Debug)]
pub enum Piece<'p> {
    /// Memory that the backlog shares.
    Shared(Bytes),
    /// A few bytes, to be copied at once: the backlog is locked.
    Borrowed(&'p [u8]),
}

impl Piece<'_> {
    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        match self {
            Piece::Shared(bytes) => bytes,
            Piece::Borrowed(bytes) => bytes,
        }
    }
}

/// The stream's last bytes. Every thread appends; a worker reads for each of its replicas.
#[derive(Debug)]
pub struct Backlog {
    kept: Mutex<Kept>,
    /// Offset behind the last byte. Written under the lock.
    end: AtomicU64,
    /// Offset behind the last change. Written under the lock.
    written: AtomicU64,
    /// Offset behind the last frame; 0 if there is none. Written under the lock.
    framed: AtomicU64,
}

#[derive(Debug)]
struct Kept {
    /// Offset of each chunk's first byte, in order.
    chunks: VecDeque<(u64, Bytes)>,
    /// The bytes behind them.
    current: BytesMut,
    /// Offset of the first of these.
    current_at: u64,
    size: u64,
    /// The database that the last command was for; none if the next has to say it.
    db: Option<u16>,
    /// Replicas that are being sent the stream.
    readers: Vec<Arc<AtomicU64>>,
}

/// A replica's place in the stream: what follows is kept.
#[derive(Debug)]
pub struct Reader {
    backlog: Arc<Backlog>,
    at: Arc<AtomicU64>,
}

impl Backlog {
    /// Creates an empty backlog of `size` bytes for a stream at `offset`.
    pub fn new(offset: u64, size: u64) -> Arc<Self> {
        let kept = Kept {
            chunks: VecDeque::new(),
            current: BytesMut::new(),
            current_at: offset,
            size: size.max(SIZE_MIN),
            db: None,
            readers: Vec::new(),
        };
        Arc::new(Backlog {
            kept: Mutex::new(kept),
            end: AtomicU64::new(offset),
            written: AtomicU64::new(offset),
            framed: AtomicU64::new(0),
        })
    }

    /// Offset behind the last byte.
    #[inline]
    pub fn end(&self) -> u64 {
        self.end.load(Acquire)
    }

    /// Offset behind the last change: what else is appended tells of none.
    #[inline]
    pub fn written(&self) -> u64 {
        self.written.load(Acquire)
    }

    /// Offset of the oldest byte that is kept.
    pub fn start(&self) -> u64 {
        self.kept.lock().start()
    }

    /// Bytes that are kept whatever replicas there are.
    pub fn size(&self) -> u64 {
        self.kept.lock().size
    }

    /// Sets the size of the backlog in bytes.
    pub fn resize(&self, size: u64) {
        let dropped = {
            let mut kept = self.kept.lock();
            kept.size = size.max(SIZE_MIN);
            kept.trim(self.end())
        };
        drop(dropped);
    }

    /// Frees the bytes kept only for readers that are gone; the next append would do so as well.
    pub fn release(&self) {
        let dropped = self.kept.lock().trim(self.end());
        drop(dropped);
    }

    /// Appends the commands of a commit. Before them stands the database of the first, unless the
    /// command before was for that one. Returns the end.
    ///
    /// The order of the calls is the order of the stream: a change is appended under the locks
    /// that it was made under.
    #[inline]
    pub fn append(&self, commands: Batch<'_>) -> u64 {
        let Batch { bytes, skip, first, last } = commands;
        let mut kept = self.kept.lock();
        let selected = first.filter(|&first| kept.db != Some(first));
        // Within the transaction, as Redis has it.
        let begun = if selected.is_some() && skip == 0 { MULTI.len() } else { 0 };
        kept.copy(&bytes[..begun]);
        if let Some(first) = selected {
            kept.select(first);
        }
        kept.db = last.or(kept.db);
        kept.put(bytes, skip.max(begun));
        self.written.store(kept.end(), Release);
        self.publish(kept)
    }

    /// Appends what concerns no database. Returns the end.
    pub fn append_aside(&self, commands: &[u8]) -> u64 {
        let mut kept = self.kept.lock();
        kept.copy(commands);
        self.publish(kept)
    }

    /// Appends a commit as a frame; `effects` are a group of [`petrel_persistence::effects`], and
    /// may be taken. Returns the end. As to order see [`Backlog::append`].
    #[inline]
    pub fn append_frame(&self, lane: u8, effects: &mut Vec<u8>) -> u64 {
        let mut room = [0; HEAD_LEN_MAX];
        let head = put_head(&mut room, lane, effects.len());
        let mut kept = self.kept.lock();
        kept.copy(head);
        kept.put(effects, 0);
        let end = kept.end();
        self.framed.store(end, Release);
        self.written.store(end, Release);
        self.publish(kept)
    }

    /// Says what changes are written as from now on. Returns the end.
    pub fn append_turn(&self, frames: bool) -> u64 {
        let mut room = [0; HEAD_LEN_MAX];
        let head = put_head(&mut room, TURN, 1);
        let mut kept = self.kept.lock();
        kept.copy(head);
        kept.copy(&[u8::from(frames)]);
        self.framed.store(kept.end(), Release);
        self.publish(kept)
    }

    /// Appends bytes of another server's stream, which this one passes on, and which may hold
    /// frames. Returns the end.
    pub fn append_verbatim(&self, bytes: &[u8], has_frames: bool) -> u64 {
        let mut kept = self.kept.lock();
        // Which database they leave selected is not known here.
        kept.db = None;
        kept.copy(bytes);
        if has_frames {
            self.framed.store(kept.end(), Release);
        }
        self.written.store(kept.end(), Release);
        self.publish(kept)
    }

    /// Offset behind the last frame, 0 if there is none: what does not read frames can go on from
    /// there at the earliest.
    #[inline]
    pub fn framed(&self) -> u64 {
        self.framed.load(Acquire)
    }

    #[inline]
    fn publish(&self, mut kept: parking_lot::MutexGuard<'_, Kept>) -> u64 {
        let end = kept.end();
        self.end.store(end, Release);
        if kept.has_excess(end) {
            let dropped = kept.trim(end);
            // Freed without the lock.
            drop(kept);
            drop(dropped);
        }
        end
    }

    /// The next command says for which database it is: a replica begins here that does not know.
    /// Returns the end.
    pub fn forget_database(&self) -> u64 {
        let mut kept = self.kept.lock();
        kept.db = None;
        self.end()
    }

    /// Discards everything: another stream begins at `offset`. Existing readers receive nothing
    /// more.
    pub fn restart(&self, offset: u64) {
        let mut kept = self.kept.lock();
        let chunks = std::mem::take(&mut kept.chunks);
        kept.current = BytesMut::new();
        kept.current_at = offset;
        kept.db = None;
        kept.readers.clear();
        self.end.store(offset, Release);
        self.written.store(offset, Release);
        self.framed.store(0, Release);
        drop(kept);
        drop(chunks);
    }

    /// A place from which a replica is to be sent the stream.
    ///
    /// # Errors
    /// If what follows on `offset` is not kept, or there has never been such an offset.
    pub fn reader(self: &Arc<Self>, offset: u64) -> Result<Reader, Lost> {
        let mut kept = self.kept.lock();
        if offset < kept.start() || offset > self.end() {
            return Err(Lost);
        }
        let at = Arc::new(AtomicU64::new(offset));
        kept.readers.push(at.clone());
        Ok(Reader { backlog: self.clone(), at })
    }

    /// Bytes of memory that the stream's bytes take.
    pub fn memory(&self) -> u64 {
        let kept = self.kept.lock();
        let chunks = kept.chunks.len() * size_of::<(u64, Bytes)>();
        self.end() - kept.start() + (kept.current.capacity() - kept.current.len() + chunks) as u64
    }
}

impl Kept {
    #[inline]
    fn end(&self) -> u64 {
        self.current_at + self.current.len() as u64
    }

    fn start(&self) -> u64 {
        self.chunks.front().map_or(self.current_at, |&(at, _)| at)
    }

    #[cold]
    fn select(&mut self, db: u16) {
        let mut number = itoa::Buffer::new();
        let number = number.format(db);
        let command = format!("*2\r\n$6\r\nSELECT\r\n${}\r\n{number}\r\n", number.len());
        self.copy(command.as_bytes());
    }

    /// Appends bytes from `skip` on; a long buffer is taken instead of copied.
    #[inline]
    fn put(&mut self, bytes: &mut Vec<u8>, skip: usize) {
        if bytes.len() < OWN_CHUNK_LEN {
            return self.copy(&bytes[skip..]);
        }
        self.seal();
        let taken = Bytes::from(std::mem::take(bytes)).slice(skip..);
        let len = taken.len() as u64;
        self.chunks.push_back((self.current_at, taken));
        self.current_at += len;
    }

    #[inline]
    fn copy(&mut self, mut bytes: &[u8]) {
        loop {
            let room = self.current.capacity() - self.current.len();
            if bytes.len() <= room {
                self.current.put_slice(bytes);
                return;
            }
            let (now, later) = bytes.split_at(room);
            self.current.put_slice(now);
            bytes = later;
            self.seal();
            self.current = BytesMut::with_capacity(CHUNK_LEN);
        }
    }

    /// Makes a chunk of the current bytes; the rest of their memory is filled further.
    fn seal(&mut self) {
        if self.current.is_empty() {
            return;
        }
        let chunk = self.current.split().freeze();
        let len = chunk.len() as u64;
        self.chunks.push_back((self.current_at, chunk));
        self.current_at += len;
    }

    /// Whether the oldest chunk is more than is kept, with replicas left out of account.
    #[inline]
    fn has_excess(&self, end: u64) -> bool {
        self.chunks.front().is_some_and(|(at, chunk)| at + (chunk.len() as u64) + self.size < end)
    }

    /// Removes the bytes that no reader needs any more.
    fn trim(&mut self, end: u64) -> Vec<Bytes> {
        self.readers.retain(|reader| Arc::strong_count(reader) > 1);
        let readers = self.readers.iter().map(|reader| reader.load(Relaxed));
        let needed = readers.min().unwrap_or(end).min(end.saturating_sub(self.size));
        let mut dropped = Vec::new();
        while let Some((at, chunk)) = self.chunks.front()
            && at + chunk.len() as u64 <= needed
        {
            dropped.extend(self.chunks.pop_front().map(|(_, chunk)| chunk));
        }
        dropped
    }
}

impl Reader {
    /// The offset up to which the replica was given the stream.
    #[inline]
    pub fn offset(&self) -> u64 {
        self.at.load(Relaxed)
    }

    /// Bytes that it has yet to be given.
    #[inline]
    pub fn behind(&self) -> u64 {
        self.backlog.end().saturating_sub(self.offset())
    }

    /// Gives `take` what follows, about `max` bytes at most.
    pub fn read(&mut self, max: usize, mut take: impl FnMut(Piece<'_>)) {
        let mut at = self.offset();
        let mut kept = self.backlog.kept.lock();
        let end = self.backlog.end().min(at + max as u64);
        if at < kept.start() || at >= end {
            // The stream has restarted.
            return;
        }
        if end > kept.current_at && (end - at.max(kept.current_at)) as usize >= COPIED_MAX {
            kept.seal();
        }
        let first = kept.chunks.partition_point(|(from, chunk)| from + chunk.len() as u64 <= at);
        for (from, chunk) in kept.chunks.range(first..) {
            if at >= end {
                break;
            }
            let (from, to) = ((at - from) as usize, ((end - from) as usize).min(chunk.len()));
            at += (to - from) as u64;
            match to - from < COPIED_MAX {
                true => take(Piece::Borrowed(&chunk[from..to])),
                false => take(Piece::Shared(chunk.slice(from..to))),
            }
        }
        if at < end {
            let (from, to) = (at - kept.current_at, end - kept.current_at);
            take(Piece::Borrowed(&kept.current[from as usize..to as usize]));
        }
        self.at.store(end.max(at), Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read_all(reader: &mut Reader, max: usize) -> Vec<u8> {
        let mut bytes = Vec::new();
        while reader.behind() > 0 {
            reader.read(max, |piece| bytes.extend_from_slice(piece.bytes()));
        }
        bytes
    }

    fn append(backlog: &Backlog, first: u16, last: u16, bytes: &[u8]) -> u64 {
        let mut bytes = [b"skipped", bytes].concat();
        backlog.append(Batch { bytes: &mut bytes, skip: 7, first: Some(first), last: Some(last) })
    }

    #[test]
    fn the_database_is_said_where_it_changes() {
        let backlog = Backlog::new(100, 1 << 20);
        let mut reader = backlog.reader(100).unwrap();
        append(&backlog, 0, 0, b"a");
        append(&backlog, 0, 12, b"b");
        append(&backlog, 12, 12, b"c");
        backlog.append_aside(b"-");
        append(&backlog, 12, 12, b"d");
        assert_eq!(backlog.forget_database(), backlog.end());
        append(&backlog, 12, 12, b"e");
        let select = |db: &str| format!("*2\r\n$6\r\nSELECT\r\n${}\r\n{db}\r\n", db.len());
        let expected = format!("{}abc-d{}e", select("0"), select("12"));
        assert_eq!(read_all(&mut reader, 7), expected.as_bytes());
        assert_eq!(backlog.end(), 100 + expected.len() as u64);
        assert!(backlog.reader(99).is_err() && backlog.reader(backlog.end() + 1).is_err());
        assert!(backlog.reader(backlog.end()).is_ok());
    }

    #[test]
    fn as_much_is_kept_as_is_to_be_and_as_replicas_need() {
        let backlog = Backlog::new(0, 1 << 20);
        let slow = backlog.reader(0).unwrap();
        for _ in 0..100 {
            backlog.append_verbatim(&[7; 100_000], false);
        }
        assert_eq!((backlog.start(), slow.behind()), (0, 10_000_000));
        drop(slow);
        backlog.release();
        assert!(backlog.end() - backlog.start() < (1 << 20) + 2 * CHUNK_LEN as u64);
        backlog.append_verbatim(&[7; 100_000], false);
        let kept = backlog.end() - backlog.start();
        assert!((1 << 20..(1 << 20) + 2 * CHUNK_LEN as u64).contains(&kept), "{kept}");
        assert!(backlog.memory() < (2 << 20), "{}", backlog.memory());
        backlog.resize(0);
        assert!(backlog.end() - backlog.start() < SIZE_MIN + CHUNK_LEN as u64);
    }

    #[test]
    fn a_stream_that_begins_anew_gives_nothing_to_old_readers() {
        let backlog = Backlog::new(0, 1 << 20);
        let mut old = backlog.reader(0).unwrap();
        backlog.append_verbatim(b"before", false);
        backlog.restart(100);
        backlog.append_verbatim(b"after", false);
        old.read(1000, |piece| panic!("{piece:?}"));
        assert!(backlog.reader(6).is_err());
        assert_eq!(read_all(&mut backlog.reader(100).unwrap(), 1000), b"after");
        backlog.restart(3);
        assert_eq!((old.behind(), backlog.end(), backlog.written()), (3, 3, 3));
    }

    proptest! {
        #[test]
        fn what_was_appended_is_read(
            lens in prop::collection::vec((0usize..4, 0usize..200_000), 1..40),
            max in 1usize..100_000,
        ) {
            let backlog = Backlog::new(5, u64::MAX >> 1);
            let (mut early, mut all) = (backlog.reader(5).unwrap(), Vec::new());
            let mut known = Vec::new();
            for (kind, len) in lens {
                let len = if kind == 0 { len } else { len / 100 };
                let bytes: Vec<u8> = (0..len).map(|i| (i + all.len()) as u8).collect();
                all.extend_from_slice(&bytes);
                match kind {
                    1 => backlog.append_verbatim(&bytes, false),
                    2 => backlog.append_aside(&bytes),
                    _ => {
                        backlog.kept.lock().db = Some(3);
                        append(&backlog, 3, 3, &bytes)
                    }
                };
                if kind == 3 {
                    early.read(max, |piece| known.extend_from_slice(piece.bytes()));
                }
            }
            known.extend(read_all(&mut early, max));
            prop_assert!(known == all);
            let middle = all.len() / 2;
            let mut late = backlog.reader(5 + middle as u64).unwrap();
            prop_assert!(read_all(&mut late, max) == all[middle..]);
        }
    }
}
