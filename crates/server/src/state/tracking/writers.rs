//! Numbers of the clients that change keys.

/// No connection: they are numbered from 1 on.
pub(crate) const NO_WRITER: u64 = 0;

/// Numbers of clients of other members have this bit, and their member's number below it.
const AWAY: u64 = 1 << 63;
const CLIENT_BITS: u32 = 48;

/// Number of a client of another member of the cluster.
pub(crate) fn away(node: u16, client: u64) -> u64 {
    AWAY | u64::from(node) << CLIENT_BITS | client & ((1 << CLIENT_BITS) - 1)
}

/// Whether the number is one of these.
pub(crate) fn is_away(number: u64) -> bool {
    number & AWAY != 0
}

/// Number of a client at its own member, if `node` is that.
pub(crate) fn number_at(node: u16, number: u64) -> Option<u64> {
    (away(node, number) == number).then_some(number & ((1 << CLIENT_BITS) - 1))
}
