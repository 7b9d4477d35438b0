//! Groups of rows with equal properties.

use crate::aggregate::reducer::{Hasher, Reducer, State};
use crate::aggregate::value::Value;
use std::collections::HashMap;
use std::mem::size_of;

/// Maximum number of groups that one row enters, by arrays in its properties.
const COMBINATIONS_MAX: usize = 65_536;

/// The definition of a group step.
#[derive(Debug)]
pub(super) struct Grouping {
    /// Slots of the properties.
    pub by: Vec<usize>,
    pub reducers: Vec<Reducer>,
}

/// Groups, in the order of their first rows.
#[derive(Debug, Default)]
pub(super) struct Groups {
    places: HashMap<Box<[u8]>, usize>,
    groups: Vec<Group>,
    /// Number of groups that were taken.
    taken: usize,
    hasher: Hasher,
    pub bytes: usize,
}

#[derive(Debug, Default)]
struct Group {
    values: Vec<Value>,
    states: Vec<State>,
}

impl Groups {
    /// Number of groups.
    pub fn len(&self) -> usize {
        self.groups.len()
    }

    /// Adds a row to its group, or to those of every element of arrays; returns the number of
    /// groups.
    pub fn add(&mut self, grouping: &Grouping, row: &[Option<Value>]) -> Result<usize, Vec<u8>> {
        let mut choices = Vec::with_capacity(grouping.by.len());
        let mut combinations = 1usize;
        for &slot in &grouping.by {
            let items = match row.get(slot).and_then(Option::as_ref) {
                None => &[Value::Null][..],
                Some(Value::Array(items)) if items.is_empty() => &[Value::Null],
                Some(Value::Array(items)) => items,
                Some(value) => std::slice::from_ref(value),
            };
            combinations = combinations.saturating_mul(items.len());
            choices.push(items);
        }
        if combinations > COMBINATIONS_MAX {
            return Err(b"GROUPBY: a row has too many combinations of array elements".to_vec());
        }
        for number in 0..combinations {
            let mut rest = number;
            let chosen: Vec<&Value> = choices
                .iter()
                .map(|items| {
                    let item = &items[rest % items.len()];
                    rest /= items.len();
                    item
                })
                .collect();
            self.add_to(grouping, &chosen, row);
        }
        Ok(combinations)
    }

    fn add_to(&mut self, grouping: &Grouping, chosen: &[&Value], row: &[Option<Value>]) {
        let mut key = Vec::new();
        chosen.iter().for_each(|value| value.encode(&mut key));
        let at = match self.places.get(&key[..]) {
            Some(&at) => at,
            None => {
                let states: Vec<State> =
                    grouping.reducers.iter().map(|reducer| State::new(reducer.kind)).collect();
                let values: Vec<Value> = chosen.iter().map(|&value| value.clone()).collect();
                let owned: usize = values.iter().map(Value::footprint).sum();
                self.bytes += key.len()
                    + owned
                    + size_of::<Group>()
                    + values.len() * size_of::<Value>()
                    + states.len() * size_of::<State>()
                    + 2 * size_of::<(Box<[u8]>, usize)>();
                self.places.insert(key.into(), self.groups.len());
                self.groups.push(Group { values, states });
                self.groups.len() - 1
            }
        };
        let group = &mut self.groups[at];
        for (state, reducer) in group.states.iter_mut().zip(&grouping.reducers) {
            self.bytes += state.add(reducer, row, &mut self.hasher);
        }
    }

    /// Takes the next group as a row: its properties, then the results of the reducers.
    pub fn take(&mut self, grouping: &Grouping) -> Option<Vec<Option<Value>>> {
        // Places are of no use once the groups are complete.
        self.places = HashMap::new();
        let group = std::mem::take(self.groups.get_mut(self.taken)?);
        self.taken += 1;
        let results = group.states.into_iter().zip(&grouping.reducers);
        let results = results.map(|(state, reducer)| state.finish(reducer.kind));
        Some(group.values.into_iter().chain(results).map(Some).collect())
    }
}
