//! Texts: from bytes to the terms that are indexed.

mod stem;
mod tokens;

pub use stem::{Language, STEMMED_LEN_MIN};
pub use tokens::{STOP_WORDS, Tokens, fold};
