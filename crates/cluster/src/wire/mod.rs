//! Wire format between nodes: frames on a link; batches of lanes; records.
//!
//! ```text
//! frame    +--------+------+------+-------+-- ... --+   4 + 1 + 1 + 2 bytes, little-endian
//!          | length | kind | lane | epoch | body    |   `length` counts the bytes after it
//!          +--------+------+------+-------+-- ... --+   `epoch`: low bits of the sender's epoch
//! batch    +------+------+---------+----------+-------+-----+-- ... --+
//!          | head | from | applied | unstable | count | len | records |   variable-length numbers
//!          +------+------+---------+----------+-------+-----+-- ... --+
//!          head: low 4 bits: lane; 0x10, 0x20, 0x40: presence of the first three numbers;
//!          0x80: count and the rest. A count of 0: one record at the next position, no len
//! record   +--------+------+-----+-- ... --+
//!          | length | head | gap | body    |   head: low 4 bits: kind; 0x10: gap present, else 1;
//!          +--------+------+-----+-- ... --+   0x20, 0x40, 0x80: optional parts
//! ```
//!
//! A batch contains all records for the receiver at the `count` positions after `from`; positions
//! without a record are for others. `applied` is the increase of the receiver's lane position that
//! the sender has applied, relative to its last acknowledgement on the link. `unstable` is the
//! distance from `from` back to the sender's stable position. In a frame of batches the byte for
//! the lane has the flags [`ACKNOWLEDGE_AT_ONCE`], [`IS_FULL`] and [`KNOWS_INTERESTS`].

mod codecs;
mod exec;
mod frame;
pub(crate) mod positions;
mod record;
#[cfg(test)]
mod tests;

pub use exec::Exec;
pub use frame::{
    ACKNOWLEDGE_AT_ONCE, Batch, Frame, FrameReader, HEADER_LEN, Hello, IS_FULL, KNOWS_INTERESTS,
    put_frame, take_batch,
};
pub(crate) use frame::{BatchHead, begin_frame, end_batches, put_batch_head};
pub use record::{
    Change, Changes, Parts, Pieces, Record, Refusal, Slots, Tag, Tags, Texts, WaitEnd, put_record,
    put_with_gap, take_with_gap,
};
pub(crate) use record::{
    KeptHead, check, is_effects, is_elided, is_exec, is_kept, is_of_commit, is_of_dead, is_ordered,
    key_of_exec, len_with_gap, may_hold_decision, put_exec_record, put_joined_with_gap,
    tag_of_effects,
};

/// Number of lanes; a slot's lane is its low four bits.
pub const LANES: usize = 16;

/// Protocol version; 5 has commits of several slots where members hold only some.
pub const VERSION: u64 = 5;

/// Decodes and re-encodes the positions of a copy; none if the bytes are malformed. For the fuzz
/// target.
#[doc(hidden)]
pub fn positions_again(bytes: &[u8]) -> Option<Vec<u8>> {
    positions::Positions::read(bytes).ok().map(|positions| positions.encode())
}
