//! Bytes in pages: a page is allocated by the first write to it, and reads as zeros before. A
//! snapshot keeps the bytes as they were; a write first copies the page that it changes.

use crate::allocated;
use std::collections::BTreeMap;

/// Pages that a sequence has at most; the pages of a longer one are larger.
const PAGES_MAX: usize = 65_536;

/// Bytes of the smallest page, as a power of two.
const SHIFT_MIN: u32 = 12;

/// Bytes of a sequence at most: a string of an RDB file holds less than 4 GiB.
pub const LEN_MAX: usize = (1 << 32) - 4096;

/// Bytes, all zero at first.
#[derive(Debug, Default)]
pub struct Pages {
    /// Empty before the first write.
    pages: Vec<Option<Box<[u8]>>>,
    len: usize,
    /// Bytes of a page, as a power of two.
    shift: u32,
    /// Bytes that `pages` occupy.
    allocated: usize,
    /// Pages that are allocated.
    present: usize,
    snapshot: Option<Box<Snapshot>>,
}

/// The bytes as they were when the snapshot began.
#[derive(Debug, Default)]
struct Snapshot {
    /// The first page that was not handed out yet.
    next: usize,
    /// Pages from there on that have changed since, as they were.
    saved: BTreeMap<usize, Option<Box<[u8]>>>,
    /// Bytes that `saved` occupies.
    allocated: usize,
}

impl Pages {
    /// Zeros; none if there would be more than [`LEN_MAX`].
    pub fn new(len: usize) -> Option<Self> {
        let shift = len.div_ceil(PAGES_MAX).next_power_of_two().ilog2().max(SHIFT_MIN);
        (len <= LEN_MAX).then(|| Pages { len, shift, ..Pages::default() })
    }

    /// A copy of bytes; none if they are more than [`LEN_MAX`].
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let mut pages = Pages::new(bytes.len())?;
        for (i, page) in bytes.chunks(1 << pages.shift).enumerate() {
            if page.iter().any(|&byte| byte != 0) {
                pages.page_mut(i).copy_from_slice(page);
            }
        }
        Some(pages)
    }

    /// Number of bytes.
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are no bytes.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Bytes occupied by pages, their table and pages kept for a snapshot.
    #[inline]
    pub fn allocated(&self) -> usize {
        self.allocated + self.snapshot.as_ref().map_or(0, |snapshot| snapshot.allocated)
    }

    /// Number of allocations, about.
    pub fn blocks(&self) -> usize {
        self.allocated >> SHIFT_MIN
    }

    /// Upper bound of the growth of [`Pages::allocated`] by writes to this many places.
    #[inline]
    pub fn growth(&self, places: usize) -> usize {
        let (page, count) = (self.len.min(1 << self.shift), self.page_count());
        let missing = places.min(count - self.present);
        let saved = if self.snapshot.is_some() { places.min(count) } else { 0 };
        let table = if self.pages.is_empty() { self.table_len() } else { 0 };
        table + (missing + saved) * allocated(page)
    }

    /// Byte `at`; 0 beyond the end.
    #[inline]
    pub fn get(&self, at: usize) -> u8 {
        match self.pages.get(at >> self.shift) {
            Some(Some(page)) => page.get(at & self.mask()).copied().unwrap_or(0),
            _ => 0,
        }
    }

    /// Byte `at`, to be changed.
    ///
    /// # Panics
    /// If it is beyond the end.
    #[inline]
    pub fn get_mut(&mut self, at: usize) -> &mut u8 {
        let mask = self.mask();
        &mut self.page_mut(at >> self.shift)[at & mask]
    }

    /// The four bytes from `at`, a multiple of four, as a number; 0 beyond the end.
    #[inline]
    pub fn number(&self, at: usize) -> u32 {
        let page = self.pages.get(at >> self.shift).and_then(Option::as_ref);
        let bytes = page.and_then(|page| page.get(at & self.mask()..)?.first_chunk());
        bytes.map_or(0, |bytes| u32::from_le_bytes(*bytes))
    }

    /// The two numbers from `at`, a multiple of eight; 0 beyond the end.
    #[inline]
    pub fn pair(&self, at: usize) -> (u32, u32) {
        let page = self.pages.get(at >> self.shift).and_then(Option::as_ref);
        let bytes = page.and_then(|page| page.get(at & self.mask()..)?.first_chunk());
        let pair = bytes.map_or(0, |bytes| u64::from_le_bytes(*bytes));
        (pair as u32, (pair >> 32) as u32)
    }

    /// Sets the four bytes from `at`, a multiple of four.
    ///
    /// # Panics
    /// If they are beyond the end.
    #[inline]
    pub fn set_number(&mut self, at: usize, number: u32) {
        let from = at & self.mask();
        self.page_mut(at >> self.shift)[from..from + 4].copy_from_slice(&number.to_le_bytes());
    }

    /// Sets the two numbers from `at`, a multiple of eight.
    ///
    /// # Panics
    /// If they are beyond the end.
    #[inline]
    pub fn set_pair(&mut self, at: usize, (low, high): (u32, u32)) {
        let from = at & self.mask();
        let pair = (u64::from(high) << 32 | u64::from(low)).to_le_bytes();
        self.page_mut(at >> self.shift)[from..from + 8].copy_from_slice(&pair);
    }

    /// Appends bytes from `at` on to `out`; fewer at the end.
    pub fn read(&self, mut at: usize, len: usize, out: &mut Vec<u8>) {
        let end = self.len.min(at.saturating_add(len));
        while at < end {
            let (page, from) = (at >> self.shift, at & self.mask());
            let len = (self.page_len(page) - from).min(end - at);
            match self.pages.get(page) {
                Some(Some(page)) => out.extend_from_slice(&page[from..from + len]),
                _ => out.resize(out.len() + len, 0),
            }
            at += len;
        }
    }

    /// Overwrites bytes from `at` on; false if they do not fit.
    pub fn write(&mut self, mut at: usize, mut bytes: &[u8]) -> bool {
        if at.checked_add(bytes.len()).is_none_or(|end| end > self.len) {
            return false;
        }
        while !bytes.is_empty() {
            let (page, from) = (at >> self.shift, at & self.mask());
            let len = (self.page_len(page) - from).min(bytes.len());
            let (head, rest) = bytes.split_at(len);
            let is_missing = !matches!(self.pages.get(page), Some(Some(_)));
            if !is_missing || head.iter().any(|&byte| byte != 0) {
                self.page_mut(page)[from..from + len].copy_from_slice(head);
            }
            (at, bytes) = (at + len, rest);
        }
        true
    }

    /// Shows all bytes to `visit`, page by page.
    pub fn each_page(&self, visit: &mut dyn FnMut(&[u8])) {
        let zeros = vec![0; self.len.min(1 << self.shift)];
        for i in 0..self.page_count() {
            let page = self.pages.get(i).and_then(Option::as_deref);
            visit(page.unwrap_or(&zeros[..self.page_len(i)]));
        }
    }

    /// The first allocated page with bytes from `at` on, behind the place of its first byte.
    pub fn page_from(&self, at: usize) -> Option<(usize, &[u8])> {
        let first = at.div_ceil(1 << self.shift);
        let pages = self.pages.get(first..)?.iter().enumerate();
        let mut present = pages.filter_map(|(i, page)| Some((i, page.as_deref()?)));
        present.next().map(|(i, page)| ((first + i) << self.shift, page))
    }

    /// A copy without a snapshot.
    pub fn duplicate(&self) -> Self {
        let pages = self.pages.clone();
        Pages { pages, snapshot: None, ..*self }
    }

    /// Begins a snapshot of the present bytes.
    pub fn begin_snapshot(&mut self) {
        self.snapshot = Some(Box::default());
    }

    /// Shows the next page of the snapshot to `visit`; false if there was none, which ends it.
    pub fn next_page(&mut self, visit: &mut dyn FnMut(&[u8])) -> bool {
        let (count, Some(snapshot)) = (self.page_count(), &mut self.snapshot) else { return false };
        let i = snapshot.next;
        if i == count {
            self.snapshot = None;
            return false;
        }
        snapshot.next += 1;
        let saved = snapshot.saved.remove(&i);
        if let Some(Some(page)) = &saved {
            snapshot.allocated -= allocated(page.len());
        }
        let (len, present) = (self.page_len(i), self.pages.get(i).and_then(Option::as_deref));
        match saved.as_ref().map_or(present, Option::as_deref) {
            Some(page) => visit(page),
            None => visit(&vec![0; len]),
        }
        true
    }

    #[inline]
    fn mask(&self) -> usize {
        (1 << self.shift) - 1
    }

    fn page_count(&self) -> usize {
        self.len.div_ceil(1 << self.shift)
    }

    fn page_len(&self, page: usize) -> usize {
        (self.len - (page << self.shift)).min(1 << self.shift)
    }

    fn table_len(&self) -> usize {
        allocated(self.page_count() * size_of::<Option<Box<[u8]>>>())
    }

    #[inline]
    fn page_mut(&mut self, i: usize) -> &mut [u8] {
        let is_there = matches!(self.pages.get(i), Some(Some(_)));
        if !is_there || self.snapshot.is_some() {
            self.prepare(i);
        }
        self.pages[i].as_deref_mut().unwrap_or_default()
    }

    /// Makes a page changeable: it exists, and the snapshot has it as it was.
    #[cold]
    fn prepare(&mut self, i: usize) {
        if self.pages.is_empty() {
            self.pages.resize_with(self.page_count(), || None);
            self.pages.shrink_to_fit();
            self.allocated += self.table_len();
        }
        let len = self.page_len(i);
        if let Some(snapshot) = &mut self.snapshot
            && i >= snapshot.next
            && !snapshot.saved.contains_key(&i)
        {
            let copy = self.pages[i].clone();
            snapshot.allocated += copy.as_ref().map_or(0, |page| allocated(page.len()));
            snapshot.saved.insert(i, copy);
        }
        if self.pages[i].is_none() {
            self.pages[i] = Some(vec![0; len].into());
            self.allocated += allocated(len);
            self.present += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(pages: &Pages) -> Vec<u8> {
        let mut out = Vec::new();
        pages.read(0, usize::MAX, &mut out);
        out
    }

    #[test]
    fn a_page_is_allocated_by_its_first_change() {
        let mut pages = Pages::new(10_000).unwrap();
        assert_eq!((pages.allocated(), pages.get(9_999), pages.get(10_000)), (0, 0, 0));
        assert_eq!(pages.number(9_996), 0);
        *pages.get_mut(9_999) = 7;
        // The last page has the remaining bytes only.
        assert_eq!(pages.allocated(), 48 + allocated(10_000 - 8192));
        pages.set_number(4096, 0x0102_0304);
        assert_eq!((pages.number(4096), pages.get(4096), pages.get(4099)), (0x0102_0304, 4, 1));
        assert!(pages.write(4_000, &[9; 200]) && !pages.write(9_999, &[1, 1]));
        assert!(pages.write(10_000, &[]) && !pages.write(usize::MAX, &[1]));
        let bytes = all(&pages);
        assert_eq!(bytes.len(), 10_000);
        assert_eq!((bytes[3_999], bytes[4_000], bytes[4_199], bytes[4_200]), (0, 9, 9, 0));
        let copy = Pages::from_bytes(&bytes).unwrap();
        assert_eq!((all(&copy), copy.allocated()), (bytes, pages.allocated()));
        assert!(Pages::new(LEN_MAX + 1).is_none());
        let mut long = Pages::new(LEN_MAX).unwrap();
        *long.get_mut(LEN_MAX - 1) = 1;
        assert!(long.allocated() < 2 << 20, "{}", long.allocated());
    }

    #[test]
    fn growth_is_an_upper_bound() {
        let mut pages = Pages::new(100_000).unwrap();
        for at in [5, 99_999, 50_000, 50_001, 0, 4_096] {
            if at == 50_001 {
                pages.begin_snapshot();
            }
            let (before, bound) = (pages.allocated(), pages.growth(1));
            *pages.get_mut(at) += 1;
            assert!(pages.allocated() - before <= bound, "{at}");
        }
        assert!(pages.growth(usize::MAX) < 300_000);
    }

    #[test]
    fn a_snapshot_has_the_bytes_of_its_beginning() {
        let mut pages = Pages::new(20_000).unwrap();
        pages.write(3_000, &[1; 10_000]);
        let (before, mut taken) = (all(&pages), Vec::new());
        pages.begin_snapshot();
        let mut round = 0;
        while pages.next_page(&mut |page| taken.extend_from_slice(page)) {
            round += 1;
            for at in [0, 3_500, 5_000, 9_000, 13_000, 19_999] {
                *pages.get_mut(at) = round;
            }
        }
        assert_eq!((taken, round), (before, 5));
        assert!(pages.snapshot.is_none());
        assert_eq!(pages.get(19_999), 5);
        let without = pages.duplicate();
        assert_eq!((all(&without), without.allocated()), (all(&pages), pages.allocated()));
    }
}
