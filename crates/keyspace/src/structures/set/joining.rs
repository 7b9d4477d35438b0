//! Adding a member to a packed set.

use super::WALKED_MAX;
use super::encoding::{SetEncoding, SetThresholds};
use crate::structures::form::Form;
use crate::structures::intset::{Edit, IntSet};
use crate::structures::packed::{self, Item};
use crate::structures::sizes::PACKED_MAX;

/// Change of a packed set that adds an absent member.
pub(crate) enum Joining {
    /// Edit the intset.
    Ints(Edit),
    /// Append the member.
    Append,
    /// Convert the intset to packed items, and append the member.
    Unpack,
    /// Convert the set to a large one.
    Enlarge,
}

/// The change that adds `member` to packed members, and the set's encoding then; none if it is
/// present.
#[inline]
pub(crate) fn joining(
    form: Form,
    items: &[u8],
    encoding: SetEncoding,
    member: &Item<'_>,
    limits: &SetThresholds,
) -> Option<(Joining, SetEncoding)> {
    let appended = |len: usize, bytes: usize, encoding: SetEncoding| {
        bytes + member.packed_len() <= PACKED_MAX && (!encoding.is_beyond() || len < WALKED_MAX)
    };
    if form != Form::Intset {
        let len = packed::find(items, &member.parts(), 1).err()?;
        let encoding = encoding.joined(len, member, 0, limits);
        let appends = appended(len, items.len(), encoding);
        return Some((if appends { Joining::Append } else { Joining::Enlarge }, encoding));
    }
    let ints = IntSet::new(items);
    if let Item::Int(n) = *member {
        let edit = ints.insertion(n)?;
        let encoding = encoding.joined(ints.len(), member, 0, limits);
        let bytes = match &edit {
            Edit::Rewrite(bytes) => bytes.len(),
            Edit::Insert { len, .. } => items.len() + len,
            Edit::Remove { .. } => items.len(),
        };
        let fits = bytes <= PACKED_MAX;
        return Some((if fits { Joining::Ints(edit) } else { Joining::Enlarge }, encoding));
    }
    let ends = [0, ints.len() - 1].map(|i| Item::Int(ints.get(i)).text_len());
    let encoding = encoding.joined(ints.len(), member, ends[0].max(ends[1]), limits);
    let bytes = ints.iter().map(|n| Item::Int(n).packed_len()).sum();
    let fits = appended(ints.len(), bytes, encoding);
    Some((if fits { Joining::Unpack } else { Joining::Enlarge }, encoding))
}

/// The packed items of an intset's members.
pub(crate) fn unpacked(ints: IntSet<'_>) -> Vec<u8> {
    let mut items = Vec::new();
    ints.iter().for_each(|n| Item::Int(n).pack(&mut items));
    items
}
