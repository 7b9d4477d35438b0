//! Bytes of terms in pages: each term between two NULs, so that a page is searched as one text.

use memchr::{memchr, memmem, memrchr};
use std::mem::size_of;
use std::ops::Range;

/// Address of a term: page and offset.
pub type TermAt = u32;

const OFFSET_BITS: u32 = 14;
const PAGE_BYTES: usize = 1 << OFFSET_BITS;
const PAGES_MAX: usize = 1 << (32 - OFFSET_BITS);

/// Bytes of terms.
#[derive(Debug, Default)]
pub struct Arena {
    pages: Vec<Page>,
    /// Page that terms are added to.
    current: usize,
    free_pages: Vec<u32>,
    bytes: usize,
}

#[derive(Debug, Default)]
struct Page {
    /// A NUL, then terms, each with a NUL after it. Longer than a page if it has one term only.
    bytes: Vec<u8>,
    /// Bytes of removed terms.
    removed: usize,
}

fn split(at: TermAt) -> (usize, usize) {
    ((at >> OFFSET_BITS) as usize, at as usize % PAGE_BYTES)
}

fn join(page: usize, offset: usize) -> TermAt {
    (page << OFFSET_BITS | offset) as TermAt
}

impl Arena {
    /// Bytes on the heap.
    pub fn footprint(&self) -> usize {
        self.bytes
            + self.pages.capacity() * size_of::<Page>()
            + self.free_pages.capacity() * size_of::<u32>()
    }

    /// The bytes of a term; empty if there is none.
    pub fn text(&self, at: TermAt) -> &[u8] {
        let (page, offset) = split(at);
        let bytes = self.pages.get(page).and_then(|page| page.bytes.get(offset..));
        let bytes = bytes.unwrap_or_default();
        memchr(0, bytes).and_then(|end| bytes.get(..end)).unwrap_or_default()
    }

    /// The first byte of a term, 0 if it is empty.
    #[inline]
    pub fn first_byte(&self, at: TermAt) -> u8 {
        let (page, offset) = split(at);
        self.pages.get(page).and_then(|page| page.bytes.get(offset)).copied().unwrap_or_default()
    }

    /// Whether the term at an address is `term`.
    #[inline]
    pub fn is(&self, at: TermAt, term: &[u8]) -> bool {
        let (page, offset) = split(at);
        let bytes = self.pages.get(page).and_then(|page| page.bytes.get(offset..));
        bytes.is_some_and(|bytes| bytes.get(term.len()) == Some(&0) && bytes.starts_with(term))
    }

    /// Adds a term. `None` if it contains a NUL or all addresses are in use.
    pub fn add(&mut self, term: &[u8]) -> Option<TermAt> {
        if memchr(0, term).is_some() {
            return None;
        }
        let has_room =
            |page: &Page| !page.bytes.is_empty() && page.bytes.len() + term.len() < PAGE_BYTES;
        if !self.pages.get(self.current).is_some_and(has_room) {
            self.current = self.add_page(term.len() + 2)?;
        }
        let page = self.pages.get_mut(self.current)?;
        let before = page.bytes.capacity();
        let at = join(self.current, page.bytes.len());
        page.bytes.extend_from_slice(term);
        page.bytes.push(0);
        self.bytes += page.bytes.capacity() - before;
        Some(at)
    }

    fn add_page(&mut self, needed: usize) -> Option<usize> {
        let number = match self.free_pages.pop() {
            Some(number) => number as usize,
            None if self.pages.len() < PAGES_MAX => {
                self.pages.push(Page::default());
                self.pages.len() - 1
            }
            None => return None,
        };
        // The first page grows.
        let room = if self.pages.len() == 1 { needed.max(64) } else { needed.max(PAGE_BYTES) };
        let page = self.pages.get_mut(number)?;
        page.bytes = Vec::with_capacity(room);
        page.bytes.push(0);
        self.bytes += page.bytes.capacity();
        Some(number)
    }

    /// Notes that a term was removed.
    pub fn remove(&mut self, at: TermAt) {
        let len = self.text(at).len();
        if let Some(page) = self.pages.get_mut(split(at).0) {
            page.removed += len + 1;
        }
    }

    /// Number of pages, for [`Self::is_sparse`].
    pub fn pages(&self) -> usize {
        self.pages.len()
    }

    /// Whether a third of a page is of removed terms.
    pub fn is_sparse(&self, page: usize) -> bool {
        self.pages.get(page).is_some_and(|page| page.removed * 3 > page.bytes.len())
    }

    /// Terms of a page, those removed included: address and place in the page's bytes.
    pub fn terms_of(&self, number: usize) -> impl Iterator<Item = (TermAt, Range<usize>)> {
        let bytes = self.pages.get(number).map_or(&[][..], |page| &page.bytes);
        let mut start = 1;
        std::iter::from_fn(move || {
            let end = start + memchr(0, bytes.get(start..)?)?;
            let range = start..end;
            start = end + 1;
            Some((join(number, range.start), range))
        })
    }

    /// Takes a page out, with its terms; addresses lose their meaning.
    pub fn take_page(&mut self, number: usize) -> Vec<u8> {
        let Some(page) = self.pages.get_mut(number) else { return Vec::new() };
        let page = std::mem::take(page);
        if page.bytes.is_empty() {
            return Vec::new();
        }
        self.bytes -= page.bytes.capacity();
        self.free_pages.push(number as u32);
        page.bytes
    }

    /// Addresses of terms that contain `infix`, those of removed terms included.
    pub fn containing<'t>(&'t self, infix: &'t [u8]) -> impl Iterator<Item = TermAt> + 't {
        let finder = memmem::Finder::new(infix);
        let is_term_part = memchr(0, infix).is_none();
        self.pages.iter().enumerate().filter(move |_| is_term_part).flat_map(
            move |(number, page)| {
                let finder = finder.clone();
                let mut from = 1;
                std::iter::from_fn(move || {
                    let rest = page.bytes.get(from..).filter(|rest| !rest.is_empty())?;
                    let found = from + finder.find(rest)?;
                    let start = memrchr(0, page.bytes.get(..found)?)? + 1;
                    from = found + memchr(0, page.bytes.get(found..)?)? + 1;
                    Some(join(number, start))
                })
            },
        )
    }

    /// Addresses of terms that begin with `prefix`, those of removed terms included.
    pub fn with_prefix<'t>(&'t self, prefix: &[u8]) -> impl Iterator<Item = TermAt> + 't {
        let is_term_part = memchr(0, prefix).is_none();
        let marked = [b"\0", prefix].concat();
        let finder = memmem::Finder::new(&marked).into_owned();
        self.pages.iter().enumerate().filter(move |_| is_term_part).flat_map(
            move |(number, page)| {
                let finder = finder.clone();
                let mut from = 0;
                std::iter::from_fn(move || {
                    let start = from + finder.find(page.bytes.get(from..)?)? + 1;
                    // A NUL ends the page.
                    let end = start + memchr(0, page.bytes.get(start..)?)?;
                    from = end;
                    Some(join(number, start))
                })
            },
        )
    }
}
