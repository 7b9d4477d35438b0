//! Blocks of bytes in size classes, addressed by 32 bits.
//!
//! A page has blocks of one class. The pages of a class grow with its bytes, so few blocks cost
//! little. Free blocks are chained through their first two bytes.

use super::paged::Paged;
use std::mem::size_of;

/// Address of a block.
pub type BlockAt = u32;

/// Bits of an address that number the block of a page.
const SLOT_BITS: u32 = 12;
const SLOTS_MAX: usize = 1 << SLOT_BITS;
const PAGES_MAX: usize = 1 << (32 - SLOT_BITS);

/// Bytes of a page, unless it has one block only.
const PAGE_BYTES: usize = 32 << 10;
/// Bytes of a page at least, and its share of the bytes of its class.
const PAGE_BYTES_MIN: usize = 512;
const PAGE_SHARE: usize = 8;

/// Classes have a multiple of 8 bytes up to 128, of 16 up to 512, of 64 up to 1,024, of 128 up to
/// 2,048. Larger blocks are a page each.
const CLASSES: usize = 56;
const CLASS_BYTES_MAX: usize = 2048;

const NONE: u32 = u32::MAX;
const NO_SLOT: u16 = u16::MAX;

/// Blocks in size classes.
#[derive(Debug)]
pub struct Pool {
    pages: Paged<Page>,
    free_pages: Vec<u32>,
    classes: [Class; CLASSES],
    page_bytes: usize,
}

#[derive(Clone, Copy, Debug)]
struct Class {
    /// First and last page with free blocks. Blocks are taken from the first.
    available: u32,
    last: u32,
    bytes: usize,
}

#[derive(Debug)]
struct Page {
    bytes: Box<[u8]>,
    slot_len: u32,
    /// Neighbours among the pages of the class with free blocks.
    previous: u32,
    next: u32,
    slots: u16,
    used: u16,
    /// First block of the chain of freed ones.
    freed: u16,
    /// Blocks from this one on have not been used yet.
    fresh: u16,
    class: u8,
}

impl Page {
    fn is_full(&self) -> bool {
        self.used == self.slots
    }

    fn take(&mut self) -> u16 {
        self.used += 1;
        if self.freed == NO_SLOT {
            self.fresh += 1;
            return self.fresh - 1;
        }
        let slot = self.freed;
        let start = usize::from(slot) * self.slot_len as usize;
        self.freed = u16::from_le_bytes([self.bytes[start], self.bytes[start + 1]]);
        slot
    }

    fn give_back(&mut self, slot: u16) {
        let start = usize::from(slot) * self.slot_len as usize;
        self.bytes[start..start + 2].copy_from_slice(&self.freed.to_le_bytes());
        self.freed = slot;
        self.used -= 1;
    }
}

impl Default for Pool {
    fn default() -> Self {
        Self {
            pages: Paged::default(),
            free_pages: Vec::new(),
            classes: [Class { available: NONE, last: NONE, bytes: 0 }; CLASSES],
            page_bytes: 0,
        }
    }
}

/// Class of a number of bytes, and the bytes of its blocks.
fn class_of(len: usize) -> (u8, usize) {
    let (first, from, step) = match len {
        0..=128 => (0, 0, 8),
        129..=512 => (16, 128, 16),
        513..=1024 => (40, 512, 64),
        1025..=CLASS_BYTES_MAX => (48, 1024, 128),
        _ => return (CLASSES as u8, len),
    };
    let steps = (len - from).div_ceil(step).max(1);
    ((first + steps - 1) as u8, from + steps * step)
}

fn address(page: u32, slot: u16) -> BlockAt {
    page << SLOT_BITS | u32::from(slot)
}

fn page_of(at: BlockAt) -> usize {
    (at >> SLOT_BITS) as usize
}

impl Pool {
    /// Bytes on the heap.
    pub fn footprint(&self) -> usize {
        self.page_bytes + self.pages.footprint() + self.free_pages.capacity() * size_of::<u32>()
    }

    /// The bytes of a block, those beyond the length it was allocated with included.
    #[inline]
    pub fn get(&self, at: BlockAt) -> &[u8] {
        let Some(page) = self.pages.get(page_of(at)) else { return &[] };
        let len = page.slot_len as usize;
        let start = (at as usize % SLOTS_MAX) * len;
        page.bytes.get(start..start + len).unwrap_or_default()
    }

    /// Like [`Self::get`], to be changed.
    #[inline]
    pub fn get_mut(&mut self, at: BlockAt) -> &mut [u8] {
        let Some(page) = self.pages.get_mut(page_of(at)) else { return &mut [] };
        let len = page.slot_len as usize;
        let start = (at as usize % SLOTS_MAX) * len;
        page.bytes.get_mut(start..start + len).unwrap_or_default()
    }

    /// Copies the first bytes of a block to another.
    pub fn copy(&mut self, from: BlockAt, to: BlockAt, len: usize) {
        let mut buffer = [0; 256];
        for start in (0..len).step_by(buffer.len()) {
            let buffer = &mut buffer[..(len - start).min(256)];
            let end = start + buffer.len();
            if let Some(bytes) = self.get(from).get(start..end) {
                buffer.copy_from_slice(bytes);
            }
            if let Some(bytes) = self.get_mut(to).get_mut(start..end) {
                bytes.copy_from_slice(buffer);
            }
        }
    }

    /// A block of at least `len` bytes. `None` if all addresses are in use.
    pub fn allocate(&mut self, len: usize) -> Option<BlockAt> {
        let (class, slot_len) = class_of(len);
        let Some(&Class { available, .. }) = self.classes.get(usize::from(class)) else {
            let page = self.add_page(class, slot_len, 1)?;
            self.pages.get_mut(page as usize)?.take();
            return Some(address(page, 0));
        };
        let number =
            if available == NONE { self.add_class_page(class, slot_len)? } else { available };
        let page = self.pages.get_mut(number as usize)?;
        let slot = page.take();
        if page.is_full() {
            self.unlink(number);
        }
        Some(address(number, slot))
    }

    fn add_class_page(&mut self, class: u8, slot_len: usize) -> Option<u32> {
        let share = self.classes[usize::from(class)].bytes / PAGE_SHARE;
        let slots = (share.clamp(PAGE_BYTES_MIN, PAGE_BYTES) / slot_len).clamp(1, SLOTS_MAX);
        let page = self.add_page(class, slot_len, slots)?;
        self.classes[usize::from(class)].bytes += slots * slot_len;
        self.link(page);
        Some(page)
    }

    fn add_page(&mut self, class: u8, slot_len: usize, slots: usize) -> Option<u32> {
        let page = Page {
            bytes: vec![0; slots * slot_len].into_boxed_slice(),
            slot_len: u32::try_from(slot_len).ok()?,
            previous: NONE,
            next: NONE,
            slots: slots as u16,
            used: 0,
            freed: NO_SLOT,
            fresh: 0,
            class,
        };
        let number = match self.free_pages.pop() {
            Some(number) => {
                *self.pages.get_mut(number as usize)? = page;
                number
            }
            None if self.pages.len() < PAGES_MAX => {
                self.pages.push(page);
                (self.pages.len() - 1) as u32
            }
            None => return None,
        };
        self.page_bytes += slots * slot_len;
        Some(number)
    }

    /// Frees a block.
    pub fn free(&mut self, at: BlockAt) {
        let number = page_of(at) as u32;
        let Some(page) = self.pages.get_mut(page_of(at)) else { return };
        let was_full = page.is_full();
        let class = usize::from(page.class);
        page.give_back((at as usize % SLOTS_MAX) as u16);
        if page.used > 0 {
            if was_full {
                self.link(number);
            }
            return;
        }
        let bytes = page.bytes.len();
        if class < CLASSES {
            if !was_full {
                self.unlink(number);
            }
            self.classes[class].bytes -= bytes;
        }
        self.page_bytes -= bytes;
        if let Some(page) = self.pages.get_mut(page_of(at)) {
            page.bytes = Box::default();
            page.slot_len = 0;
        }
        self.free_pages.push(number);
        if self.free_pages.len() == self.pages.len() {
            self.free_pages = Vec::new();
            self.pages.clear();
        }
    }

    /// Whether the block is on a page with more free than used blocks, and others of its class can
    /// take it: moving such blocks empties pages.
    pub fn is_sparse(&self, at: BlockAt) -> bool {
        self.pages.get(page_of(at)).is_some_and(|page| {
            let class = self.classes.get(usize::from(page.class));
            page.used * 2 < page.slots
                && class.is_some_and(|class| {
                    class.available != NONE && class.available != page_of(at) as u32
                })
        })
    }

    /// Appends a page to those with free blocks: others fill up before.
    fn link(&mut self, number: u32) {
        let Some(page) = self.pages.get_mut(number as usize) else { return };
        let Some(class) = self.classes.get_mut(usize::from(page.class)) else { return };
        let previous = std::mem::replace(&mut class.last, number);
        (page.previous, page.next) = (previous, NONE);
        match self.pages.get_mut(previous as usize) {
            Some(page) => page.next = number,
            None => class.available = number,
        }
    }

    fn unlink(&mut self, number: u32) {
        let Some(page) = self.pages.get(number as usize) else { return };
        let (previous, next, class) = (page.previous, page.next, usize::from(page.class));
        match self.pages.get_mut(previous as usize) {
            Some(page) => page.next = next,
            None => self.classes[class].available = next,
        }
        match self.pages.get_mut(next as usize) {
            Some(page) => page.previous = previous,
            None => self.classes[class].last = previous,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_hold_their_lengths() {
        let mut last = 0;
        for len in 1..=2048 {
            let (class, bytes) = class_of(len);
            assert!(bytes >= len && bytes - len < 128 && class >= last, "{len}");
            assert!(usize::from(class) < CLASSES && class - last <= 1);
            last = class;
        }
        assert_eq!((class_of(1), class_of(128), class_of(129)), ((0, 8), (15, 128), (16, 144)));
        assert_eq!((class_of(2048), class_of(2049)), ((55, 2048), (56, 2049)));
    }

    #[test]
    fn blocks_keep_their_bytes_and_return_all() {
        let mut pool = Pool::default();
        let mut blocks = Vec::new();
        let mut state = 1u32;
        for round in 0..20_000u32 {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let len = 1 + (state >> 20) as usize % if round % 50 == 0 { 4000 } else { 200 };
            let at = pool.allocate(len).unwrap();
            let byte = round as u8;
            pool.get_mut(at)[..len].fill(byte);
            blocks.push((at, len, byte));
            if round % 3 == 0 {
                let (at, len, byte) = blocks.swap_remove(state as usize % blocks.len());
                assert!(pool.get(at)[..len].iter().all(|&found| found == byte));
                pool.free(at);
            }
        }
        let held: usize = blocks.iter().map(|(_, len, _)| len).sum();
        assert!(pool.footprint() < held * 5 / 4, "{} {held}", pool.footprint());
        // Pages empty when sparse blocks move.
        let mut kept = Vec::new();
        for (number, (at, len, byte)) in blocks.into_iter().enumerate() {
            assert!(pool.get(at)[..len].iter().all(|&found| found == byte));
            if number % 10 == 0 { kept.push((at, len)) } else { pool.free(at) }
        }
        let sparse = pool.footprint();
        for (at, len) in &mut kept {
            if pool.is_sparse(*at) {
                pool.free(*at);
                *at = pool.allocate(*len).unwrap();
            }
        }
        assert!(pool.footprint() * 2 < sparse, "{} {sparse}", pool.footprint());
        kept.into_iter().for_each(|(at, _)| pool.free(at));
        assert_eq!(pool.footprint(), 0);
    }
}
