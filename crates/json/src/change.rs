//! A single change of a document, as it is made and as it is logged.

use crate::path::Step;
use std::fmt;

/// Steps from the root to a value.
pub type Steps<'a> = Vec<Step<'a>>;

/// Change at a single place.
#[derive(Clone, Copy, Debug)]
pub struct Change<'a> {
    /// From the root to the place.
    pub place: &'a [Step<'a>],
    /// Operation at the place.
    pub op: Op<'a>,
}

impl Change<'_> {
    /// Bytes of it, about.
    pub fn weight(&self) -> usize {
        let steps = self.place.iter().map(|step| match step {
            Step::Name(name) => name.len() + 1,
            Step::Index(_) => 2,
        });
        let values = match self.op {
            Op::Set(values) | Op::Insert { values, .. } => values.len(),
            Op::Remove { .. } => 1,
        };
        values + steps.sum::<usize>()
    }
}

/// Operation of a change.
#[derive(Clone, Copy, Debug)]
pub enum Op<'a> {
    /// The place has this value, of one tape, from now on. A member that does not exist is added.
    Set(&'a [u8]),
    /// Inserts values before the array's element at the place, or after the last element.
    Insert {
        /// Number of values.
        count: usize,
        /// Concatenated tapes of the values.
        values: &'a [u8],
    },
    /// Removes the member at the place, or `count` elements of an array from it on.
    Remove {
        /// Number of elements.
        count: usize,
    },
}

/// Reason that a change cannot be made.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Misfit {
    /// The document has no such place.
    NoPlace,
    /// The document would be nested too deep.
    TooDeep,
    /// The document would be too long.
    TooLong,
}

impl fmt::Display for Misfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Misfit::NoPlace => "the document has no such place",
            Misfit::TooDeep => "recursion limit exceeded",
            Misfit::TooLong => "the document would be too long",
        })
    }
}

impl std::error::Error for Misfit {}
