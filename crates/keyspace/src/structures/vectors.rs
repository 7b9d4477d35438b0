//! Vector sets: the value of a key, its changes, and its part of a snapshot.
//!
//! The set itself is the crate `vector`'s, behind a reference: a search keeps a reference and
//! unlocks the stripe. Changes are made under the stripe's lock.

use super::image::{ImageElement, ImageId, TakeElement};
use petrel_vector::{EncodedRef, Shape, Snapshot, VectorSet};
use std::sync::Arc;

/// Elements taken at once.
const NODES_AT_ONCE: usize = 64;

/// A vector set at a key.
pub(crate) struct Vectors {
    set: Arc<VectorSet>,
    /// A running snapshot, taken in portions.
    taking: Option<Box<Taking>>,
}

/// Progress of a snapshot.
struct Taking {
    id: ImageId,
    snapshot: Snapshot,
    next: u32,
}

impl Vectors {
    pub fn new(set: VectorSet) -> Self {
        Vectors { set: Arc::new(set), taking: None }
    }

    #[inline]
    pub fn set(&self) -> &Arc<VectorSet> {
        &self.set
    }

    pub fn duplicate(&self) -> Self {
        Vectors::new(self.set.duplicate())
    }

    /// Begins a snapshot of the present state, which shares unchanged data.
    pub fn begin_image(&mut self, id: ImageId) {
        let snapshot = self.set.snapshot();
        self.taking = Some(Box::new(Taking { id, snapshot, next: 0 }));
    }

    pub fn image_id(&self) -> Option<ImageId> {
        self.taking.as_ref().map(|taking| taking.id)
    }

    /// Passes the next elements of the snapshot to `take`; false at the end.
    pub fn continue_image(&mut self, take: &mut TakeElement<'_>) -> bool {
        let Some(taking) = &mut self.taking else { return false };
        let mut given = 0;
        for node in taking.snapshot.nodes_from(taking.next) {
            taking.next = node.node() + 1;
            given += 1;
            if take(ImageElement::Vector(node)).is_break() || given == NODES_AT_ONCE {
                return true;
            }
        }
        self.taking = None;
        false
    }
}

/// A change of a vector set.
#[derive(Clone, Copy, Debug)]
pub enum VectorChange<'a> {
    /// An element gets this vector. A missing key becomes a set of this shape.
    Put {
        /// Properties common to all vectors of the set.
        shape: Shape,
        /// The element.
        name: &'a [u8],
        /// Vector as encoded by the set.
        vector: EncodedRef<'a>,
        /// The original vector, 32-bit floats; may be empty for a set without dimension reduction.
        given: &'a [u8],
        /// Attributes as JSON; empty for none, and none if they stay the same.
        attributes: Option<&'a [u8]>,
        /// Number of neighbours examined to link the vector.
        ef: u32,
    },
    /// An element was removed. The removal of the key with the last one is an effect of its own.
    Remove {
        /// The element.
        name: &'a [u8],
    },
    /// The attributes of an element were set.
    SetAttributes {
        /// The element.
        name: &'a [u8],
        /// The attributes as JSON; empty for none.
        attributes: &'a [u8],
    },
}
