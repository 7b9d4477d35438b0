//! Connection of a client: from received bytes to executed commands and written replies.

use crate::client::{CONN_BYTES, Client, Flag};
use petrel_commands::{Answer, Executor, Session, transactions};
use petrel_net::{Output, Slot};
use petrel_resp::Resume;
use std::sync::Arc;

/// Missing bytes of a command from which on it is received into an allocation of its own.
pub(crate) const READ_INTO_MIN: usize = 16 * 1024;

/// A buffer for an incomplete command has this capacity, or this multiple of the bytes received so
/// far: a length that was announced and not sent takes no memory.
const ROOM_MIN: usize = 1024 * 1024;
const ROOM_FACTOR: usize = 8;

/// A connection of a worker. An idle one owns no buffer.
pub struct Conn {
    /// Slot in the driver.
    pub slot: Slot,
    /// Part visible to other threads.
    pub client: Arc<Client>,
    /// State known to commands.
    pub session: Session,
    /// Input that waits for the rest of its command or for its turn.
    pub input: Option<Box<Input>>,
    /// Since when the output has been above the soft limit, in seconds since the server's start
    /// plus one; 0 if it is not.
    pub soft_since: u32,
    /// To be closed once the output is written: nothing more is executed.
    pub closing: bool,
    /// Beyond a limit, to be closed at once.
    pub doomed: bool,
    /// In the worker's list of connections to resume.
    pub listed: bool,
    /// Waits for the reply of its last command; nothing more is executed until then.
    pub blocked: bool,
}

/// Bytes that could not be executed yet.
#[derive(Default)]
pub struct Input {
    /// The bytes.
    pub bytes: Vec<u8>,
    /// Position of the parser.
    pub resume: Resume,
    /// Bytes that the first command has at least, as far as known.
    pub needed: usize,
    /// Bytes present before the driver began to receive into the buffer.
    pub lent: usize,
    /// Bytes known to have been received since.
    pub come: usize,
    /// Capacity given to the driver, and the start of the argument that is being received.
    pub awaited: usize,
    /// See `awaited`.
    pub begun: usize,
}

/// An idle connection pays for it.
const _: () = assert!(size_of::<Conn>() == CONN_BYTES);

impl Conn {
    /// A connection that has sent nothing yet.
    pub fn new(slot: Slot, client: Arc<Client>, session: Session) -> Self {
        Conn {
            slot,
            client,
            session,
            input: None,
            soft_since: 0,
            closing: false,
            doomed: false,
            listed: false,
            blocked: false,
        }
    }

    /// Queues replies after outstanding ones of other nodes, if there are any.
    #[cold]
    pub fn hold_replies(&mut self, output: &mut Output) {
        let slots = self.session.extras.as_mut().and_then(|extras| extras.slots.as_mut());
        if let Some(slots) = slots
            && !output.is_empty()
        {
            let (bytes, shared) = output.take();
            slots.hold(Answer { bytes, shared }, false);
        }
    }

    /// Takes those replies that no longer wait for other nodes. Returns true if a command that
    /// waited for them can be executed now.
    #[cold]
    pub fn take_due(&mut self, output: &mut Output) -> bool {
        let Some(extras) = self.session.extras.as_mut() else { return false };
        let Some(slots) = extras.slots.as_mut() else { return false };
        let mut due = Answer::default();
        slots.take_due(&mut due);
        let goes_on = slots.may_go_on();
        if slots.is_over() {
            extras.slots = None;
        }
        output.bytes = due.bytes;
        due.shared.into_iter().for_each(|(at, value)| output.splice_at(at, value));
        goes_on
    }

    /// Releases the connection's keyspace state; the executor is in a batch.
    pub fn release(&mut self, exec: &mut Executor) -> bool {
        transactions::abandon_unless_busy(exec, &mut self.session)
    }

    /// Whether the connection has input left that it can resume without another event.
    pub fn goes_on(&self) -> bool {
        self.listed && !self.client.has(Flag::Paused)
    }

    /// Keeps input that waits for its turn, or for the rest of a command (`known`: the bytes that
    /// it has at least, and the position of the parser).
    pub fn keep(&mut self, bytes: &[u8], known: Option<(usize, Resume)>) {
        let input = self.input.get_or_insert_default();
        if let Some((needed, resume)) = known {
            input.needed = needed;
            input.resume = resume;
            let missing = needed.saturating_sub(bytes.len());
            if input.bytes.is_empty() && missing >= READ_INTO_MIN {
                // The rest will be received behind it.
                input.bytes.reserve_exact(room_for(bytes.len(), needed).max(bytes.len()));
            }
        }
        input.bytes.extend_from_slice(bytes);
    }

    /// Bytes of input in memory: kept input, or the bytes received so far into the connection's own
    /// buffer.
    pub fn input_held(&self) -> usize {
        self.input.as_ref().map_or(0, |input| input.bytes.len().max(input.come))
    }

    /// Bytes of kept input.
    pub fn input_len(&self) -> usize {
        self.input.as_ref().map_or(0, |input| input.bytes.len())
    }
}

/// Capacity of a buffer with `have` bytes of a command that has `needed`.
pub(crate) fn room_for(have: usize, needed: usize) -> usize {
    needed.min(have.saturating_mul(ROOM_FACTOR).max(ROOM_MIN))
}
