//! Texts: from bytes to the terms that are indexed.

mod stem;
mod stop_words;
mod synonyms;
mod tokens;

pub use stem::{Language, STEMMED_LEN_MIN};
pub use stop_words::{STOP_WORDS, StopWords};
pub use synonyms::Synonyms;
pub(crate) use synonyms::{is_group, is_term_of_word};
pub use tokens::{Tokens, fold, is_separator};
