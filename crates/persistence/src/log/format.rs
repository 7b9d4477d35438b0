//! The frame of a log's files. Numbers are little-endian; drawn in `docs/formats-log.md`.
//!
//! ```text
//! file    +-----------+---------+---------+-- ...
//!         | file head | block   | block   |
//!         | 64 bytes  |         |         |
//!         +-----------+---------+---------+-- ...
//! block   +------------+-- ... --+
//!         | block head | records |    one epoch: all of it is there, or nothing
//!         | 56 bytes   |         |    (the head has 48 bytes up to version 2)
//!         +------------+-- ... --+
//! ```

use crc_fast::{CrcAlgorithm, Digest};

/// Bytes of the head of a file.
pub const FILE_HEAD_LEN: usize = 64;
/// Bytes of the head of a block.
pub const BLOCK_HEAD_LEN: usize = 56;
/// Bytes of the head of a block up to version 2.
const BLOCK_HEAD_LEN_V2: usize = 48;
/// The version that is written: 2 has records that only fill a block up, 3 says in each block how
/// far its file is synced, 4 has changes of value types by the number of the type.
pub const VERSION: u16 = 4;

const FILE_MAGIC: &[u8; 8] = b"PETRLOG\n";
const BLOCK_MAGIC: &[u8; 4] = b"EPOC";

/// The block's changes are to be made one after another, in the order in which they stand.
const SERIAL: u32 = 1;
/// Nothing follows: the log was ended on purpose.
const END: u32 = 2;

/// CRC-32C (Castagnoli) of bytes.
pub(super) fn checksum(bytes: &[u8]) -> u32 {
    crc_fast::checksum(CrcAlgorithm::Crc32Iscsi, bytes) as u32
}

/// Extends a checksum: that of the earlier bytes is `before`, 0 for none.
pub(super) fn checksum_on(before: u32, bytes: &[u8]) -> u32 {
    let mut digest = Digest::new_with_init_state(CrcAlgorithm::Crc32Iscsi, (!before).into());
    digest.update(bytes);
    digest.finalize() as u32
}

/// Combines the checksum `first` with the checksum `second` of the `len` bytes after it: the first
/// times x to the power of the second's bits, plus the second.
pub(super) fn checksum_of_both(first: u32, second: u32, len: u64) -> u32 {
    let mut sum = first;
    let (mut left, mut power) = (len, 3);
    while left > 0 {
        if left & 1 == 1 {
            sum = multiply(sum, POWERS[power]);
        }
        (left, power) = (left >> 1, power + 1);
    }
    sum ^ second
}

/// The polynomial without its highest power; the highest bit is the coefficient of 1.
const POLYNOMIAL: u32 = 0x82f6_3b78;

/// x to the power of 2 to the power of the index.
const POWERS: [u32; 67] = {
    let mut powers = [1 << 30; 67];
    let mut i = 1;
    while i < powers.len() {
        powers[i] = multiply(powers[i - 1], powers[i - 1]);
        i += 1;
    }
    powers
};

/// The product of two polynomials, modulo that of the checksum.
const fn multiply(a: u32, mut b: u32) -> u32 {
    let mut product = 0;
    let mut bit = 1 << 31;
    while bit > 0 {
        if a & bit != 0 {
            product ^= b;
        }
        b = if b & 1 == 1 { b >> 1 ^ POLYNOMIAL } else { b >> 1 };
        bit >>= 1;
    }
    product
}

/// Bytes from `at` on, which are there.
pub(super) fn array<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    let mut array = [0; N];
    array.copy_from_slice(&bytes[at..at + N]);
    array
}

/// Head of a file.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct FileHead {
    /// The version of its format.
    pub version: u16,
    /// Sequence number; each file has a higher one than the file before.
    pub seq: u64,
    /// Creation time, in Unix milliseconds.
    pub made_ms: i64,
    /// Random identity shared by all files of a log.
    pub log_id: [u8; 16],
}

impl FileHead {
    /// As it stands in the file.
    pub fn to_bytes(self) -> [u8; FILE_HEAD_LEN] {
        let mut bytes = [0; FILE_HEAD_LEN];
        bytes[..8].copy_from_slice(FILE_MAGIC);
        bytes[8..10].copy_from_slice(&self.version.to_le_bytes());
        bytes[10..12].copy_from_slice(&(FILE_HEAD_LEN as u16).to_le_bytes());
        bytes[16..24].copy_from_slice(&self.seq.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.made_ms.to_le_bytes());
        bytes[32..48].copy_from_slice(&self.log_id);
        let sum = checksum(&bytes[..60]);
        bytes[60..].copy_from_slice(&sum.to_le_bytes());
        bytes
    }

    /// Reads it; `None` if it is no such head, or a damaged one.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let bytes = bytes.get(..FILE_HEAD_LEN)?;
        let sum = u32::from_le_bytes(array(bytes, 60));
        (is_log(bytes) && sum == checksum(&bytes[..60])).then(|| FileHead {
            version: u16::from_le_bytes(array(bytes, 8)),
            seq: u64::from_le_bytes(array(bytes, 16)),
            made_ms: i64::from_le_bytes(array(bytes, 24)),
            log_id: array(bytes, 32),
        })
    }

    /// Bytes of the heads of its blocks.
    pub fn block_head_len(&self) -> usize {
        if self.version < 3 { BLOCK_HEAD_LEN_V2 } else { BLOCK_HEAD_LEN }
    }

    /// Initial checksum of block heads, from the log's identity: a client that does not know it
    /// cannot store a value that would pass for a block of this file.
    fn seed(&self) -> u32 {
        if self.version < 3 {
            return 0;
        }
        checksum_on(checksum(&self.log_id), &self.seq.to_le_bytes())
    }
}

/// Whether a file that begins so is one of a log, be it damaged.
pub fn is_log(bytes: &[u8]) -> bool {
    bytes.starts_with(FILE_MAGIC)
}

/// Head of a block.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct BlockHead {
    /// Changes must be applied sequentially.
    pub serial: bool,
    /// Nothing follows.
    pub end: bool,
    /// The epoch that its changes belong to.
    pub epoch: u64,
    /// The epoch of the block before, in this file or the one before; 0 if there was none.
    pub previous: u64,
    /// Time of writing, in Unix milliseconds.
    pub written_ms: i64,
    /// Bytes of its records.
    pub len: u64,
    /// This many bytes of its file were known to be on the disk when it was written; in files up
    /// to version 2, which do not say so, the highest number.
    pub synced: u64,
    /// Checksum of its records.
    pub sum: u32,
}

impl BlockHead {
    /// The head of a block with these records.
    pub fn over(self, records: &[u8]) -> Self {
        BlockHead { len: records.len() as u64, sum: checksum(records), ..self }
    }

    /// As it stands in a file of the version that is written.
    pub fn to_bytes(self, file: &FileHead) -> [u8; BLOCK_HEAD_LEN] {
        let mut bytes = [0; BLOCK_HEAD_LEN];
        let flags = if self.serial { SERIAL } else { 0 } | if self.end { END } else { 0 };
        bytes[..4].copy_from_slice(BLOCK_MAGIC);
        bytes[4..8].copy_from_slice(&flags.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.epoch.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.previous.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.written_ms.to_le_bytes());
        bytes[32..40].copy_from_slice(&self.len.to_le_bytes());
        bytes[40..48].copy_from_slice(&self.synced.to_le_bytes());
        bytes[48..52].copy_from_slice(&self.sum.to_le_bytes());
        let sum = checksum_on(file.seed(), &bytes[..52]);
        bytes[52..].copy_from_slice(&sum.to_le_bytes());
        bytes
    }

    /// Reads it from such a file; `None` if it is no such head, or a damaged one.
    pub fn from_bytes(bytes: &[u8], file: &FileHead) -> Option<Self> {
        let bytes = bytes.get(..file.block_head_len())?;
        // The records' checksum and that of the head are the last.
        let sums = bytes.len() - 8;
        let sum = u32::from_le_bytes(array(bytes, sums + 4));
        let flags = u32::from_le_bytes(array(bytes, 4));
        let is_known = flags & !(SERIAL | END) == 0;
        let is_whole = || sum == checksum_on(file.seed(), &bytes[..sums + 4]);
        (bytes.starts_with(BLOCK_MAGIC) && is_known && is_whole()).then(|| BlockHead {
            serial: flags & SERIAL != 0,
            end: flags & END != 0,
            epoch: u64::from_le_bytes(array(bytes, 8)),
            previous: u64::from_le_bytes(array(bytes, 16)),
            written_ms: i64::from_le_bytes(array(bytes, 24)),
            len: u64::from_le_bytes(array(bytes, 32)),
            synced: if sums == 40 { u64::MAX } else { u64::from_le_bytes(array(bytes, 40)) },
            sum: u32::from_le_bytes(array(bytes, sums)),
        })
    }

    /// The next whole head of a block of such a file, and where in `bytes` it begins, if there is
    /// one.
    pub fn find(bytes: &[u8], file: &FileHead) -> Option<(usize, Self)> {
        memchr::memmem::find_iter(bytes, BLOCK_MAGIC)
            .find_map(|at| Some((at, BlockHead::from_bytes(&bytes[at..], file)?)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksums_of_parts_make_that_of_the_whole() {
        let bytes: Vec<u8> =
            (0..70_000u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
        for len in [0, 1, 4, 9, 4096, 65_537, bytes.len()] {
            let (first, second) = bytes.split_at(len);
            let whole = checksum(&bytes);
            assert_eq!(checksum_on(checksum(first), second), whole, "{len}");
            let both = checksum_of_both(checksum(first), checksum(second), second.len() as u64);
            assert_eq!(both, whole, "{len}");
        }
        assert_eq!(checksum_on(0, b"123456789"), 0xe306_9283);
        // The order of x divides 2^31 - 1.
        assert_eq!(checksum_of_both(77, 0, (1 << 31) - 1), 77);
    }

    #[test]
    fn heads_are_read_as_written_and_not_if_damaged() {
        assert_eq!(checksum(b"123456789"), 0xe306_9283);
        let head = FileHead { version: 1, seq: 7, made_ms: -3, log_id: *b"0123456789abcdef" };
        let bytes = head.to_bytes();
        assert_eq!(FileHead::from_bytes(&bytes), Some(head));
        for i in 0..bytes.len() {
            let mut bad = bytes;
            bad[i] ^= 4;
            assert_eq!(FileHead::from_bytes(&bad), None, "{i}");
            assert_eq!(FileHead::from_bytes(&bytes[..i]), None, "{i}");
        }
        let file = FileHead { version: VERSION, ..head };
        let head = BlockHead {
            serial: true,
            end: false,
            epoch: 1 << 50,
            previous: 3,
            written_ms: 1_700_000_000_000,
            len: 12345,
            synced: 77,
            sum: 0xdead_beef,
        };
        let bytes = head.to_bytes(&file);
        assert_eq!(BlockHead::from_bytes(&bytes, &file), Some(head));
        for i in 0..bytes.len() {
            let mut bad = bytes;
            bad[i] ^= 0x80;
            assert_eq!(BlockHead::from_bytes(&bad, &file), None, "{i}");
            assert_eq!(BlockHead::from_bytes(&bytes[..i], &file), None, "{i}");
        }
        let text = [&b"EPOCEPO"[..], &bytes, b"EPOC"].concat();
        assert_eq!(BlockHead::find(&text, &file), Some((7, head)));
        assert_eq!(BlockHead::find(&text[8..], &file), None);
        // A block of another file, or of another log, is none of this one.
        let others = [FileHead { seq: 8, ..file }, FileHead { log_id: [1; 16], ..file }];
        others.iter().for_each(|other| assert_eq!(BlockHead::find(&text, other), None));
    }
}
