//! Cursors over the rows that match a condition, in ascending order. A kind of field or a kind of
//! condition adds an implementation of [`RowCursor`].

use crate::index::condition::{Condition, TagTest};
use crate::index::contents::Contents;
use crate::index::field::{FieldStore, NumberStore, TagStore};
use crate::query::ast::Pattern;
use crate::structures::id_set::IdCursor;
use crate::structures::numbers::Range;
use crate::structures::tags::TagId;
use std::cell::RefCell;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::rc::Rc;

/// Tags that a pattern is expanded to (`MAXPREFIXEXPANSIONS`); those with the most rows.
pub const EXPANSIONS_MAX: usize = 200;

/// A range of numbers with more than this share of all rows is tested row by row.
const TESTED_SHARE: usize = 8;
/// A child of an intersection with this many times the rows of the smallest is tested row by row.
const TESTED_RATIO: usize = 8;
/// Rows of a list at most; more are a bitmap.
const LIST_MAX: usize = 1024;

pub use crate::query::Rows as RowCursor;

type Boxed<'c> = Box<dyn RowCursor + 'c>;

/// Rows of ranges of numbers, collected once in a query; by the address of the condition.
#[derive(Debug, Default)]
pub struct Ranges(RefCell<HashMap<usize, Rc<Collected>>>);

#[derive(Debug)]
enum Collected {
    List(Vec<u32>),
    Bits(Vec<u64>),
}

/// The rows below `end` that match a condition; rows from `end` on are not tested.
pub fn rows<'c>(
    condition: &'c Condition,
    contents: &'c Contents,
    ranges: &Ranges,
    end: u32,
) -> Boxed<'c> {
    Walk { contents, ranges, end }.rows(condition)
}

#[derive(Clone, Copy)]
struct Walk<'c, 'r> {
    contents: &'c Contents,
    ranges: &'r Ranges,
    end: u32,
}

impl<'c> Walk<'c, '_> {
    fn rows(self, condition: &'c Condition) -> Boxed<'c> {
        match condition {
            Condition::Nothing => Box::new(Nothing),
            Condition::Everything => Box::new(self.everything()),
            Condition::Number { field, range } => match self.contents.field(*field) {
                Some(FieldStore::Numbers(store)) => self.range(condition, store, range),
                _ => Box::new(Nothing),
            },
            Condition::Tag { field, tests } => match self.contents.field(*field) {
                Some(FieldStore::Tags(store)) => {
                    let ids = tags_of(store, tests);
                    let each = |&id: &TagId| Box::new(store.tags().rows(id).cursor()) as Boxed<'c>;
                    union(ids.iter().map(each).collect())
                }
                _ => Box::new(Nothing),
            },
            Condition::Missing { field } => {
                match self.contents.field(*field).and_then(FieldStore::missing) {
                    Some(missing) => Box::new(missing.cursor()),
                    None => Box::new(Nothing),
                }
            }
            Condition::Any(conditions) => {
                union(conditions.iter().map(|condition| self.rows(condition)).collect())
            }
            Condition::All(conditions) => self.intersection(conditions),
            Condition::Not(_) | Condition::Near(_) => {
                self.tested(Box::new(self.everything()), condition)
            }
            // A query with words is walked by itself.
            Condition::Words(_) => Box::new(Nothing),
        }
    }

    fn everything(self) -> IdCursor<'c> {
        self.contents.documents().visible().cursor()
    }

    fn tested(self, rows: Boxed<'c>, condition: &'c Condition) -> Boxed<'c> {
        let mut tested = Tested { rows, condition, contents: self.contents, end: self.end };
        tested.settle();
        Box::new(tested)
    }

    fn range(self, condition: &'c Condition, store: &'c NumberStore, range: &Range) -> Boxed<'c> {
        let many = self.contents.len() / TESTED_SHARE + LIST_MAX;
        let at = std::ptr::from_ref(condition).addr();
        let known = self.ranges.0.borrow().get(&at).cloned();
        let collected = match known {
            Some(collected) => collected,
            None if store.numbers().count(range, many) >= many => {
                return self.tested(Box::new(self.everything()), condition);
            }
            None => {
                let rows = store.numbers().range(range).map(|(_, row)| row);
                let collected = Rc::new(Collected::of(rows, self.contents.documents().end()));
                self.ranges.0.borrow_mut().insert(at, collected.clone());
                collected
            }
        };
        let mut cursor = CollectedCursor { rows: collected, at: 0, current: None };
        cursor.find(0);
        Box::new(cursor)
    }

    fn intersection(self, conditions: &'c [Condition]) -> Boxed<'c> {
        let mut children: Vec<(usize, &Condition)> = conditions
            .iter()
            .map(|condition| (estimate(condition, self.contents), condition))
            .collect();
        children.sort_by_key(|(estimate, _)| *estimate);
        let Some(&(least, first)) = children.first() else { return Box::new(self.everything()) };
        let mut walked = vec![self.rows(first)];
        let mut tests = Vec::new();
        for &(estimate, condition) in &children[1..] {
            let is_walked = estimate <= least.saturating_mul(TESTED_RATIO)
                && !matches!(
                    condition,
                    Condition::Not(_) | Condition::Near(_) | Condition::Everything
                );
            match is_walked {
                true => walked.push(self.rows(condition)),
                false => tests.push(condition),
            }
        }
        let mut rows: Boxed<'c> = match walked.len() {
            1 => walked.remove(0),
            _ => {
                let mut intersection = Intersection(walked);
                intersection.settle();
                Box::new(intersection)
            }
        };
        for condition in tests {
            rows = self.tested(rows, condition);
        }
        rows
    }
}

/// Upper bound of the number of rows that match, roughly.
pub fn estimate(condition: &Condition, contents: &Contents) -> usize {
    let all = contents.len();
    match condition {
        Condition::Nothing => 0,
        Condition::Everything | Condition::Not(_) | Condition::Words(_) => all,
        Condition::Near(near) => match contents.field(near.field) {
            Some(FieldStore::Vectors(store)) => store.len(),
            _ => 0,
        },
        Condition::Number { field, range } => match contents.field(*field) {
            Some(FieldStore::Numbers(store)) => {
                store.numbers().count(range, all / TESTED_SHARE + 1)
            }
            _ => 0,
        },
        Condition::Tag { field, tests } => match contents.field(*field) {
            Some(FieldStore::Tags(store)) => {
                let ids = tags_of(store, tests);
                ids.iter().map(|&id| store.tags().rows(id).len()).sum()
            }
            _ => 0,
        },
        Condition::Missing { field } => {
            let missing = contents.field(*field).and_then(FieldStore::missing);
            missing.map_or(0, |missing| missing.len())
        }
        Condition::All(conditions) => {
            conditions.iter().map(|condition| estimate(condition, contents)).min().unwrap_or(all)
        }
        Condition::Any(conditions) => {
            conditions.iter().map(|condition| estimate(condition, contents)).sum()
        }
    }
}

/// The tags that pass any of the tests, each once.
pub fn tags_of(store: &TagStore, tests: &[TagTest]) -> Vec<TagId> {
    let mut ids = Vec::new();
    for test in tests {
        match test {
            TagTest::Is(text) => ids.extend(store.tags().find(text)),
            TagTest::Matches(pattern) => ids.extend(expand(store, test, pattern)),
        }
    }
    if tests.len() > 1 {
        ids.sort_unstable();
        ids.dedup();
    }
    ids
}

/// The tags of most rows that match a pattern.
fn expand(store: &TagStore, test: &TagTest, pattern: &Pattern) -> Vec<TagId> {
    let tags = store.tags();
    let mut ids: Vec<TagId> = match pattern {
        Pattern::Prefix(prefix) => tags.with_prefix(prefix).collect(),
        _ => tags.iter().filter(|(tag, _)| test.passes(tag)).map(|(_, id)| id).collect(),
    };
    if ids.len() > EXPANSIONS_MAX {
        ids.sort_by_key(|&id| Reverse(tags.rows(id).len()));
        ids.truncate(EXPANSIONS_MAX);
    }
    ids
}

struct Nothing;

impl RowCursor for Nothing {
    fn current(&self) -> Option<u32> {
        None
    }

    fn advance(&mut self) {}

    fn seek(&mut self, _: u32) {}
}

impl RowCursor for IdCursor<'_> {
    #[inline]
    fn current(&self) -> Option<u32> {
        self.current()
    }

    #[inline]
    fn advance(&mut self) {
        self.advance();
    }

    fn seek(&mut self, row: u32) {
        self.seek(row);
    }
}

impl Collected {
    fn of(rows: impl Iterator<Item = u32>, end: u32) -> Self {
        let mut list: Vec<u32> = Vec::new();
        let mut rows = rows;
        list.extend(rows.by_ref().take(LIST_MAX));
        if list.len() < LIST_MAX {
            list.sort_unstable();
            return Collected::List(list);
        }
        let mut bits = vec![0u64; end as usize / 64 + 1];
        for row in list.into_iter().chain(rows) {
            if let Some(word) = bits.get_mut(row as usize / 64) {
                *word |= 1 << (row % 64);
            }
        }
        Collected::Bits(bits)
    }
}

struct CollectedCursor {
    rows: Rc<Collected>,
    /// Index in a list.
    at: usize,
    current: Option<u32>,
}

impl CollectedCursor {
    fn find(&mut self, from: u32) {
        self.current = match &*self.rows {
            Collected::List(list) => {
                self.at += list[self.at..].partition_point(|&row| row < from);
                list.get(self.at).copied()
            }
            Collected::Bits(bits) => {
                let mut at = from as usize / 64;
                let mut word = bits.get(at).map_or(0, |word| word & (u64::MAX << (from % 64)));
                while word == 0 && at + 1 < bits.len() {
                    at += 1;
                    word = bits[at];
                }
                (word != 0).then(|| at as u32 * 64 + word.trailing_zeros())
            }
        };
    }
}

impl RowCursor for CollectedCursor {
    fn current(&self) -> Option<u32> {
        self.current
    }

    fn advance(&mut self) {
        if let Some(next) = self.current.and_then(|current| current.checked_add(1)) {
            self.find(next);
        }
    }

    fn seek(&mut self, row: u32) {
        if self.current.is_some_and(|current| current < row) {
            self.find(row);
        }
    }
}

fn union<'c>(mut cursors: Vec<Boxed<'c>>) -> Boxed<'c> {
    if cursors.len() == 1 {
        return cursors.remove(0);
    }
    let heap = cursors.iter().enumerate();
    let heap = heap.filter_map(|(at, cursor)| Some(Reverse((cursor.current()?, at)))).collect();
    Box::new(Union { cursors, heap })
}

/// Rows of any cursor.
struct Union<'c> {
    cursors: Vec<Boxed<'c>>,
    /// The current row of each cursor that is not at its end.
    heap: BinaryHeap<Reverse<(u32, usize)>>,
}

impl RowCursor for Union<'_> {
    fn current(&self) -> Option<u32> {
        self.heap.peek().map(|Reverse((row, _))| *row)
    }

    fn advance(&mut self) {
        if let Some(next) = self.current().and_then(|current| current.checked_add(1)) {
            self.seek(next);
        }
    }

    fn seek(&mut self, row: u32) {
        while let Some(mut first) = self.heap.peek_mut()
            && first.0.0 < row
        {
            let cursor = &mut self.cursors[first.0.1];
            cursor.seek(row);
            match cursor.current() {
                Some(current) => first.0.0 = current,
                None => {
                    std::collections::binary_heap::PeekMut::pop(first);
                }
            }
        }
    }
}

/// Rows of all cursors.
struct Intersection<'c>(Vec<Boxed<'c>>);

impl Intersection<'_> {
    fn settle(&mut self) {
        let Some(mut row) = self.0[0].current() else { return };
        let mut at = 1;
        while at < self.0.len() {
            self.0[at].seek(row);
            match self.0[at].current() {
                Some(current) if current == row => at += 1,
                Some(current) => {
                    self.0[0].seek(current);
                    match self.0[0].current() {
                        Some(first) => (row, at) = (first, 1),
                        None => return,
                    }
                }
                None => {
                    // Nothing more is in all of them.
                    self.0.truncate(1);
                    self.0[0] = Box::new(Nothing);
                    return;
                }
            }
        }
    }
}

impl RowCursor for Intersection<'_> {
    fn current(&self) -> Option<u32> {
        self.0[0].current()
    }

    fn advance(&mut self) {
        self.0[0].advance();
        self.settle();
    }

    fn seek(&mut self, row: u32) {
        self.0[0].seek(row);
        self.settle();
    }
}

/// Rows of a cursor that fulfil a condition.
struct Tested<'c> {
    rows: Boxed<'c>,
    condition: &'c Condition,
    contents: &'c Contents,
    end: u32,
}

impl Tested<'_> {
    fn settle(&mut self) {
        while let Some(row) = self.rows.current()
            && row < self.end
            && !self.condition.matches(&self.contents.row(row))
        {
            self.rows.advance();
        }
    }
}

impl RowCursor for Tested<'_> {
    fn current(&self) -> Option<u32> {
        self.rows.current()
    }

    fn advance(&mut self) {
        self.rows.advance();
        self.settle();
    }

    fn seek(&mut self, row: u32) {
        if self.rows.current().is_some_and(|current| current < row) {
            self.rows.seek(row);
            self.settle();
        }
    }
}
