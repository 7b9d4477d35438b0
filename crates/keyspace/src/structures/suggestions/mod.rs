//! Suggestions while a user types: terms with scores and payloads, found by their beginnings.
//!
//! Terms are in pages, in the order of their folded form. A snapshot shares the pages; a change
//! copies the page that it is about.
//!
//! | file | holds |
//! |---|---|
//! | `mod` | the structure |
//! | `search` | the best terms of a prefix |
//! | `change` | changes: made, encoded and decoded, and as commands |
//! | `rdb` | the table row of the type, and the form in RDB files |

pub mod change;
pub(crate) mod rdb;
pub mod search;

use super::custom::{Chunk, CustomValue, ModuleWriter, TakeChunk};
use petrel_search::text::fold;
use std::sync::Arc;

/// Maximum number of terms of a page.
const PAGE_MAX: usize = 128;

/// Maximum number of characters of a term.
pub const TERM_LEN_MAX: usize = 255;

/// Terms with scores.
#[derive(Debug, Default)]
pub struct Suggestions {
    pages: Vec<Arc<Vec<Suggestion>>>,
    len: usize,
    /// Bytes of terms and payloads on the heap.
    text_bytes: usize,
    /// Pages of a snapshot that were not handed out, the next one last.
    snapshot: Vec<Arc<Vec<Suggestion>>>,
}

/// A term.
#[derive(Clone, Debug, PartialEq)]
pub struct Suggestion {
    /// The folded term, a NUL, and the term.
    key: Box<[u8]>,
    /// Length of the folded term.
    folded: u32,
    /// The score.
    pub score: f32,
    /// The payload.
    pub payload: Option<Box<[u8]>>,
}

impl Suggestion {
    /// A term without a payload. It has no NUL.
    pub fn new(term: &[u8], score: f32) -> Self {
        let folded = fold(term);
        let len = u32::try_from(folded.len()).unwrap_or(u32::MAX);
        Suggestion { key: key_of(&folded, term), folded: len, score, payload: None }
    }

    /// The term.
    pub fn term(&self) -> &[u8] {
        self.key.get(self.folded as usize + 1..).unwrap_or_default()
    }

    /// The term in lower case.
    pub fn folded(&self) -> &[u8] {
        self.key.get(..self.folded as usize).unwrap_or_default()
    }

    fn bytes(&self) -> usize {
        self.key.len() + self.payload.as_ref().map_or(0, |payload| payload.len())
    }
}

fn key_of(folded: &[u8], term: &[u8]) -> Box<[u8]> {
    [folded, &[0], term].concat().into()
}

/// Cuts a term at a NUL, as Redis does; none if it is empty or too long.
pub fn valid_term(term: &[u8]) -> Option<&[u8]> {
    let term = term.split(|&byte| byte == 0).next().unwrap_or_default();
    let len = term.iter().filter(|&&byte| byte & 0xc0 != 0x80).count();
    (!term.is_empty() && len <= TERM_LEN_MAX && term.len() <= 4 * TERM_LEN_MAX).then_some(term)
}

impl Suggestions {
    /// Number of terms.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// All terms with folded forms not below `from`.
    pub fn from(&self, from: &[u8]) -> impl Iterator<Item = &Suggestion> {
        let page = self.page_of(from);
        let is_below = |suggestion: &Suggestion| *suggestion.key < *from;
        let first = self.pages.get(page).map_or(0, |page| page.partition_point(is_below));
        self.pages[page.min(self.pages.len())..].iter().flat_map(|page| page.iter()).skip(first)
    }

    /// The page in which a key is, or would be.
    fn page_of(&self, key: &[u8]) -> usize {
        let begins =
            |page: &Arc<Vec<Suggestion>>| page.first().is_some_and(|first| *first.key <= *key);
        self.pages.partition_point(begins).saturating_sub(1)
    }

    /// Page and place of a term, or the place where it would be.
    fn find(&self, key: &[u8]) -> (usize, Result<usize, usize>) {
        let page = self.page_of(key);
        let compare = |suggestion: &Suggestion| (*suggestion.key).cmp(key);
        let found = self.pages.get(page).map_or(Err(0), |page| page.binary_search_by(compare));
        (page, found)
    }

    /// A term.
    pub fn get(&self, term: &[u8]) -> Option<&Suggestion> {
        let (page, found) = self.find(&key_of(&fold(term), term));
        self.pages.get(page)?.get(found.ok()?)
    }

    /// Puts a term, in the place of one that is there.
    fn put(&mut self, suggestion: Suggestion) {
        self.text_bytes += suggestion.bytes();
        let (page, found) = self.find(&suggestion.key);
        if self.pages.is_empty() {
            self.pages.push(Arc::default());
        }
        let terms = Arc::make_mut(&mut self.pages[page]);
        match found {
            Ok(at) => {
                let old = std::mem::replace(&mut terms[at], suggestion);
                self.text_bytes -= old.bytes();
            }
            Err(at) => {
                terms.insert(at, suggestion);
                self.len += 1;
                if terms.len() > PAGE_MAX {
                    let upper = terms.split_off(PAGE_MAX / 2);
                    terms.shrink_to_fit();
                    self.pages.insert(page + 1, Arc::new(upper));
                }
            }
        }
    }

    /// Removes a term; false if it is not there.
    fn remove(&mut self, term: &[u8]) -> bool {
        let (page, found) = self.find(&key_of(&fold(term), term));
        let Ok(at) = found else { return false };
        let terms = Arc::make_mut(&mut self.pages[page]);
        self.text_bytes -= terms.remove(at).bytes();
        self.len -= 1;
        if terms.is_empty() {
            self.pages.remove(page);
        }
        true
    }

    /// Terms in any order; none if two are equal.
    fn of(mut terms: Vec<Suggestion>) -> Option<Self> {
        terms.sort_unstable_by(|a, b| a.key.cmp(&b.key));
        if terms.windows(2).any(|pair| pair[0].key == pair[1].key) {
            return None;
        }
        let mut all = Suggestions { len: terms.len(), ..Suggestions::default() };
        all.text_bytes = terms.iter().map(Suggestion::bytes).sum();
        let mut terms = terms.into_iter().peekable();
        while terms.peek().is_some() {
            all.pages.push(Arc::new(terms.by_ref().take(PAGE_MAX).collect()));
        }
        Some(all)
    }
}

impl CustomValue for Suggestions {
    fn memory_usage(&self) -> usize {
        // A page is three quarters full, more or less, and has two counts.
        let page = size_of::<Arc<Vec<Suggestion>>>() + size_of::<Vec<Suggestion>>() + 16;
        size_of::<Self>()
            + self.text_bytes
            + self.len * size_of::<Suggestion>() * 4 / 3
            + self.pages.len() * page
    }

    fn free_effort(&self) -> usize {
        self.len
    }

    fn duplicate(&self) -> Box<dyn CustomValue> {
        // Pages are copied when one of both changes them.
        let Suggestions { pages, len, text_bytes, .. } = self;
        let (pages, len, text_bytes) = (pages.clone(), *len, *text_bytes);
        Box::new(Suggestions { pages, len, text_bytes, snapshot: Vec::new() })
    }

    fn begin_snapshot(&mut self) {
        self.snapshot = self.pages.iter().rev().cloned().collect();
    }

    fn next_chunk(&mut self, take: &mut TakeChunk<'_>) -> bool {
        let Some(page) = self.snapshot.pop() else { return false };
        for suggestion in page.iter() {
            // The rest of a page is little.
            let _ = take(suggestion);
        }
        if self.snapshot.is_empty() {
            self.snapshot = Vec::new();
        }
        !self.snapshot.is_empty()
    }
}

impl Chunk for Suggestion {
    fn write(&self, out: &mut dyn ModuleWriter) {
        let ended = |text: &[u8]| [text, &[0]].concat();
        out.text(&ended(self.term()));
        out.double(f64::from(self.score));
        out.text(&ended(self.payload.as_deref().unwrap_or_default()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn pages_are_one_list() {
        let mut all = Suggestions::default();
        let mut model = BTreeMap::new();
        let mut state = 7u32;
        let mut draw = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 16) as usize
        };
        for round in 0..20_000 {
            let term = format!("{}{}", ["a", "B", "b", "\u{e9}"][draw() % 4], draw() % 900);
            match draw() % 3 {
                0 => assert_eq!(all.remove(term.as_bytes()), model.remove(&term).is_some()),
                _ => {
                    all.put(Suggestion::new(term.as_bytes(), round as f32));
                    model.insert(term, round as f32);
                }
            }
        }
        assert_eq!(all.len(), model.len());
        assert!(all.pages.len() > 10 && all.pages.iter().all(|page| !page.is_empty()));
        let key = |term: &str| key_of(&fold(term.as_bytes()), term.as_bytes());
        let mut sorted: Vec<_> = model.iter().map(|(term, score)| (key(term), *score)).collect();
        sorted.sort_by(|a, b| a.0.cmp(&b.0));
        let listed: Vec<_> = all.from(b"").map(|one| (one.key.clone(), one.score)).collect();
        assert_eq!(listed, sorted);
        assert_eq!(all.from(b"").map(Suggestion::bytes).sum::<usize>(), all.text_bytes);
        let mut reversed: Vec<_> = all.from(b"").cloned().collect();
        reversed.reverse();
        let again = Suggestions::of(reversed.clone()).unwrap();
        assert!(again.from(b"").eq(all.from(b"")));
        reversed.push(reversed[0].clone());
        assert!(Suggestions::of(reversed).is_none());
        let known = model.get("B1").copied();
        assert_eq!(all.get(b"B1").map(|one| one.score), known);
    }

    #[test]
    fn a_snapshot_keeps_its_terms() {
        let mut all = Suggestions::default();
        (0..500).for_each(|n| all.put(Suggestion::new(format!("term{n}").as_bytes(), 1.0)));
        all.begin_snapshot();
        (0..500).for_each(|n| all.put(Suggestion::new(format!("term{n}").as_bytes(), 2.0)));
        assert!(all.remove(b"term7"));
        let mut count = 0;
        while all.next_chunk(&mut |chunk| {
            count += usize::from(format!("{chunk:?}").contains("score: 1.0"));
            std::ops::ControlFlow::Continue(())
        }) {}
        assert_eq!((count, all.len()), (500, 499));
    }

    #[test]
    fn terms_are_of_limited_length() {
        assert_eq!(valid_term(b"a\0b"), Some(&b"a"[..]));
        assert_eq!(valid_term(b"\0b"), None);
        assert!(valid_term("\u{e9}".repeat(255).as_bytes()).is_some());
        assert!(valid_term("\u{e9}".repeat(256).as_bytes()).is_none());
        assert!(valid_term(&[0x80; 2000]).is_none());
    }
}
