//! Vector sets: the structure at a key, and its part of a snapshot.
//!
//! The set itself is that of the crate `vector`, behind a reference: a search keeps one and lets go
//! of the stripe. Changes are made under the stripe's lock.
//!
//! | file | holds |
//! |---|---|
//! | `mod` | the structure |
//! | `change` | changes: made, encoded and decoded, and as commands |
//! | `rdb` | the table row of the type, and the form in RDB files |

pub(crate) mod change;
pub(crate) mod rdb;

use super::custom::{Chunk, CustomValue, ModuleWriter, TakeChunk};
use petrel_vector::{Snapshot, SnapshotNode, VectorSet};
use std::sync::Arc;

/// Elements that are handed out at once.
const NODES_AT_ONCE: usize = 64;

/// A vector set at a key.
pub(crate) struct Vectors {
    set: Arc<VectorSet>,
    /// The snapshot that is being taken.
    taking: Option<Box<Taking>>,
}

/// The progress of a snapshot.
struct Taking {
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
}

impl CustomValue for Vectors {
    fn memory_usage(&self) -> usize {
        size_of::<Self>() + self.set.footprint()
    }

    fn free_effort(&self) -> usize {
        self.set.len()
    }

    fn duplicate(&self) -> Box<dyn CustomValue> {
        Box::new(Vectors::new(self.set.duplicate()))
    }

    /// Keeps a snapshot that shares what does not change.
    fn begin_snapshot(&mut self) {
        self.taking = Some(Box::new(Taking { snapshot: self.set.snapshot(), next: 0 }));
    }

    fn next_chunk(&mut self, take: &mut TakeChunk<'_>) -> bool {
        let Some(taking) = &mut self.taking else { return false };
        let has_attributes = taking.snapshot.has_attributes();
        let mut given = 0;
        for node in taking.snapshot.nodes_from(taking.next) {
            taking.next = node.node() + 1;
            given += 1;
            let element = Element { node, has_attributes };
            if take(&element).is_break() || given == NODES_AT_ONCE {
                return true;
            }
        }
        self.taking = None;
        false
    }
}

/// An element of a snapshot.
#[derive(Debug)]
struct Element<'s> {
    node: SnapshotNode<'s>,
    has_attributes: bool,
}

impl Chunk for Element<'_> {
    fn write(&self, out: &mut dyn ModuleWriter) {
        rdb::write_element(&self.node, self.has_attributes, out);
    }
}
