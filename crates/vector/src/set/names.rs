//! Nodes in order of their names, as runs of node numbers. The names themselves are the caller's.

use std::cmp::Ordering;

/// Maximum number of nodes in a run.
const RUN_MAX: usize = 256;

/// Number of nodes for which a run reserves room at a time.
const ROOM: usize = 32;

/// Runs with fewer nodes are merged with their neighbour.
const RUN_MIN: usize = RUN_MAX / 8;

/// Nodes in order of their names.
#[derive(Clone, Debug, Default)]
pub(super) struct Names {
    /// No run is empty.
    runs: Vec<Vec<u32>>,
    len: usize,
    /// Bytes of the runs.
    bytes: usize,
}

/// Position of a node, or its insertion point.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Place {
    run: usize,
    at: usize,
}

impl Place {
    /// The next position.
    pub fn next(self) -> Self {
        Place { at: self.at + 1, ..self }
    }
}

fn bytes_of(run: &Vec<u32>) -> usize {
    run.capacity() * size_of::<u32>()
}

impl Names {
    /// Number of nodes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are no nodes.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Memory in bytes, excluding the structure itself.
    pub fn footprint(&self) -> usize {
        self.runs.capacity() * size_of::<Vec<u32>>() + self.bytes
    }

    /// Finds the position of a node by binary search; `compare` orders a node relative to the
    /// target.
    ///
    /// # Errors
    /// The insertion point, if there is no such node.
    pub fn find(&self, mut compare: impl FnMut(u32) -> Ordering) -> Result<Place, Place> {
        let begins_before = |run: &Vec<u32>| compare(run[0]) != Ordering::Greater;
        let run = self.runs.partition_point(begins_before).saturating_sub(1);
        let nodes = self.runs.get(run).map_or(&[][..], |run| run);
        let at = nodes.binary_search_by(|&node| compare(node));
        at.map(|at| Place { run, at }).map_err(|at| Place { run, at })
    }

    /// The node at an occupied position.
    pub fn at(&self, place: Place) -> u32 {
        self.runs[place.run][place.at]
    }

    /// All nodes from a position on.
    pub fn from(&self, place: Place) -> impl Iterator<Item = u32> {
        let mut runs = self.runs.iter().skip(place.run);
        let first = runs.next().and_then(|run| run.get(place.at..)).unwrap_or_default();
        first.iter().chain(runs.flatten()).copied()
    }

    /// All nodes.
    pub fn iter(&self) -> impl Iterator<Item = u32> {
        self.runs.iter().flatten().copied()
    }

    /// Inserts a node at a position.
    pub fn insert(&mut self, place: Place, node: u32) {
        let place = self.with_room(place);
        let run = &mut self.runs[place.run];
        if run.len() == run.capacity() {
            self.bytes -= bytes_of(run);
            run.reserve_exact(ROOM);
            self.bytes += bytes_of(run);
        }
        run.insert(place.at, node);
        self.len += 1;
    }

    /// An equivalent position in a run with room: in an adjacent run, or in one half of a split
    /// run. Runs stay full if names are inserted in ascending order.
    fn with_room(&mut self, place: Place) -> Place {
        let Place { run, at } = place;
        match self.runs.get(run) {
            Some(nodes) if nodes.len() < RUN_MAX => place,
            Some(_) if at == RUN_MAX => {
                let next = Place { run: run + 1, at: 0 };
                if self.runs.get(run + 1).is_none_or(|next| next.len() == RUN_MAX) {
                    self.runs.insert(run + 1, Vec::new());
                }
                next
            }
            Some(_) => {
                let nodes = &mut self.runs[run];
                self.bytes -= bytes_of(nodes);
                let right = nodes.split_off(RUN_MAX / 2);
                nodes.shrink_to(RUN_MAX / 2);
                self.bytes += bytes_of(nodes) + bytes_of(&right);
                self.runs.insert(run + 1, right);
                match at.checked_sub(RUN_MAX / 2) {
                    Some(at) if at > 0 => Place { run: run + 1, at },
                    _ => place,
                }
            }
            None => {
                self.runs.push(Vec::new());
                Place { run, at: 0 }
            }
        }
    }

    /// Removes the node at an occupied position.
    pub fn remove(&mut self, place: Place) {
        let run = &mut self.runs[place.run];
        run.remove(place.at);
        self.len -= 1;
        let run = &self.runs[place.run];
        if run.len() >= RUN_MIN {
            if run.capacity() >= 2 * run.len() + ROOM {
                self.bytes -= bytes_of(run);
                let run = &mut self.runs[place.run];
                run.shrink_to_fit();
                self.bytes += bytes_of(run);
            }
            return;
        }
        let is_empty = run.is_empty();
        let joins = |next: &Vec<u32>| run.len() + next.len() <= RUN_MAX / 2;
        let after = self.runs.get(place.run + 1);
        if is_empty {
            self.bytes -= bytes_of(&self.runs.remove(place.run));
        } else if after.is_some_and(joins) {
            let next = self.runs.remove(place.run + 1);
            let run = &mut self.runs[place.run];
            self.bytes -= bytes_of(run) + bytes_of(&next);
            run.extend(next);
            run.shrink_to_fit();
            self.bytes += bytes_of(run);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    /// Uses node numbers as names.
    fn place_of(names: &Names, node: u32) -> Result<Place, Place> {
        names.find(|other| other.cmp(&node))
    }

    fn check(names: &Names, model: &BTreeSet<u32>) {
        assert!(names.iter().eq(model.iter().copied()));
        assert!(names.runs.iter().all(|run| (1..=RUN_MAX).contains(&run.len())));
        assert_eq!(names.len(), model.len());
        assert_eq!(names.bytes, names.runs.iter().map(bytes_of).sum::<usize>());
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]
        #[test]
        fn names_are_what_a_sorted_set_is(
            steps in prop::collection::vec((0u8..6, 0u32..3000, 1u32..400), 0..60),
        ) {
            let (mut names, mut model) = (Names::default(), BTreeSet::new());
            for (step, first, count) in steps {
                for n in first..first + count {
                    // Ascending, descending and in leaps; removed in ascending order.
                    let node = match step {
                        0 => n,
                        1 => 2 * first + count - n,
                        2 | 3 => n.wrapping_mul(2_654_435_761) % 4000,
                        _ => n,
                    };
                    match place_of(&names, node) {
                        Ok(place) if step > 3 => names.remove(place),
                        Err(place) if step <= 3 => names.insert(place, node),
                        found => prop_assert_eq!(found.is_ok(), model.contains(&node)),
                    }
                    if step > 3 { model.remove(&node) } else { model.insert(node) };
                }
                check(&names, &model);
                let from = place_of(&names, first).map_or_else(|place| place, Place::next);
                prop_assert!(names.from(from).eq(model.range(first + 1..).copied()));
            }
        }
    }

    #[test]
    fn names_in_order_fill_their_runs() {
        for leap in [1, -1] {
            let mut names = Names::default();
            for n in 0..10_000i32 {
                let node = (20_000 + leap * n).cast_unsigned();
                let place = place_of(&names, node).unwrap_err();
                names.insert(place, node);
            }
            assert!(
                names.footprint() < 10_000 * if leap == 1 { 5 } else { 8 },
                "{}",
                names.footprint()
            );
        }
    }
}
