//! Sketches: structures that answer questions about sets and streams approximately, in little
//! memory. They know no keys, and have the bits of RedisBloom, so that dumps move both ways.
//!
//! | module | holds |
//! |---|---|
//! | [`bloom`] | scalable Bloom filters |
//! | [`count_min`] | count-min sketches |
//! | [`cuckoo`] | cuckoo filters |
//! | [`hash`] | MurmurHash2 in its two widths |
//! | [`pages`] | bytes in pages, with snapshots |
//! | [`t_digest`] | t-digests |
//! | [`top_k`] | top-k lists |

pub mod bloom;
pub mod count_min;
pub mod cuckoo;
pub mod hash;
pub mod pages;
mod reader;
pub mod t_digest;
pub mod top_k;

/// Bytes that the general allocator occupies for a block of `len`: it has four size classes per
/// doubling.
fn allocated(len: usize) -> usize {
    match len {
        ..64 => len.next_multiple_of(16),
        _ => len.next_multiple_of(1 << ((len - 1).ilog2() - 2)),
    }
}
