//! Texts: from bytes to the terms that are indexed.

mod stem;
mod stop_words;
mod tokens;

pub use stem::{Language, STEMMED_LEN_MIN};
pub use stop_words::{STOP_WORDS, StopWords};
pub use tokens::{Tokens, fold};
