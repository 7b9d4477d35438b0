//! `OBJECT ENCODING` of a set: Redis's thresholds, and the rule that a set never returns to a
//! smaller encoding.

use crate::structures::form::Form;
use crate::structures::limits::TypeLimits;
use crate::structures::packed::Item;

/// The nominal encoding.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum SetEncoding {
    Intset,
    Listpack,
    Hashtable,
}

/// The thresholds, read once per command.
#[derive(Clone, Copy)]
pub(crate) struct SetThresholds {
    intset_entries: usize,
    listpack_entries: usize,
    listpack_value: usize,
}

impl SetThresholds {
    pub fn of(limits: &TypeLimits) -> Self {
        let size = |limit: i64| usize::try_from(limit).unwrap_or(0);
        SetThresholds {
            intset_entries: size(limits.set_max_intset_entries()),
            listpack_entries: size(limits.set_max_listpack_entries()),
            listpack_value: size(limits.set_max_listpack_value()),
        }
    }
}

impl SetEncoding {
    /// Encoding of packed items.
    pub fn of_packed(form: Form, beyond: bool) -> Self {
        match (form, beyond) {
            (_, true) => SetEncoding::Hashtable,
            (Form::Intset, _) => SetEncoding::Intset,
            _ => SetEncoding::Listpack,
        }
    }

    /// Encoding of a set created by a command with `count` members, possibly with duplicates.
    pub fn initial(first: &Item<'_>, count: usize, limits: &SetThresholds) -> Self {
        if matches!(first, Item::Int(_)) && count <= limits.intset_entries {
            SetEncoding::Intset
        } else if count <= limits.listpack_entries {
            SetEncoding::Listpack
        } else {
            SetEncoding::Hashtable
        }
    }

    /// Encoding of a set before a command adds `count` members, which may be duplicates or present.
    pub fn before(self, count: usize, limits: &SetThresholds) -> Self {
        match self {
            SetEncoding::Intset if count > limits.intset_entries => SetEncoding::Hashtable,
            SetEncoding::Listpack if count > limits.listpack_entries => SetEncoding::Hashtable,
            encoding => encoding,
        }
    }

    /// Encoding of a set of `len` members after `member` was added; `widest` is the length of the
    /// longest integer of an intset.
    pub fn joined(
        self,
        len: usize,
        member: &Item<'_>,
        widest: usize,
        limits: &SetThresholds,
    ) -> Self {
        let fits_listpack = || {
            len < limits.listpack_entries && member.text_len().max(widest) <= limits.listpack_value
        };
        match (self, member) {
            (SetEncoding::Intset, Item::Int(_)) if len < limits.intset_entries => {
                SetEncoding::Intset
            }
            (SetEncoding::Intset, Item::Int(_)) => SetEncoding::Hashtable,
            (SetEncoding::Intset | SetEncoding::Listpack, _) if fits_listpack() => {
                SetEncoding::Listpack
            }
            _ => SetEncoding::Hashtable,
        }
    }

    pub fn is_beyond(self) -> bool {
        self == SetEncoding::Hashtable
    }

    pub fn name(self) -> &'static str {
        match self {
            SetEncoding::Intset => "intset",
            SetEncoding::Listpack => "listpack",
            SetEncoding::Hashtable => "hashtable",
        }
    }
}
