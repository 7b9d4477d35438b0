//! Reads lists of either form.

use crate::structures::form::{Type, WrongType};
use crate::structures::large::Large;
use crate::structures::limits::TypeLimits;
use crate::structures::list::End;
use crate::structures::list::encoding::Nodes;
use crate::structures::list::large::{self, List};
use crate::structures::list::run::{Element, Elements, Run};
use crate::structures::list::small::Small;
use crate::structures::view::View;

/// A borrowed list, valid until a change.
#[derive(Clone, Copy)]
pub struct ListRef<'a>(ListSource<'a>);

#[derive(Clone, Copy)]
enum ListSource<'a> {
    Small(Small<'a>),
    Large(&'a List),
}

impl<'a> View<'a> {
    /// The list.
    #[inline]
    pub fn list(&self) -> Result<ListRef<'a>, WrongType> {
        let entry = self.entry();
        if entry.type_of() != Type::List {
            return Err(WrongType);
        }
        match (entry.packed(), entry.large()) {
            (Some(packed), _) => Ok(ListRef(ListSource::Small(Small::new(packed)))),
            (None, Some(Large::List(list))) => Ok(ListRef(ListSource::Large(list))),
            _ => Err(WrongType),
        }
    }
}

impl<'a> ListRef<'a> {
    pub(crate) fn small(list: Small<'a>) -> Self {
        ListRef(ListSource::Small(list))
    }

    pub(crate) fn large(list: &'a List) -> Self {
        ListRef(ListSource::Large(list))
    }

    /// Number of elements.
    #[inline]
    pub fn len(&self) -> usize {
        match self.0 {
            ListSource::Small(list) => list.len(),
            ListSource::Large(list) => list.len(),
        }
    }

    /// Whether the list is empty; a key never holds such a list.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The element at `index`.
    pub fn get(&self, index: usize) -> Option<Element<'a>> {
        match self.0 {
            ListSource::Small(list) if index + 1 == list.len() => {
                Some(list.run().at(list.run().last().0))
            }
            ListSource::Small(list) => list.run().elements(index).next(),
            ListSource::Large(list) => list.get(index),
        }
    }

    /// The nodes of the equivalent quicklist in Redis, computed by a walk over all elements.
    pub fn quicklist_nodes(&self, limits: &TypeLimits) -> Nodes {
        Nodes::of(self.iter_from(0), limits)
    }

    /// Iterates forwards from `index`.
    pub fn iter_from(&self, index: usize) -> Iter<'a> {
        match self.0 {
            ListSource::Small(list) => Iter::Small(list.run().elements(index)),
            ListSource::Large(list) => Iter::Large(list.iter_from(index)),
        }
    }

    /// Calls `found` with the index of every element equal to a given one, among the first or last
    /// `most`, from an end on, until it returns false. In a large list also `pace` is called, with
    /// the number of elements that are looked at next, and ends it by returning false.
    pub fn find(
        &self,
        text: &[u8],
        from: End,
        most: usize,
        mut found: impl FnMut(usize) -> bool,
        pace: &mut dyn FnMut(usize) -> bool,
    ) {
        let list = match self.0 {
            ListSource::Small(list) => list,
            ListSource::Large(list) => return list.find(text, from, most, found, pace),
        };
        let len = list.len();
        match from {
            End::Front => list.run().find(text, |at| at < most && found(at)),
            End::Back => {
                let mut matches = Vec::new();
                list.run().find(text, |at| {
                    matches.push(at);
                    true
                });
                for at in matches.into_iter().rev() {
                    if len - 1 - at >= most || !found(at) {
                        return;
                    }
                }
            }
        }
    }

    /// Iterates backwards from `index`, or from the last element if `index` is beyond it.
    pub fn iter_back_from(&self, index: usize) -> BackIter<'a> {
        match self.0 {
            ListSource::Small(list) => {
                let count = index.saturating_add(1).min(list.len());
                BackIter::Small { run: list.run(), offsets: list.run().offsets(count) }
            }
            ListSource::Large(list) => BackIter::Large(list.iter_back_from(index)),
        }
    }
}

/// The elements of a list, forwards.
#[derive(Clone, Debug)]
pub enum Iter<'a> {
    /// Elements of a small list.
    Small(Elements<'a>),
    /// Elements of a large list.
    Large(large::Iter<'a>),
}

impl<'a> Iterator for Iter<'a> {
    type Item = Element<'a>;

    #[inline]
    fn next(&mut self) -> Option<Element<'a>> {
        match self {
            Iter::Small(elements) => elements.next(),
            Iter::Large(elements) => elements.next(),
        }
    }
}

/// The elements of a list, backwards.
#[derive(Clone, Debug)]
pub enum BackIter<'a> {
    /// Elements of a small list.
    Small {
        /// The elements.
        run: Run<'a>,
        /// Offsets of the remaining elements.
        offsets: Vec<u32>,
    },
    /// Elements of a large list.
    Large(large::BackIter<'a>),
}

impl<'a> Iterator for BackIter<'a> {
    type Item = Element<'a>;

    #[inline]
    fn next(&mut self) -> Option<Element<'a>> {
        match self {
            BackIter::Small { run, offsets } => {
                let at = offsets.pop()?;
                Some(run.at(at as usize))
            }
            BackIter::Large(elements) => elements.next(),
        }
    }
}
