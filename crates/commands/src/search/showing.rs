//! Form of the values of JSON documents in replies, by the dialect.

/// Form of the shown values of a path.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Showing {
    /// The first value (dialects 1 and 2).
    First,
    /// All values, as an array (from dialect 3 on).
    All,
}
