//! The choices of the query engine.

use super::types::{choice, not_among};
use super::value::{Invalid, Rule, Value, single};

choice! {
    /// Reaction of a query to its timeout.
    OnTimeout {
        /// Return the result so far.
        Return = "return",
        /// Fail.
        Fail = "fail",
    }
}

choice! {
    /// Reaction of an aggregation to an exceeded memory limit.
    OnOom {
        /// Continue.
        Ignore = "ignore",
        /// Return the result so far.
        Return = "return",
        /// Fail.
        Fail = "fail",
    }
}
