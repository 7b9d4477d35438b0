//! Contents of a VECTOR field.

use crate::index::document::Value;
use crate::index::field::Misfit;
use crate::structures::graph_vectors::{GraphOptions, GraphVectors, Planned};
use crate::structures::id_set::IdSet;
use crate::structures::vectors::Vectors;
use crate::vectors::{Algorithm, Metric, VectorSpec};

/// Vectors, and the documents without one.
#[derive(Debug)]
pub struct VectorStore {
    spec: VectorSpec,
    /// Documents without the field, if they can be searched.
    pub(super) missing: Option<IdSet>,
    vectors: Structure,
}

#[derive(Debug)]
enum Structure {
    Flat(Vectors),
    Graph(Box<GraphVectors>),
}

impl VectorStore {
    /// Contents before the first document. `missing` has the documents without the field, if they
    /// can be searched.
    pub fn new(spec: &VectorSpec, missing: Option<IdSet>) -> Self {
        let vectors = match &spec.algorithm {
            Algorithm::Flat => Structure::Flat(Vectors::new(spec.bytes())),
            Algorithm::Hnsw(hnsw) => Structure::Graph(Box::new(GraphVectors::new(&GraphOptions {
                element: spec.element,
                dim: spec.dim,
                is_square: spec.metric == Metric::L2,
                links: hnsw.links,
                candidates: hnsw.ef_construction,
            }))),
        };
        VectorStore { spec: spec.clone(), missing, vectors }
    }

    /// The definition of the field.
    pub fn spec(&self) -> &VectorSpec {
        &self.spec
    }

    /// The vectors as a graph, if they are one.
    pub fn graph(&self) -> Option<&GraphVectors> {
        match &self.vectors {
            Structure::Flat(_) => None,
            Structure::Graph(graph) => Some(graph),
        }
    }

    /// The vector of a row, in the form in which it is compared.
    #[inline]
    pub fn get(&self, row: u32) -> Option<&[u8]> {
        match &self.vectors {
            Structure::Flat(vectors) => vectors.get(row),
            Structure::Graph(graph) => graph.get(row),
        }
    }

    /// The vector of a row as a value.
    pub fn value(&self, row: u32) -> Value {
        self.get(row).map_or(Value::Missing, |vector| Value::Vector(vector.into()))
    }

    /// Number of vectors.
    pub fn len(&self) -> usize {
        match &self.vectors {
            Structure::Flat(vectors) => vectors.len(),
            Structure::Graph(graph) => graph.len(),
        }
    }

    /// Whether there are no vectors.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes on the heap.
    pub fn footprint(&self) -> usize {
        match &self.vectors {
            Structure::Flat(vectors) => vectors.footprint(),
            Structure::Graph(graph) => graph.footprint(),
        }
    }

    /// Whether a row has no vector.
    pub fn is_missing(&self, row: u32) -> bool {
        self.get(row).is_none()
    }

    /// The reason for which a text does not fit.
    pub fn misfit(&self, text: &[u8]) -> Vec<u8> {
        let (len, expected) = (text.len(), self.spec.bytes());
        format!("Could not add vector with blob size {len} (expected size {expected})").into()
    }

    /// Replaces the vector of a row by that of a document; `None` removes it.
    ///
    /// # Errors
    /// If its length is wrong. The value is removed then.
    pub fn set_text(&mut self, row: u32, text: Option<&[u8]>) -> Result<(), Misfit> {
        let Some(text) = text else {
            self.set(row, None);
            return Ok(());
        };
        let spec = self.spec.clone();
        match spec.prepare(text, |vector| self.set(row, Some(vector))) {
            true => Ok(()),
            false => {
                self.set(row, None);
                Err(Misfit)
            }
        }
    }

    /// Replaces the vector of a row, in the form in which it is compared.
    pub fn set(&mut self, row: u32, vector: Option<&[u8]>) {
        match (&mut self.vectors, vector) {
            (Structure::Flat(vectors), Some(vector)) => vectors.set(row, vector),
            (Structure::Flat(vectors), None) => {
                vectors.remove(row);
            }
            (Structure::Graph(graph), Some(vector)) => {
                graph.set(row, vector);
            }
            (Structure::Graph(graph), None) => {
                graph.remove(row);
            }
        }
        if let Some(missing) = &mut self.missing {
            match vector.is_none() {
                true => missing.insert(row),
                false => missing.remove(row),
            };
        }
    }

    /// Finds the links of a vector that is about to be set; none if there are no links to find.
    /// `row` is that of the document, if it is there already.
    pub fn plan(&self, row: Option<u32>, text: &[u8]) -> Option<Planned> {
        let graph = self.graph()?;
        let mut planned = None;
        self.spec.prepare(text, |vector| {
            if !row.is_some_and(|row| graph.has(row, vector)) {
                planned = Some(graph.plan(vector));
            }
        });
        planned
    }

    /// Takes links of a vector that is about to be set; none to forget unused ones.
    pub fn expect(&mut self, planned: Option<Planned>) {
        if let Structure::Graph(graph) = &mut self.vectors {
            graph.expect(planned);
        }
    }

    /// Moves the vector of a row to a row without one.
    pub fn rename(&mut self, row: u32, new: u32) {
        match &mut self.vectors {
            Structure::Flat(vectors) => vectors.rename(row, new),
            Structure::Graph(graph) => graph.rename(row, new),
        }
    }

    /// Frees a page of rows that will not be used again.
    pub fn drop_page(&mut self, page: usize) {
        match &mut self.vectors {
            Structure::Flat(vectors) => vectors.drop_page(page),
            Structure::Graph(graph) => graph.drop_page(page),
        }
    }
}
