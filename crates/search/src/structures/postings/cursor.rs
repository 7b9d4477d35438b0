//! A walk over the postings of a term.

use super::codec::{BLOCK_LEN, Decoded, Details, Reader};
use super::{Block, Group, List, Postings};

/// A walk over postings in ascending order of rows.
pub struct PostingCursor<'p> {
    postings: &'p Postings,
    list: List,
    groups: &'p [Group],
    /// Place of the current block; a group after the last: the tail.
    group: usize,
    block: usize,
    at: usize,
    decoded: Box<Decoded>,
}

impl Postings {
    /// A cursor at the first posting of a list.
    pub fn cursor(&self, list: &List) -> PostingCursor<'_> {
        PostingCursor::new(self, *list)
    }
}

impl<'p> PostingCursor<'p> {
    /// A cursor at the first posting.
    fn new(postings: &'p Postings, list: List) -> Self {
        let groups = postings.groups(&list);
        let decoded = Box::default();
        let mut cursor = Self { postings, list, groups, group: 0, block: 0, at: 0, decoded };
        cursor.load(0, 0);
        cursor
    }

    /// The current row; none at the end.
    #[inline]
    pub fn current(&self) -> Option<u32> {
        (self.at < self.decoded.len).then(|| self.decoded.rows[self.at])
    }

    /// Steps to the next row.
    #[inline]
    pub fn advance(&mut self) {
        self.at += 1;
        if self.at >= self.decoded.len && self.group < self.groups.len() {
            self.load(self.group, self.block + 1);
        }
    }

    /// Steps to the first row that is not below `row`; never backwards.
    pub fn seek(&mut self, row: u32) {
        if self.current().is_none_or(|current| current >= row) {
            return;
        }
        if let Some(block) = self.block()
            && block.header.last < row
        {
            self.seek_block(row);
        }
        let rows = &self.decoded.rows[self.at.min(self.decoded.len)..self.decoded.len];
        // Most seeks end close by.
        let near = rows.iter().take(8).position(|&found| found >= row);
        self.at += near.unwrap_or_else(|| rows.partition_point(|&found| found < row));
        debug_assert!(self.at < self.decoded.len || self.group == self.groups.len());
    }

    fn seek_block(&mut self, row: u32) {
        let skipped = self.groups[self.group..].partition_point(|group| group.last < row);
        let from = if skipped == 0 { self.block + 1 } else { 0 };
        let group = self.group + skipped;
        let blocks = self.groups.get(group).and_then(|group| group.blocks.get(from..));
        let blocks = blocks.unwrap_or_default();
        self.load(group, from + blocks.partition_point(|block| block.header.last < row));
    }

    /// Occurrences in the current document, weighted.
    #[inline]
    pub fn frequency(&self) -> u32 {
        self.decoded.frequencies[self.at.min(BLOCK_LEN - 1)]
    }

    /// Fields of the current document that contain the term.
    pub fn mask(&mut self) -> u128 {
        self.details().0.mask
    }

    /// Positions in the current document, ascending.
    pub fn positions(&mut self, positions: &mut Vec<u32>) {
        positions.clear();
        let (_, mut reader, count) = self.details();
        let mut position = 0u32;
        for _ in 0..count {
            if reader.at >= reader.bytes.len() {
                break;
            }
            position = position.wrapping_add(reader.number());
            positions.push(position);
        }
    }

    fn block(&self) -> Option<&'p Block> {
        self.groups.get(self.group)?.blocks.get(self.block)
    }

    /// Reads a block; that after the last one of the last group is the tail.
    fn load(&mut self, group: usize, block: usize) {
        (self.group, self.block, self.at) = (group, block, 0);
        while self.groups.get(self.group).is_some_and(|group| self.block >= group.blocks.len()) {
            (self.group, self.block) = (self.group + 1, 0);
        }
        match self.block() {
            Some(block) => {
                let bytes = self.postings.pool.get(block.at);
                self.decoded.read_block(&block.header, bytes, self.postings.form);
            }
            None => {
                let tail = self.postings.tail(&self.list);
                let count = usize::from(self.list.count);
                self.decoded.read_tail(tail, count, self.list.last, self.postings.form);
            }
        }
    }

    fn details(&mut self) -> (Details, Reader<'_>, u64) {
        let bytes = match self.block() {
            Some(block) => self.postings.pool.get(block.at),
            None => self.postings.tail(&self.list),
        };
        self.decoded.details(self.at, bytes)
    }
}
