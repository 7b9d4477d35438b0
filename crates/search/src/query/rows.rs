//! Walks over the documents of a condition on texts, in ascending order of rows, with scores.

use super::explanation::Explanation;
use super::scores::{LeafFigures, LeafKind, Scoring};
use crate::structures::postings::PostingCursor;
use crate::structures::texts::Length;
use std::cmp::Reverse;
use std::collections::binary_heap::PeekMut;
use std::collections::{BinaryHeap, HashMap, HashSet};

/// Words of an intersection for which different positions are sought.
const DISTINCT_WORDS_MAX: usize = 64;

/// A walk over rows in ascending order.
pub trait Rows {
    /// The current row; none at the end.
    fn current(&self) -> Option<u32>;
    /// Steps to the next row.
    fn advance(&mut self);
    /// Steps to the first row that is not below `row`; never backwards.
    fn seek(&mut self, row: u32);
}

/// A walk over rows with scores and positions.
pub trait ScoredRows: Rows {
    /// The part of the condition in the score of the current row.
    fn score(&mut self, scoring: &Scoring, length: Length) -> f64;
    /// Explains the part of the condition in the score of the current row.
    fn explain(&mut self, scoring: &Scoring, length: Length) -> Explanation;
    /// Adds the positions in the current row, in no order. False if the condition has none.
    fn positions(&mut self, positions: &mut Vec<u32>) -> bool;
    /// Like [`Self::positions`], of the words that count in the score.
    fn counted_positions(&mut self, positions: &mut Vec<u32>) -> bool {
        self.positions(positions)
    }
    /// Distance between the words of the current row, at least 1.
    fn distance(&mut self) -> u32 {
        1
    }
    /// Upper bound of the number of rows.
    fn estimate(&self) -> usize;
}

/// A walk of any kind.
pub type BoxedRows<'t> = Box<dyn ScoredRows + 't>;

/// Documents of one term.
pub(super) struct TermRows<'t> {
    cursor: PostingCursor<'t>,
    /// Fields that count; all if none.
    fields: Option<u128>,
    figures: LeafFigures<'t>,
    len: usize,
    /// Rows from this on are not tested.
    limit: u32,
    scratch: Vec<u32>,
}

impl<'t> TermRows<'t> {
    pub fn new(
        cursor: PostingCursor<'t>,
        fields: Option<u128>,
        figures: LeafFigures<'t>,
        len: usize,
        limit: u32,
    ) -> Self {
        let mut rows = Self { cursor, fields, figures, len, limit, scratch: Vec::new() };
        rows.settle();
        rows
    }

    #[inline]
    fn settle(&mut self) {
        if let Some(fields) = self.fields {
            while self.cursor.current().is_some_and(|row| row < self.limit)
                && self.cursor.mask() & fields == 0
            {
                self.cursor.advance();
            }
        }
    }
}

impl Rows for TermRows<'_> {
    #[inline]
    fn current(&self) -> Option<u32> {
        self.cursor.current()
    }

    #[inline]
    fn advance(&mut self) {
        self.cursor.advance();
        self.settle();
    }

    #[inline]
    fn seek(&mut self, row: u32) {
        self.cursor.seek(row);
        self.settle();
    }
}

impl ScoredRows for TermRows<'_> {
    #[inline]
    fn score(&mut self, scoring: &Scoring, length: Length) -> f64 {
        scoring.leaf(&self.figures, self.cursor.frequency(), length)
    }

    fn explain(&mut self, scoring: &Scoring, length: Length) -> Explanation {
        Explanation::of_leaf(scoring, &self.figures, self.cursor.frequency(), length)
    }

    fn positions(&mut self, positions: &mut Vec<u32>) -> bool {
        self.cursor.positions(&mut self.scratch);
        positions.extend_from_slice(&self.scratch);
        !self.scratch.is_empty()
    }

    fn estimate(&self) -> usize {
        self.len
    }
}

/// Every document.
pub struct EveryRow<'t> {
    current: Option<u32>,
    end: u32,
    is_visible: &'t dyn Fn(u32) -> bool,
}

impl<'t> EveryRow<'t> {
    /// The visible rows below `end`.
    pub fn new(end: u32, is_visible: &'t dyn Fn(u32) -> bool) -> Self {
        let mut rows = Self { current: None, end, is_visible };
        rows.find(0);
        rows
    }

    fn find(&mut self, from: u32) {
        self.current = (from..self.end).find(|&row| (self.is_visible)(row));
    }
}

impl Rows for EveryRow<'_> {
    fn current(&self) -> Option<u32> {
        self.current
    }

    fn advance(&mut self) {
        if let Some(row) = self.current {
            self.find(row + 1);
        }
    }

    fn seek(&mut self, row: u32) {
        if self.current.is_some_and(|current| current < row) {
            self.find(row);
        }
    }
}

impl ScoredRows for EveryRow<'_> {
    fn score(&mut self, scoring: &Scoring, length: Length) -> f64 {
        scoring.leaf(&LeafFigures::EVERYTHING, 1, length)
    }

    fn explain(&mut self, scoring: &Scoring, length: Length) -> Explanation {
        Explanation::of_leaf(scoring, &LeafFigures::EVERYTHING, 1, length)
    }

    fn positions(&mut self, _: &mut Vec<u32>) -> bool {
        false
    }

    fn estimate(&self) -> usize {
        self.end as usize
    }
}

/// Rows of a condition on something else than a text.
pub struct OtherRows<'t> {
    /// The rows.
    pub rows: Box<dyn Rows + 't>,
    /// Figures of the score.
    pub figures: LeafFigures<'t>,
    /// Upper bound of the number of rows.
    pub estimate: usize,
}

impl OtherRows<'_> {
    /// Occurrences in the current document: an absence has none.
    fn frequency(&self) -> u32 {
        u32::from(self.figures.kind != LeafKind::Absence)
    }
}

impl Rows for OtherRows<'_> {
    fn current(&self) -> Option<u32> {
        self.rows.current()
    }

    fn advance(&mut self) {
        self.rows.advance();
    }

    fn seek(&mut self, row: u32) {
        self.rows.seek(row);
    }
}

impl ScoredRows for OtherRows<'_> {
    fn score(&mut self, scoring: &Scoring, length: Length) -> f64 {
        scoring.leaf(&self.figures, self.frequency(), length)
    }

    fn explain(&mut self, scoring: &Scoring, length: Length) -> Explanation {
        Explanation::of_leaf(scoring, &self.figures, self.frequency(), length)
    }

    fn positions(&mut self, _: &mut Vec<u32>) -> bool {
        false
    }

    fn estimate(&self) -> usize {
        self.estimate
    }
}

/// Given rows, in ascending order.
pub struct GivenRows<'r> {
    /// The rows that are left.
    pub rows: &'r [u32],
}

impl Rows for GivenRows<'_> {
    fn current(&self) -> Option<u32> {
        self.rows.first().copied()
    }

    fn advance(&mut self) {
        self.rows = self.rows.get(1..).unwrap_or_default();
    }

    fn seek(&mut self, row: u32) {
        self.rows = &self.rows[self.rows.partition_point(|&own| own < row)..];
    }
}

/// A single row: that of a document's earlier version.
pub struct OneRow {
    /// The row, until the walk has passed it.
    pub row: Option<u32>,
}

impl Rows for OneRow {
    fn current(&self) -> Option<u32> {
        self.row
    }

    fn advance(&mut self) {
        self.row = None;
    }

    fn seek(&mut self, row: u32) {
        self.row = self.row.filter(|&own| own >= row);
    }
}

/// Rows of any child.
pub(super) struct AnyRows<'t> {
    children: Vec<BoxedRows<'t>>,
    /// The current row of each child that is not at its end.
    heap: BinaryHeap<Reverse<(u32, usize)>>,
    weight: f64,
    counted: Counted,
}

/// Children at the current row that count in its score.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Counted {
    /// All.
    All,
    /// The first: of the expansions of a pattern, as in Redis.
    First,
}

impl<'t> AnyRows<'t> {
    pub fn new(children: Vec<BoxedRows<'t>>, weight: f64, counted: Counted) -> Self {
        let rows = children.iter().enumerate();
        let heap = rows.filter_map(|(at, child)| Some(Reverse((child.current()?, at)))).collect();
        Self { children, heap, weight, counted }
    }

    /// Calls `each` for the children at the current row, in their order.
    fn matched(&mut self, each: impl FnMut(&mut BoxedRows<'t>)) {
        let current = self.current();
        self.children.iter_mut().filter(|child| child.current() == current).for_each(each);
    }

    /// Like [`Self::matched`], for the children that count.
    fn counted(&mut self, each: impl FnMut(&mut BoxedRows<'t>)) {
        let count = if self.counted == Counted::First { 1 } else { usize::MAX };
        let current = self.current();
        let matched = self.children.iter_mut().filter(|child| child.current() == current);
        matched.take(count).for_each(each);
    }
}

impl Rows for AnyRows<'_> {
    fn current(&self) -> Option<u32> {
        self.heap.peek().map(|Reverse((row, _))| *row)
    }

    fn advance(&mut self) {
        let Some(current) = self.current() else { return };
        while let Some(mut first) = self.heap.peek_mut()
            && first.0.0 == current
        {
            let child = &mut self.children[first.0.1];
            child.advance();
            match child.current() {
                Some(row) => first.0.0 = row,
                None => drop(PeekMut::pop(first)),
            }
        }
    }

    fn seek(&mut self, row: u32) {
        if self.current().is_none_or(|current| current >= row) {
            return;
        }
        while let Some(mut first) = self.heap.peek_mut()
            && first.0.0 < row
        {
            let child = &mut self.children[first.0.1];
            child.seek(row);
            match child.current() {
                Some(row) => first.0.0 = row,
                None => drop(PeekMut::pop(first)),
            }
        }
    }
}

impl ScoredRows for AnyRows<'_> {
    fn score(&mut self, scoring: &Scoring, length: Length) -> f64 {
        let mut sum = 0.0f64;
        let takes_largest = scoring.scorer.takes_largest();
        self.counted(|child| {
            let score = child.score(scoring, length);
            sum = if takes_largest { sum.max(score) } else { sum + score };
        });
        sum * self.weight
    }

    fn explain(&mut self, scoring: &Scoring, length: Length) -> Explanation {
        let score = self.score(scoring, length);
        let mut parts = Vec::new();
        self.counted(|child| parts.push(child.explain(scoring, length)));
        Explanation::of_many(scoring.scorer, self.weight, score, parts)
    }

    fn positions(&mut self, positions: &mut Vec<u32>) -> bool {
        let mut has_any = false;
        self.matched(|child| has_any |= child.positions(positions));
        has_any
    }

    fn counted_positions(&mut self, positions: &mut Vec<u32>) -> bool {
        let mut has_any = false;
        self.counted(|child| has_any |= child.counted_positions(positions));
        has_any
    }

    fn distance(&mut self) -> u32 {
        let mut lists = Vec::new();
        let mut count = 0;
        self.counted(|child| {
            count += 1;
            let mut positions = Vec::new();
            if child.counted_positions(&mut positions) {
                positions.sort_unstable();
                lists.push(positions);
            }
        });
        distance(&lists, count)
    }

    fn estimate(&self) -> usize {
        self.children.iter().map(|child| child.estimate()).sum()
    }
}

/// Limits of the distance between words.
#[derive(Clone, Copy, Debug)]
pub(super) struct Window {
    /// Number of other words between them; none: any.
    pub slop: Option<u32>,
    pub in_order: bool,
}

/// Rows of all children.
pub(super) struct AllRows<'t> {
    /// The rarest first.
    children: Vec<BoxedRows<'t>>,
    /// Index in `children` of each child of the query.
    order: Vec<usize>,
    /// Index in `children` of each child, as their scores are added: by rarity, or in the order of
    /// the query if that matters to the condition, as in Redis.
    added: Vec<usize>,
    window: Option<Window>,
    weight: f64,
    /// Rows from this on are not tested.
    limit: u32,
    current: Option<u32>,
    lists: Vec<Vec<u32>>,
}

impl<'t> AllRows<'t> {
    pub fn new(
        children: Vec<BoxedRows<'t>>,
        window: Option<Window>,
        weight: f64,
        limit: u32,
    ) -> Self {
        let mut sorted: Vec<_> = children.into_iter().enumerate().collect();
        sorted.sort_by_key(|(_, child)| child.estimate());
        let mut order = vec![0; sorted.len()];
        for (at, (original, _)) in sorted.iter().enumerate() {
            order[*original] = at;
        }
        let children: Vec<_> = sorted.into_iter().map(|(_, child)| child).collect();
        let lists = vec![Vec::new(); children.len()];
        let keeps_order = window.is_some_and(|window| window.in_order);
        let added = if keeps_order { order.clone() } else { (0..children.len()).collect() };
        let mut rows = Self { children, order, added, window, weight, limit, current: None, lists };
        rows.settle();
        rows
    }

    /// Goes to the first row, from the current one of the first child on, that all children have.
    fn settle(&mut self) {
        loop {
            self.current = self.common();
            if self.current.is_none_or(|row| row >= self.limit) || self.is_close() {
                return;
            }
            self.children[0].advance();
        }
    }

    fn common(&mut self) -> Option<u32> {
        let (first, others) = self.children.split_first_mut()?;
        let mut row = first.current()?;
        let mut at = 0;
        while at < others.len() && row < self.limit {
            others[at].seek(row);
            let current = others[at].current()?;
            if current == row {
                at += 1;
                continue;
            }
            first.seek(current);
            row = first.current()?;
            at = 0;
        }
        Some(row)
    }

    /// Whether the words of the current row are as close as they must be.
    fn is_close(&mut self) -> bool {
        let Some(window) = self.window else { return true };
        let mut count = 0;
        for &child in &self.order {
            let list = &mut self.lists[count];
            list.clear();
            if self.children[child].positions(list) {
                list.sort_unstable();
                list.dedup();
                count += 1;
            }
        }
        is_within(&self.lists[..count], window)
    }
}

impl Rows for AllRows<'_> {
    #[inline]
    fn current(&self) -> Option<u32> {
        self.current
    }

    fn advance(&mut self) {
        if self.current.is_some() {
            self.children[0].advance();
            self.settle();
        }
    }

    fn seek(&mut self, row: u32) {
        if self.current.is_some_and(|current| current < row) {
            self.children[0].seek(row);
            self.settle();
        }
    }
}

impl ScoredRows for AllRows<'_> {
    fn score(&mut self, scoring: &Scoring, length: Length) -> f64 {
        let mut sum = 0.0;
        for &at in &self.added {
            sum += self.children[at].score(scoring, length);
        }
        sum * self.weight
    }

    fn explain(&mut self, scoring: &Scoring, length: Length) -> Explanation {
        let score = self.score(scoring, length);
        let added = self.added.iter();
        let parts = added.map(|&at| self.children[at].explain(scoring, length)).collect();
        Explanation::of_many(scoring.scorer, self.weight, score, parts)
    }

    fn positions(&mut self, positions: &mut Vec<u32>) -> bool {
        let mut has_any = false;
        for child in &mut self.children {
            has_any |= child.positions(positions);
        }
        has_any
    }

    fn counted_positions(&mut self, positions: &mut Vec<u32>) -> bool {
        let mut has_any = false;
        for child in &mut self.children {
            has_any |= child.counted_positions(positions);
        }
        has_any
    }

    fn distance(&mut self) -> u32 {
        let mut lists = Vec::new();
        for &at in &self.added {
            let mut positions = Vec::new();
            if self.children[at].counted_positions(&mut positions) {
                positions.sort_unstable();
                lists.push(positions);
            }
        }
        distance(&lists, self.children.len())
    }

    fn estimate(&self) -> usize {
        self.children.first().map_or(0, |child| child.estimate())
    }
}

/// Documents that `child` does not have.
pub(super) struct WithoutRows<'t> {
    all: BoxedRows<'t>,
    child: Option<BoxedRows<'t>>,
    weight: f64,
    /// Rows from this on are not tested.
    limit: u32,
}

impl<'t> WithoutRows<'t> {
    pub fn new(all: BoxedRows<'t>, child: Option<BoxedRows<'t>>, weight: f64, limit: u32) -> Self {
        let mut rows = Self { all, child, weight, limit };
        rows.settle();
        rows
    }

    fn settle(&mut self) {
        let Some(child) = &mut self.child else { return };
        while let Some(row) = self.all.current()
            && row < self.limit
        {
            child.seek(row);
            if child.current() != Some(row) {
                return;
            }
            self.all.advance();
        }
    }

    fn figures(&self) -> LeafFigures<'static> {
        LeafFigures { weight: self.weight, ..LeafFigures::of(LeafKind::Absence, b"") }
    }
}

impl Rows for WithoutRows<'_> {
    fn current(&self) -> Option<u32> {
        self.all.current()
    }

    fn advance(&mut self) {
        self.all.advance();
        self.settle();
    }

    fn seek(&mut self, row: u32) {
        if self.current().is_some_and(|current| current < row) {
            self.all.seek(row);
            self.settle();
        }
    }
}

impl ScoredRows for WithoutRows<'_> {
    fn score(&mut self, _: &Scoring, _: Length) -> f64 {
        0.0
    }

    fn explain(&mut self, scoring: &Scoring, length: Length) -> Explanation {
        Explanation::of_leaf(scoring, &self.figures(), 0, length)
    }

    fn positions(&mut self, _: &mut Vec<u32>) -> bool {
        false
    }

    fn estimate(&self) -> usize {
        self.all.estimate()
    }
}

/// Every document; those of `child` have a score.
pub(super) struct MaybeRows<'t> {
    pub all: BoxedRows<'t>,
    pub child: Option<BoxedRows<'t>>,
}

impl<'t> MaybeRows<'t> {
    /// The child, if it has the current row.
    fn matched(&mut self) -> Option<&mut BoxedRows<'t>> {
        let (row, child) = (self.all.current()?, self.child.as_mut()?);
        child.seek(row);
        (child.current() == Some(row)).then_some(child)
    }
}

impl Rows for MaybeRows<'_> {
    fn current(&self) -> Option<u32> {
        self.all.current()
    }

    fn advance(&mut self) {
        self.all.advance();
    }

    fn seek(&mut self, row: u32) {
        self.all.seek(row);
    }
}

impl ScoredRows for MaybeRows<'_> {
    fn score(&mut self, scoring: &Scoring, length: Length) -> f64 {
        self.matched().map_or(0.0, |child| child.score(scoring, length))
    }

    fn explain(&mut self, scoring: &Scoring, length: Length) -> Explanation {
        match self.matched() {
            Some(child) => child.explain(scoring, length),
            None => {
                let figures = LeafFigures { weight: 0.0, ..LeafFigures::of(LeafKind::Other, b"") };
                Explanation::of_leaf(scoring, &figures, 1, length)
            }
        }
    }

    fn positions(&mut self, positions: &mut Vec<u32>) -> bool {
        self.matched().is_some_and(|child| child.positions(positions))
    }

    fn counted_positions(&mut self, positions: &mut Vec<u32>) -> bool {
        self.matched().is_some_and(|child| child.counted_positions(positions))
    }

    fn distance(&mut self) -> u32 {
        self.matched().map_or(1, |child| child.distance())
    }

    fn estimate(&self) -> usize {
        self.all.estimate()
    }
}

/// Whether one position of each list can be chosen within a window. Lists are ascending.
fn is_within(lists: &[Vec<u32>], window: Window) -> bool {
    let words = lists.len() as u64;
    let fits = |first: u32, last: u32| {
        let others = (u64::from(last - first) + 1).saturating_sub(words);
        window.slop.is_none_or(|slop| others <= u64::from(slop))
    };
    let mut at = vec![0; lists.len()];
    let here = |at: &[usize], list: usize| lists[list].get(at[list]).copied();
    if lists.is_empty() {
        return true;
    }
    loop {
        if window.in_order {
            // The earliest positions, none before the other, for this first one. As in Redis, one
            // position may stand for a word that is repeated in the query.
            for list in 1..lists.len() {
                let Some(before) = here(&at, list - 1) else { return false };
                at[list] += lists[list][at[list]..].partition_point(|&next| next < before);
            }
            let (Some(first), Some(last)) = (here(&at, 0), here(&at, lists.len() - 1)) else {
                return false;
            };
            if fits(first, last) {
                return true;
            }
            at[0] += 1;
        } else {
            let mut least = (u32::MAX, 0);
            let mut largest = 0;
            let mut is_shared = false;
            for list in 0..lists.len() {
                let Some(position) = here(&at, list) else { return false };
                is_shared |= (0..list).any(|other| here(&at, other) == Some(position));
                least = least.min((position, list));
                largest = largest.max(position);
            }
            if fits(least.0, largest) && (!is_shared || is_distinct(lists, &at, least.0, window)) {
                return true;
            }
            at[least.1] += 1;
        }
    }
}

/// Whether different positions can be chosen from the lists, from `at` on, in the window that
/// begins at `first`: a matching between lists and positions.
fn is_distinct(lists: &[Vec<u32>], at: &[usize], first: u32, window: Window) -> bool {
    if lists.len() > DISTINCT_WORDS_MAX {
        return true;
    }
    let words = u64::try_from(lists.len()).unwrap_or(u64::MAX);
    let end = window.slop.map_or(u64::MAX, |slop| u64::from(first) + words + u64::from(slop));
    // As many candidates as there are lists always suffice for one list.
    let candidates = |list: usize| {
        let positions = lists[list][at[list]..].iter().take(lists.len());
        positions.copied().take_while(move |&position| u64::from(position) < end)
    };
    let mut chosen: HashMap<u32, usize> = HashMap::new();
    let mut visited = HashSet::new();
    (0..lists.len()).all(|list| {
        visited.clear();
        choose(list, &candidates, &mut chosen, &mut visited)
    })
}

/// Chooses a position for a list; others may have to choose again.
fn choose<P: Iterator<Item = u32>>(
    list: usize,
    candidates: &impl Fn(usize) -> P,
    chosen: &mut HashMap<u32, usize>,
    visited: &mut HashSet<u32>,
) -> bool {
    candidates(list).any(|position| {
        if !visited.insert(position) {
            return false;
        }
        let other = chosen.get(&position).copied();
        let is_free = other.is_none_or(|other| choose(other, candidates, chosen, visited));
        if is_free {
            chosen.insert(position, list);
        }
        is_free
    })
}

/// The root of the sum of squares of the least distances between neighbours in a list of words.
fn distance(lists: &[Vec<u32>], children: usize) -> u32 {
    let fallback = u32::try_from(children).unwrap_or(u32::MAX).saturating_sub(1).max(1);
    if children < 2 || lists.len() < 2 {
        return fallback;
    }
    let squares = lists.windows(2).map(|pair| {
        let nearest = f64::from(nearest(&pair[0], &pair[1]));
        nearest * nearest
    });
    let root = squares.sum::<f64>().sqrt() as u32;
    if root == 0 { fallback } else { root }
}

/// The least difference between values of two ascending lists; as in Redis, the first one up to 1.
fn nearest(one: &[u32], other: &[u32]) -> u32 {
    let (mut i, mut j) = (0, 0);
    let mut least = u32::MAX;
    while least > 1
        && let (Some(&a), Some(&b)) = (one.get(i), other.get(j))
    {
        least = least.min(a.abs_diff(b));
        if a < b { i += 1 } else { j += 1 }
    }
    least
}
