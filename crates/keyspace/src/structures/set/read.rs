//! Reads sets of any form.

use crate::structures::bucket::Item as _;
use crate::structures::element::Element;
use crate::structures::entry::Entry;
use crate::structures::form::{Form, WrongType};
use crate::structures::intset::IntSet;
use crate::structures::packed::{self, Item, Items};
use crate::structures::random::{below, choose, gaps};
use crate::structures::set::Set;
use crate::structures::value::parse_int;
use crate::structures::view::View;
use std::collections::HashSet;
use std::ops::ControlFlow;

/// A borrowed set.
#[derive(Clone, Copy)]
pub struct SetRef<'a>(SetSource<'a>);

#[derive(Clone, Copy)]
enum SetSource<'a> {
    Ints(IntSet<'a>),
    Packed(&'a [u8]),
    Large(&'a Set),
}

/// Members are drawn one by one if at most one in this many is requested, otherwise chosen in a
/// walk over all.
const DRAWN_SHARE: usize = 3;

impl<'a> View<'a> {
    /// The set.
    #[inline]
    pub fn set(&self) -> Result<SetRef<'a>, WrongType> {
        SetRef::of(self.entry()).ok_or(WrongType)
    }
}

impl<'a> SetRef<'a> {
    /// The set that an entry holds. It is valid as long as the entry is neither changed nor freed.
    #[inline]
    pub(crate) fn of(entry: Entry) -> Option<Self> {
        match entry.packed_form() {
            Some(form) => Self::packed(form, entry.packed()?),
            None => Some(SetRef(SetSource::Large(entry.large()?.set()?))),
        }
    }

    /// The set in packed items; none if they are of another type.
    pub(crate) fn packed(form: Form, items: &'a [u8]) -> Option<Self> {
        match form {
            Form::Intset => Some(SetRef(SetSource::Ints(IntSet::new(items)))),
            Form::Set => Some(SetRef(SetSource::Packed(items))),
            _ => None,
        }
    }

    /// Number of members.
    #[inline]
    pub fn len(&self) -> usize {
        match self.0 {
            SetSource::Ints(ints) => ints.len(),
            SetSource::Packed(items) => packed::count(items),
            SetSource::Large(set) => set.len(),
        }
    }

    /// Never true of a set at a key.
    pub fn is_empty(&self) -> bool {
        match self.0 {
            SetSource::Ints(ints) => ints.is_empty(),
            SetSource::Packed(items) => items.is_empty(),
            SetSource::Large(set) => set.len() == 0,
        }
    }

    /// Whether the set contains `member`.
    #[inline]
    pub fn contains(&self, member: &[u8]) -> bool {
        match self.0 {
            SetSource::Ints(ints) => parse_int(member).is_some_and(|n| ints.contains(n)),
            SetSource::Packed(items) => {
                packed::find(items, &Item::from_text(member).parts(), 1).is_ok()
            }
            SetSource::Large(set) => set.members.get(member).is_some(),
        }
    }

    /// Whether the set contains a member of another set, in that set's representation.
    #[inline]
    pub fn contains_item(&self, member: &Item<'_>) -> bool {
        match (self.0, member) {
            (SetSource::Ints(ints), Item::Int(n)) => ints.contains(*n),
            (SetSource::Packed(items), Item::Int(_)) => {
                packed::find(items, &member.parts(), 1).is_ok()
            }
            _ => self.contains(member.bytes(&mut itoa::Buffer::new())),
        }
    }

    /// Passes every member to `each`.
    pub fn each(&self, each: &mut dyn FnMut(Item<'a>)) {
        let _ = self.try_each(&mut |member| {
            each(member);
            ControlFlow::Continue(())
        });
    }

    /// Passes members to `each` until it breaks. A member of a large set is text, even if it is an
    /// integer.
    pub fn try_each(&self, each: &mut dyn FnMut(Item<'a>) -> ControlFlow<()>) -> ControlFlow<()> {
        match self.0 {
            SetSource::Ints(ints) => ints.iter().map(Item::Int).try_for_each(each),
            SetSource::Packed(items) => Items::new(items).try_for_each(each),
            SetSource::Large(set) => set.members.iter().map(text_of).try_for_each(each),
        }
    }

    /// A member drawn at random.
    pub fn random(&self, random: &mut dyn FnMut() -> u64) -> Option<Item<'a>> {
        match self.0 {
            _ if self.is_empty() => None,
            SetSource::Ints(ints) => Some(Item::Int(ints.get(below(ints.len(), random)))),
            SetSource::Packed(items) => Items::new(items).nth(below(packed::count(items), random)),
            SetSource::Large(set) => set.members.random(&mut || random()).map(text_of),
        }
    }

    /// Passes `count` members drawn at random, possibly repeated, to `each`.
    pub fn draw(
        &self,
        count: usize,
        random: &mut dyn FnMut() -> u64,
        each: &mut dyn FnMut(Item<'a>),
    ) {
        let members: Vec<Item<'a>> = match self.0 {
            SetSource::Packed(items) if count > 1 => Items::new(items).collect(),
            _ => {
                (0..count).filter_map(|_| self.random(random)).for_each(each);
                return;
            }
        };
        (0..count).for_each(|_| each(members[below(members.len(), random)]));
    }

    /// Passes `count` different members drawn at random to `each`, or all if there are not more.
    pub fn sample(
        &self,
        count: usize,
        random: &mut dyn FnMut() -> u64,
        each: &mut dyn FnMut(Item<'a>),
    ) {
        let len = self.len();
        match self.0 {
            SetSource::Large(set) if count < len / DRAWN_SHARE => {
                let mut drawn = HashSet::with_capacity(count);
                while drawn.len() < count {
                    let Some(element) = set.members.random(&mut || random()) else { return };
                    if drawn.insert(element.address()) {
                        each(text_of(element));
                    }
                }
            }
            SetSource::Packed(items) => {
                let mut members = Items::new(items);
                for passed in gaps(len, count, random) {
                    members.skip_items(passed);
                    let Some(member) = members.next() else { return };
                    each(member);
                }
            }
            _ => {
                let mut chosen = choose(len, count, random);
                let _ = self.try_each(&mut |member| match chosen.next() {
                    Some(true) => {
                        each(member);
                        ControlFlow::Continue(())
                    }
                    Some(false) => ControlFlow::Continue(()),
                    None => ControlFlow::Break(()),
                });
            }
        }
    }

    /// Passes the members from the cursor on to `each`, about `count` of a large set and all of a
    /// small one; returns the next cursor, 0 at the end.
    pub fn scan(&self, cursor: u64, count: usize, each: &mut dyn FnMut(Item<'a>)) -> u64 {
        match self.0 {
            SetSource::Large(set) => {
                set.members.scan(cursor, count, |element| each(text_of(element)))
            }
            _ => {
                self.each(each);
                0
            }
        }
    }
}

fn text_of<'a>(element: Element) -> Item<'a> {
    Item::Text(element.key())
}
