//! Structures of an index: sets of rows, ordered numbers, tags, columns, the table of documents.
//! Each knows its size in bytes.

pub mod column;
pub mod documents;
pub mod id_set;
pub mod numbers;
pub mod tags;
