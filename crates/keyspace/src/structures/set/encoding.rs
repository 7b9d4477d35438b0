//! What `OBJECT ENCODING` answers for a set: Redis's thresholds, and how an encoding sticks once it
//! has changed.

use crate::structures::form::Form;
use crate::structures::limits::TypeLimits;
use crate::structures::packed::Item;

/// The nominal encoding.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Encoding {
    Intset,
    Listpack,
    Hashtable,
}

/// The thresholds, read once per command.
#[derive(Clone, Copy)]
pub(crate) struct Limits {
    intset_entries: usize,
    listpack_entries: usize,
    listpack_value: usize,
}

impl Limits {
    pub fn of(limits: &TypeLimits) -> Self {
        let size = |limit: i64| usize::try_from(limit).unwrap_or(0);
        Limits {
            intset_entries: size(limits.set_max_intset_entries()),
            listpack_entries: size(limits.set_max_listpack_entries()),
            listpack_value: size(limits.set_max_listpack_value()),
        }
    }
}

impl Encoding {
    /// That of packed items.
    pub fn of_packed(form: Form, beyond: bool) -> Self {
        match (form, beyond) {
            (_, true) => Encoding::Hashtable,
            (Form::Intset, _) => Encoding::Intset,
            _ => Encoding::Listpack,
        }
    }

    /// That of a set that a command makes of `count` members, some of which may be equal, when it
    /// has none yet.
    pub fn initial(first: &Item<'_>, count: usize, limits: &Limits) -> Self {
        if matches!(first, Item::Int(_)) && count <= limits.intset_entries {
            Encoding::Intset
        } else if count <= limits.listpack_entries {
            Encoding::Listpack
        } else {
            Encoding::Hashtable
        }
    }

    /// That of a set to which a command is about to add `count` members, some of which may be equal
    /// or there.
    pub fn before(self, count: usize, limits: &Limits) -> Self {
        match self {
            Encoding::Intset if count > limits.intset_entries => Encoding::Hashtable,
            Encoding::Listpack if count > limits.listpack_entries => Encoding::Hashtable,
            encoding => encoding,
        }
    }

    /// That of a set in which `member` has joined `len` others; `widest` is the length of the
    /// longest integer of an intset.
    pub fn joined(self, len: usize, member: &Item<'_>, widest: usize, limits: &Limits) -> Self {
        let fits_listpack = || {
            len < limits.listpack_entries && member.text_len().max(widest) <= limits.listpack_value
        };
        match (self, member) {
            (Encoding::Intset, Item::Int(_)) if len < limits.intset_entries => Encoding::Intset,
            (Encoding::Intset, Item::Int(_)) => Encoding::Hashtable,
            (Encoding::Intset | Encoding::Listpack, _) if fits_listpack() => Encoding::Listpack,
            _ => Encoding::Hashtable,
        }
    }

    pub fn is_beyond(self) -> bool {
        self == Encoding::Hashtable
    }

    pub fn name(self) -> &'static str {
        match self {
            Encoding::Intset => "intset",
            Encoding::Listpack => "listpack",
            Encoding::Hashtable => "hashtable",
        }
    }
}
