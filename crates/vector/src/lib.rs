//! Sets of named vectors, searched by similarity.
//!
//! ```text
//! VectorSet   names, attributes, one lock: readers walk side by side, a writer links alone
//!    │
//!  Graph      nodes by u32: codes and links in chunks; insert, remove, walk (HNSW)
//!    │
//!  Shape      dimensions, links, how a vector becomes a code ── distance ── kernels (AVX2, scalar)
//!
//!  Filter     an expression over an element's JSON attributes
//! ```
//!
//! The crate knows no keys and no protocol. The graph is the hierarchical navigable small world of
//! Malkov and Yashunin (arXiv 1603.09320), with links that always go both ways: a removal knows who
//! points at the node, and an image can be checked.

mod distance;
mod filter;
mod graph;
mod kernels;
mod quantise;
mod rabitq;
mod rotation;
mod set;

/// Whether long work goes on: called now and then, with the work since, in about ten nanoseconds.
pub type GoOn<'g> = &'g mut dyn FnMut(usize) -> bool;

pub use filter::{Filter, SyntaxError};
pub use graph::{Graph, LEVELS_MAX, Links, Near, Walk, link_limit};
pub use quantise::{DIM_MAX, Encoded, EncodedRef, Factors, Quantisation, Query, Shape};
pub use set::image::{ImageError, Loader, NodeImage, Snapshot, SnapshotNode};
pub use set::search::{Hit, Search};
pub use set::{Info, Linked, NotInserted, VectorSet};
