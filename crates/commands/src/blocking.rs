//! Blocking commands: BLPOP and others.
//!
//! A handler first tries to finish at once. If it cannot, it returns [`Ctx::block`] with the keys
//! that it waits for, and has neither written a reply nor changed anything:
//!
//! ```text
//! /// `BLPOP key [key ...] timeout`
//! fn blpop(ctx: &mut Ctx<'_>) -> Outcome {
//!     let last = ctx.args().len() - 1;
//!     let deadline = ctx.timeout_seconds(last)?;
//!     for i in 1..last {
//!         if popped(ctx, i)? {
//!             return Ok(());
//!         }
//!     }
//!     ctx.block(Block::on(1..last, Awaited::LIST).until(deadline))
//! }
//! ```
//!
//! Whenever one of the keys has changed and holds the awaited type, the whole command is executed
//! again for its client. The handler runs as it did the first time, and [`Ctx::block`] keeps the
//! client's position in the queue. So a handler may depend only on its arguments, the client's
//! database and protocol, and the keyspace. An argument with a meaning that changes with time
//! (`XREAD … $`) is replaced: [`Block::replacing`].
//!
//! * The awaited keys must be among the keys of the command's key specs: those are locked, so no
//!   change comes between the handler's look and the wait.
//! * Inside a transaction, and where waiting is not allowed, [`Ctx::block`] replies as after a
//!   timeout.
//! * The reply after a timeout is a null array. Some commands reply a plain null inside a
//!   transaction: [`Block::or_null`]. A command that waits for no key passes its own reply:
//!   [`Block::for_time`].
//!
//! `unblock.rs` serves the blocked clients; their queues are in `waiting.rs` of the keyspace.

use crate::answer::{Ticket, WriteReply};
use crate::blocked::Blocked;
use crate::ctx::Ctx;
#[cfg(doc)]
use crate::execute::Executor;
use crate::fail::{Fail, Outcome};
use crate::numbers::extended::Extended;
use crate::numbers::integer;
use crate::session::Replies;
pub use petrel_keyspace::Awaited;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Keys and timeout of a blocking command.
#[derive(Clone, Debug)]
pub struct Block {
    keys: Range<usize>,
    awaited: Awaited,
    deadline: Option<i64>,
    polls: bool,
    tries_late: bool,
    replaced: Vec<(usize, Vec<u8>)>,
    /// Writes the reply if waiting is not allowed.
    at_once: WriteReply,
    /// Writes the reply after a timeout.
    late: WriteReply,
}

impl Block {
    /// Waits for any of the keys at these arguments, without a timeout.
    pub fn on(keys: Range<usize>, awaited: Awaited) -> Self {
        let null: WriteReply = |reply| reply.null_array();
        Block {
            keys,
            awaited,
            deadline: None,
            polls: false,
            tries_late: false,
            replaced: Vec::new(),
            at_once: null,
            late: null,
        }
    }

    /// Waits only for a timeout, not for a key. `write` writes the reply.
    pub fn for_time(write: WriteReply) -> Self {
        Block { at_once: write, late: write, ..Self::on(0..0, Awaited::LIST) }
    }

    /// Sets the end of the wait, in Unix milliseconds, as read by [`Ctx::timeout_seconds`] or
    /// [`Ctx::timeout_millis`].
    pub fn until(self, deadline: Option<i64>) -> Self {
        Block { deadline, ..self }
    }

    /// Replies a plain null instead of a null array if waiting is not allowed.
    pub fn or_null(self) -> Self {
        Block { at_once: |reply| reply.null(), ..self }
    }

    /// Lets the command be tried again every tenth of a second, too, because time alone may end the
    /// wait.
    pub fn polling(self) -> Self {
        Block { polls: true, ..self }
    }

    /// Executes the command once more after the timeout ([`Executor::is_last_try`]); the handler
    /// writes the reply of the timeout itself.
    pub fn trying_late(self) -> Self {
        Block { tries_late: true, ..self }
    }

    /// Replaces argument `i` for later executions.
    pub fn replacing(mut self, i: usize, argument: Vec<u8>) -> Self {
        self.replaced.push((i, argument));
        self
    }
}

impl Ctx<'_> {
    /// Blocks the client as `block` says. Returns the outcome that the handler is to return.
    pub fn block(&mut self, block: Block) -> Outcome {
        if self.exec.is_unblocking() {
            self.exec.reply_comes_later();
            return Ok(());
        }
        let ticket = if self.session.in_exec { None } else { self.host.ticket() };
        let Some(ticket) = ticket else {
            (block.at_once)(self.reply);
            return Ok(());
        };
        let deadline = self.host.deadline(block.deadline);
        let blocked = Arc::new(self.blocked(block.until(deadline), ticket));
        self.host.wait(&blocked);
        self.exec.begin_wait(&blocked);
        Ok(())
    }

    pub(crate) fn blocked(&self, block: Block, ticket: Ticket) -> Blocked {
        let (mut args, mut ends) = (Vec::new(), Vec::with_capacity(self.args().len()));
        for (i, arg) in self.args().iter().enumerate() {
            let replaced = block.replaced.iter().find(|(replaced, _)| *replaced == i);
            args.extend_from_slice(replaced.map_or(arg, |(_, other)| other));
            ends.push(args.len());
        }
        Blocked {
            command: self.command.index,
            keys: block.keys,
            awaited: block.awaited,
            hashes: self.exec.locked_for(self.request),
            db: self.db(),
            protocol: self.session.protocol,
            modes: self.session.modes.kept(),
            tracking: self.session.tracking().cloned().map(Box::new),
            access: self.session.access,
            user: self.session.user().cloned(),
            arrival: self.exec.ks.arrive(),
            nanos: self.exec.nanos_so_far(),
            args: args.into(),
            ends: ends.into(),
            deadline: block.deadline,
            polls: block.polls,
            tries_late: block.tries_late,
            late: block.late,
            ticket,
            is_moved: false,
            is_unwanted: self.session.replies != Replies::On,
            over: AtomicBool::new(false),
        }
    }

    /// Argument `i` as a timeout in seconds, which may be fractional. Returns the end of the wait;
    /// `None` if it has no end.
    ///
    /// # Errors
    /// Returns an error in Redis's words.
    pub fn timeout_seconds(&self, i: usize) -> Result<Option<i64>, Fail> {
        const NO_FLOAT: Fail = Fail::fixed("ERR timeout is not a float or out of range");
        let seconds = Extended::parse(self.arg(i)).ok_or(NO_FLOAT)?;
        let negative = self.arg(i).starts_with(b"-");
        match seconds.millis() {
            None if negative => Err(NEGATIVE),
            None => Err(OUT_OF_RANGE),
            Some(millis) => self.deadline_in(millis),
        }
    }

    /// Parses a timeout in milliseconds. Returns the end of the wait; `None` if it has no end.
    ///
    /// # Errors
    /// Returns an error in Redis's words.
    pub fn timeout_millis(&self, word: &[u8]) -> Result<Option<i64>, Fail> {
        const NO_INTEGER: Fail = Fail::fixed("ERR timeout is not an integer or out of range");
        self.deadline_in(integer(word).map_err(|_| NO_INTEGER)?)
    }

    fn deadline_in(&self, millis: i64) -> Result<Option<i64>, Fail> {
        match millis {
            ..0 => Err(NEGATIVE),
            0 => Ok(None),
            1.. => self.exec.ks.now_ms().checked_add(millis).map(Some).ok_or(OUT_OF_RANGE),
        }
    }
}

const NEGATIVE: Fail = Fail::fixed("ERR timeout is negative");
const OUT_OF_RANGE: Fail = Fail::fixed("ERR timeout is out of range");
