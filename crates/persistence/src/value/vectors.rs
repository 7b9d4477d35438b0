//! Vector sets: fed to a sink, and built from the items fed to one.

use super::build::TWICE;
use crate::rdb::{Error, Shape, ValueSink, Vector, VectorLevel};
use petrel_vector::{LoadError, Loader, Snapshot, SnapshotItem, SnapshotNode, VectorSet};

/// The shape of a set.
pub(super) fn shape(snapshot: &Snapshot) -> Shape {
    let has_attributes = snapshot.has_attributes();
    Shape::VectorSet { shape: *snapshot.shape(), len: snapshot.len(), has_attributes }
}

/// Feeds a set to a sink.
pub(super) fn feed(set: &VectorSet, sink: &mut impl ValueSink) -> Result<(), Error> {
    let snapshot = set.snapshot();
    sink.begin(shape(&snapshot))?;
    snapshot.nodes_from(0).try_for_each(|node| feed_node(node, sink))
}

/// Feeds an element. Its number is that of its node, and one more, since none is 0.
pub(super) fn feed_node(node: SnapshotNode<'_>, sink: &mut impl ValueSink) -> Result<(), Error> {
    let number = |node: u32| u64::from(node) + 1;
    let level = |level| {
        let (distance, at) = node.farthest(level);
        VectorLevel {
            links: node.links(level).iter().map(number).collect(),
            limit: node.link_limit(level) as u64,
            farthest: (distance, at as u32),
        }
    };
    let levels: Vec<VectorLevel> = (0..=node.level()).map(level).collect();
    sink.vector(&Vector {
        number: number(node.node()),
        name: node.name(),
        attributes: node.attributes().unwrap_or_default(),
        vector: node.vector(),
        levels: &levels,
    })
}

/// Makes a set of its elements.
pub(super) struct VectorsBuilder {
    loader: Loader,
    left: usize,
}

impl VectorsBuilder {
    pub fn new(shape: petrel_vector::Shape, len: usize, seed: u64) -> Result<Self, Error> {
        let loader = Loader::new(shape, seed).map_err(refused)?;
        Ok(VectorsBuilder { loader, left: len })
    }

    /// Takes an element; true if it was the last.
    pub fn vector(&mut self, vector: &Vector<'_>) -> Result<bool, Error> {
        let levels: Vec<Vec<u64>> = vector.levels.iter().map(|level| level.links.clone()).collect();
        let attributes = Some(vector.attributes).filter(|text| !text.is_empty());
        let image = SnapshotItem {
            number: vector.number,
            name: vector.name,
            attributes,
            vector: vector.vector,
            levels: &levels,
        };
        self.loader.push(&image).map_err(refused)?;
        self.left = self.left.saturating_sub(1);
        Ok(self.left == 0)
    }

    pub fn finish(self) -> Result<VectorSet, Error> {
        self.loader.finish().map_err(refused)
    }
}

fn refused(error: LoadError) -> Error {
    match error {
        LoadError::DoubledName => TWICE,
        LoadError::Shape => Error::Refused("the shape of a vector set is out of range"),
        LoadError::OneWayLink => Error::Refused("a link of a vector set does not lead back"),
        LoadError::DoubledLink => Error::Refused("a link of a vector set is there twice"),
        LoadError::LinkTarget => Error::Refused("a link of a vector set leads nowhere"),
        LoadError::LinkCount => Error::Refused("an element of a vector set has too many links"),
        LoadError::DoubledNumber | LoadError::NumberZero => {
            Error::Refused("the numbers of a vector set's elements are not distinct, or one is 0")
        }
        LoadError::CodeLength | LoadError::Levels => {
            Error::Refused("an element of a vector set does not fit it")
        }
        LoadError::Empty => Error::Refused("a vector set without elements"),
        LoadError::TooMany => Error::Refused("a vector set with too many elements"),
    }
}
