//! The elements of 256 indexes, in the form that their number asks for.

use crate::allocated;
use crate::element::Element;
use crate::few::{self, Few};
use crate::many::Many;
use std::ops::ControlFlow;
use std::sync::Arc;

/// Indexes of a slice.
pub const OFFSETS: u64 = 256;

/// The number of an index's slice, and its offset in it.
#[inline]
pub fn split(index: u64) -> (u64, u8) {
    (index / OFFSETS, index as u8)
}

/// The index of an offset in a slice.
#[inline]
pub fn at(number: u64, offset: u8) -> u64 {
    number * OFFSETS + u64::from(offset)
}

/// Elements at which a slice of many elements without long texts becomes one of few: fewer than
/// those at which it became one of many, so that it does not change its form all the time.
const FEW_AGAIN: usize = few::ELEMENTS_MAX / 2;

/// The elements of a slice. A snapshot shares those of the larger form.
#[derive(Clone, Debug)]
pub enum Slice {
    /// Few elements, all of them short.
    Few(Few),
    /// Many elements, or long ones.
    Many(Arc<Many>),
}

impl Slice {
    /// Creates a slice without elements.
    pub fn empty() -> Self {
        Slice::Few(Few::default())
    }

    pub fn len(&self) -> usize {
        match self {
            Slice::Few(few) => few.len(),
            Slice::Many(many) => many.len(),
        }
    }

    #[inline]
    pub fn get(&self, offset: u8) -> Option<Element<'_>> {
        match self {
            Slice::Few(few) => few.get(offset),
            Slice::Many(many) => many.get(offset),
        }
    }

    /// Sets the element at an offset; returns whether there was none.
    pub fn set(&mut self, offset: u8, element: Element<'_>) -> bool {
        if let Slice::Few(few) = self {
            let is_full = few.len() >= few::ELEMENTS_MAX && few.get(offset).is_none();
            if Few::admits(element) && !is_full {
                return !few.replace(offset, Some(element));
            }
            *self = Slice::Many(Arc::new(Many::of(few.items())));
        }
        match self {
            Slice::Many(many) => Arc::make_mut(many).set(offset, element),
            Slice::Few(_) => false,
        }
    }

    /// Removes the elements from an offset to another; returns their number.
    pub fn remove_between(&mut self, lo: u8, hi: u8) -> usize {
        match self {
            Slice::Few(few) => {
                let is_within = |&(at, _): &(u8, Element<'_>)| (lo..=hi).contains(&at);
                let count = few.items().filter(is_within).count();
                if count > 0 {
                    *few = Few::of(few.items().filter(|item| !is_within(item)));
                }
                count
            }
            Slice::Many(many) if many.count_between(lo, hi) == 0 => 0,
            Slice::Many(many) => {
                let count = Arc::make_mut(many).remove_between(lo, hi);
                if many.len() <= FEW_AGAIN && many.long() == 0 {
                    let mut few = Few::default();
                    let _ = many.each((0, u8::MAX), false, &mut |at, element| {
                        few.replace(at, Some(element));
                        ControlFlow::<()>::Continue(())
                    });
                    *self = Slice::Few(few);
                }
                count
            }
        }
    }

    /// The number of elements from an offset to another.
    pub fn count_between(&self, lo: u8, hi: u8) -> usize {
        match self {
            Slice::Few(few) => few.items().filter(|(at, _)| (lo..=hi).contains(at)).count(),
            Slice::Many(many) => many.count_between(lo, hi),
        }
    }

    /// The last offset with an element.
    pub fn last(&self) -> Option<u8> {
        match self {
            Slice::Few(few) => few.items().last().map(|(at, _)| at),
            Slice::Many(many) => many.last(),
        }
    }

    /// Passes on the elements from an offset to another, or in reverse order.
    pub fn each<B>(
        &self,
        (lo, hi): (u8, u8),
        is_reverse: bool,
        take: &mut dyn FnMut(u8, Element<'_>) -> ControlFlow<B>,
    ) -> ControlFlow<B> {
        let few = match self {
            Slice::Few(few) => few,
            Slice::Many(many) => return many.each((lo, hi), is_reverse, take),
        };
        let mut within = few.items().filter(|(at, _)| (lo..=hi).contains(at));
        if !is_reverse {
            return within.try_for_each(|(at, element)| take(at, element));
        }
        let mut items = [(0, Element::Int(0)); few::ELEMENTS_MAX];
        let mut count = 0;
        for item in within {
            items[count] = item;
            count += 1;
        }
        items[..count].iter().rev().try_for_each(|&(at, element)| take(at, element))
    }

    /// Bytes of its blocks.
    pub fn allocated(&self) -> usize {
        match self {
            Slice::Few(few) => few.allocated(),
            // With two counts of references.
            Slice::Many(many) => {
                allocated(2 * size_of::<usize>() + size_of::<Many>()) + many.allocated()
            }
        }
    }

    /// About the number of its blocks.
    pub fn blocks(&self) -> usize {
        match self {
            Slice::Few(_) => 1,
            Slice::Many(many) => 2 + many.long(),
        }
    }

    /// A copy that shares nothing.
    pub fn duplicate(&self) -> Self {
        match self {
            Slice::Few(few) => Slice::Few(few.clone()),
            Slice::Many(many) => Slice::Many(Arc::new(many.duplicate())),
        }
    }
}
