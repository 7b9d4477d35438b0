//! Commands for execution by another process that holds part of the keys.

use crate::structures::hash_slot::Slot;

/// A command or transaction for the primary of its keys. `A` is an argument: owned, or borrowed
/// from a received message.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Call<A = Vec<u8>> {
    /// The hash slots of the keys, each once, ascending; its order is that of the first. Empty if
    /// all members have to agree on the command's changes.
    pub slots: Vec<Slot>,
    /// The selected database.
    pub db: u16,
    /// Whether the reply is encoded in RESP3.
    pub resp3: bool,
    /// Whether the commands are a transaction; otherwise there is exactly one.
    pub is_transaction: bool,
    /// Remaining time to wait for keys, in milliseconds, if the command has waited before.
    pub wait_ms: Option<u64>,
    /// Identifies the keys that the client watches at the primary, if any: the client's number, and
    /// in the lowest 16 bits the number of `WATCH`es that were forwarded before.
    pub client: Option<u64>,
    /// Whether the sender wants copies of the keys that the call reads; it has one slot.
    pub wants_copies: bool,
    /// Whether the keys that the call reads are remembered at the primary: clients of the sender
    /// cache them.
    pub tracks: bool,
    /// Number of the client, if it gets no invalidations of its own changes.
    pub writer: Option<u64>,
    /// The commands, each with its name and arguments.
    pub commands: Vec<Vec<A>>,
}

impl Call {
    /// Borrows the arguments of the call.
    pub fn borrowed(&self) -> Call<&[u8]> {
        let commands = self.commands.iter();
        let commands = commands.map(|args| args.iter().map(Vec::as_slice).collect()).collect();
        let Call { db, resp3, is_transaction, wait_ms, client, wants_copies, .. } = *self;
        let (slots, tracks, writer) = (self.slots.clone(), self.tracks, self.writer);
        Call {
            slots,
            db,
            resp3,
            is_transaction,
            wait_ms,
            client,
            wants_copies,
            tracks,
            writer,
            commands,
        }
    }

    /// Bytes of the arguments and their places.
    pub fn args_bytes(&self) -> usize {
        let args = self.commands.iter().flatten();
        args.map(|arg| arg.len() + size_of::<Vec<u8>>()).sum()
    }
}
