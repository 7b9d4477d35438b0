//! Sizes at which values change the way in which they are held.

/// Values from this length on are reference-counted blobs: received into their own allocation, sent
/// without a copy.
pub const BLOB_MIN: usize = 16 * 1024;

/// Packed items of a collection take at most this many bytes; beyond, it has an allocation of its
/// own.
pub(crate) const PACKED_MAX: usize = 4096;

/// Upper bound of the size of a large collection, without its allocations, bytes.
pub(crate) const LARGE_BYTES_MAX: usize = 192;

/// Longest allocation that the general allocator rounds up to a size class, bytes; it rounds longer
/// ones up to pages.
const CLASSED_MAX: usize = 512 * 1024;
/// Bytes of a page.
const PAGE_BYTES: usize = 4096;

/// Bytes that the block of a blob of `len` bytes, at least [`BLOB_MIN`], takes: mimalloc and
/// jemalloc have four size classes per doubling up to 512 KiB, so up to a fifth of a block is
/// unused. Part of `Entry::footprint`.
pub fn blob_bytes(len: usize) -> usize {
    let step = match len {
        ..BLOB_MIN => return len,
        BLOB_MIN..=CLASSED_MAX => 1 << ((len - 1).ilog2() - 2),
        _ => PAGE_BYTES,
    };
    len.next_multiple_of(step)
}
