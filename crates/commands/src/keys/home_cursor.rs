//! The cursor of `SCAN` where the members of a cluster hold only some hash slots: each home walks
//! the keys whose changes it orders, one home after the other.
//!
//! ```text
//!  home: 6 bits, which of them | mark: the homes as they were | stripe | position: 32 bits
//! ```
//!
//! A walk that finds other homes than it has begun with begins anew, so that it misses no key that
//! was there all along. The mark has the bits that the home's stripes leave.

use crate::cluster::{Cluster, Home};
use petrel_keyspace::Cursor;

const HOME_BITS: u32 = 6;
const POSITION_BITS: u32 = 32;

/// Where a walk through all homes is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct HomeCursor {
    /// Which of the homes, by their order.
    at: usize,
    /// Where in its keyspace.
    local: u64,
}

impl HomeCursor {
    /// Which home a client's cursor is at.
    pub fn home(number: u64) -> usize {
        (number >> (u64::BITS - HOME_BITS)) as usize
    }

    /// Reads a client's cursor here. None if the walk has to begin anew: the homes are others, or
    /// this node is not the one that it is at.
    pub fn read(number: u64, stripes: usize, cluster: &dyn Cluster) -> Option<Self> {
        let cursor = match number {
            0 => HomeCursor { at: 0, local: 0 },
            _ => {
                let local_bits = local_bits(stripes);
                let local = number & ((1 << local_bits) - 1);
                let cursor = HomeCursor { at: Self::home(number), local };
                if cursor.number(stripes, cluster) != number {
                    return None;
                }
                cursor
            }
        };
        let homes = cluster.homes()?;
        let is_here = homes.get(cursor.at).map(|&slot| cluster.home_of(slot)) == Some(Home::Here);
        is_here.then_some(cursor)
    }

    /// Where the walk is in the keyspace of this home.
    pub fn local(self) -> Cursor {
        Cursor::from_number(self.local)
    }

    /// The number for the client once this home has been walked up to `next`; 0 at the end of the
    /// last one.
    pub fn go_on(self, next: Cursor, stripes: usize, cluster: &dyn Cluster) -> u64 {
        let next = match next.number() {
            0 => HomeCursor { at: self.at + 1, local: 0 },
            local => HomeCursor { at: self.at, local },
        };
        let homes = cluster.homes().map_or(0, |homes| homes.len());
        if next.at < homes { next.number(stripes, cluster) } else { 0 }
    }

    /// The number for a client whose walk begins anew.
    pub fn anew(stripes: usize, cluster: &dyn Cluster) -> u64 {
        HomeCursor { at: 0, local: 0 }.number(stripes, cluster)
    }

    fn number(self, stripes: usize, cluster: &dyn Cluster) -> u64 {
        let local_bits = local_bits(stripes);
        let mark_bits = u64::BITS - HOME_BITS - local_bits;
        // Never 0, which is the end.
        let mark = cluster.mark_of_homes() >> (u64::BITS - mark_bits) | 1;
        (self.at as u64) << (u64::BITS - HOME_BITS) | mark << local_bits | self.local
    }
}

fn local_bits(stripes: usize) -> u32 {
    POSITION_BITS + stripes.next_power_of_two().trailing_zeros()
}
