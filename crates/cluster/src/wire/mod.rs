//! What nodes send each other: frames on a link, records in the batches of a lane.
//!
//! ```text
//! frame    +--------+------+------+-------+-- ... --+
//!          | length | kind | lane | epoch | body    |     4 + 1 + 1 + 2 bytes, little-endian; `length` counts what
//!          +--------+------+------+-------+-- ... --+     follows it; `epoch` has the low bits of the sender's view
//! batch    +------+------+---------+----------+-------+-----+-- ... --+
//!          | head | from | applied | unstable | count | len | records |    numbers of varying length
//!          +------+------+---------+----------+-------+-----+-- ... --+
//!          head: lowest 4 bits the lane; 0x10, 0x20, 0x40: the first three numbers are there;
//!          0x80: count and what follows it. A count of 0: one record at the next position, no len
//! record   +--------+------+-----+-- ... --+
//!          | length | head | gap | body    |              head: lowest 4 bits which, 0x10: the gap follows, else it
//!          +--------+------+-----+-- ... --+              is 1, 0x20, 0x40, 0x80: optional parts
//! ```
//!
//! A batch of a lane holds everything of `count` positions behind `from` that the receiver is to
//! have: positions that are missing in between are for others. `applied` is what the sender has
//! applied of the receiver's lane, as the distance to what it has said before on the link; `unstable`
//! is how far before `from` all members have applied the sender's. In the place of a frame's lane
//! batches have [`ACKNOWLEDGE_AT_ONCE`] or 0.

mod exec;
mod frame;
mod numbers;
pub(crate) mod positions;
mod record;
#[cfg(test)]
mod tests;

pub use exec::Exec;
pub use frame::{
    ACKNOWLEDGE_AT_ONCE, Batch, Frame, FrameReader, HEADER_LEN, Hello, put_frame, take_batch,
};
pub(crate) use frame::{BatchHead, begin_frame, end_batches, put_batch_head};
pub use record::{
    Parts, Pieces, Record, Tag, Tags, WaitEnd, put_record, put_with_gap, take_with_gap,
};
pub(crate) use record::{is_of_dead, is_ordered, is_shortened, len_with_gap, tag_of_effects};

/// How many lanes there are; the lane of a slot is its lowest four bits.
pub const LANES: usize = 16;

/// Version of what is sent: 3 has changes of value types by the number of the type.
pub const VERSION: u64 = 3;

/// Reads where a copy stands, and writes it again; none if the bytes are something else. For the
/// fuzz target.
#[doc(hidden)]
pub fn positions_again(bytes: &[u8]) -> Option<Vec<u8>> {
    positions::Positions::read(bytes).ok().map(|positions| positions.encode())
}
