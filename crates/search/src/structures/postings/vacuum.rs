//! Removal of postings of removed documents, a bounded number at a time.

use super::codec::{BLOCK_LEN, Builder};
use super::{
    Block, BlockAt, GROUP_LEN, Group, INLINE_BYTES, LONG, List, Long, Postings, SHORT,
    TAIL_BYTES_MAX, collect,
};
use std::mem::size_of;

impl Postings {
    /// Drops rows that are not `kept` from one group of a list, or from its tail after the last
    /// group. Returns the number of the next group; none at the end of the list. Blocks of sparse
    /// pages move to others.
    pub fn vacuum(
        &mut self,
        list: &mut List,
        group: usize,
        kept: &mut dyn FnMut(u32) -> bool,
    ) -> Option<usize> {
        let groups = self.groups(list).len();
        if group < groups {
            return Some(self.vacuum_group(list, group, kept));
        }
        self.vacuum_tail(list, kept);
        None
    }

    /// Removes all rows of a list.
    pub fn clear(&mut self, list: &mut List) {
        let mut group = 0;
        while let Some(next) = self.vacuum(list, group, &mut |_| false) {
            group = next;
        }
    }

    fn vacuum_group(
        &mut self,
        list: &mut List,
        number: usize,
        kept: &mut dyn FnMut(u32) -> bool,
    ) -> usize {
        let at = list.reference() as usize;
        let Some(long) = self.longs.get_mut(at) else { return usize::MAX };
        let Some(group) = long.groups.get_mut(number) else { return usize::MAX };
        let mut blocks = std::mem::take(&mut group.blocks);
        let mut is_kept = Vec::with_capacity(blocks.len() * BLOCK_LEN);
        let mut decoded = self.scratch.decoded.take().unwrap_or_default();
        for block in &blocks {
            decoded.read_block(&block.header, self.pool.get(block.at), self.form);
            let rows = decoded.rows[..decoded.len].iter();
            is_kept.extend(rows.map(|&row| kept(row)));
        }
        let dropped = is_kept.iter().filter(|is_kept| !**is_kept).count();
        self.scratch.decoded = Some(decoded);
        if dropped == 0 {
            for block in &mut blocks {
                block.at = self.moved(block.at);
            }
            if let Some(group) = self.longs.get_mut(at).and_then(|long| long.groups.get_mut(number))
            {
                group.blocks = blocks;
            }
            return number + 1;
        }
        let before = blocks.capacity();
        let mut is_kept = is_kept.into_iter();
        let rewritten = self.rewrite(&blocks, &mut is_kept);
        let Some(long) = self.longs.get_mut(at) else { return usize::MAX };
        long.len = long.len.saturating_sub(dropped as u32);
        self.directory_bytes -= before * size_of::<Block>();
        if rewritten.is_empty() {
            remove_group(&mut self.directory_bytes, long, number);
            return number;
        }
        self.directory_bytes += rewritten.capacity() * size_of::<Block>();
        if let Some(group) = long.groups.get_mut(number) {
            group.last = rewritten.last().map_or(0, |block| block.header.last);
            group.blocks = rewritten;
        }
        self.join_with_last(at, number)
    }

    /// Encodes the kept rows of blocks as new blocks, and frees the old ones.
    fn rewrite(&mut self, blocks: &[Block], is_kept: &mut dyn Iterator<Item = bool>) -> Vec<Block> {
        let mut builder = self.scratch.builder.take().unwrap_or_default();
        let mut decoded = self.scratch.decoded.take().unwrap_or_default();
        let mut rewritten = Vec::new();
        builder.clear();
        for block in blocks {
            let bytes = self.pool.get(block.at).to_vec();
            self.pool.free(block.at);
            decoded.read_block(&block.header, &bytes, self.form);
            let mut kept = |_| is_kept.next().unwrap_or(true);
            collect(&mut decoded, &bytes, &mut builder, &mut kept, &mut |builder| {
                rewritten.extend(self.add_block(builder));
                builder.clear();
                true
            });
        }
        if builder.len() > 0 {
            rewritten.extend(self.add_block(&mut builder));
        }
        builder.clear();
        (self.scratch.builder, self.scratch.decoded) = (Some(builder), Some(decoded));
        rewritten.shrink_to_fit();
        rewritten
    }

    /// Moves the blocks of a group to the one before, if that has room for them. Returns the number
    /// of the next group.
    fn join_with_last(&mut self, long: usize, number: usize) -> usize {
        let Some(long) = self.longs.get_mut(long) else { return usize::MAX };
        let len = long.groups.get(number).map_or(0, |group| group.blocks.len());
        let Some(previous) = number.checked_sub(1) else { return number + 1 };
        let Some(group) = long.groups.get_mut(previous) else { return number + 1 };
        if group.blocks.len() + len > GROUP_LEN {
            return number + 1;
        }
        let before = group.blocks.capacity();
        group.blocks.reserve_exact(len);
        self.directory_bytes += (group.blocks.capacity() - before) * size_of::<Block>();
        let Some(moved) =
            long.groups.get_mut(number).map(|group| std::mem::take(&mut group.blocks))
        else {
            return number + 1;
        };
        self.directory_bytes -= moved.capacity() * size_of::<Block>();
        if let Some(group) = long.groups.get_mut(previous) {
            group.last = moved.last().map_or(group.last, |block| block.header.last);
            group.blocks.extend(moved);
        }
        remove_group(&mut self.directory_bytes, long, number);
        number
    }

    fn vacuum_tail(&mut self, list: &mut List, kept: &mut dyn FnMut(u32) -> bool) {
        let mut builder = self.scratch.builder.take().unwrap_or_default();
        builder.clear();
        let is_changed = self.collect_tail(list, &mut builder, kept);
        let is_shorter = self.take_small_block(list, &mut builder);
        let is_emptied = list.kind == LONG && self.groups(list).is_empty();
        if is_changed || is_shorter || is_emptied {
            self.replace_tail(list, &builder);
        } else if list.kind == SHORT {
            let at = self.moved(list.reference());
            list.refer(SHORT, at, list.tail_len());
        } else if list.kind == LONG && list.count > 0 {
            let at = list.reference() as usize;
            if let Some(tail) = self.longs.get(at).map(|long| long.tail) {
                let tail = self.moved(tail);
                if let Some(long) = self.longs.get_mut(at) {
                    long.tail = tail;
                }
            }
        }
        builder.clear();
        self.scratch.builder = Some(builder);
    }

    /// If one block is left that fits in a tail with the collected rows, it is put before them, and
    /// freed.
    fn take_small_block(&mut self, list: &List, tail: &mut Builder) -> bool {
        let [Group { blocks, .. }] = self.groups(list) else { return false };
        let &[block] = &blocks[..] else { return false };
        if usize::from(block.header.count) + tail.len() >= BLOCK_LEN {
            return false;
        }
        let mut decoded = self.scratch.decoded.take().unwrap_or_default();
        let bytes = self.pool.get(block.at).to_vec();
        decoded.read_block(&block.header, &bytes, self.form);
        let mut joined = Builder::default();
        collect(&mut decoded, &bytes, &mut joined, &mut |_| true, &mut |_| true);
        self.scratch.decoded = Some(decoded);
        joined.append(tail);
        let mut bytes = Vec::new();
        joined.put_tail(&mut bytes, self.form);
        if bytes.len() > TAIL_BYTES_MAX {
            return false;
        }
        *tail = joined;
        self.pool.free(block.at);
        if let Some(long) = self.longs.get_mut(list.reference() as usize) {
            self.directory_bytes -= blocks_capacity(&long.groups) * size_of::<Block>();
            self.directory_bytes -= long.groups.capacity() * size_of::<Group>();
            long.groups = Vec::new();
        }
        true
    }

    /// Makes collected rows the tail of a list; without sealed blocks the list is short again.
    fn replace_tail(&mut self, list: &mut List, rows: &Builder) {
        let mut bytes = Vec::new();
        rows.put_tail(&mut bytes, self.form);
        let old = match list.kind {
            LONG if list.count > 0 => {
                self.longs.get(list.reference() as usize).map(|long| long.tail)
            }
            SHORT => Some(list.reference()),
            _ => None,
        };
        if let Some(old) = old {
            self.pool.free(old);
        }
        let dropped = usize::from(list.count).saturating_sub(rows.len());
        list.count = rows.len() as u8;
        if rows.len() > 0 {
            list.last = rows.last();
        }
        if list.kind == LONG && !self.groups(list).is_empty() {
            let tail = self.add_tail(&bytes);
            if let Some(long) = self.longs.get_mut(list.reference() as usize) {
                long.len = long.len.saturating_sub(dropped as u32);
                (long.tail, long.tail_len) = (tail, bytes.len() as u32);
            }
            return;
        }
        if list.kind == LONG {
            self.remove_long(list.reference());
        }
        match list.data.get_mut(..bytes.len().min(INLINE_BYTES + 1)) {
            Some(data) => {
                data.copy_from_slice(&bytes);
                list.kind = bytes.len() as u8;
            }
            None => {
                let tail = self.add_tail(&bytes);
                list.refer(SHORT, tail, bytes.len());
            }
        }
    }

    fn add_tail(&mut self, bytes: &[u8]) -> BlockAt {
        if bytes.is_empty() {
            return BlockAt::MAX;
        }
        let Some(at) = self.pool.allocate(bytes.len()) else { return BlockAt::MAX };
        self.pool.get_mut(at)[..bytes.len()].copy_from_slice(bytes);
        at
    }

    fn remove_long(&mut self, number: u32) {
        let Some(long) = self.longs.get_mut(number as usize) else { return };
        let long = std::mem::take(long);
        self.directory_bytes -= blocks_capacity(&long.groups) * size_of::<Block>();
        self.directory_bytes -= long.groups.capacity() * size_of::<Group>();
        self.free_longs.push(number);
        if self.free_longs.len() == self.longs.len() {
            self.longs.clear();
            self.free_longs.clear();
        }
    }

    /// Moves a block of a sparse page. Returns its address.
    fn moved(&mut self, at: BlockAt) -> BlockAt {
        if !self.pool.is_sparse(at) {
            return at;
        }
        let len = self.pool.get(at).len();
        let Some(new) = self.pool.allocate(len) else { return at };
        self.pool.copy(at, new, len);
        self.pool.free(at);
        new
    }
}

fn blocks_capacity(groups: &[Group]) -> usize {
    groups.iter().map(|group| group.blocks.capacity()).sum()
}

/// Removes a group without blocks.
fn remove_group(directory_bytes: &mut usize, long: &mut Long, number: usize) {
    let before = long.groups.capacity();
    long.groups.remove(number);
    if long.groups.len() * 4 <= before {
        long.groups.shrink_to(long.groups.len() * 2);
    }
    *directory_bytes -= (before - long.groups.capacity()) * size_of::<Group>();
}
