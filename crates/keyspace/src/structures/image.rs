//! Elements that collections pass to a snapshot, in portions.

use super::custom::Chunk;
use super::stream::{GroupHead, PendingHead, Stream, StreamId, StreamNode};
use std::ops::ControlFlow;

/// Identifies the snapshot of a collection that is taken in portions.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct ImageId(pub u64);

/// An element of a collection as of the snapshot's begin.
#[derive(Clone, Copy, Debug)]
pub enum ImageElement<'e> {
    /// Element of a list; passed from the first to the last.
    Item(&'e [u8]),
    /// Member of a set.
    Member(&'e [u8]),
    /// Member of a sorted set with its score.
    Scored(&'e [u8], f64),
    /// Field of a hash: name, value, and expiry in Unix milliseconds, which may have passed.
    Field(&'e [u8], &'e [u8], Option<i64>),
    /// Node of a stream with some of its entries; passed from the first to the last.
    Node(StreamNode<'e>),
    /// Properties of a stream, the ID of its first entry, and the number of its groups: after its
    /// nodes.
    StreamState(&'e Stream, StreamId, usize),
    /// A group of a stream, by name.
    Group(&'e GroupHead),
    /// A pending entry of the last [`ImageElement::Group`], by ID.
    Pending(PendingHead),
    /// A pending entry that was given back, in the order of giving back: after all others of the
    /// group.
    GivenBack(StreamId),
    /// All other properties of the stream: after its groups.
    StreamRest(&'e Stream),
    /// A part of a value of a value type.
    Custom(&'e dyn Chunk),
}

/// Takes elements; breaks once it has enough for one hold of the stripe.
pub type TakeElement<'t> = dyn FnMut(ImageElement<'_>) -> ControlFlow<()> + 't;
