//! The cursor of `SCAN` in a cluster: iterates over all primaries of hash slots in order, each with
//! the keys of its own slots.
//!
//! ```text
//!  primary: 6 bits, its number | mark: hash of the primaries | stripe | position: 32 bits
//! ```
//!
//! An iteration restarts if the primaries change, so that it misses no key that exists throughout.
//! The mark has the bits that the primary's stripes leave.

use crate::cluster::{Cluster, Primary};
use petrel_keyspace::Cursor;

const PRIMARY_BITS: u32 = 6;
const POSITION_BITS: u32 = 32;

/// Position of an iteration over all primaries.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct ClusterCursor {
    /// Number of the primary, in their order.
    at: usize,
    /// Position in the primary's keyspace.
    local: u64,
}

impl ClusterCursor {
    /// Number of the primary in a client's cursor.
    pub fn primary(number: u64) -> usize {
        (number >> (u64::BITS - PRIMARY_BITS)) as usize
    }

    /// Parses a client's cursor. `None` if the iteration has to restart, because the primaries have
    /// changed or the cursor is of another node.
    pub fn read(number: u64, stripes: usize, cluster: &dyn Cluster) -> Option<Self> {
        let cursor = match number {
            0 => ClusterCursor { at: 0, local: 0 },
            _ => {
                let local_bits = local_bits(stripes);
                let local = number & ((1 << local_bits) - 1);
                let cursor = ClusterCursor { at: Self::primary(number), local };
                if cursor.number(stripes, cluster) != number {
                    return None;
                }
                cursor
            }
        };
        let primaries = cluster.primaries()?;
        let is_here =
            primaries.get(cursor.at).map(|&slot| cluster.primary_of(slot)) == Some(Primary::Here);
        is_here.then_some(cursor)
    }

    /// Position in the keyspace of this primary.
    pub fn local(self) -> Cursor {
        Cursor::from_number(self.local)
    }

    /// Cursor for the client after this primary was scanned up to `next`; 0 at the end of the last
    /// primary.
    pub fn go_on(self, next: Cursor, stripes: usize, cluster: &dyn Cluster) -> u64 {
        let next = match next.number() {
            0 => ClusterCursor { at: self.at + 1, local: 0 },
            local => ClusterCursor { at: self.at, local },
        };
        let primaries = cluster.primaries().map_or(0, |primaries| primaries.len());
        if next.at < primaries { next.number(stripes, cluster) } else { 0 }
    }

    /// Cursor of an iteration that restarts.
    pub fn restarted(stripes: usize, cluster: &dyn Cluster) -> u64 {
        ClusterCursor { at: 0, local: 0 }.number(stripes, cluster)
    }

    fn number(self, stripes: usize, cluster: &dyn Cluster) -> u64 {
        let local_bits = local_bits(stripes);
        let mark_bits = u64::BITS - PRIMARY_BITS - local_bits;
        // Never 0, which is the end.
        let mark = cluster.mark_of_primaries() >> (u64::BITS - mark_bits) | 1;
        (self.at as u64) << (u64::BITS - PRIMARY_BITS) | mark << local_bits | self.local
    }
}

fn local_bits(stripes: usize) -> u32 {
    POSITION_BITS + stripes.next_power_of_two().trailing_zeros()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::answer::{Ticket, WaitEnd};
    use crate::clock::Tick;
    use crate::cluster::{Call, ClusterLink, HashSlot, HeldFigures, PeerFigures, Rest};
    use crate::fail::{Fail, Outcome};

    /// A cluster of three primaries as one of them knows it: primary n orders slot n.
    struct Three {
        me: u16,
        mark: u64,
    }

    impl Cluster for Three {
        fn slot_of(&self, _: &[u8]) -> HashSlot {
            0
        }

        fn primary_of(&self, slot: HashSlot) -> Primary {
            if slot == self.me { Primary::Here } else { Primary::At(slot) }
        }

        fn holds_all(&self) -> bool {
            false
        }

        fn is_readable(&self, _: HashSlot) -> bool {
            true
        }

        fn has_copies(&self, _: HashSlot) -> bool {
            false
        }

        fn lease_until(&self) -> Tick {
            Tick::NEVER
        }

        fn lacks_data(&self) -> Option<Fail> {
            None
        }

        fn unready(&self) -> Option<&'static str> {
            None
        }

        fn id(&self) -> String {
            String::new()
        }

        fn info(&self) -> String {
            String::new()
        }

        fn nodes(&self) -> String {
            String::new()
        }

        fn forget(&self, _: &[u8]) -> Outcome {
            unreachable!("not asked for")
        }

        fn links(&self) -> Vec<ClusterLink> {
            Vec::new()
        }

        fn peers(&self) -> Vec<PeerFigures> {
            Vec::new()
        }

        fn held(&self) -> HeldFigures {
            HeldFigures::default()
        }

        fn forward(&self, _: &Ticket, _: u64, _: Call, _: Option<Box<Rest>>) -> Result<(), Fail> {
            Err(Fail::PRIMARY_CHANGING)
        }

        fn slots_by_primary(&self) -> Option<Vec<Vec<HashSlot>>> {
            None
        }

        fn primaries(&self) -> Option<Vec<HashSlot>> {
            Some(vec![0, 1, 2])
        }

        fn members_in_step(&self) -> usize {
            0
        }
        fn logs_in_step(&self) -> usize {
            0
        }

        fn mark_of_primaries(&self) -> u64 {
            self.mark
        }

        fn unwatch(&self, _: HashSlot, _: u64) {}

        fn end_wait(&self, _: u64, _: Option<WaitEnd>) -> bool {
            false
        }
    }

    #[test]
    fn a_walk_visits_each_primary_once() {
        for (stripes, mark) in [(1, 0), (1024, u64::MAX), (1 << 16, 1 << 63)] {
            let last = Cursor::from_number((stripes as u64 - 1) << 32 | 0xffff_fff0);
            let (mut number, mut visited) = (0, Vec::new());
            for _ in 0..6 {
                let me = ClusterCursor::primary(number) as u16;
                let cluster = Three { me, mark };
                let cursor = ClusterCursor::read(number, stripes, &cluster).unwrap();
                visited.push((me, cursor.local().number()));
                let next = if cursor.local() == last { Cursor::default() } else { last };
                number = cursor.go_on(next, stripes, &cluster);
            }
            let last = last.number();
            assert_eq!(visited, [(0, 0), (0, last), (1, 0), (1, last), (2, 0), (2, last)]);
            assert_eq!(number, 0);
        }
    }

    #[test]
    fn it_restarts_with_other_primaries() {
        let (first, second) = (Three { me: 0, mark: 1 << 60 }, Three { me: 1, mark: 1 << 60 });
        let begin = ClusterCursor::read(0, 64, &first).unwrap();
        let number = begin.go_on(Cursor::from_number(7), 64, &first);
        assert!(ClusterCursor::read(number, 64, &first).is_some());
        assert_eq!(ClusterCursor::read(number, 64, &second), None);
        assert_eq!(ClusterCursor::read(number, 64, &Three { me: 0, mark: 1 << 61 }), None);
        assert_eq!(ClusterCursor::read(0, 64, &second), None);
        let restarted = ClusterCursor::restarted(64, &second);
        assert!(restarted != 0 && ClusterCursor::primary(restarted) == 0);
        assert_eq!(ClusterCursor::read(restarted, 64, &first), Some(begin));
        assert_eq!(ClusterCursor::read(u64::MAX, 64, &first), None);
    }
}
