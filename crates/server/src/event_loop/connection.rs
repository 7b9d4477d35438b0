//! One connection: from received bytes to executed commands and written replies.

use crate::client::{CONN_BYTES, Client, Flag};
use petrel_commands::{Answer, Executor, Session, transactions};
use petrel_net::{Output, Slot};
use petrel_resp::Resume;
use std::sync::Arc;

/// A connection whose unfinished command needs at least this much more is read into its own
/// allocation.
pub(crate) const READ_INTO_MIN: usize = 16 * 1024;

/// A buffer for an unfinished command has room for this many bytes, or for as many times what has
/// come of it: what was announced and not sent takes nothing.
const ROOM_MIN: usize = 1024 * 1024;
const ROOM_FACTOR: usize = 8;

/// A connection of a worker. An idle one owns no buffer.
pub struct Conn {
    /// Its slot in the driver.
    pub slot: Slot,
    /// Its public side.
    pub client: Arc<Client>,
    /// What commands know of it.
    pub session: Session,
    /// Input that waits: for the rest of its command, or for its turn.
    pub input: Option<Box<Input>>,
    /// Since when the output has been above the soft limit, in seconds since the server's start
    /// plus one; 0 if it is not.
    pub soft_since: u32,
    /// It will be closed once its output is written: nothing more is executed.
    pub closing: bool,
    /// It is beyond a limit and to be closed at once.
    pub doomed: bool,
    /// In the worker's list of connections that go on by themselves.
    pub listed: bool,
    /// It waits for the answer to its last command; nothing more is executed until then.
    pub blocked: bool,
}

/// Bytes that could not be executed yet.
#[derive(Default)]
pub struct Input {
    /// The bytes.
    pub bytes: Vec<u8>,
    /// Where the parser stopped.
    pub resume: Resume,
    /// Bytes that the command at the beginning has at least, as far as is known.
    pub needed: usize,
    /// While the driver receives more of a command into the buffer: the bytes that were there
    /// before.
    pub lent: usize,
    /// Then also the bytes that are known to be there by now.
    pub come: usize,
    /// And those that the buffer will hold, and where in it the argument begins that is being
    /// received.
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

    /// Puts replies behind those that wait for other nodes, if there are such.
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

    /// The replies that are due of those that have waited for other nodes. True if a command has
    /// waited for them, and is to be executed now.
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

    /// Ends what the connection holds in the keyspace; the executor is in a batch.
    pub fn release(&mut self, exec: &mut Executor) -> bool {
        transactions::abandon_unless_busy(exec, &mut self.session)
    }

    /// Whether it is in the middle of its input and goes on without anything else having to happen.
    pub fn goes_on(&self) -> bool {
        self.listed && !self.client.has(Flag::Paused)
    }

    /// Adds input that waits: for its turn, or for the rest of a command of which so much is
    /// `known` (the bytes that it has at least, and where the parser stopped).
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

    /// Bytes of input that the connection holds: what waits, and what has come of what is being
    /// received into its own buffer.
    pub fn input_held(&self) -> usize {
        self.input.as_ref().map_or(0, |input| input.bytes.len().max(input.come))
    }

    /// Bytes of input that wait.
    pub fn input_len(&self) -> usize {
        self.input.as_ref().map_or(0, |input| input.bytes.len())
    }
}

/// Bytes that a buffer has room for which holds `have` bytes of a command that has `needed`.
pub(crate) fn room_for(have: usize, needed: usize) -> usize {
    needed.min(have.saturating_mul(ROOM_FACTOR).max(ROOM_MIN))
}
