//! Structures of an index. None of them knows keys, schemas or queries.

pub mod postings;
pub mod terms;
pub mod texts;
