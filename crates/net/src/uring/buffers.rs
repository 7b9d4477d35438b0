//! The buffers that the kernel receives into, shared by all connections of a driver.
//!
//! The kernel takes buffers from a ring in order. Where it can (Linux 6.12), it fills one buffer
//! with the bytes of many receives before it takes the next, so that small requests lie densely;
//! elsewhere each receive takes a whole buffer. A buffer goes back into the ring when the kernel
//! is through with it and every chunk in it has been consumed.

use std::io;
use std::sync::atomic::{AtomicU16, Ordering};

use io_uring::types::BufRingEntry;
use io_uring::{Submitter, cqueue};

use crate::event::Chunk;
use crate::region::Region;

/// The group id under which receives name the ring.
pub(super) const GROUP: u16 = 0;
/// Fills buffers incrementally; the kernel's IOU_PBUF_RING_INC.
const INCREMENTAL: u16 = 2;

pub(super) struct Buffers {
    memory: Region,
    ring: Region,
    tail: u16,
    /// By buffer id.
    state: Vec<State>,
    size: u32,
}

#[derive(Clone, Copy, Default)]
struct State {
    /// Bytes received into it since it was provided.
    filled: u32,
    /// Chunks not consumed yet.
    chunks: u16,
    /// The kernel may still write to it.
    provided: bool,
}

impl Buffers {
    /// Registers `count` (a power of two) buffers of `size` bytes.
    pub(super) fn new(submitter: &Submitter<'_>, count: u16, size: u32) -> io::Result<Buffers> {
        let memory = Region::new(usize::from(count) * size as usize)?;
        let ring = Region::new(usize::from(count) * size_of::<BufRingEntry>())?;
        let register = |flags| {
            let address = ring.as_mut_ptr() as u64;
            // SAFETY: the ring is page-aligned, has room for `count` entries, and is unmapped
            // only after the io_uring that uses it is gone (see the field order of `Uring`).
            unsafe { submitter.register_buf_ring_with_flags(address, count, GROUP, flags) }
        };
        register(INCREMENTAL).or_else(|_| register(0)).map_err(|e| {
            io::Error::new(e.kind(), format!("io_uring: cannot register receive buffers: {e}"))
        })?;
        let state = vec![State::default(); usize::from(count)];
        let mut buffers = Buffers { memory, ring, tail: 0, state, size };
        (0..count).for_each(|id| buffers.provide(id));
        buffers.publish();
        Ok(buffers)
    }

    /// The chunk of a successful receive, in the buffer that `flags` names.
    #[inline]
    pub(super) fn received(&mut self, flags: u32, len: u32) -> Option<Chunk> {
        let id = cqueue::buffer_select(flags)?;
        let state = self.state.get_mut(usize::from(id))?;
        let start = u32::from(id) * self.size + state.filled;
        state.filled += len;
        state.chunks += 1;
        state.provided = cqueue::buffer_more(flags);
        Some(Chunk { start, len })
    }

    /// The buffer in which `chunk` starts.
    #[inline]
    pub(super) fn id_of(&self, chunk: Chunk) -> u16 {
        (chunk.start / self.size) as u16
    }

    /// Marks one chunk of buffer `id` as consumed.
    #[inline]
    pub(super) fn consumed(&mut self, id: u16) {
        let state = &mut self.state[usize::from(id)];
        state.chunks -= 1;
        if state.chunks == 0 && !state.provided {
            self.provide(id);
        }
    }

    #[inline]
    pub(super) fn bytes(&self, chunk: Chunk) -> &[u8] {
        self.memory.slice(chunk.start as usize, chunk.len())
    }

    #[inline]
    pub(super) fn len(&self) -> usize {
        self.memory.len()
    }

    /// Appends buffer `id` to the ring; the kernel sees it after [`Buffers::publish`].
    fn provide(&mut self, id: u16) {
        let mask = self.state.len() - 1;
        let address = self.memory.as_mut_ptr() as u64 + u64::from(id) * u64::from(self.size);
        let entries: *mut BufRingEntry = self.ring.as_mut_ptr().cast();
        // SAFETY: the index is within the ring; zeroed memory is a valid entry; and the kernel
        // does not read entries beyond the published tail. The setters leave the tail, which
        // overlays the first entry's last field, alone.
        let entry = unsafe { &mut *entries.add(usize::from(self.tail) & mask) };
        entry.set_addr(address);
        entry.set_len(self.size);
        entry.set_bid(id);
        self.tail = self.tail.wrapping_add(1);
        self.state[usize::from(id)] = State { filled: 0, chunks: 0, provided: true };
    }

    /// Lets the kernel use everything provided so far.
    #[inline]
    pub(super) fn publish(&mut self) {
        let entries: *const BufRingEntry = self.ring.as_mut_ptr().cast();
        // SAFETY: the tail lies in the mapped ring, is aligned, and is shared with the kernel
        // only, which reads it atomically.
        unsafe {
            let tail = BufRingEntry::tail(entries).cast_mut();
            AtomicU16::from_ptr(tail).store(self.tail, Ordering::Release);
        }
    }
}
