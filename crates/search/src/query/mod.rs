//! The query language: from bytes to a syntax tree.
//!
//! ```text
//! bytes ── lexer ── parser (dialect 1; 2 to 4) ── ast::Node ── explain
//!                                                     │
//!                              expand (stems) ── text_search ── rows ── scores
//! ```

pub mod ast;
mod error;
mod expand;
mod explain;
mod explanation;
pub mod highlight;
mod lexer;
mod matching;
mod numbers;
mod parameters;
mod parser;
mod rows;
mod scores;
pub mod spelling;
mod text_search;

pub use error::{ErrorKind, QueryError};
pub use expand::{Expansion, expand};
pub use explain::explain;
pub use explanation::Explanation;
pub use lexer::unescape;
pub use matching::{EXPANSIONS_MAX, PREFIX_LEN_MIN};
pub use numbers::parse_double;
pub use parameters::Parameters;
pub use parser::{CONDITIONS_MAX, DEPTH_MAX, Fields, Settings, parse};
pub use rows::{BoxedRows, EveryRow, GivenRows, OneRow, OtherRows, Rows, ScoredRows};
pub use scores::{LeafFigures, LeafKind, Scorer, Scoring, hamming};
pub use text_search::{Hit, Memory, Others, TERMS_MAX, TextSearch, union};

/// Dialects of the language.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Dialect {
    /// Operators take everything up to the next operator of the same kind.
    #[default]
    One,
    /// Operators take one item; parameters, vectors, patterns with `?`.
    Two,
    /// As two; JSON values are returned whole.
    Three,
    /// As three; the total may be a lower bound.
    Four,
}

impl Dialect {
    /// The dialect of a number from 1 to 4.
    pub fn of(number: u32) -> Option<Self> {
        Some(match number {
            1 => Self::One,
            2 => Self::Two,
            3 => Self::Three,
            4 => Self::Four,
            _ => return None,
        })
    }

    /// True from dialect 2 on.
    pub fn is_modern(self) -> bool {
        self != Self::One
    }
}
