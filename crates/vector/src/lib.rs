//! Vector sets: named vectors, searched by similarity (HNSW).
//!
//! ```text
//! VectorSet   names, attributes, one lock: readers run concurrently, a writer links exclusively
//!    │
//!  Graph      nodes by u32: codes and links in chunks; insert, remove, walk (HNSW)
//!    │
//!  Shape      dimensions, links, quantisation to codes ── distance ── kernels (AVX2, scalar)
//!
//!  Filter     an expression over an element's JSON attributes
//! ```
//!
//! The crate knows no keys and no protocol. The graph is the hierarchical navigable small world of
//! Malkov and Yashunin (arXiv 1603.09320), with links that always go both ways: a removal knows
//! every node that links to the removed one, and a loaded snapshot can be checked.

mod distance;
mod filter;
mod graph;
mod kernels;
mod quantise;
mod rabitq;
mod rotation;
mod set;

/// Callback that decides whether long work continues. It is called regularly with the work done
/// since, in units of about ten nanoseconds.
pub type GoOn<'g> = &'g mut dyn FnMut(usize) -> bool;

pub use filter::{Filter, SyntaxError};
pub use graph::{Graph, LEVELS_MAX, Links, Near, Plan, Walk, link_limit};
pub use kernels::floats::Element;
pub use quantise::{DIM_MAX, Encoded, EncodedRef, Factors, Quantisation, Query, Shape};
pub use set::search::{Hit, Search};
pub use set::snapshot::{LoadError, Loader, Snapshot, SnapshotItem, SnapshotNode};
pub use set::{Info, Linked, NotInserted, VectorSet};
