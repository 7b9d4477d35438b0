//! The query engine: indexes of documents, and the language that searches them.
//!
//! ```text
//! text         tokens of a text, stems, phonetic codes
//! vectors      formats and distances of vectors
//! structures   rows, terms, postings, numbers, tags, vectors
//! index        schema, changes of documents, vacuum
//! query        lexer, parsers, syntax tree, plan, iterators, scorers
//! aggregate    expressions, groups, sorts
//! ```
//!
//! Each folder imports only from those above it. The crate knows no keys, no protocol and no lock
//! of a keyspace.

pub mod aggregate;
pub mod index;
pub mod query;
pub mod structures;
pub mod text;
pub mod vectors;
