//! What collections hand out while a snapshot is being taken of them, in portions.

use super::custom::Chunk;
use super::stream::{GroupHead, PendingHead, Stream, StreamId, StreamNode};
use std::ops::ControlFlow;

/// Names the snapshot in portions that is being taken of a collection.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct ImageId(pub u64);

/// An element of a collection as it was at the image's moment.
#[derive(Clone, Copy, Debug)]
pub enum ImageElement<'e> {
    /// Of a list, from the first to the last.
    Item(&'e [u8]),
    /// Of a set.
    Member(&'e [u8]),
    /// Of a sorted set.
    Scored(&'e [u8], f64),
    /// Of a hash: name, value, and expiry in Unix milliseconds, which may have passed.
    Field(&'e [u8], &'e [u8], Option<i64>),
    /// Of a stream: some of its entries, from the first to the last.
    Node(StreamNode<'e>),
    /// What the stream is, the ID of its first entry, and the number of its groups: behind its
    /// nodes.
    StreamState(&'e Stream, StreamId, usize),
    /// A group of a stream, by name.
    Group(&'e GroupHead),
    /// A pending entry of the group in hand, by ID.
    Pending(PendingHead),
    /// One of them that was given back, in the order in which they were: behind all of the group.
    GivenBack(StreamId),
    /// All else that the stream has: behind its groups.
    StreamRest(&'e Stream),
    /// A part of a value of a value type.
    Custom(&'e dyn Chunk),
}

/// Takes elements; says when it has enough for one hold of the stripe.
pub type TakeElement<'t> = dyn FnMut(ImageElement<'_>) -> ControlFlow<()> + 't;
