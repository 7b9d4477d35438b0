//! Distances of a query: of its nearest neighbours (`KNN`), and of ranges (`VECTOR_RANGE`).

use crate::index::document::Document;
use crate::index::schema::{FieldKind, Schema, Unsuitable};
use crate::query::ast::{Bytes, Knn, Node, NodeKind, VectorArgument, VectorOption, VectorRange};
use crate::vectors::{QueryVector, VectorSpec};
use std::sync::Arc;

/// Bytes of vectors that are compared in the time of a row.
const BYTES_PER_ROW: usize = 512;

/// A distance that is returned with each document.
#[derive(Clone, Debug, PartialEq)]
pub struct Distance {
    /// Name of the distance.
    pub name: Bytes,
    /// Vector and field.
    pub near: Near,
}

/// The vector of a query, and the vectors that it is compared with.
#[derive(Clone, Debug, PartialEq)]
pub struct Near {
    /// The field.
    pub field: usize,
    /// Largest distance; none if every vector counts.
    pub radius: Option<f64>,
    /// The vector.
    pub vector: Arc<QueryVector>,
}

/// Neighbours and distances of a query.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct VectorQuery {
    /// Number of nearest neighbours to find; none if the query asks for a condition only.
    pub neighbours: Option<usize>,
    /// Whether these are among all documents, which have no scores then.
    pub is_unfiltered: bool,
    /// Bytes of vectors that are compared for each document.
    pub bytes: usize,
    /// Distances of each document: that of the neighbours first, if they are asked for.
    pub distances: Vec<Distance>,
}

impl Near {
    /// Distance of a document; none if it has no vector within the radius.
    pub fn distance(&self, document: &(impl Document + ?Sized)) -> Option<f64> {
        let mut distance = None;
        document.vector(self.field, &mut |vector| distance = Some(self.vector.distance(vector)));
        distance.filter(|distance| self.radius.is_none_or(|radius| *distance <= radius))
    }
}

impl VectorQuery {
    /// Resolves the vectors of a query: `knn` is its root, if it asks for neighbours, and `filter`
    /// the condition on documents.
    ///
    /// # Errors
    /// If options or vectors do not suit their fields, or names are in use.
    pub fn of(knn: Option<&Knn>, filter: &Node, schema: &Schema) -> Result<Self, Unsuitable> {
        let mut query = VectorQuery::default();
        if let Some(knn) = knn {
            query.neighbours = Some(knn.k);
            query.is_unfiltered = filter.kind == NodeKind::Everything;
            if let Some((field, spec)) = field_of(&knn.field, schema) {
                let vector = vector_of(&knn.vector, spec)?;
                let is_hybrid = !query.is_unfiltered;
                check_options(&knn.options, Use::Neighbours { is_hybrid })?;
                query.bytes += spec.bytes();
                let near = Near { field, vector, radius: None };
                query.add(&knn.score_field, near, schema)?;
            }
        }
        query.add_ranges(filter, schema)?;
        Ok(query)
    }

    /// Number of rows that are walked in the time of `rows` rows without vectors.
    pub fn rows_in_time(&self, rows: u32) -> u32 {
        let divisor = u32::try_from(1 + self.bytes / BYTES_PER_ROW).unwrap_or(u32::MAX);
        (rows / divisor).max(1)
    }

    /// The distance with a name.
    pub fn find(&self, name: &[u8]) -> Option<usize> {
        self.distances.iter().position(|distance| *distance.name == *name)
    }

    fn add(&mut self, name: &[u8], near: Near, schema: &Schema) -> Result<(), Unsuitable> {
        let why = match () {
            () if schema.field(name).is_some() => "already exists in schema",
            () if self.find(name).is_some() => "specified more than once",
            () => {
                self.distances.push(Distance { name: name.into(), near });
                return Ok(());
            }
        };
        Err(Unsuitable(format!("Property `{}` {why}", String::from_utf8_lossy(name))))
    }

    fn add_ranges(&mut self, node: &Node, schema: &Schema) -> Result<(), Unsuitable> {
        match &node.kind {
            NodeKind::Intersection(nodes) | NodeKind::Phrase(nodes) | NodeKind::Union(nodes) => {
                nodes.iter().try_for_each(|node| self.add_ranges(node, schema))
            }
            NodeKind::Not(node) | NodeKind::Optional(node) => self.add_ranges(node, schema),
            NodeKind::VectorRange(range) => {
                let Some(near) = near_of(range, schema)? else { return Ok(()) };
                self.bytes += near.vector.spec.bytes();
                match &range.score_field {
                    Some(name) => self.add(name, near, schema),
                    None => Ok(()),
                }
            }
            _ => Ok(()),
        }
    }
}

/// Resolves a range; none if there is no such field.
///
/// # Errors
/// If options or vectors do not suit the field.
pub fn near_of(range: &VectorRange, schema: &Schema) -> Result<Option<Near>, Unsuitable> {
    let Some((field, spec)) = field_of(&range.field, schema) else { return Ok(None) };
    let vector = vector_of(&range.vector, spec)?;
    if range.radius < 0.0 {
        let radius = range.radius;
        return Err(Unsuitable(format!(
            "Error parsing vector similarity query: negative radius ({radius}) given in a range \
             query"
        )));
    }
    check_options(&range.options, Use::Range)?;
    Ok(Some(Near { field, vector, radius: Some(range.radius) }))
}

fn field_of<'s>(name: &[u8], schema: &'s Schema) -> Option<(usize, &'s VectorSpec)> {
    let number = schema.field(name)?;
    match &schema.fields[number].kind {
        FieldKind::Vector(spec) => Some((number, spec)),
        _ => None,
    }
}

fn vector_of(vector: &VectorArgument, spec: &VectorSpec) -> Result<Arc<QueryVector>, Unsuitable> {
    QueryVector::new(spec, &vector.bytes).ok_or_else(|| {
        let (len, expected) = (vector.bytes.len(), spec.bytes());
        Unsuitable(format!(
            "Error parsing vector similarity query: query vector blob size ({len}) does not match \
             index's expected size ({expected})."
        ))
    })
}

/// Places of options.
#[derive(Clone, Copy, Eq, PartialEq)]
enum Use {
    Neighbours { is_hybrid: bool },
    Range,
}

/// Checks the options of a search. They choose between ways to the same result.
fn check_options(options: &[VectorOption], place: Use) -> Result<(), Unsuitable> {
    const INVALID: &str = "Invalid value was given";
    let bad = |why| Err(Unsuitable(format!("Error parsing vector similarity parameters: {why}")));
    let (mut batch_size, mut policy) = (None, None);
    for VectorOption { name, value } in options {
        let text = String::from_utf8_lossy(value);
        let is_hybrid = place == Use::Neighbours { is_hybrid: true };
        match &*name.to_ascii_uppercase() {
            b"BATCH_SIZE" | b"HYBRID_POLICY" if !is_hybrid => {
                return bad("hybrid query attributes were sent for a non-hybrid query");
            }
            b"BATCH_SIZE" => match text.parse::<u64>() {
                _ if batch_size.is_some() => return bad("Parameter was specified twice"),
                Ok(size) if size > 0 => batch_size = Some(size),
                _ => return bad(INVALID),
            },
            b"HYBRID_POLICY" => match &*value.to_ascii_uppercase() {
                _ if policy.is_some() => return bad("Parameter was specified twice"),
                b"ADHOC_BF" => policy = Some(true),
                b"BATCHES" => policy = Some(false),
                _ => return bad("invalid hybrid policy was given"),
            },
            _ => return bad("Invalid option"),
        }
    }
    match policy == Some(true) && batch_size.is_some() {
        true => bad("'batch size' is irrelevant for 'ADHOC_BF' policy"),
        false => Ok(()),
    }
}
