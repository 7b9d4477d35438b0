//! Structures of an index. None of them knows keys, schemas or queries.

mod arena;
pub mod column;
pub mod documents;
mod hash_table;
pub mod id_set;
pub mod numbers;
mod paged;
mod pool;
pub mod postings;
pub mod tags;
pub mod terms;
pub mod texts;
pub mod vectors;
