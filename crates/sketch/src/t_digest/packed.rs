//! Packed digests: bytes of a few nodes, in place of an allocation of their own.
//!
//! ```text
//! compression (4 bytes), compressions (8), merged nodes (1), lowest and highest number (8 each)
//! nodes: mean, weight (8 bytes each)
//! ```

use super::{NODES_MIN, Node, TDigest, WEIGHT_MAX, weight_of};

/// Maximum number of nodes of a packed digest: below every capacity, so that no merge is due.
pub const NODES_MAX: usize = 2 * NODES_MIN;

const COMPRESSIONS: usize = 4;
const MERGED: usize = 12;
const MIN: usize = 13;
const MAX: usize = 21;
const HEAD_BYTES: usize = 29;
const NODE_BYTES: usize = 2 * size_of::<f64>();

/// Room for the nodes of a packed digest.
pub type NodeBytes = [u8; NODES_MAX * NODE_BYTES];

impl TDigest {
    /// Packs the digest; none if it has too many nodes, or a snapshot.
    pub fn pack(&self) -> Option<Vec<u8>> {
        if self.nodes.len() > NODES_MAX || self.snapshot.is_some() {
            return None;
        }
        let mut out = Vec::with_capacity(packed_len(self.nodes.len()));
        out.extend_from_slice(&self.compression.to_le_bytes());
        out.extend_from_slice(&self.compressions.to_le_bytes());
        out.push(self.merged as u8);
        let nodes = self.nodes.iter().flat_map(|node| [node.mean, node.weight]);
        for number in [self.min, self.max].into_iter().chain(nodes) {
            out.extend_from_slice(&number.to_le_bytes());
        }
        Some(out)
    }

    /// The digest of bytes that [`TDigest::pack`] returned, and of numbers added since.
    pub fn unpack(packed: &[u8]) -> Self {
        let nodes: Vec<Node> = nodes(packed).collect();
        let merged = usize::from(packed.get(MERGED).copied().unwrap_or(0)).min(nodes.len());
        TDigest {
            compression: u32::from_le_bytes(field(packed, 0)),
            min: double(packed, MIN),
            max: double(packed, MAX),
            merged,
            merged_weight: weight_of(&nodes[..merged]),
            unmerged_weight: weight_of(&nodes[merged..]),
            nodes,
            compressions: u64::from_le_bytes(field(packed, COMPRESSIONS)),
            snapshot: None,
        }
    }
}

/// Bytes of a packed digest with this many nodes.
pub fn packed_len(nodes: usize) -> usize {
    HEAD_BYTES + nodes * NODE_BYTES
}

/// The nodes that adding numbers appends to a packed digest, in `room`; none if it cannot stay
/// packed. [`widen`] completes the addition.
pub fn nodes_of<'r>(packed: &[u8], numbers: &[f64], room: &'r mut NodeBytes) -> Option<&'r [u8]> {
    let len = numbers.len() * NODE_BYTES;
    let weight: f64 = nodes(packed).map(|node| node.weight).sum();
    // The sum of both may be rounded down.
    let fits =
        packed.len() + len <= packed_len(NODES_MAX) && weight <= WEIGHT_MAX - numbers.len() as f64;
    if !fits {
        return None;
    }
    for (node, number) in room.chunks_exact_mut(NODE_BYTES).zip(numbers) {
        node[..8].copy_from_slice(&number.to_le_bytes());
        node[8..].copy_from_slice(&1f64.to_le_bytes());
    }
    Some(&room[..len])
}

/// Moves the lowest and the highest number of a packed digest to those of `numbers`.
pub fn widen(packed: &mut [u8], numbers: &[f64]) {
    let (mut min, mut max) = (double(packed, MIN), double(packed, MAX));
    for &number in numbers {
        min = if number < min { number } else { min };
        max = if number > max { number } else { max };
    }
    packed[MIN..MAX].copy_from_slice(&min.to_le_bytes());
    packed[MAX..HEAD_BYTES].copy_from_slice(&max.to_le_bytes());
}

fn nodes(packed: &[u8]) -> impl Iterator<Item = Node> {
    let nodes = packed.get(HEAD_BYTES..).unwrap_or_default().chunks_exact(NODE_BYTES);
    nodes.map(|node| Node { mean: double(node, 0), weight: double(node, 8) })
}

fn double(bytes: &[u8], at: usize) -> f64 {
    f64::from_le_bytes(field(bytes, at))
}

/// Bytes from `at` on; zeros beyond the end.
fn field<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    bytes.get(at..).and_then(<[u8]>::first_chunk).copied().unwrap_or([0; N])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The bits of everything that a digest tells.
    fn parts(digest: &TDigest) -> Vec<u64> {
        let nodes = digest.nodes.iter().flat_map(|node| [node.mean, node.weight]);
        let numbers = [digest.min, digest.max, digest.merged_weight, digest.unmerged_weight];
        let mut parts: Vec<u64> = numbers.into_iter().chain(nodes).map(f64::to_bits).collect();
        parts.extend([digest.compression(), digest.merged as u64, digest.compressions]);
        parts
    }

    #[test]
    fn numbers_added_to_a_packed_digest_are_those_of_an_unpacked_one() {
        for at_once in [1, 2, 3, NODES_MAX, NODES_MAX + 1] {
            let mut digest = TDigest::new(1).unwrap();
            let mut packed = digest.pack().unwrap();
            assert_eq!(packed.len(), packed_len(0));
            for round in 0..NODES_MAX {
                let numbers: Vec<f64> =
                    (0..at_once).map(|i| (round * 7 + i) as f64 % 5.0 - 2.0).collect();
                numbers.iter().for_each(|&number| digest.add(number, 1.0).unwrap());
                let mut room = [0; _];
                let Some(nodes) = nodes_of(&packed, &numbers, &mut room) else { break };
                widen(&mut packed, &numbers);
                packed.extend_from_slice(nodes);
                assert_eq!(digest.pack().as_ref(), Some(&packed));
                assert_eq!(parts(&TDigest::unpack(&packed)), parts(&digest));
            }
            let packed_nodes = TDigest::unpack(&packed).nodes.len();
            assert!(packed_nodes <= NODES_MAX && packed_nodes + at_once > NODES_MAX);
            assert!(digest.nodes.len() <= NODES_MAX || digest.pack().is_none());
        }
    }

    #[test]
    fn merged_nodes_stay_merged() {
        let mut digest = TDigest::new(1).unwrap();
        (0..100).for_each(|i| digest.add(f64::from(i), 1.0).unwrap());
        digest.compress();
        let unpacked = TDigest::unpack(&digest.pack().unwrap());
        assert!(unpacked.merged > 0 && unpacked.compressions > 1);
        assert_eq!(parts(&unpacked), parts(&digest));
        digest.begin_snapshot();
        assert!(digest.pack().is_none());
    }

    #[test]
    fn a_heavy_digest_takes_no_more_numbers() {
        let node = Node { mean: 1.0, weight: WEIGHT_MAX - 1.0 };
        let heavy = TDigest::from_nodes(100, (1.0, 1.0), vec![node], true, 1).unwrap();
        let packed = heavy.pack().unwrap();
        assert!(nodes_of(&packed, &[1.0], &mut [0; _]).is_some());
        assert!(nodes_of(&packed, &[1.0; 2], &mut [0; _]).is_none());
    }
}
