//! Commands that wait for a key: BLPOP and its kin.
//!
//! A handler looks whether it can be done at once. If not, it says what it waits for and returns
//! what [`Ctx::block`] returns, without having written or changed anything:
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
//! The whole command is executed anew, in the name of its client, whenever one of the keys has
//! changed and holds what is awaited; its handler then runs as it did the first time, and
//! [`Ctx::block`] leaves the client where it was in the queue. So a handler must not depend on
//! anything but its arguments, the client's database and protocol, and the keyspace. An argument
//! that meant something else later (`XREAD … $`) is replaced: [`Block::replacing`].
//!
//! * The keys waited for must be among the keys that the command's key specs name: those are
//!   locked, hence nothing comes between the look and the wait.
//! * Inside a transaction, and where nobody can wait, [`Ctx::block`] answers as if the time were
//!   up.
//! * The answer to a time that is up is a null array. Only inside a transaction some commands
//!   answer a plain null instead: [`Block::or_null`]. A command that waits for no key says itself
//!   what it answers: [`Block::for_time`].
//!
//! Who is served when: `unblock.rs`. The queues: `waiting.rs` of the keyspace.

use crate::answer::{Ticket, WriteReply};
use crate::blocked::Blocked;
use crate::ctx::Ctx;
#[cfg(doc)]
use crate::execute::Executor;
use crate::fail::{Fail, Outcome};
use crate::numbers::extended::Extended;
use crate::numbers::integer;
use crate::session::{Modes, Replies};
pub use petrel_keyspace::Awaited;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// What a command waits for, and how long.
#[derive(Clone, Debug)]
pub struct Block {
    keys: Range<usize>,
    awaited: Awaited,
    deadline: Option<i64>,
    polls: bool,
    tries_late: bool,
    replaced: Vec<(usize, Vec<u8>)>,
    /// Answers where waiting is not allowed.
    at_once: WriteReply,
    /// Answers when the time is up.
    late: WriteReply,
}

impl Block {
    /// Waits for any of the keys at these arguments, without end.
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

    /// Waits for no key, only until its time is up, and answers with what `write` writes then.
    pub fn for_time(write: WriteReply) -> Self {
        Block { at_once: write, late: write, ..Self::on(0..0, Awaited::LIST) }
    }

    /// Waits until a time in Unix milliseconds, as [`Ctx::timeout_seconds`] and
    /// [`Ctx::timeout_millis`] read it.
    pub fn until(self, deadline: Option<i64>) -> Self {
        Block { deadline, ..self }
    }

    /// Answers a null, and no null array, where waiting is not allowed.
    pub fn or_null(self) -> Self {
        Block { at_once: |reply| reply.null(), ..self }
    }

    /// Is tried again every tenth of a second too: time alone may make possible what it waits for.
    pub fn polling(self) -> Self {
        Block { polls: true, ..self }
    }

    /// Is executed once more when its time is up ([`Executor::is_last_try`]), and says itself what
    /// it answers then.
    pub fn trying_late(self) -> Self {
        Block { tries_late: true, ..self }
    }

    /// Lets the command have another argument `i` when it is executed again.
    pub fn replacing(mut self, i: usize, argument: Vec<u8>) -> Self {
        self.replaced.push((i, argument));
        self
    }
}

impl Ctx<'_> {
    /// Waits as `block` says; what the handler returns then.
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
            command: self.command,
            keys: block.keys,
            awaited: block.awaited,
            hashes: self.exec.locked_for(self.request),
            db: self.db(),
            protocol: self.session.protocol,
            no_touch: self.session.is(Modes::NO_TOUCH),
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

    /// Argument `i` as a timeout in seconds, with decimals: when it ends, or none if it never does.
    ///
    /// # Errors
    /// In Redis's words.
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

    /// A word as a timeout in milliseconds: when it ends, or none if it never does.
    ///
    /// # Errors
    /// In Redis's words.
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
