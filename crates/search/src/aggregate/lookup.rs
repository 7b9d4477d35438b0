//! Names of the properties of rows, with their slots.

use std::collections::HashMap;

/// Names in the order in which replies show them.
#[derive(Clone, Debug, Default)]
pub(super) struct Lookup {
    names: Vec<(Box<[u8]>, usize)>,
    places: HashMap<Box<[u8]>, usize>,
    slots: usize,
}

impl Lookup {
    /// The slot of a name.
    pub fn find(&self, name: &[u8]) -> Option<usize> {
        self.places.get(name).map(|&place| self.names[place].1)
    }

    /// A new slot for a name, which may have had another.
    pub fn set(&mut self, name: &[u8]) -> usize {
        let slot = self.slots;
        self.slots += 1;
        match self.places.get(name) {
            Some(&place) => self.names[place].1 = slot,
            None => {
                self.places.insert(name.into(), self.names.len());
                self.names.push((name.into(), slot));
            }
        }
        slot
    }

    /// Number of slots.
    pub fn slots(&self) -> usize {
        self.slots
    }

    /// Names and slots.
    pub fn names(&self) -> &[(Box<[u8]>, usize)] {
        &self.names
    }
}
