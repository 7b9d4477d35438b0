//! The query language: from bytes to a syntax tree.

pub mod ast;
