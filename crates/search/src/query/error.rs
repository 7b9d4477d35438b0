//! Errors of a query.

use std::fmt;

/// Classes of errors; each has a code in replies.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum ErrorKind {
    /// The query does not follow the grammar, or is nested too deeply.
    Syntax,
    /// A value is not valid for its attribute.
    InvalidValue,
    /// An attribute does not exist.
    UnknownAttribute,
    /// A parameter was not given.
    UnknownParameter,
    /// A number is needed.
    NotNumeric,
    /// The field's definition does not allow the condition.
    Field,
}

/// A refused query.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct QueryError {
    /// Class of the error.
    pub kind: ErrorKind,
    /// The text for the user; contains bytes of the query.
    pub text: Vec<u8>,
}

impl QueryError {
    /// An error with a text made of parts.
    pub fn new(kind: ErrorKind, parts: &[&[u8]]) -> Self {
        Self { kind, text: parts.concat() }
    }

    /// `Syntax error at offset 3 near word`
    pub fn syntax(position: usize, near: &[u8]) -> Self {
        let offset = position.to_string();
        let parts: [&[u8]; 4] = [b"Syntax error at offset ", offset.as_bytes(), b" near ", near];
        Self::new(ErrorKind::Syntax, &parts)
    }

    /// A query nested more than [`super::DEPTH_MAX`] deep.
    pub fn too_deep() -> Self {
        let text = b"Parser stack overflow. Try moving nested parentheses more to the left";
        Self::new(ErrorKind::Syntax, &[text])
    }
}

impl fmt::Display for QueryError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&String::from_utf8_lossy(&self.text))
    }
}

impl std::error::Error for QueryError {}
