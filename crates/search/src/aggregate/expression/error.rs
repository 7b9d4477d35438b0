//! Errors of an evaluation.

/// The text for the user: a value is missing or does not fit.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct EvalError(pub Vec<u8>);

impl EvalError {
    pub(super) fn new(text: impl Into<Vec<u8>>) -> Self {
        EvalError(text.into())
    }
}
