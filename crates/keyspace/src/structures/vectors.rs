//! Vector sets: what stands at a key, what a change of one is, and their part of a snapshot.
//!
//! The set itself is the crate `vector`'s, behind a reference: a search keeps one and lets go of
//! the stripe. Changes are made under the stripe's lock.

use super::image::{ImageElement, ImageId, TakeElement};
use petrel_vector::{EncodedRef, Shape, Snapshot, VectorSet};
use std::sync::Arc;

/// Elements that are handed out at once.
const NODES_AT_ONCE: usize = 64;

/// A vector set at a key.
pub(crate) struct Vectors {
    set: Arc<VectorSet>,
    /// An image that is being taken in portions.
    taking: Option<Box<Taking>>,
}

/// How far an image is.
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

    /// Begins an image of what there is: a snapshot that shares what does not change.
    pub fn begin_image(&mut self, id: ImageId) {
        let snapshot = self.set.snapshot();
        self.taking = Some(Box::new(Taking { id, snapshot, next: 0 }));
    }

    pub fn image_id(&self) -> Option<ImageId> {
        self.taking.as_ref().map(|taking| taking.id)
    }

    /// Gives `take` the next elements of the image; false at the end.
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
    /// An element has this vector from now on. A missing key becomes a set of this shape.
    Put {
        /// What all vectors of the set have in common.
        shape: Shape,
        /// The element.
        name: &'a [u8],
        /// Its vector, as the set keeps it.
        vector: EncodedRef<'a>,
        /// The vector as it was given, 32-bit floats; may be left out (empty) of a set that does
        /// not reduce vectors.
        given: &'a [u8],
        /// Its attributes; empty if it has none, and none if they stay what they are.
        attributes: Option<&'a [u8]>,
        /// How many neighbours are looked at to link it.
        ef: u32,
    },
    /// An element is gone. With the last one goes the key, which is an effect of its own.
    Remove {
        /// The element.
        name: &'a [u8],
    },
    /// An element has these attributes from now on.
    SetAttributes {
        /// The element.
        name: &'a [u8],
        /// The attributes; empty if it has none.
        attributes: &'a [u8],
    },
}
