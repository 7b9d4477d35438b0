//! Key specs: where in a command's arguments its keys are, and what happens to them. The terms are
//! those of <https://redis.io/docs/latest/develop/reference/key-specs/>.

use crate::bitset;
use std::ops::Range;

bitset! {
    /// Effect of a command on the keys of one key spec.
    KeyFlags: u16 {
        /// Reads the value without changing it.
        RO = 0 "RO",
        /// Changes the value; the result depends on the old value.
        RW = 1 "RW",
        /// Overwrites the value, whatever it was.
        OW = 2 "OW",
        /// Removes the key, whatever it held.
        RM = 3 "RM",
        /// Returns or uses the user's data in the value.
        ACCESS = 4 "access",
        /// Updates user data; the result may depend on the old value.
        UPDATE = 5 "update",
        /// Adds user data; no chance of deleting or changing any.
        INSERT = 6 "insert",
        /// Deletes user data from the value, or the value.
        DELETE = 7 "delete",
        /// Not a key, yet routed as one (shard channels).
        NOT_KEY = 8 "not_key",
        /// The spec may not find every key.
        INCOMPLETE = 9 "incomplete",
        /// The flags of a call depend on its arguments; see [`KeySpec::narrow`].
        VARIABLE_FLAGS = 10 "variable_flags",
    }
}

/// Start of the search for keys.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum BeginSearch {
    /// Cannot be said in these terms.
    Unknown,
    /// At this argument; the command's name is argument 0.
    Index(u16),
    /// After a keyword.
    Keyword {
        /// The keyword, upper case, matched in any case.
        keyword: &'static str,
        /// The argument at which to begin looking for it; negative counts from the end and looks
        /// backwards.
        start: i16,
    },
}

/// Arguments that are keys, from the start of the search.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum FindKeys {
    /// Cannot be said in these terms.
    Unknown,
    /// A run of arguments.
    Range {
        /// The last key, relative to the first; negative counts from the last argument (-1).
        last: i16,
        /// Distance of neighbouring keys.
        step: u16,
        /// With `last` -1 and a limit over 1: only the first 1/limit of the arguments left.
        limit: u16,
    },
    /// A count, and that many keys.
    KeyNum {
        /// Position of the count, relative to the start.
        count: u16,
        /// Position of the first key, relative to the start.
        first: u16,
        /// Distance of neighbouring keys.
        step: u16,
    },
}

/// Tells the flags of a call from its arguments.
pub type NarrowFlags = fn(&[&[u8]]) -> KeyFlags;

/// Tells which arguments of a call are its keys, one beside the other.
pub type LocateKeys = fn(&[&[u8]]) -> Range<usize>;

/// A way in which a command names keys; a command may have several.
#[derive(Clone, Copy, Debug)]
pub struct KeySpec {
    /// Start of the search.
    pub begin: BeginSearch,
    /// Arguments from there that are keys.
    pub find: FindKeys,
    /// Effect on the keys.
    pub flags: KeyFlags,
    /// A remark for the reader, or empty.
    pub notes: &'static str,
    /// For [`KeyFlags::VARIABLE_FLAGS`]: the flags of a call, given its arguments.
    pub narrow: Option<NarrowFlags>,
    /// A function that finds the keys by reading the arguments as the command does, where the
    /// search in the terms of the spec can find wrong ones.
    pub locate: Option<LocateKeys>,
}

impl KeySpec {
    /// The keys `first ..= first + last` (or up to the end, `last` negative) in steps of `step`.
    pub const fn range(first: u16, last: i16, step: u16, flags: KeyFlags) -> Self {
        let find = FindKeys::Range { last, step, limit: 0 };
        Self::new(BeginSearch::Index(first), find, flags)
    }

    /// The one key at argument `index`.
    pub const fn at(index: u16, flags: KeyFlags) -> Self {
        Self::range(index, 0, 1, flags)
    }

    /// A count at argument `index`, followed by that many keys, `step` apart.
    pub const fn counted(index: u16, step: u16, flags: KeyFlags) -> Self {
        let find = FindKeys::KeyNum { count: 0, first: 1, step };
        Self::new(BeginSearch::Index(index), find, flags)
    }

    /// The argument that is the first key, where that depends on no other.
    pub fn first(&self) -> Option<usize> {
        let BeginSearch::Index(begin) = self.begin else { return None };
        match self.find {
            FindKeys::Unknown => None,
            FindKeys::Range { .. } => Some(begin.into()),
            FindKeys::KeyNum { first, .. } => Some(usize::from(begin) + usize::from(first)),
        }
    }

    /// Whether the arguments say which keys there are.
    pub const fn is_known(&self) -> bool {
        !matches!(self.begin, BeginSearch::Unknown) && !matches!(self.find, FindKeys::Unknown)
    }

    /// Keys that no spec can describe.
    pub const fn unknown(flags: KeyFlags) -> Self {
        Self::new(BeginSearch::Unknown, FindKeys::Unknown, flags)
    }

    /// The first 1/`limit` of the arguments behind a keyword, which is looked for from argument
    /// `start` on.
    pub const fn after_keyword(
        keyword: &'static str,
        start: i16,
        limit: u16,
        flags: KeyFlags,
    ) -> Self {
        let find = FindKeys::Range { last: -1, step: 1, limit };
        Self::new(BeginSearch::Keyword { keyword, start }, find, flags)
    }

    /// The keys found by these two, of which nothing more is said.
    pub const fn new(begin: BeginSearch, find: FindKeys, flags: KeyFlags) -> Self {
        Self { begin, find, flags, notes: "", narrow: None, locate: None }
    }

    /// Sets the remark.
    pub const fn notes(self, notes: &'static str) -> Self {
        Self { notes, ..self }
    }

    /// Makes the flags depend on the arguments of the call.
    pub const fn narrowed_by(self, narrow: NarrowFlags) -> Self {
        let flags = self.flags.with(KeyFlags::VARIABLE_FLAGS);
        Self { flags, narrow: Some(narrow), ..self }
    }

    /// Lets a function find the keys.
    pub const fn located_by(self, locate: LocateKeys) -> Self {
        Self { locate: Some(locate), ..self }
    }

    /// Whether this is argument 1 and nothing else.
    pub const fn is_first_argument(&self) -> bool {
        matches!(self.begin, BeginSearch::Index(1))
            && matches!(self.find, FindKeys::Range { last: 0, .. })
    }
}

/// First key, last key and step: all that Redis said of keys before key specs.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct KeyRange {
    /// The first key; 0 if there are none.
    pub first: i32,
    /// The last key; negative counts from the last argument (-1).
    pub last: i32,
    /// Distance of neighbouring keys.
    pub step: i32,
}

impl KeyRange {
    /// The range of a command's key specs as `COMMAND INFO` reports it: of the specs that are plain
    /// ranges, the one that begins it and those of step 1 that follow it without a gap.
    pub const fn of(specs: &[KeySpec]) -> Self {
        let mut range = Self { first: 0, last: 0, step: 0 };
        let mut i = 0;
        while i < specs.len() {
            if let (BeginSearch::Index(begin), FindKeys::Range { last, step, .. }) =
                (specs[i].begin, specs[i].find)
            {
                let first = begin as i32;
                let last = if last < 0 { last as i32 } else { first + last as i32 };
                if range.first == 0 {
                    range = Self { first, last, step: step as i32 };
                } else if range.step == 1 && step == 1 && range.last == first - 1 {
                    range.last = last;
                }
            }
            i += 1;
        }
        range
    }
}
