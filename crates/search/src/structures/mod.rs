//! Structures of an index. None of them knows keys, schemas or queries.

pub mod column;
pub mod documents;
pub mod id_set;
pub mod numbers;
pub mod postings;
pub mod tags;
pub mod terms;
pub mod texts;
