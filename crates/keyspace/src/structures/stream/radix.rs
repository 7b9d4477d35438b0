//! Number of nodes of the radix tree in which Redis would keep the nodes of a stream, for `XINFO
//! STREAM`.

use crate::structures::stream::Stream;
use crate::structures::stream::id::StreamId;

/// Bytes of a key of the tree: an ID.
const KEY_LEN: u32 = 16;
/// Maximum number of chunks examined; the result is extrapolated to the others.
const LOOKED_AT_MAX: usize = 65_536;

impl Stream {
    /// Number of nodes of the radix tree: one where keys diverge, one for each run of bytes
    /// between, and a leaf for each key.
    pub fn radix_nodes(&self) -> usize {
        let looked_at = self.chunks.len().min(LOOKED_AT_MAX);
        let nodes = radix_nodes(self.chunks.iter().take(looked_at).map(|chunk| chunk.base()));
        match looked_at {
            0 => 1,
            _ => nodes * self.chunks.len() / looked_at,
        }
    }
}

/// Number of nodes of the tree with these ascending keys.
fn radix_nodes(mut keys: impl Iterator<Item = StreamId>) -> usize {
    let Some(mut before) = keys.next() else { return 1 };
    // The leaf of the first key.
    let mut nodes = 1;
    // Depths at which keys diverge, on the path to the latest key; and the deepest of them for that
    // key so far.
    let mut partings: Vec<u32> = Vec::new();
    let mut deepest = None;
    for key in keys {
        nodes += 1;
        let depth = common_prefix(before, key);
        nodes += run(deepest.max(Some(depth)), KEY_LEN);
        while let Some(top) = partings.pop_if(|top| *top > depth) {
            let parent = partings.last().copied().max(Some(depth));
            nodes += 1 + run(parent, top);
        }
        if partings.last() != Some(&depth) {
            partings.push(depth);
        }
        deepest = Some(depth);
        before = key;
    }
    nodes += run(deepest, KEY_LEN);
    while let Some(top) = partings.pop() {
        nodes += 1 + run(partings.last().copied(), top);
    }
    nodes
}

/// Whether there are bytes between a branch (none: the root) and the next one at `depth`.
fn run(parting: Option<u32>, depth: u32) -> usize {
    usize::from(depth > parting.map_or(0, |at| at + 1))
}

/// Number of common first bytes of two IDs.
fn common_prefix(a: StreamId, b: StreamId) -> u32 {
    let wide = |id: StreamId| u128::from(id.ms) << 64 | u128::from(id.seq);
    (wide(a) ^ wide(b)).leading_zeros() / 8
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_are_counted_as_redis_counts_them() {
        let spread =
            |count| radix_nodes((1..=count).map(|i| StreamId::new(1_700_000_000_000 + i * 7, 0)));
        // Redis 8.2 and Valkey 9.1, with `stream-node-max-entries 1`.
        for (keys, nodes) in [
            (1, 2),
            (2, 6),
            (99, 203),
            (100, 205),
            (101, 207),
            (201, 410),
            (1000, 2030),
            (10_000, 20_278),
        ] {
            assert_eq!(spread(keys), nodes, "{keys}");
        }
        let dense = |count| radix_nodes((1..=count).map(|i| StreamId::new(1_700_000_000_000, i)));
        for (keys, nodes) in [(1, 2), (2, 4), (99, 101), (201, 203), (1000, 1006), (10_000, 10_042)]
        {
            assert_eq!(dense(keys), nodes, "{keys}");
        }
        assert_eq!(radix_nodes(std::iter::empty()), 1);
    }
}
