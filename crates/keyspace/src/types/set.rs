//! Sets.

use crate::dict::Dict;
use crate::heap::Cache;

/// A set of many members.
pub(crate) struct Set {
    /// The members.
    pub members: Dict,
    /// `OBJECT ENCODING`.
    pub encoding: &'static str,
}

impl Set {
    /// `OBJECT ENCODING`.
    pub fn encoding(&self) -> &'static str {
        self.encoding
    }

    /// Number of members.
    pub fn len(&self) -> usize {
        self.members.len()
    }

    /// Bytes behind this struct.
    pub fn footprint(&self) -> usize {
        self.members.footprint()
    }

    /// A copy that shares nothing.
    pub fn duplicate(&self, cache: &mut Cache) -> Self {
        Set { members: self.members.duplicate(cache), encoding: self.encoding }
    }

    /// Frees every member.
    pub fn release(self, cache: &mut Cache) {
        self.members.release(cache);
    }
}
